/*
 * Copies and memsets that follow their stream: when its last work went to an executor and all the memory is shared, they are posted there
 * like launches, instead of making the stream join. Calls that the driver would refuse are forwarded to it.
 */
#include "calls/calls.h"
#include "driver/engaged.h"
#include "launch/broadcast.h"
#include "launch/copy_apart.h"
#include "memory/arena.h"
#include "memory/bounds.h"
#include "object/capture.h"
#include "lane/lane_client.h"
#include "memory/copies.h"
#include "memory/memory.h"
#include "memory/readback.h"
#include "order/order.h"
#include "order/strands.h"
#include "schedule/assign.h"
#include "schedule/automatic.h"
#include "driver/real.h"
#include "object/session.h"
#include "driver/stream_handle.h"

#include <string.h>

#define MOST_PITCH INT32_MAX

struct moved {
    CUresult result;             /* the answer, if it went elsewhere */
    struct tsr_touch touches[2]; /* if it did not: what it touches of memory that all GPUs share */
    uint32_t count;              /* of these; 0: it touches other memory, or is not valid */
    bool stays;                  /* only home can do it */
    bool gives;                  /* bytes of the host's ordinary memory */
    bool placed;                 /* schedule/automatic.h has chosen where it goes, and is to be told where it went */
    uint64_t ticket;             /* then: of its use of memory */
};

static struct tsr_copies_use use_of(const struct moved *moved, CUstream handle, bool per_thread)
{
    return (struct tsr_copies_use){
        .touches = moved->touches, .count = moved->count, .cause = TSR_PULL_COPY, .stream = handle, .per_thread = per_thread};
}

/* Strands of a stream may run beside each other, and hold bytes that the others do not. */
static bool has_strands(void)
{
    return tsr_order_by_data && tsr_copies_matter();
}

/* The GPU that a rule has given the stream. */
static struct tsr_lane_client *given_to(CUstream handle, bool per_thread)
{
    const struct tsr_session *session = tsr_session();
    return session ? tsr_assign_lane(session, tsr_stream_named(handle, per_thread)) : NULL;
}

/* Where the stream's work is; if that is at home, where it belongs: behind what home has to do for others it would wait, and with it the stream. */
static struct tsr_lane_client *lane_of(CUstream handle, bool per_thread)
{
    struct tsr_lane_client *last = tsr_order_lane(handle, per_thread);
    return last ? last : given_to(handle, per_thread);
}

/* Where no rule of the policy places launches. */
static struct tsr_lane_client *choose(CUstream named, const struct tsr_lane_record *record, struct moved *moved)
{
    struct tsr_stream_found found;
    const uint32_t one[3] = {1, 1, 1};
    uint32_t size[3] = {1, 1, 1};
    for (uint64_t bytes = moved->touches[0].end - moved->touches[0].first; bytes; bytes >>= 1)
        size[0]++;
    struct tsr_automatic_launch launch = {.function = record->kind == TSR_LANE_SET    ? TSR_AUTOMATIC_SET
                                                      : record->kind == TSR_LANE_COPY ? TSR_AUTOMATIC_COPY
                                                                                      : TSR_AUTOMATIC_GIVE,
                                          .grid = size,
                                          .block = one,
                                          .stream = named,
                                          .touches = moved->touches,
                                          .count = moved->count,
                                          .stays = moved->stays};
    tsr_stream_place(named, &found);
    if (!found.stream || !tsr_strands_are_apart(found.stream) || tsr_automatic_sleeps())
        return NULL;
    tsr_automatic_in(&launch, found.stream);
    moved->placed = true;
    return tsr_automatic_choose(&launch);
}

