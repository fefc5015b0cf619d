/* Posting: see tessera/lane.h for the ring. No lock; the only waits are for room, and they end when the executor is given up. */
#include <string.h>

#include "base/os.h"
#include "lane/lane_client.h"
#include "lane/lane_object.h"

#define SPINS_BEFORE_PAUSE 1000
#define PAUSE_NS 20000ull
#define MOST_OF_STREAM 2048u /* records that the driver was not given yet: a driver, too, lets who launches more wait */

/* The head may have passed an `end` that was reckoned from an old tail: then there is room, and moving the tail fails. */
static bool has_room(const struct tsr_lane *lane, uint64_t end)
{
    return (int64_t)(end - __atomic_load_n(&lane->head, __ATOMIC_ACQUIRE)) <= (int64_t)TSR_LANE_BYTES;
}

/* Waits for room up to `end`. False: the executor has failed. */
static bool await_room(const struct tsr_lane_client *client, uint64_t end)
{
    struct tsr_lane *lane = client->lane;
    for (unsigned i = 0; !has_room(lane, end); i++) {
        if (tsr_lane_state(client) != CUDA_SUCCESS)
            return false;
        if (i < SPINS_BEFORE_PAUSE)
            __builtin_ia32_pause();
        else
            tsr_os_futex_wait(&lane->never, 0, PAUSE_NS, true);
    }
    return true;
}

/* Takes `bytes` contiguous ones, and what is left at the ring's end before them. False: the executor has failed. */
static bool take(const struct tsr_lane_client *client, uint32_t bytes, uint64_t *position, uint32_t *skip)
{
    struct tsr_lane *lane = client->lane;
    uint64_t tail = __atomic_load_n(&lane->tail, __ATOMIC_RELAXED);
    do {
        uint32_t at = (uint32_t)(tail & (TSR_LANE_BYTES - 1));
        *skip = at + bytes > TSR_LANE_BYTES ? TSR_LANE_BYTES - at : 0;
        if (!await_room(client, tail + *skip + bytes))
            return false;
    } while (!__atomic_compare_exchange_n(&lane->tail, &tail, tail + *skip + bytes, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
    *position = tail;
    return true;
}

void tsr_lane_await_stream(const struct tsr_lane_client *client, const uint32_t *slot)
{
    const struct tsr_lane *lane = client->lane;
    for (unsigned i = 0; !tsr_lane_is_lost(client); i++) {
        uint32_t at = __atomic_load_n(slot, __ATOMIC_RELAXED);
        if (at >= TSR_LANE_STREAMS ||
            __atomic_load_n(&lane->posted[at], __ATOMIC_RELAXED) - __atomic_load_n(&lane->given[at], __ATOMIC_RELAXED) <
                MOST_OF_STREAM)
            return;
        if (i < SPINS_BEFORE_PAUSE)
            __builtin_ia32_pause();
        else
            tsr_os_futex_wait(&lane->never, 0, PAUSE_NS, true);
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
    uint64_t position;
    uint32_t skip;
    record->bytes = (uint32_t)((sizeof *record + record->param_bytes + TSR_LANE_UNIT - 1) / TSR_LANE_UNIT * TSR_LANE_UNIT);
    if (!take(client, record->bytes, &position, &skip))
        return tsr_lane_state(client);
    if (skip) {
        struct tsr_lane_record *filler = tsr_lane_record_at(lane, position);
        filler->kind = TSR_LANE_SKIP;
        filler->bytes = skip;
        stamp(filler, position);
        position += skip;
    }
    if (record->stream < TSR_LANE_STREAMS) /* which the caller holds */
        __atomic_store_n(&lane->posted[record->stream], lane->posted[record->stream] + 1, __ATOMIC_RELAXED);
    struct tsr_lane_record *place = tsr_lane_record_at(lane, position);
    memcpy((char *)place + sizeof place->stamp, (char *)record + sizeof record->stamp, sizeof *record - sizeof record->stamp);
    if (record->param_bytes) /* else there is no block */
        memcpy(place + 1, params, record->param_bytes);
    stamp(place, position);
    if (__atomic_load_n(&lane->sleeping, __ATOMIC_SEQ_CST) && __atomic_exchange_n(&lane->sleeping, 0, __ATOMIC_ACQ_REL))
        tsr_os_futex_wake(&lane->sleeping, 1, true);
    return CUDA_SUCCESS;
}
