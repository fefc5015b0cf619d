/* See strands.h. */
#include "order/strands.h"

#include <stdlib.h>

#include "driver/real.h"
#include "object/session.h"
#include "order/aside.h"
#include "order/order_parts.h"

#define EACH_LANE(number, lanes) (uint32_t number, rest_ = (lanes); rest_ && (number = (uint32_t)__builtin_ctz(rest_), true); rest_ &= rest_ - 1)

static struct {
    TSR_APART uint32_t kinds[TSR_STREAM_KINDS]; /* atomic; streams that are away, by kind */
    uint32_t all;                               /* atomic; their sum */
} away;

bool tsr_order_by_data;
static void (*at_end)(struct tsr_stream *stream);
static const struct tsr_strands_listener *listener; /* constant for a session; NULL: nobody listens */

static void set(uint32_t *which, uint32_t lanes)
{
    __atomic_store_n(which, lanes, __ATOMIC_RELEASE);
}

static void count_away(const struct tsr_stream *stream, bool more)
{
    uint32_t step = more ? 1 : UINT32_MAX;
    __atomic_fetch_add(&away.kinds[stream->kind], step, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&away.all, step, __ATOMIC_SEQ_CST);
}

static void set_away(struct tsr_stream *stream, uint32_t lanes)
{
    bool was = stream->away, is = lanes;
    set(&stream->away, lanes);
    if (was != is)
        count_away(stream, is);
}

bool tsr_strands_any_away(void)
{
    return __atomic_load_n(&away.all, __ATOMIC_SEQ_CST) != 0;
}

uint32_t tsr_strands_away_of(enum tsr_stream_kind kind)
{
    return __atomic_load_n(&away.kinds[kind], __ATOMIC_SEQ_CST);
}

bool tsr_strands_are_foreign(const struct tsr_stream *stream)
{
    return stream->kind == TSR_STREAM_OWN && (stream->orphan || stream->thread != tsr_stream_thread());
}

static struct tsr_lane_client *lane_at(uint32_t number)
{
    return tsr_session()->lanes[number];
}

static CUresult signal_lane(struct tsr_stream *stream, uint32_t number)
{
    struct tsr_lane_client *lane = lane_at(number);
    uint64_t value = tsr_slot_next_value(stream->slot);
    struct tsr_lane_record signal = {.kind = TSR_LANE_SIGNAL, .stream = stream->slot, .value = value};
    tsr_slot_set_signalled(stream->slot, lane, value);
    CUresult result = tsr_lane_post(lane, &signal, NULL);
    if (result != CUDA_SUCCESS)
        return result;
    stream->signalled[number] = value;
    set(&stream->unsignalled, stream->unsignalled & ~(1u << number));
    return CUDA_SUCCESS;
}

CUresult tsr_strands_signal(struct tsr_stream *stream)
{
    CUresult result = CUDA_SUCCESS;
    for
        EACH_LANE(number, stream->unsignalled)
    if (result == CUDA_SUCCESS)
        result = signal_lane(stream, number);
    if (result == CUDA_SUCCESS) {
        set(&stream->forked, 0);
        __atomic_store_n(&stream->lane, NULL, __ATOMIC_RELEASE);
    }
    return result;
}

void tsr_strands_settle(struct tsr_stream *stream, uint32_t lanes)
{
    set(&stream->forked, stream->forked & ~lanes);
    set(&stream->unsignalled, stream->unsignalled & ~lanes);
    set_away(stream, stream->away & ~lanes);
}

static unsigned add_waits(const struct tsr_stream *stream, uint32_t lanes, CUstreamBatchMemOpParams *operations)
{
    unsigned count = 0;
    for
        EACH_LANE(number, lanes)
    operations[count++] =
        tsr_order_wait_operation(tsr_lane_away_fence(stream->slot, lane_at(number)), stream->signalled[number]);
    return count;
}

