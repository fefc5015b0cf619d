/* See staging.h. */
#include "memory/staging.h"

#include "base/log.h"
#include "base/options.h"
#include "driver/current.h"
#include "driver/real.h"
#include "lane/fences.h"
#include "lane/lane_client.h"
#include "lane/streams.h"
#include "memory/home.h"
#include "memory/backing.h"
#include "memory/owners.h"
#include "memory/replicas.h"
#include "memory/tickets.h"
#include "memory/transfer.h"
#include "object/capture.h"
#include "object/session.h"
#include "order/order.h"
#include "order/order_parts.h"

#include <pthread.h>
#include <string.h>

#define AREAS 4u /* streams whose pulls are staged at a time */
#define AREA_BYTES (8ull << 20)
#define MOST_BYTES (4ull << 20) /* of a pull */
#define BYTES (AREAS * AREA_BYTES)
_Static_assert((TSR_LANES + 1) * BYTES <= TSR_PRIVATE_BYTES, "no room");
#define ALIGNMENT 256u
#define LAST 256u /* work of a strand whose pulls are remembered; a power of two */
#define MARK_EVERY 64u /* of such work: where nobody else sets marks, its end would never be seen */
#define MOST_USED 1024u /* the same, until they have been copied to their places */

/* What is beside one strand. */
struct beside {
    uint64_t fork;                     /* the fork of the strand after which it comes; at home: how much had been exposed */
    uint32_t joins;                    /* at home: of the stream, then */
    uint64_t after[TSR_STRANDS];       /* by strand: up to which number it comes after its work */
    uint64_t guarded[TSR_STRANDS];     /* by strand: the last fence for which that waits */
    struct tsr_stream_mark done[LAST]; /* staged pulls: the strand's work, and the fence behind the first step */
    uint32_t done_count;               /* ever */
    struct {
        uint64_t number, end; /* of the strand's work; of its bytes */
    } used[MOST_USED];
    uint32_t used_first, used_end; /* of those that may not have been copied to their places yet; ever */
    uint64_t head;                 /* bytes given, ever: place them modulo the area's size */
    uint64_t tail;                 /* bytes free again, ever */
};

/* A part of each GPU's memory, for one stream. */
struct tsr_staging {
    struct tsr_stream slot; /* has the slot, which is never given back, and the stream beside the one at home */
    struct tsr_stream *owner;
    uint64_t generation; /* of that */
    const struct tsr_ticket_queue *queue;
    uint32_t owner_slot;
    CUevent event; /* of the owner's context. If there is no owner: after its last work; NULL: that is complete */
    struct beside strands[TSR_STRANDS];
};

bool tsr_staging_is_wanted;
static struct tsr_staging areas[AREAS]; /* copies' lock */
static bool asked;                      /* memory lock */
static bool open;                       /* written with the memory lock held, before there are copies */

/* ---- memory ---- */

static uint64_t space_address(void)
{
    return TSR_WINDOWS_ADDRESS + tsr_session_copies(tsr_session()) * TSR_ARENA_BYTES;
}

static CUdeviceptr place_of(const struct tsr_staging *area, uint32_t rank, uint64_t at)
{
    return space_address() + rank * BYTES + (uint64_t)(area - areas) * AREA_BYTES + at % AREA_BYTES;
}

/* ---- areas ---- */

static bool is_free(struct tsr_staging *area)
{
    if (area->owner)
        return __atomic_load_n(&area->owner->generation, __ATOMIC_ACQUIRE) != area->generation; /* gone with its context */
    return !area->event || tsr_memory_event_query(area->event) != CUDA_ERROR_NOT_READY;
}

/* One slot serves owners of all priorities: the streams that it has on lanes are kept. */
static bool has_slot(struct tsr_staging *area, const struct tsr_stream *stream)
{
    struct tsr_stream *slot = &area->slot;
    if (!slot->away) /* its first use. It is never idle, so nobody takes the slot */
        *slot =
            (struct tsr_stream){.kind = TSR_STREAM_FREE, .priority = stream->priority, .away = 1, .slot = TSR_STREAM_NO_SLOT};
    return tsr_slot_take(slot);
}

