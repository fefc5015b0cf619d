/*
 * Posting: see tessera/lane.h for the rings. A launch takes no lock, a fence takes one; the only waits are for room, and they end when the executor
 * is lost. What a launch writes, other than its record, is in separate cache lines for each stream or ring.
 */
#include <string.h>

#include "base/os.h"
#include "lane/lane_client.h"
#include "lane/lane_object.h"

#define SPINS_BEFORE_PAUSE 1000
#define PAUSE_NS 20000ull
#define AHEAD_BYTES 512u
#define MOST_OF_STREAM 2048u /* records not yet given to the driver: beyond that a launch waits, as it does for a full queue of a driver */

/* The head may have passed an `end` that was computed from an old tail: then there is room, and moving the tail fails. */
static bool fits(uint64_t head, uint64_t end)
{
    return (int64_t)(end - head) <= (int64_t)TSR_LANE_RING_BYTES;
}

/* The reader moves the head with every record, so it is read only when the last value seen says that there is no room. */
static bool has_room(struct tsr_lane_ring *ring, uint64_t end)
{
    if (fits(__atomic_load_n(&ring->seen_head, __ATOMIC_ACQUIRE), end))
        return true;
    uint64_t head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE);
    __atomic_store_n(&ring->seen_head, head,
                     __ATOMIC_RELEASE); /* or an older value, of another writer, which then reads it once more */
    return fits(head, end);
}

/* Waits for room up to `end`. False: the executor has failed. */
static __attribute__((noinline)) bool await_room(const struct tsr_lane_client *client, struct tsr_lane_ring *ring, uint64_t end)
{
    for (unsigned i = 0; !has_room(ring, end); i++) {
        if (tsr_lane_state(client) != CUDA_SUCCESS)
            return false;
        if (i < SPINS_BEFORE_PAUSE)
            __builtin_ia32_pause();
        else
            tsr_os_futex_wait(&client->lane->never, 0, PAUSE_NS, true);
    }
    return true;
}

/* Contiguous bytes of a ring, after what was skipped at its end because they did not fit there. */
struct room {
    uint64_t position; /* of the skipped bytes, if there are any, or else of the record */
    uint32_t skip;     /* bytes skipped */
    bool taken;        /* false: the executor has failed */
};