CUresult tsr_strands_add_waits(struct tsr_stream *stream, CUstreamBatchMemOpParams *waits, unsigned *count)
{
    CUresult result = CUDA_SUCCESS;
    for
        EACH_LANE(number, stream->unsignalled)
    if (result == CUDA_SUCCESS)
        result = signal_lane(stream, number);
    *count = add_waits(stream, stream->away, waits);
    return result;
}

CUresult tsr_strands_join(struct tsr_stream *stream)
{
    CUstreamBatchMemOpParams waits[TSR_LANES];
    CUresult result = tsr_strands_signal(stream);
    if (result == CUDA_SUCCESS && stream->aside_used)
        result = tsr_aside_join(stream);
    if (result != CUDA_SUCCESS || !stream->away || tsr_strands_are_foreign(stream))
        return result;
    result = tsr_order_operate_locked(stream, add_waits(stream, stream->away, waits), waits);
    if (result != CUDA_SUCCESS)
        return result;
    tsr_strands_settle(stream, stream->away);
    __atomic_store_n(&stream->joins, stream->joins + 1, __ATOMIC_RELAXED);
    if (listener && tsr_strands_are_apart(stream))
        listener->joined(stream);
    return CUDA_SUCCESS;
}

void tsr_strands_settle_complete(struct tsr_stream *stream)
{
    for
        EACH_LANE(number, stream->away & ~stream->unsignalled)
    if (tsr_lane_away_value(stream->slot, lane_at(number)) >= stream->signalled[number])
        tsr_strands_settle(stream, 1u << number);
}

CUresult tsr_strands_join_for(struct tsr_stream *stream, const struct tsr_stream *waiter)
{
    CUstreamBatchMemOpParams waits[TSR_LANES];
    CUresult result = tsr_strands_join(stream);
    if (result != CUDA_SUCCESS || !stream->away)
        return result;
    tsr_strands_settle_complete(stream);
    return stream->away ? tsr_order_operate_locked(waiter, add_waits(stream, stream->away, waits), waits) : CUDA_SUCCESS;
}

/* The lane waits for all work that the stream at home was given, and in the same batch for these lanes. */
static CUresult fork_lane(struct tsr_stream *stream, struct tsr_lane_client *lane, uint32_t after, uint64_t *fence)
{
    CUstreamBatchMemOpParams operations[TSR_LANES + 1];
    unsigned count = add_waits(stream, after, operations);
    uint64_t value = *fence = tsr_slot_next_value(stream->slot);
    operations[count++] = tsr_order_write_operation(tsr_lane_home_fence(stream->slot, lane), value);
    if (__atomic_exchange_n(&stream->touched, false, __ATOMIC_ACQ_REL))
        set(&stream->forked, 0);
    CUresult result = tsr_order_operate_locked(stream, count, operations);
    struct tsr_lane_record wait = {.kind = TSR_LANE_WAIT, .stream = stream->slot, .value = value};
    return result == CUDA_SUCCESS ? tsr_lane_post(lane, &wait, NULL) : result;
}

/* From home, or from other lanes through home. */
CUresult tsr_strands_depart(struct tsr_stream *stream, struct tsr_lane_client *lane)
{
    uint32_t bit = 1u << tsr_lane_number(lane);
    bool apart = tsr_strands_are_apart(stream);
    CUresult result = apart || (stream->unsignalled & bit) ? CUDA_SUCCESS : tsr_strands_signal(stream);
    if (result == CUDA_SUCCESS && !tsr_slot_take(stream))
        result = CUDA_ERROR_NOT_SUPPORTED;
    if (result == CUDA_SUCCESS)
        result = tsr_order_open_locked(stream, lane);
    if (result != CUDA_SUCCESS)
        return result;
    count_away(stream, true); /* before the fence: what another thread enqueues behind it, it has to leave a note of */
    result =
        fork_lane(stream, lane, apart ? 0 : stream->away & ~stream->unsignalled, &stream->fork_values[tsr_lane_number(lane)]);
    if (result == CUDA_SUCCESS) {
        set(&stream->unsignalled, apart ? stream->unsignalled | bit : bit);
        set(&stream->forked, apart ? stream->forked | bit : bit);
        set_away(stream, apart ? stream->away | bit : bit);
    }
    count_away(stream, false);
    if (result != CUDA_SUCCESS)
        return result;
    __atomic_store_n(&stream->lane, lane, __ATOMIC_RELEASE);
    if (listener && apart)
        listener->forked(stream, tsr_lane_rank(lane));
    return CUDA_SUCCESS;
}