static struct tsr_staging *take_area(struct tsr_stream *stream)
{
    for (unsigned i = 0; i < AREAS; i++) {
        struct tsr_staging *area = &areas[i];
        if (!is_free(area) || !has_slot(area, stream))
            continue;
        if (!area->owner && area->event)
            tsr_real.cuEventDestroy_v2(area->event);
        area->event = NULL;
        area->slot.handle = NULL;
        area->owner = stream;
        area->generation = stream->generation;
        area->queue = NULL;
        area->owner_slot = TSR_STREAM_NO_SLOT;
        return area;
    }
    return NULL;
}

void tsr_staging_settle_locked(void)
{
    for (unsigned i = 0; i < AREAS; i++)
        areas[i].queue = NULL;
}

static bool belongs(const struct tsr_staging *area, const struct tsr_stream *stream)
{
    return area && area->owner == stream && area->generation == stream->generation;
}

/* Numbers of the queue begin to be known. */
static void begin_queue(struct tsr_staging *area, const struct tsr_ticket_queue *queue)
{
    memset(area->strands, 0, sizeof area->strands);
    for (uint32_t strand = 0; strand < tsr_tickets.strands; strand++)
        area->strands[strand].fork = UINT64_MAX;
    area->queue = queue;
}

/* NULL: its pulls are not staged. */
static struct tsr_staging *area_of(const struct tsr_staging_use *use)
{
    struct tsr_stream *stream = use->stream;
    if (!tsr_strands_are_apart(stream))
        return NULL;
    bool ready = belongs(stream->staging, stream) && (use->lane || stream->staging->slot.handle);
    if (!ready && tsr_is_any_capture()) /* which forbids some of what is asked of the driver first */
        return NULL;
    if (!belongs(stream->staging, stream))
        stream->staging = take_area(stream);
    struct tsr_staging *area = stream->staging;
    if (!area)
        return NULL;
    if (area->queue != use->queue)
        begin_queue(area, use->queue);
    if (area->owner_slot != stream->slot)
        for (uint32_t strand = 0; strand < tsr_tickets.strands; strand++)
            area->strands[strand].fork = UINT64_MAX;
    area->owner_slot = stream->slot;
    return area;
}