/* False: it runs at home. */
static bool follow(CUstream handle, bool per_thread, struct tsr_lane_record *record, const void *what, struct moved *moved)
{
    CUresult *result = &moved->result;
    struct tsr_copies_use use = use_of(moved, handle, per_thread);
    CUstream named = tsr_stream_named(handle, per_thread);
    if (tsr_is_capturing(named))
        return false;
    struct tsr_lane_client *lane = tsr_automatic_is_on && has_strands() ? choose(named, record, moved)
                                   : moved->stays                       ? NULL
                                                                        : lane_of(handle, per_thread);
    if (!lane)
        return false;
    struct tsr_order_hold hold;
    use.lane = lane;
    use.stages = tsr_automatic_stages(moved->placed);
    use.ticket = &moved->ticket;
    *result = tsr_order_state(); /* of earlier work: an error of the copy itself is returned by later calls */
    if (*result == CUDA_SUCCESS && tsr_copies_are_on())
        *result = tsr_copies_prepare(&use);
    if (*result == CUDA_SUCCESS)
        *result = tsr_order_depart(handle, per_thread, lane, &record->stream, &hold);
    if (*result == CUDA_SUCCESS) {
        if (tsr_copies_are_on())
            *result = tsr_copies_pull(&use, &hold, record->stream);
        if (*result == CUDA_SUCCESS)
            *result = tsr_broadcast_post(lane, record, what);
        tsr_order_leave(&hold);
    }
    if (*result == CUDA_ERROR_NOT_SUPPORTED || *result == CUDA_ERROR_NOT_READY)
        return false;
    const struct tsr_session *session = tsr_session();
    uint32_t gpu = session->lane_device[tsr_lane_number(lane)];
    if (*result == CUDA_SUCCESS && gpu < TSR_GPUS)
        tsr_session_count(&tsr_session_counts(session)->copies[gpu], 1);
    if (moved->placed)
        tsr_automatic_went(lane, moved->ticket);
    if (moved->gives && *result == CUDA_SUCCESS && has_strands())
        tsr_readback_gave(named);
    return true;
}

static bool is_shared(uint64_t address, uint64_t pitch, uint64_t width, uint64_t height)
{
    uint64_t bytes = (height - 1) * pitch + width;
    return tsr_arena_holds(address, bytes) && tsr_bounds_allow(address, bytes);
}

/* The bytes from the first to the last row; if there are no gaps, all of them are overwritten. */
static struct tsr_touch rows_touch(uint64_t address, uint64_t pitch, uint64_t width, uint64_t height, bool writes)
{
    return (struct tsr_touch){
        .first = address, .end = address + (height - 1) * pitch + width, .pulls = !writes || height > 1, .writes = writes};
}

static bool copy(CUstream stream, bool per_thread, const struct tsr_lane_copy *what, struct moved *moved)
{
    bool valid = what->width > 0 && what->height > 0 &&
                 (what->height == 1 || (what->to_pitch >= what->width && what->from_pitch >= what->width &&
                                        what->to_pitch <= MOST_PITCH && what->from_pitch <= MOST_PITCH));
    struct tsr_lane_record record = {.kind = TSR_LANE_COPY, .param_bytes = sizeof *what};
    if (!valid || !is_shared(what->to, what->to_pitch, what->width, what->height) ||
        !is_shared(what->from, what->from_pitch, what->width, what->height))
        return false;
    moved->touches[0] = rows_touch(what->from, what->from_pitch, what->width, what->height, false);
    moved->touches[1] = rows_touch(what->to, what->to_pitch, what->width, what->height, true);
    moved->count = 2;
    return follow(stream, per_thread, &record, what, moved);
}

/* Otherwise home holds everything, and the call is simply forwarded. */
static bool may_matter(CUstream stream, bool per_thread)
{
    return has_strands() || lane_of(stream, per_thread);
}

static bool copy_bytes(CUstream stream, bool per_thread, CUdeviceptr to, CUdeviceptr from, size_t bytes, struct moved *moved)
{
    struct tsr_lane_copy what = {.to = to, .from = from, .width = bytes, .height = 1};
    return may_matter(stream, per_thread) && copy(stream, per_thread, &what, moved);
}

static bool copy_rows(CUstream stream, bool per_thread, const CUDA_MEMCPY2D *asked, struct moved *moved)
{
    if (!asked || !may_matter(stream, per_thread) || !tsr_copy_may_be_device(asked->srcMemoryType) ||
        !tsr_copy_may_be_device(asked->dstMemoryType))
        return false;
    struct tsr_lane_copy what = {.to = asked->dstDevice + asked->dstY * asked->dstPitch + asked->dstXInBytes,
                                 .from = asked->srcDevice + asked->srcY * asked->srcPitch + asked->srcXInBytes,
                                 .to_pitch = asked->dstPitch,
                                 .from_pitch = asked->srcPitch,
                                 .width = asked->WidthInBytes,
                                 .height = asked->Height};
    bool rows_fit = asked->dstXInBytes + asked->WidthInBytes <= asked->dstPitch &&
                    asked->srcXInBytes + asked->WidthInBytes <= asked->srcPitch;
    return (rows_fit || asked->Height == 1) && copy(stream, per_thread, &what, moved);
}

