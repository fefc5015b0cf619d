/* See relay.h. */
#include "memory/relay.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <tessera/lane.h>

#include "base/blocks.h"
#include "base/log.h"
#include "base/os.h"
#include "driver/real.h"
#include "driver/stream_handle.h"
#include "lane/executors.h"
#include "lane/lane_client.h"
#include "lane/streams.h"
#include "memory/host_space.h"
#include "memory/transfer.h"
#include "order/ties.h"

#define CHUNK_BYTES (2ull << 20)
#define AREAS 16u /* of two chunks each; by slot */
#define BYTES (AREAS * 2 * CHUNK_BYTES)

/* How far the last use of an area must have come before another stream uses it. */
struct area {
    CUdeviceptr fence; /* 0: unused */
    uint64_t value;
};

static char *host;               /* memory lock; NULL: none, or none yet */
static bool refused;             /* memory lock */
static CUcontext registered;     /* atomic; the context that it is registered in; NULL: none */
static struct area areas[AREAS]; /* copies' lock */

static CUresult register_here(void)
{
    CUcontext context = NULL;
    CUresult result = tsr_real.cuCtxGetCurrent(&context);
    if (result != CUDA_SUCCESS || __atomic_load_n(&registered, __ATOMIC_ACQUIRE))
        return result;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED; /* else a capture in progress forbids it */
    tsr_real.cuThreadExchangeStreamCaptureMode(&mode);
    result = tsr_real.cuMemHostRegister_v2(host, BYTES, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    tsr_real.cuThreadExchangeStreamCaptureMode(&mode);
    if (result == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
        result = CUDA_SUCCESS;
    if (result == CUDA_SUCCESS)
        __atomic_store_n(&registered, context, __ATOMIC_RELEASE);
    return result;
}

/* At addresses that no other mapping uses. */
static bool make(uint64_t address, int file)
{
    struct tsr_message message = {.kind = TSR_MESSAGE_HOST, .address = address, .bytes = BYTES};
    struct tsr_message undo = {.kind = TSR_MESSAGE_HOST_FREE, .address = address};
    if (!tsr_os_seal(file, F_SEAL_SHRINK | F_SEAL_GROW))
        return false;
    host = tsr_os_map((void *)(uintptr_t)address, BYTES, PROT_READ | PROT_WRITE, file, 0);
    if (host && register_here() == CUDA_SUCCESS && tsr_executors_ask(&message, file, &undo) == CUDA_SUCCESS)
        return true;
    if (__atomic_exchange_n(&registered, NULL, __ATOMIC_ACQ_REL))
        tsr_real.cuMemHostUnregister(host);
    if (host)
        tsr_os_unmap(host, BYTES);
    host = NULL;
    return false;
}

bool tsr_relay_prepare(void)
{
    if (host || refused)
        return host != NULL;
    const struct tsr_block *block = tsr_host_space_take_locked(BYTES); /* for good */
    int file = block ? tsr_os_memfd("tessera-relay", BYTES) : -1;
    refused = file < 0 || !make(tsr_block_address(block), file);
    if (file >= 0)
        close(file);
    if (refused)
        tsr_warn(
            "no page-locked memory of %llu bytes can be shared with the executors, so GPUs without peer access cannot have "
            "copies of memory; see `ulimit -l`",
            BYTES);
    return !refused;
}

void tsr_relay_context_gone(CUcontext context)
{
    __atomic_compare_exchange_n(&registered, &context, NULL, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

void tsr_relay_forget(void)
{
    host = NULL;
    refused = false;
    registered = NULL;
    for (unsigned i = 0; i < AREAS; i++)
        areas[i] = (struct area){0};
}

static struct area *area_of(const struct tsr_relay *relay)
{
    return &areas[relay->stream->slot % AREAS];
}

static CUdeviceptr place_of(const struct tsr_relay *relay)
{
    uint64_t number = (relay->stream->slot % AREAS) * 2 + relay->chunks % 2;
    return (CUdeviceptr)(uintptr_t)host + number * CHUNK_BYTES;
}

static bool is_free(const struct area *area)
{
    return !area->fence || __atomic_load_n((const uint64_t *)(uintptr_t)area->fence, __ATOMIC_ACQUIRE) >= area->value;
}

/*
 * The source's GPU has copied what it was asked for. It also takes the last signal of a puller at home: a slot is reused when its
 * signals from executors have come, and then nothing may write to its home fence any more.
 */
static CUresult close_source(struct tsr_relay *relay)
{
    struct tsr_lane_client *last = relay->puller ? relay->puller : relay->source;
    uint64_t value = relay->chunks ? relay->released[(relay->chunks - 1) % 2] : 0;
    CUresult result = CUDA_SUCCESS;
    if (!relay->open)
        return result;
    if (relay->chunks && !relay->puller) {
        result = tsr_tie_await(relay->stream, NULL, relay->source, value);
        if (result == CUDA_SUCCESS)
            result = tsr_tie_signal(relay->stream, relay->source, NULL, &value);
    }
    if (relay->chunks && result == CUDA_SUCCESS)
        *area_of(relay) = (struct area){tsr_tie_fence(relay->stream, last, NULL), value};
    if (relay->source)
        tsr_ties_close(relay->source);
    relay->open = false;
    return result;
}

/* The source's GPU waits for all work that the stream has been given, and for the last user of the area. */
static CUresult open_source(struct tsr_relay *relay, struct tsr_lane_client *source)
{
    CUresult result = source ? tsr_ties_open(relay->stream, source) : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS)
        return result;
    relay->source = source;
    relay->open = true;
    relay->chunks = 0;
    const struct area *area = area_of(relay);
    if (!is_free(area))
        result = tsr_tie_await_fence(relay->stream, area->fence, area->value);
    return result == CUDA_SUCCESS ? tsr_tie(relay->stream, relay->puller, source) : result;
}

static CUresult copy(const struct tsr_relay *relay, struct tsr_lane_client *at, CUdeviceptr to, CUdeviceptr from,
                     uint64_t bytes, uint16_t time)
{
    if (!at)
        return tsr_real.cuMemcpyAsync(to, from, bytes, relay->handle);
    const struct tsr_transfer by = {.lane = at, .slot = relay->stream->slot, .time = time};
    struct tsr_lane_copy what = {.to = to, .from = from, .width = bytes, .height = 1};
    return tsr_transfer(&by, &what);
}

static CUresult chunk(struct tsr_relay *relay, CUdeviceptr to, CUdeviceptr from, uint64_t bytes, uint16_t time)
{
    struct tsr_stream *stream = relay->stream;
    CUdeviceptr place = place_of(relay);
    uint64_t *released = &relay->released[relay->chunks % 2];
    uint64_t there;
    CUresult result = CUDA_SUCCESS;
    if (relay->chunks >= 2)
        result = tsr_tie_await(stream, relay->puller, relay->source, *released);
    if (result == CUDA_SUCCESS)
        result = copy(relay, relay->source, place, from, bytes, 0);
    if (result == CUDA_SUCCESS)
        result = tsr_tie_signal(stream, relay->source, relay->puller, &there);
    if (result == CUDA_SUCCESS)
        result = tsr_tie_await(stream, relay->source, relay->puller, there);
    if (result == CUDA_SUCCESS)
        result = copy(relay, relay->puller, to, place, bytes, time);
    if (result == CUDA_SUCCESS)
        result = tsr_tie_signal(stream, relay->puller, relay->source, released);
    relay->chunks++;
    return result;
}

static CUresult begin(struct tsr_relay *relay, const struct tsr_relay_pull *pull)
{
    struct tsr_stream *stream = tsr_stream_seen(pull->stream, pull->per_thread);
    CUresult result = stream ? register_here() : CUDA_ERROR_INVALID_HANDLE;
    if (result == CUDA_SUCCESS)
        *relay = (struct tsr_relay){
            .stream = stream, .handle = tsr_stream_named(pull->stream, pull->per_thread), .puller = pull->puller};
    return result;
}

/* Which end of the pull's time a chunk records. */
static uint16_t time_of(const struct tsr_relay_pull *pull, uint64_t row, uint64_t at)
{
    bool first = row == 0 && at == 0, last = row + 1 == pull->rows && pull->bytes - at <= CHUNK_BYTES;
    unsigned part = (first ? TSR_LANE_TIME_BEGINS : 0u) | (last ? TSR_LANE_TIME_ENDS : 0u);
    if (!pull->time || !part)
        return 0;
    return (uint16_t)(first && last ? pull->time : pull->time | part);
}

static CUresult pull_row(struct tsr_relay *relay, const struct tsr_relay_pull *pull, uint64_t row)
{
    CUresult result = CUDA_SUCCESS;
    for (uint64_t at = 0; at < pull->bytes && result == CUDA_SUCCESS; at += CHUNK_BYTES) {
        uint64_t left = pull->bytes - at, offset = row * pull->stride + at;
        result = chunk(relay, pull->to + offset, pull->from + offset, left < CHUNK_BYTES ? left : CHUNK_BYTES,
                       time_of(pull, row, at));
    }
    return result;
}

CUresult tsr_relay_pull(struct tsr_relay *relay, const struct tsr_relay_pull *pull)
{
    CUresult result = relay->stream ? CUDA_SUCCESS : begin(relay, pull);
    if (result == CUDA_SUCCESS && relay->open && relay->source != pull->source)
        result = close_source(relay);
    if (result == CUDA_SUCCESS && !relay->open)
        result = open_source(relay, pull->source);
    for (uint64_t row = 0; row < pull->rows && result == CUDA_SUCCESS; row++)
        result = pull_row(relay, pull, row);
    return result;
}

CUresult tsr_relay_end(struct tsr_relay *relay)
{
    return relay->stream ? close_source(relay) : CUDA_SUCCESS;
}