/* The stream is held, and has been joined. */
static void end_locked(struct tsr_stream *stream)
{
    struct tsr_staging *area = stream->staging;
    bool pushed = false;
    if (!belongs(area, stream) || tsr_current_push(stream->context, &pushed) != CUDA_SUCCESS)
        return;
    bool recorded = (area->event || tsr_real.cuEventCreate(&area->event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS) &&
                    tsr_real.cuEventRecord(area->event, stream->handle) == CUDA_SUCCESS;
    if (area->slot.handle)
        tsr_real.cuStreamDestroy_v2(area->slot.handle);
    area->slot.handle = NULL;
    if (recorded) /* else the area is lost */
        area->owner = NULL;
    tsr_current_pop(pushed);
}

static void end(struct tsr_stream *stream)
{
    pthread_mutex_lock(&tsr_copies_lock);
    end_locked(stream);
    pthread_mutex_unlock(&tsr_copies_lock);
}

/* ---- a session ---- */

void tsr_staging_open(void)
{
    if (asked)
        return;
    asked = true;
    uint32_t rank = 0, count = tsr_session()->lane_count + 1;
    if (!tsr_order_by_data || !tsr_staging_is_wanted || tsr_owners_are_on())
        return;
    while (rank < count && tsr_replicas_private(space_address() + rank * BYTES, BYTES, rank) == CUDA_SUCCESS)
        rank++;
    bool made = rank == count;
    while (!made && rank--)
        tsr_replicas_private_drop(space_address() + rank * BYTES, BYTES, rank);
    if (!made)
        tsr_debug("no memory to stage pulls in; they wait for the launches that need them");
    open = made;
    tsr_strands_at_end(end);
}

void tsr_staging_forget(void)
{
    memset(areas, 0, sizeof areas);
    open = asked = false;
}

/* ---- room ---- */

/* The strand has copied to their places what it was given up to the number, as far as fences tell. */
static bool is_done(const struct tsr_stream *stream, uint32_t strand, uint64_t number)
{
    const struct tsr_session *session = tsr_session();
    uint64_t value = tsr_strands_marked(stream, strand, number);
    const struct tsr_lane_client *lane = session->lanes[strand ? strand - 1 : 0];
    uint64_t now =
        strand ? tsr_lane_away_value(stream->slot, lane)
               : __atomic_load_n((const uint64_t *)(uintptr_t)tsr_lane_home_fence(stream->slot, lane), __ATOMIC_ACQUIRE);
    return value && now >= value;
}

static void free_done(const struct tsr_stream *stream, struct beside *beside, uint32_t strand)
{
    while (beside->used_first != beside->used_end &&
           is_done(stream, strand, beside->used[beside->used_first % MOST_USED].number))
        beside->tail = beside->used[beside->used_first++ % MOST_USED].end;
    if (beside->used_first == beside->used_end)
        beside->tail = beside->head;
}

static bool note_used(struct beside *beside, uint64_t number, uint64_t end)
{
    uint32_t last = (beside->used_end - 1) % MOST_USED;
    bool same = beside->used_end != beside->used_first && beside->used[last].number == number;
    if (!same && beside->used_end - beside->used_first == MOST_USED)
        return false;
    if (!same)
        last = beside->used_end++ % MOST_USED;
    beside->used[last].number = number;
    beside->used[last].end = end;
    return true;
}

/* False: there is none now. */
static bool take_room(const struct tsr_staging_use *use, struct beside *beside, uint32_t strand, uint64_t bytes, uint64_t *at)
{
    uint64_t needed = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT, head = beside->head;
    if (head % AREA_BYTES + needed > AREA_BYTES)
        head += AREA_BYTES - head % AREA_BYTES;
    for (unsigned attempt = 0; attempt < 2; attempt++) {
        if (head + needed - beside->tail <= AREA_BYTES && note_used(beside, use->number, head + needed)) {
            *at = head;
            beside->head = head + needed;
            return true;
        }
        free_done(use->stream, beside, strand);
    }
    return false;
}

/* ---- the first step ---- */

static CUresult follow_home(struct tsr_staging *area, const struct tsr_staging_use *use)
{
    struct tsr_stream *stream = use->stream;
    CUresult result = CUDA_SUCCESS;
    if (!area->slot.handle)
        result = tsr_real.cuStreamCreateWithPriority(&area->slot.handle, CU_STREAM_NON_BLOCKING, stream->priority);
    if (result == CUDA_SUCCESS && !area->event)
        result = tsr_real.cuEventCreate(&area->event, CU_EVENT_DISABLE_TIMING);
    if (result == CUDA_SUCCESS)
        result = tsr_real.cuEventRecord(area->event, stream->handle);
    return result == CUDA_SUCCESS ? tsr_real.cuStreamWaitEvent(area->slot.handle, area->event, 0) : result;
}

static CUresult post_wait(struct tsr_lane_client *lane, uint32_t slot, uint32_t whose, uint32_t fence_slot, uint64_t value)
{
    struct tsr_lane_record wait = {
        .kind = TSR_LANE_WAIT, .stream = slot, .function = whose, .shared_bytes = 1 + fence_slot, .value = value};
    return tsr_lane_post(lane, &wait, NULL);
}

/* After work at home that is not tracked, and what that came after. */
static CUresult begin(struct tsr_staging *area, const struct tsr_staging_use *use, struct beside *beside)
{
    struct tsr_stream *stream = use->stream;
    CUresult result = CUDA_SUCCESS;
    if (!use->lane) {
        uint64_t exposed = __atomic_load_n(&tsr_order_exposed, __ATOMIC_ACQUIRE);
        if (area->slot.handle && beside->fork == exposed && beside->joins == stream->joins)
            return CUDA_SUCCESS;
        beside->fork = exposed;
        beside->joins = stream->joins;
        return follow_home(area, use);
    }
    uint64_t fork = stream->fork_values[tsr_lane_number(use->lane)];
    if (!tsr_slot_opened(area->slot.slot, tsr_lane_number(use->lane)))
        result = tsr_order_open_locked(&area->slot, use->lane);
    if (result == CUDA_SUCCESS && beside->fork != fork)
        result = post_wait(use->lane, area->slot.slot, 0, stream->slot, fork);
    beside->fork = fork;
    return result;
}

static CUresult await_home(struct tsr_staging *area, const struct tsr_staging_use *use, uint64_t number)
{
    struct tsr_stream *stream = use->stream;
    uint64_t value = tsr_strands_marked(stream, 0, number);
    CUresult result = value ? CUDA_SUCCESS : tsr_strands_mark(stream, 0, tsr_ticket_last_of(use->queue, 0));
    if (!value && result == CUDA_SUCCESS)
        value = tsr_strands_marked(stream, 0, number);
    if (result != CUDA_SUCCESS || !value)
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_NOT_SUPPORTED;
    return post_wait(use->lane, area->slot.slot, 0, stream->slot, value);
}

static CUresult await_lane(struct tsr_staging *area, const struct tsr_staging_use *use, uint32_t source, uint64_t number)
{
    struct tsr_stream *stream = use->stream;
    uint64_t value;
    CUresult result = tsr_strands_reach(stream, source, number, &value);
    if (result != CUDA_SUCCESS)
        return result;
    if (use->lane)
        return post_wait(use->lane, area->slot.slot, source, stream->slot, value);
    CUdeviceptr fence = tsr_lane_away_fence(stream->slot, tsr_session()->lanes[source - 1]);
    CUstreamBatchMemOpParams wait = tsr_order_wait_operation(fence, value);
    return tsr_fences_operate(stream->context, area->slot.handle, 1, &wait);
}

static CUresult await_strand(struct tsr_staging *area, const struct tsr_staging_use *use, struct beside *beside,
                             uint32_t strand)
{
    uint64_t number = use->needs[strand];
    CUresult result = CUDA_SUCCESS;
    if (number > beside->after[strand] && number > use->queue->strands[strand].joined)
        result = strand ? await_lane(area, use, strand, number) : await_home(area, use, number);
    if (result == CUDA_SUCCESS && beside->after[strand] < number)
        beside->after[strand] = number;
    return result;
}

/* All that the use needs: bytes of one copy may have been written by several strands. */
static CUresult await_needs(struct tsr_staging *area, struct tsr_staging_use *use, struct beside *beside)
{
    CUresult result = begin(area, use, beside);
    for (uint32_t strand = 0; strand < tsr_tickets.strands && result == CUDA_SUCCESS; strand++)
        if (use->needs[strand])
            result = await_strand(area, use, beside, strand);
    use->begun = result == CUDA_SUCCESS;
    return result;
}

static CUresult stage(struct tsr_staging *area, struct tsr_staging_use *use, const struct tsr_lane_copy *what, uint16_t time)
{
    const struct tsr_transfer by = {.lane = use->lane, .slot = area->slot.slot, .time = time, .stream = area->slot.handle};
    uint32_t strand = tsr_lane_rank(use->lane);
    struct beside *beside = &area->strands[strand];
    struct tsr_lane_copy first = *what, second = *what;
    uint64_t at;
    if (!take_room(use, beside, strand, what->width * what->height, &at))
        return CUDA_ERROR_NOT_SUPPORTED;
    first.to = second.from = place_of(area, strand, at);
    first.to_pitch = second.from_pitch = what->width;
    CUresult result = tsr_transfer(&by, &first);
    if (result == CUDA_SUCCESS)
        use->pulls[use->count++] = second;
    return result;
}

/* The lane, or the current context, is the use's. */
static CUresult stage_after_needs(struct tsr_staging *area, struct tsr_staging_use *use, const struct tsr_lane_copy *what,
                                  uint16_t time)
{
    CUresult result =
        use->begun ? CUDA_SUCCESS : await_needs(area, use, &area->strands[tsr_lane_rank(use->lane)]); /* may make the stream */
    return result == CUDA_SUCCESS ? stage(area, use, what, time) : result;
}

void tsr_staging_begin(struct tsr_staging_use *use)
{
    use->begun = false;
    use->count = 0;
    if (!open)
        use->stream = NULL;
}

static bool may_be_staged(const struct tsr_staging_use *use, uint32_t from, uint64_t bytes)
{
    return use->stream && use->count < TSR_STAGED_PULLS && bytes <= MOST_BYTES && use->needs[from];
}

CUresult tsr_staging_pull(struct tsr_staging_use *use, uint32_t from, const struct tsr_lane_copy *what, uint16_t time)
{
    struct tsr_staging *area = may_be_staged(use, from, what->width * what->height) ? area_of(use) : NULL;
    CUresult result = area ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
    bool pushed = false;
    if (area && !use->lane)
        result = tsr_current_push(use->stream->context, &pushed);
    if (result == CUDA_SUCCESS)
        result = stage_after_needs(area, use, what, time);
    tsr_current_pop(pushed);
    return result;
}

/* ---- the second step ---- */

/* Others see that the bytes have come, and the strand waits for it. */
static CUresult arrive(struct tsr_staging *area, const struct tsr_staging_use *use, uint64_t value)
{
    const struct tsr_session *session = tsr_session();
    uint32_t slot = area->slot.slot;
    if (use->lane) {
        struct tsr_lane_record signal = {.kind = TSR_LANE_SIGNAL, .stream = slot, .value = value};
        tsr_slot_set_signalled(slot, use->lane, value);
        CUresult result = tsr_lane_post(use->lane, &signal, NULL);
        return result == CUDA_SUCCESS ? post_wait(use->lane, use->stream->slot, TSR_LANE_OWN, slot, value) : result;
    }
    CUstreamBatchMemOpParams writes[TSR_LANES];
    for (uint32_t i = 0; i < session->lane_count; i++)
        writes[i] = tsr_order_write_operation(tsr_lane_home_fence(slot, session->lanes[i]), value);
    CUresult result = tsr_fences_operate(use->stream->context, area->slot.handle, session->lane_count, writes);
    CUstreamBatchMemOpParams wait = tsr_order_wait_operation(tsr_lane_home_fence(slot, session->lanes[0]), value);
    return result == CUDA_SUCCESS ? tsr_order_operate_locked(use->stream, 1, &wait) : result;
}

static CUresult finish(struct tsr_staging *area, const struct tsr_staging_use *use)
{
    struct beside *beside = &area->strands[tsr_lane_rank(use->lane)];
    uint64_t value = tsr_slot_next_value(area->slot.slot);
    const struct tsr_transfer by = {.lane = use->lane, .slot = use->stream->slot, .stream = use->stream->handle};
    CUresult result = arrive(area, use, value);
    for (uint32_t i = 0; i < use->count && result == CUDA_SUCCESS; i++)
        result = tsr_transfer(&by, &use->pulls[i]);
    beside->done[beside->done_count++ % LAST] = (struct tsr_stream_mark){use->number, value};
    return result;
}

CUresult tsr_staging_end(struct tsr_staging_use *use)
{
    struct tsr_stream *stream = use->stream;
    CUresult result = CUDA_SUCCESS;
    bool pushed = false;
    if (!stream || !belongs(stream->staging, stream) || stream->staging->queue != use->queue)
        return CUDA_SUCCESS;
    const struct beside *beside = &stream->staging->strands[tsr_lane_rank(use->lane)];
    if (!use->count)
        return CUDA_SUCCESS;
    if (!use->lane)
        result = tsr_current_push(stream->context, &pushed);
    if (result == CUDA_SUCCESS)
        result = finish(stream->staging, use);
    if (result == CUDA_SUCCESS && beside->done_count % MARK_EVERY == 0)
        result = tsr_strands_mark(stream, tsr_lane_rank(use->lane), use->number - 1); /* its own work comes yet */
    tsr_current_pop(pushed);
    return result;
}

/* ---- who overwrites ---- */

/* The fence of the last pull up to the number, or of a later one, if that is not remembered. */
static uint64_t fence_of(const struct beside *beside, uint64_t number)
{
    uint32_t kept = beside->done_count < LAST ? beside->done_count : LAST;
    for (uint32_t i = 1; i <= kept; i++) {
        const struct tsr_stream_mark *done = &beside->done[(beside->done_count - i) % LAST];
        if (done->number <= number || (i == kept && beside->done_count > LAST))
            return done->value;
    }
    return 0;
}

static CUresult await_fence(const struct tsr_staging *area, struct tsr_stream *stream, uint32_t asker, uint32_t puller,
                            uint64_t value)
{
    const struct tsr_session *session = tsr_session();
    if (asker)
        return post_wait(session->lanes[asker - 1], stream->slot, puller, area->slot.slot, value);
    CUdeviceptr fence = tsr_lane_away_fence(area->slot.slot, session->lanes[puller - 1]);
    CUstreamBatchMemOpParams wait = tsr_order_wait_operation(fence, value);
    return tsr_order_operate_locked(stream, 1, &wait);
}

uint64_t tsr_staging_guard(struct tsr_stream *stream, uint32_t asker, uint32_t puller, uint64_t number, CUresult *result)
{
    struct tsr_staging *area = stream->staging;
    if (!belongs(area, stream) || area->queue != stream->queue)
        return number;
    struct beside *beside = &area->strands[puller];
    uint64_t value = fence_of(beside, number);
    if (value > beside->guarded[asker]) {
        *result = await_fence(area, stream, asker, puller, value);
        beside->guarded[asker] = value;
    }
    uint64_t pulled = area->queue->strands[puller].pulled;
    return pulled < number ? pulled : number;
}