static bool is_valid_set(const struct tsr_lane_set *what)
{
    uint64_t bytes = what->width * what->element;
    return what->width > 0 && what->height > 0 && what->width <= TSR_ARENA_BYTES && what->to % what->element == 0 &&
           (what->height == 1 || (what->pitch >= bytes && what->pitch <= MOST_PITCH && what->pitch % what->element == 0));
}

static bool set(CUstream stream, bool per_thread, const struct tsr_lane_set *what, struct moved *moved)
{
    uint64_t bytes = what->width * what->element;
    struct tsr_lane_record record = {.kind = TSR_LANE_SET, .param_bytes = sizeof *what};
    if (!may_matter(stream, per_thread) || !is_valid_set(what) || !is_shared(what->to, what->pitch, bytes, what->height))
        return false;
    moved->touches[0] = rows_touch(what->to, what->pitch, bytes, what->height, true);
    moved->count = 1;
    return follow(stream, per_thread, &record, what, moved);
}

/* Before work that touches only shared memory is enqueued at home: it waits for the work that it depends on, and does not join. False: it has to join. */
static bool enter_tracked(CUstream handle, bool per_thread, struct moved *moved, struct tsr_order_hold *hold, CUresult *result)
{
    struct tsr_copies_use use = use_of(moved, handle, per_thread);
    if (!moved->count || !has_strands() || tsr_is_capturing(tsr_stream_named(handle, per_thread)))
        return false;
    use.tracked = true;
    use.stages = tsr_automatic_stages(moved->placed);
    use.ticket = &moved->ticket;
    tsr_memory_open_for_work(tsr_stream_named(handle, per_thread));
    *result = tsr_copies_enter(&use, hold);
    if (*result != CUDA_SUCCESS)
        return false;
    if (moved->placed) {
        tsr_automatic_went(NULL, moved->ticket);
        tsr_automatic_begins(tsr_stream_named(handle, per_thread));
    }
    return true;
}

static CUresult leave(struct tsr_order_hold *hold, CUresult result)
{
    tsr_copies_loose_end();
    tsr_order_leave(hold);
    return result == CUDA_SUCCESS ? tsr_order_state() : result;
}

/* Few bytes of the host's, for all GPUs. False: they are not, or are for one, and it is done in another way. */
static bool give(CUstream stream, bool per_thread, CUdeviceptr to, const void *from, size_t bytes,
                 struct tsr_broadcast_work *work, struct tsr_lane_copy *what, struct tsr_order_hold *hold)
{
    work->count = 0;
    if (!has_strands() || !bytes || !is_shared(to, bytes, bytes, 1) || tsr_arena_holds((uintptr_t)from, 1))
        return false;
    *work = tsr_broadcast_of_copy(to, from, bytes, what);
    return !tsr_automatic_is_on && !given_to(stream, per_thread) && tsr_broadcast_enter(stream, per_thread, work, hold);
}

/* The same for one GPU: the one that is chosen, or that of the stream's last work. */
static bool give_there(CUstream stream, bool per_thread, const struct tsr_broadcast_work *work, struct moved *moved)
{
    struct tsr_lane_record record = work->record;
    if (!work->count)
        return false;
    moved->gives = record.kind == TSR_LANE_WRITE;
    moved->count = work->count;
    moved->stays = work->home_only;
    memcpy(moved->touches, work->touches, sizeof moved->touches);
    return follow(stream, per_thread, &record, work->data, moved);
}

/*
 * Where work is placed, that of whose reader nothing is known yet: a library sets counters right before the kernel that uses them, which then goes where
 * its operands are.
 */
static bool is_for_all(void)
{
    return !tsr_automatic_is_on || (tessera_library_call && tessera_library_call() && tsr_automatic_spreads());
}

static bool set_everywhere(CUstream stream, bool per_thread, const struct tsr_lane_set *what, struct tsr_broadcast_work *work,
                           struct tsr_order_hold *hold)
{
    uint64_t bytes = what->width * what->element;
    if (!is_for_all() || !has_strands() || given_to(stream, per_thread) || !is_valid_set(what) ||
        !is_shared(what->to, what->pitch, bytes, what->height))
        return false;
    *work = tsr_broadcast_of_set(what);
    work->on_all = tsr_automatic_is_on;
    return tsr_broadcast_enter(stream, per_thread, work, hold);
}