void tsr_strands_give(struct tsr_stream *stream, uint32_t lanes)
{
    if (lanes & ~stream->unsignalled)
        set(&stream->unsignalled, stream->unsignalled | lanes);
}

void tsr_strands_go_on(struct tsr_stream *stream, struct tsr_lane_client *lane)
{
    tsr_strands_give(stream, 1u << tsr_lane_number(lane));
    if (stream->lane != lane)
        __atomic_store_n(&stream->lane, lane, __ATOMIC_RELEASE);
}

static CUresult tie_to_lane(struct tsr_stream *stream, uint32_t from, uint32_t to)
{
    struct tsr_lane_record wait = {
        .kind = TSR_LANE_WAIT, .stream = stream->slot, .function = 1 + from, .value = stream->signalled[from]};
    return tsr_lane_post(lane_at(to), &wait, NULL);
}

static CUresult tie_to_home(struct tsr_stream *stream, uint32_t from)
{
    CUstreamBatchMemOpParams wait;
    return tsr_order_operate_locked(stream, add_waits(stream, 1u << from, &wait), &wait);
}

/* After work at home that is not tracked, if there is any since the strand has forked, it forks again. */
static CUresult tie_from_home(struct tsr_stream *stream, uint32_t to)
{
    uint32_t bit = 1u << (to - 1);
    uint64_t fence;
    CUresult result = fork_lane(stream, lane_at(to - 1), 0, &fence);
    if (result == CUDA_SUCCESS && !(stream->forked & bit)) {
        stream->fork_values[to - 1] = fence;
        set(&stream->forked, stream->forked | bit);
    }
    return result;
}

/* A stream without work away has been joined since, and a strand that has forked since comes after it. */
CUresult tsr_strands_tie(struct tsr_stream *stream, uint32_t from, uint32_t to)
{
    if (from == to || (from && !(stream->away >> (from - 1) & 1)))
        return CUDA_SUCCESS;
    if (!from)
        return tie_from_home(stream, to);
    bool signals = stream->unsignalled >> (from - 1) & 1;
    CUresult result = signals ? signal_lane(stream, from - 1) : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS)
        return result;
    return to ? tie_to_lane(stream, from - 1, to - 1) : tie_to_home(stream, from - 1);
}

static bool has_marks(struct tsr_stream *stream)
{
    if (stream->slot == TSR_STREAM_NO_SLOT)
        return false;
    if (!stream->marks)
        stream->marks = calloc(TSR_STRANDS, sizeof *stream->marks);
    if (stream->marks_slot != stream->slot)
        tsr_stream_drop_marks(stream);
    stream->marks_slot = stream->slot;
    return stream->marks;
}

/* The first of those that are kept with this number or a later one: their numbers do not decrease. */
static const struct tsr_stream_mark *find_mark(const struct tsr_stream *stream, uint32_t strand, uint64_t number)
{
    if (!stream->marks || stream->marks_slot != stream->slot)
        return NULL;
    const struct tsr_stream_marks *marks = &stream->marks[strand];
    uint32_t kept = marks->count < TSR_STREAM_MARKS ? marks->count : TSR_STREAM_MARKS;
    uint32_t first = marks->count - kept, end = marks->count;
    while (first != end) {
        uint32_t middle = first + (end - first) / 2;
        if (marks->all[middle % TSR_STREAM_MARKS].number < number)
            first = middle + 1;
        else
            end = middle;
    }
    return first == marks->count ? NULL : &marks->all[first % TSR_STREAM_MARKS];
}

