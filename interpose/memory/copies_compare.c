/* See copies.h. For launches that are verified: what copies hold, side by side. */
#include "memory/copies_parts.h"

#include <pthread.h>

#include "driver/stream_handle.h"
#include "lane/lane_client.h"
#include "memory/allocation.h"
#include "memory/pairs.h"
#include "memory/relay.h"
#include "memory/transfer.h"
#include "object/session.h"

static CUresult enter_and_leave(const struct tsr_copies_use *use)
{
    struct tsr_order_hold hold;
    CUresult result = tsr_copies_enter(use, &hold);
    if (result == CUDA_SUCCESS)
        tsr_order_leave(&hold);
    return result;
}

CUresult tsr_copies_complete_home(CUstream stream)
{
    CUresult result = CUDA_SUCCESS;
    tsr_copies_settle();
    for (size_t i = 0; i < tsr_copies_all.count && result == CUDA_SUCCESS; i++) { /* the memory lock keeps them */
        const struct tsr_copies *copies = tsr_copies_all.data[i];
        struct tsr_touch touch = {.first = copies->address, .end = copies->address + copies->bytes, .pulls = true};
        struct tsr_copies_use use = {.touches = &touch, .count = 1, .locked = true, .stream = stream};
        result = enter_and_leave(&use);
    }
    return result;
}

CUresult tsr_copies_only_home(CUstream stream)
{
    struct tsr_copies_use use = {.everything = true, .locked = true, .stream = stream};
    return enter_and_leave(&use);
}

struct fetching {
    const struct tsr_copies_fetch *fetch;
    const struct tsr_copies *copies;
    CUdeviceptr place; /* of the extent */
    struct tsr_relay relay;
    CUresult result;
};

static void fetch_held(void *context, const struct tsr_pull *held)
{
    struct fetching *fetching = context;
    const struct tsr_copies_fetch *fetch = fetching->fetch;
    CUdeviceptr to = fetching->place + held->first, from = tsr_window_at(held->from, fetching->copies->address + held->first);
    const struct tsr_transfer by = {.stream = tsr_stream_named(fetch->stream, false)};
    struct tsr_lane_copy what = tsr_transfer_of(held, to, from);
    struct tsr_relay_pull relayed = {.to = to,
                                     .from = from,
                                     .bytes = what.width,
                                     .rows = what.height,
                                     .stride = held->stride,
                                     .stream = fetch->stream,
                                     .source = fetch->lane};
    if (fetching->result != CUDA_SUCCESS)
        return;
    fetching->result =
        tsr_pair_is_direct(0, held->from) ? tsr_transfer(&by, &what) : tsr_relay_pull(&fetching->relay, &relayed);
}

static void fetch_locked(struct fetching *fetching)
{
    const struct tsr_directory_listener listener = {.pull = fetch_held, .context = fetching};
    uint32_t gpu = tsr_lane_rank(fetching->fetch->lane);
    for (size_t i = 0; i < tsr_copies_all.count; i++) {
        const struct tsr_copies *copies = tsr_copies_all.data[i];
        fetching->copies = copies;
        if (!(copies->replicas.own >> gpu & 1))
            continue;
        fetching->place = fetching->fetch->place(fetching->fetch->context, copies->address);
        if (fetching->place)
            tsr_directory_report_held(&copies->directory, (uint8_t)gpu, 0, &listener);
    }
    CUresult ended = tsr_relay_end(&fetching->relay);
    if (fetching->result == CUDA_SUCCESS)
        fetching->result = ended;
}

CUresult tsr_copies_fetch(const struct tsr_copies_fetch *fetch)
{
    struct fetching fetching = {.fetch = fetch};
    struct tsr_order_hold hold;
    CUresult result = tsr_order_enter(fetch->stream, false, &hold);
    if (result != CUDA_SUCCESS)
        return result;
    pthread_mutex_lock(&tsr_copies_lock);
    fetch_locked(&fetching);
    pthread_mutex_unlock(&tsr_copies_lock);
    tsr_order_leave(&hold);
    return fetching.result;
}