/* The body of a wrapper: all GPUs get what it writes, or the copy follows its stream if it can, and is forwarded in stream order otherwise. */
#define FOLLOWS(symbol, arguments, stream, per_thread, waits_not, broadcasts, follows, touch, apart) \
    {                                                                                                                          \
        struct moved moved = {0};                                                                                              \
        struct tsr_broadcast_work work;                                                                                        \
        __attribute__((unused)) struct tsr_lane_copy what; /* of the work */                                                   \
        struct tsr_order_hold hold;                                                                                            \
        CUresult result;                                                                                                       \
        if (broadcasts)                                                                                                        \
            return tsr_broadcast_leave(&work, &hold, tsr_real.symbol arguments);                                               \
        if (follows)                                                                                                           \
            return moved.result;                                                                                               \
        if (waits_not && enter_tracked(stream, per_thread, &moved, &hold, &result)) {                                          \
            result = tsr_real.symbol arguments;                                                                                \
            if (moved.placed)                                                                                                  \
                tsr_automatic_ends(tsr_stream_named(stream, per_thread), result != CUDA_SUCCESS);                                                 \
            tsr_order_leave(&hold);                                                                                            \
            if (moved.gives && result == CUDA_SUCCESS)                                                                         \
                tsr_readback_gave(tsr_stream_named(stream, per_thread));                                                       \
            return result == CUDA_SUCCESS ? tsr_order_state() : result;                                                        \
        }                                                                                                                      \
        if (moved.placed)                                                                                                      \
            tsr_automatic_went(NULL, 0);                                                                                       \
        CUDA_MEMCPY3D_PEER peers;                                                                                              \
        bool is_apart = apart;                                                                                                 \
        result = tsr_order_enter_loose(stream, per_thread, &hold);                                                             \
        if (result != CUDA_SUCCESS)                                                                                            \
            return result;                                                                                                     \
        result = touch;                                                                                                        \
        if (result != CUDA_SUCCESS)                                                                                            \
            return leave(&hold, result);                                                                                       \
        return leave(&hold, is_apart ? tsr_copy_apart(stream, per_thread, &peers) : tsr_real.symbol arguments);                \
    }

#define BYTES(symbol, per_thread)                                                                                              \
    TSR_REDIRECTED(symbol)(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) \
    FOLLOWS(symbol, (dst, src, bytes, stream), stream,      \
            per_thread, true, give(stream, per_thread, dst, (const void *)(uintptr_t)src, bytes, &work, &what, &hold), \
            copy_bytes(stream, per_thread, dst, src, bytes, &moved) || give_there(stream, per_thread, &work, &moved), tsr_copies_loose_bytes(stream, per_thread, dst, src, bytes), \
            tsr_copy_is_apart(stream, per_thread, dst, src, bytes, &peers))
BYTES(cuMemcpyAsync, false)
BYTES(cuMemcpyAsync_ptsz, true)
BYTES(cuMemcpyDtoDAsync_v2, false)
BYTES(cuMemcpyDtoDAsync_v2_ptsz, true)

#define FROM_HOST(symbol, per_thread)                                                                                          \
    TSR_REDIRECTED(symbol)(CUdeviceptr dst, const void *src, size_t bytes, CUstream stream) \
    FOLLOWS(symbol, (dst, src, bytes, stream), stream,      \
            per_thread, true, give(stream, per_thread, dst, src, bytes, &work, &what, &hold), \
            give_there(stream, per_thread, &work, &moved), \
            tsr_copies_loose_bytes(stream, per_thread, dst, 0, bytes), false)
FROM_HOST(cuMemcpyHtoDAsync_v2, false)
FROM_HOST(cuMemcpyHtoDAsync_v2_ptsz, true)

#define BYTES_NOW(symbol, per_thread)                                                                                          \
    TSR_REDIRECTED(symbol)(CUdeviceptr dst, CUdeviceptr src, size_t bytes) \
    FOLLOWS(symbol, (dst, src, bytes), NULL, per_thread, false, false,                     \
            copy_bytes(NULL, per_thread, dst, src, bytes, &moved), tsr_copies_loose_bytes(NULL, per_thread, dst, src, bytes), \
            tsr_copy_is_apart(NULL, per_thread, dst, src, bytes, &peers))