static inline struct room take(const struct tsr_lane_client *client, struct tsr_lane_ring *ring, uint32_t bytes)
{
    struct room room = {.position = __atomic_load_n(&ring->tail, __ATOMIC_RELAXED)};
    uint64_t end;
    do {
        uint32_t at = (uint32_t)(room.position & (TSR_LANE_RING_BYTES - 1));
        room.skip = __builtin_expect(at + bytes > TSR_LANE_RING_BYTES, 0) ? TSR_LANE_RING_BYTES - at : 0;
        end = room.position + room.skip + bytes;
        if (__builtin_expect(!fits(__atomic_load_n(&ring->seen_head, __ATOMIC_ACQUIRE), end), 0) &&
            !await_room(client, ring, end))
            return room;
    } while (!__atomic_compare_exchange_n(&ring->tail, &room.position, end, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
    room.taken = true;
    return room;
}

/* The same for a fence, which also gets its sequence number. Both under one lock, so that numbers go up within a ring: the reader takes fences in their order. */
static __attribute__((noinline)) struct room take_sequence(struct tsr_lane_client *client, struct tsr_lane_ring *ring,
                                                           struct tsr_lane_record *fence)
{
    pthread_mutex_lock(&client->fence_lock);
    struct room room = take(client, ring, fence->bytes);
    if (room.taken)
        fence->sequence = client->fences++;
    pthread_mutex_unlock(&client->fence_lock);
    return room;
}

static bool has_room_in_stream(struct tsr_lane_client *client, uint32_t stream)
{
    struct tsr_lane_flow *flow = &client->flows[stream];
    uint32_t posted = __atomic_load_n(&flow->posted, __ATOMIC_RELAXED);
    if (posted - __atomic_load_n(&flow->given, __ATOMIC_RELAXED) < MOST_OF_STREAM)
        return true;
    uint32_t given = __atomic_load_n(&client->lane->given[stream], __ATOMIC_RELAXED);
    __atomic_store_n(&flow->given, given, __ATOMIC_RELAXED);
    return posted - given < MOST_OF_STREAM;
}

void tsr_lane_await_stream(struct tsr_lane_client *client, const uint32_t *slot)
{
    for (unsigned i = 0;; i++) {
        uint32_t at = __atomic_load_n(slot, __ATOMIC_RELAXED);
        if (at >= TSR_LANE_STREAMS || has_room_in_stream(client, at) || tsr_lane_is_lost(client))
            return;
        if (i < SPINS_BEFORE_PAUSE)
            __builtin_ia32_pause();
        else
            tsr_os_futex_wait(&client->lane->never, 0, PAUSE_NS, true);
    }
}

/*
 * What is written next the reader has read, and taking a line from its cache takes some hundred cycles, which the next atomic operation would wait
 * for. So the lines of records some launches ahead are taken now, after the one that the reader looks at.
 */
static inline void ask_ahead(struct tsr_lane_ring *ring, uint64_t end, uint32_t bytes)
{
    for (uint64_t at = end + AHEAD_BYTES; bytes; at += TSR_LANE_UNIT, bytes -= TSR_LANE_UNIT)
        __asm__ volatile("prefetchw %0" : : "m"(*tsr_lane_record_at(ring, at)));
}

static inline void stamp(struct tsr_lane_record *record, uint64_t position)
{
    __atomic_store_n(&record->stamp, position + 1, __ATOMIC_RELEASE);
}

static inline void put_behind(struct tsr_lane_record *place, const uint8_t *params, uint32_t bytes)
{
    uint32_t unit = 0;
    for (; bytes > TSR_LANE_UNIT_ROOM; bytes -= TSR_LANE_UNIT_ROOM, params += TSR_LANE_UNIT_ROOM)
        memcpy(tsr_lane_behind(place, unit++), params, TSR_LANE_UNIT_ROOM);
    __asm__("" : "+r"(bytes)); /* GCC knows that they are few, and what it makes of that takes longer than a call */
    if (bytes)                 /* else there may be no block */
        memcpy(tsr_lane_behind(place, unit), params, bytes);
}

/* So that the reader gets to the ring's beginning. */
static __attribute__((noinline)) void fill_end(struct tsr_lane_ring *ring, const struct room *room)
{
    struct tsr_lane_record *filler = tsr_lane_record_at(ring, room->position);
    filler->kind = TSR_LANE_SKIP;
    filler->bytes = room->skip;
    stamp(filler, room->position);
}

void tsr_lane_wake(const struct tsr_lane_client *client)
{
    uint32_t *sleeping = &client->lane->sleeping;
    if (__builtin_expect(__atomic_load_n(sleeping, __ATOMIC_SEQ_CST), 0) && __atomic_exchange_n(sleeping, 0, __ATOMIC_ACQ_REL))
        tsr_os_futex_wake(sleeping, 1, true);
}

const void *tsr_lanes_quiet_for;

CUresult tsr_lane_append(struct tsr_lane_client *client, struct tsr_lane_record *record, const void *params)
{
    if (__builtin_expect(__atomic_load_n(&tsr_lanes_quiet_for, __ATOMIC_RELAXED) != NULL, 0) &&
        !tsr_lane_is_fence(record->kind))
        __atomic_store_n(&tsr_lanes_quiet_for, NULL, __ATOMIC_SEQ_CST);
    CUresult state = tsr_lane_state(client);
    if (__builtin_expect(state != CUDA_SUCCESS, 0))
        return state;
    struct tsr_lane_ring *ring = tsr_lane_ring_of(client->lane, record->stream);
    record->bytes = tsr_lane_record_bytes(record->param_bytes);
    struct room room = __builtin_expect(tsr_lane_is_fence(record->kind), 0) ? take_sequence(client, ring, record)
                                                                            : take(client, ring, record->bytes);
    if (__builtin_expect(!room.taken, 0))
        return tsr_lane_state(client);
    if (__builtin_expect(room.skip, 0))
        fill_end(ring, &room);
    uint64_t position = room.position + room.skip;
    struct tsr_lane_flow *flow = &client->flows[record->stream % TSR_LANE_STREAMS]; /* the caller holds the stream */
    __atomic_store_n(&flow->posted, flow->posted + 1, __ATOMIC_RELAXED);
    struct tsr_lane_record *place = tsr_lane_record_at(ring, position);
    memcpy((char *)place + sizeof place->stamp, (char *)record + sizeof record->stamp, sizeof *record - sizeof record->stamp);
    put_behind(place, params, record->param_bytes);
    stamp(place, position);
    ask_ahead(ring, position + record->bytes, record->bytes);
    return CUDA_SUCCESS;
}

CUresult tsr_lane_post(struct tsr_lane_client *client, struct tsr_lane_record *record, const void *params)
{
    CUresult result = tsr_lane_append(client, record, params);
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* between the stamp and looking */
    tsr_lane_wake(client);
    return result;
}