static CUresult mark_home(struct tsr_stream *stream, uint64_t value)
{
    CUstreamBatchMemOpParams operations[TSR_LANES];
    uint32_t count = 0;
    for
        EACH_LANE(number, stream->forked)
    operations[count++] = tsr_order_write_operation(tsr_lane_home_fence(stream->slot, lane_at(number)), value);
    return count == tsr_session()->lane_count ? tsr_order_operate_locked(stream, count, operations) : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult tsr_strands_mark(struct tsr_stream *stream, uint32_t strand, uint64_t number)
{
    if (!has_marks(stream) || (strand && !(stream->away >> (strand - 1) & 1)))
        return CUDA_SUCCESS;
    if (find_mark(stream, strand, number))
        return CUDA_SUCCESS;
    uint64_t value = strand ? 0 : tsr_slot_next_value(stream->slot);
    CUresult result = CUDA_SUCCESS; /* a lane may have signalled all that it was given, for another strand */
    if (!strand)
        result = mark_home(stream, value);
    else if (stream->unsignalled >> (strand - 1) & 1)
        result = signal_lane(stream, strand - 1);
    struct tsr_stream_marks *marks = &stream->marks[strand];
    if (result == CUDA_SUCCESS)
        marks->all[marks->count++ % TSR_STREAM_MARKS] =
            (struct tsr_stream_mark){number, strand ? stream->signalled[strand - 1] : value};
    return result == CUDA_ERROR_NOT_SUPPORTED ? CUDA_SUCCESS : result;
}

uint64_t tsr_strands_marked(const struct tsr_stream *stream, uint32_t strand, uint64_t number)
{
    const struct tsr_stream_mark *mark = find_mark(stream, strand, number);
    return mark ? mark->value : 0;
}

CUresult tsr_strands_reach(struct tsr_stream *stream, uint32_t strand, uint64_t number, uint64_t *value)
{
    const struct tsr_stream_mark *mark = find_mark(stream, strand, number);
    bool signals = !mark && stream->unsignalled >> (strand - 1) & 1;
    CUresult result = signals ? signal_lane(stream, strand - 1) : CUDA_SUCCESS;
    *value = mark ? mark->value : stream->signalled[strand - 1];
    return result;
}

CUresult tsr_strands_await(struct tsr_stream *later, uint32_t strand, uint32_t slot, uint64_t value)
{
    struct tsr_lane_record wait = {
        .kind = TSR_LANE_WAIT, .stream = later->slot, .function = TSR_LANE_OWN, .shared_bytes = 1 + slot, .value = value};
    return tsr_lane_post(lane_at(strand - 1), &wait, NULL);
}

uint64_t tsr_strands_after_mark(struct tsr_stream *stream, uint32_t from, uint64_t number, uint32_t to, CUresult *result)
{
    const struct tsr_stream_mark *mark = find_mark(stream, from, number);
    if (!mark)
        return 0;
    if (to) {
        struct tsr_lane_record wait = {.kind = TSR_LANE_WAIT, .stream = stream->slot, .function = from, .value = mark->value};
        *result = tsr_lane_post(lane_at(to - 1), &wait, NULL);
    } else {
        CUstreamBatchMemOpParams wait =
            tsr_order_wait_operation(tsr_lane_away_fence(stream->slot, lane_at(from - 1)), mark->value);
        *result = tsr_order_operate_locked(stream, 1, &wait);
    }
    return mark->number;
}

void tsr_strands_end(struct tsr_stream *stream)
{
    tsr_aside_end(stream);
    if (at_end)
        at_end(stream);
}

void tsr_strands_at_end(void (*ends)(struct tsr_stream *stream))
{
    at_end = ends;
}

void tsr_strands_listen(const struct tsr_strands_listener *heard)
{
    listener = heard;
}

void tsr_strands_start(bool by_data)
{
    for (unsigned i = 0; i < TSR_STREAM_KINDS; i++)
        away.kinds[i] = 0;
    away.all = 0;
    tsr_order_by_data = by_data;
}
