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
static bool await_room(const struct tsr_lane_client *client, struct tsr_lane_ring *ring, uint64_t end)
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

/* Takes `bytes` contiguous bytes, skipping what is left at the ring's end if they do not fit there. False: the executor has failed. */
static bool take(const struct tsr_lane_client *client, struct tsr_lane_ring *ring, uint32_t bytes, uint64_t *position,
                 uint32_t *skip)
{
    uint64_t tail = __atomic_load_n(&ring->tail, __ATOMIC_RELAXED);
    do {
        uint32_t at = (uint32_t)(tail & (TSR_LANE_RING_BYTES - 1));
        *skip = at + bytes > TSR_LANE_RING_BYTES ? TSR_LANE_RING_BYTES - at : 0;
        if (!await_room(client, ring, tail + *skip + bytes))
            return false;
    } while (!__atomic_compare_exchange_n(&ring->tail, &tail, tail + *skip + bytes, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
    *position = tail;
    return true;
}

/* The same for a fence, which also gets its sequence number. Both under one lock, so that numbers go up within a ring: the reader takes fences in their order. */
static bool take_sequence(struct tsr_lane_client *client, struct tsr_lane_ring *ring, struct tsr_lane_record *fence,
                          uint64_t *position, uint32_t *skip)
{
    pthread_mutex_lock(&client->fence_lock);
    bool taken = take(client, ring, fence->bytes, position, skip);
    if (taken)
        fence->sequence = client->fences++;
    pthread_mutex_unlock(&client->fence_lock);
    return taken;
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

static void stamp(struct tsr_lane_record *record, uint64_t position)
{
    __atomic_store_n(&record->stamp, position + 1, __ATOMIC_SEQ_CST);
}

CUresult tsr_lane_post(struct tsr_lane_client *client, struct tsr_lane_record *record, const void *params)
{
    CUresult state = tsr_lane_state(client);
    if (state != CUDA_SUCCESS)
        return state;
    struct tsr_lane *lane = client->lane;
    struct tsr_lane_ring *ring = tsr_lane_ring_of(lane, record->stream);
    uint64_t position;
    uint32_t skip;
    record->bytes = (uint32_t)((sizeof *record + record->param_bytes + TSR_LANE_UNIT - 1) / TSR_LANE_UNIT * TSR_LANE_UNIT);
    bool taken = tsr_lane_is_fence(record->kind) ? take_sequence(client, ring, record, &position, &skip)
                                                 : take(client, ring, record->bytes, &position, &skip);
    if (!taken)
        return tsr_lane_state(client);
    if (skip) {
        struct tsr_lane_record *filler = tsr_lane_record_at(ring, position);
        filler->kind = TSR_LANE_SKIP;
        filler->bytes = skip;
        stamp(filler, position);
        position += skip;
    }
    struct tsr_lane_flow *flow = &client->flows[record->stream % TSR_LANE_STREAMS]; /* the caller holds the stream */
    __atomic_store_n(&flow->posted, flow->posted + 1, __ATOMIC_RELAXED);
    struct tsr_lane_record *place = tsr_lane_record_at(ring, position);
    memcpy((char *)place + sizeof place->stamp, (char *)record + sizeof record->stamp, sizeof *record - sizeof record->stamp);
    if (record->param_bytes) /* else there is no block */
        memcpy(place + 1, params, record->param_bytes);
    stamp(place, position);
    if (__atomic_load_n(&lane->sleeping, __ATOMIC_SEQ_CST) && __atomic_exchange_n(&lane->sleeping, 0, __ATOMIC_ACQ_REL))
        tsr_os_futex_wake(&lane->sleeping, 1, true);
    return CUDA_SUCCESS;
}