BYTES_NOW(cuMemcpyDtoD_v2, false)
BYTES_NOW(cuMemcpyDtoD_v2_ptds, true)

#define ROWS(symbol, per_thread)                                                                                               \
    TSR_REDIRECTED(symbol)(const CUDA_MEMCPY2D *copy_, CUstream stream) \
    FOLLOWS(symbol, (copy_, stream), stream, per_thread, true, false,                        \
            copy_rows(stream, per_thread, copy_, &moved), tsr_copies_loose_open(stream, per_thread), \
            tsr_copy_rows_are_apart(stream, per_thread, copy_, &peers))
ROWS(cuMemcpy2DAsync_v2, false)
ROWS(cuMemcpy2DAsync_v2_ptsz, true)

#define ONE(bytes) &(struct tsr_lane_set){.to = dst, .value = value, .element = bytes, .width = count, .height = 1}
#define SET(symbol, type, bytes, per_thread)                                                                                   \
    TSR_REDIRECTED(symbol)(CUdeviceptr dst, type value, size_t count, CUstream stream) \
    FOLLOWS(symbol, (dst, value, count, stream), stream,         \
            per_thread, true, set_everywhere(stream, per_thread, ONE(bytes), &work, &hold), \
            set(stream, per_thread, ONE(bytes), &moved), tsr_copies_loose_bytes(stream, per_thread, dst, 0, count * bytes), false)
SET(cuMemsetD8Async, unsigned char, 1, false)
SET(cuMemsetD8Async_ptsz, unsigned char, 1, true)
SET(cuMemsetD16Async, unsigned short, 2, false)
SET(cuMemsetD16Async_ptsz, unsigned short, 2, true)
SET(cuMemsetD32Async, unsigned int, 4, false)
SET(cuMemsetD32Async_ptsz, unsigned int, 4, true)

#define SET_NOW(symbol, type, bytes, per_thread)                                                                               \
    TSR_REDIRECTED(symbol)(CUdeviceptr dst, type value, size_t count) \
    FOLLOWS(symbol, (dst, value, count), NULL, per_thread, true, set_everywhere(NULL, per_thread, ONE(bytes), &work, &hold),                        \
            set(NULL, per_thread, ONE(bytes), &moved), tsr_copies_loose_bytes(NULL, per_thread, dst, 0, count * bytes), false)
SET_NOW(cuMemsetD8_v2, unsigned char, 1, false)
SET_NOW(cuMemsetD8_v2_ptds, unsigned char, 1, true)
SET_NOW(cuMemsetD16_v2, unsigned short, 2, false)
SET_NOW(cuMemsetD16_v2_ptds, unsigned short, 2, true)
SET_NOW(cuMemsetD32_v2, unsigned int, 4, false)
SET_NOW(cuMemsetD32_v2_ptds, unsigned int, 4, true)

#define EACH_ROW(bytes)                                                                                                        \
    &(struct tsr_lane_set){.to = dst, .pitch = pitch, .value = value, .element = bytes, .width = width, .height = height}
#define SET_ROWS(symbol, type, bytes, per_thread)                                                                              \
    TSR_REDIRECTED(symbol)(CUdeviceptr dst, size_t pitch, type value, size_t width, size_t height, CUstream stream) \
    FOLLOWS(symbol, (dst, pitch, value, width, height, stream), stream, per_thread, true, false,                                                    \
            set(stream, per_thread, EACH_ROW(bytes), &moved), tsr_copies_loose_rows(stream, per_thread, dst, pitch, width * bytes, height), false)
SET_ROWS(cuMemsetD2D8Async, unsigned char, 1, false)
SET_ROWS(cuMemsetD2D8Async_ptsz, unsigned char, 1, true)
SET_ROWS(cuMemsetD2D16Async, unsigned short, 2, false)
SET_ROWS(cuMemsetD2D16Async_ptsz, unsigned short, 2, true)
SET_ROWS(cuMemsetD2D32Async, unsigned int, 4, false)
SET_ROWS(cuMemsetD2D32Async_ptsz, unsigned int, 4, true)
