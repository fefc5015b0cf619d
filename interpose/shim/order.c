/* See order.h. One lock guards the records and keeps the fences of a stream in step with its work; it is held for driver calls that only enqueue. */
#include "shim/order.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "base/map.h"
#include "shim/lane_client.h"
#include "shim/place.h"
#include "shim/real.h"
#include "shim/session.h"

struct stream_record {
    CUstream stream; /* explicit: never NULL */
    uint32_t slot;
    bool legacy, blocking;
    uint64_t home_value, away_value; /* lock; last values given to the fences */
    struct tsr_lane_client *lane;    /* lock; where its last work went; NULL: home */
    bool opened[15];                 /* lock; the executor has a stream for this slot */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tsr_map records; /* by stream handle; per-thread streams by thread */
static struct stream_record *by_slot[TSR_LANE_STREAMS];
static uint32_t slot_count; /* lock */
static uint32_t away_count; /* atomic; streams whose last work is on an executor */

static uint64_t key_of(CUstream stream)
{
    return stream == CU_STREAM_PER_THREAD ? 0x8000000000000000ull | (uint64_t)gettid() : (uint64_t)(uintptr_t)stream;
}

static struct stream_record *record_locked(CUstream stream)
{
    struct stream_record *record = tsr_map_find(&records, key_of(stream));
    if (record || slot_count == TSR_LANE_STREAMS)
        return record;
    record = calloc(1, sizeof *record);
    if (!record)
        return NULL;
    unsigned flags = 0;
    record->stream = stream;
    record->legacy = stream == CU_STREAM_LEGACY;
    if (!record->legacy && stream != CU_STREAM_PER_THREAD)
        tsr_real.cuStreamGetFlags(stream, &flags);
    record->blocking = !record->legacy && !(flags & CU_STREAM_NON_BLOCKING);
    record->slot = slot_count++;
    by_slot[record->slot] = record;
    tsr_map_set(&records, key_of(stream), record);
    return record;
}

static CUresult join_locked(struct stream_record *record)
{
    struct tsr_lane_client *lane = record->lane;
    if (!lane)
        return CUDA_SUCCESS;
    uint64_t value = ++record->away_value;
    struct tsr_lane_record signal = {.kind = TSR_LANE_SIGNAL, .stream = record->slot, .value = value};
    CUresult result = tsr_lane_post(lane, &signal, NULL);
    if (result == CUDA_SUCCESS)
        result = tsr_real.cuStreamWaitValue64_v2(record->stream, tsr_lane_away_fence(record->slot, lane), value,
                                                 CU_STREAM_WAIT_VALUE_GEQ);
    record->lane = NULL;
    __atomic_fetch_sub(&away_count, 1, __ATOMIC_RELAXED);
    return result;
}

/* The legacy stream and the blocking ones wait for each other; joining one before the other's work keeps that for work elsewhere. */
static CUresult join_related_locked(const struct stream_record *record)
{
    CUresult result = CUDA_SUCCESS;
    for (uint32_t i = 0; i < slot_count && result == CUDA_SUCCESS; i++) {
        struct stream_record *other = by_slot[i];
        if (other != record && ((record->legacy && other->blocking) || (record->blocking && other->legacy)))
            result = join_locked(other);
    }
    return result;
}

CUresult tsr_order_state(void)
{
    const struct tsr_session *session = tsr_session();
    CUresult state = CUDA_SUCCESS;
    for (uint32_t i = 0; session && i < session->lane_count && state == CUDA_SUCCESS; i++)
        state = tsr_lane_state(session->lanes[i]);
    return state;
}

CUresult tsr_order_join(CUstream stream, bool per_thread)
{
    if (__atomic_load_n(&away_count, __ATOMIC_ACQUIRE) == 0)
        return CUDA_SUCCESS;
    if (tsr_place_of(stream) != tsr_session()->policy->home) /* each GPU has a default stream of its own */
        return CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    struct stream_record *record = record_locked(tsr_order_stream(stream, per_thread));
    CUresult result = record ? join_related_locked(record) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS)
        result = join_locked(record);
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult tsr_order_join_all(void)
{
    if (__atomic_load_n(&away_count, __ATOMIC_ACQUIRE) == 0)
        return CUDA_SUCCESS;
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < slot_count && result == CUDA_SUCCESS; i++)
        result = join_locked(by_slot[i]);
    pthread_mutex_unlock(&lock);
    return result;
}

static CUresult open_locked(struct stream_record *record, struct tsr_lane_client *lane)
{
    uint32_t number = tsr_lane_number(lane);
    if (record->opened[number])
        return CUDA_SUCCESS;
    CUresult result = tsr_lane_register(lane);
    struct tsr_message message = {.kind = TSR_MESSAGE_STREAM, .id = record->slot};
    if (result == CUDA_SUCCESS)
        result = tsr_lane_ask(lane, &message, -1);
    record->opened[number] = result == CUDA_SUCCESS;
    return result;
}

static CUresult depart_locked(struct stream_record *record, struct tsr_lane_client *lane)
{
    CUresult result = join_related_locked(record);
    if (result != CUDA_SUCCESS || record->lane == lane)
        return result;
    result = join_locked(record);
    if (result == CUDA_SUCCESS)
        result = open_locked(record, lane);
    if (result != CUDA_SUCCESS)
        return result;
    uint64_t value = ++record->home_value;
    result = tsr_real.cuStreamWriteValue64_v2(record->stream, tsr_lane_home_fence(record->slot, lane), value,
                                              CU_STREAM_WRITE_VALUE_DEFAULT);
    struct tsr_lane_record wait = {.kind = TSR_LANE_WAIT, .stream = record->slot, .value = value};
    if (result == CUDA_SUCCESS)
        result = tsr_lane_post(lane, &wait, NULL);
    if (result != CUDA_SUCCESS)
        return result;
    record->lane = lane;
    __atomic_fetch_add(&away_count, 1, __ATOMIC_RELEASE);
    return CUDA_SUCCESS;
}

CUresult tsr_order_depart(CUstream stream, bool per_thread, struct tsr_lane_client *lane, uint32_t *slot)
{
    pthread_mutex_lock(&lock);
    struct stream_record *record = record_locked(tsr_order_stream(stream, per_thread));
    CUresult result = record ? depart_locked(record, lane) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS)
        *slot = record->slot;
    pthread_mutex_unlock(&lock);
    return result;
}
