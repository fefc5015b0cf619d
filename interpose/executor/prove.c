/* See prove.h. A child process asks the driver: whatever happens to it, its parent answers for what is still open. */
#include "executor/prove.h"

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda.h>
#include <tessera/policy.h>

#include "base/options.h"
#include "base/os.h"
#include "executor/share.h"
#include "executor/watchdog.h"

#define MOST_BLOCKS 64u
#define BLOCK (1u << 20)
#define SHIFT 4160u /* each block of the pattern begins that much later in the source: no two pages of 4 KiB are alike */
#define SOURCE_BYTES (BLOCK + MOST_BLOCKS * SHIFT)
#define LONGEST_NS 10000000000ull
#define POLL_MS 5

struct gpu {
    uint32_t number;
    CUdevice device;
    CUcontext context;
    CUmemGenericAllocationHandle memory;
    CUdeviceptr made, got; /* bytes each: its pattern, and what it copied */
    uint64_t *source;
};

static struct tsr_policy *table;
static struct gpu gpus[TSR_GPUS];
static uint32_t gpu_count;
static uint32_t blocks; /* that each GPU copies of each other one */
static uint64_t bytes;  /* in them */

static void answer(uint32_t to, uint32_t from, enum tsr_policy_proof proof, CUresult error, uint64_t bytes_per_s)
{
    struct tsr_policy_pair *pair = &table->pairs[to][from];
    pair->error = (int32_t)error;
    pair->bytes_per_s = bytes_per_s;
    __atomic_store_n(&pair->proof, (uint32_t)proof, __ATOMIC_RELEASE);
}

static bool make_source(struct gpu *gpu)
{
    uint64_t value = 0x9e3779b97f4a7c15u * (gpu->number + 1);
    gpu->source = malloc(SOURCE_BYTES);
    for (size_t i = 0; gpu->source && i < SOURCE_BYTES / sizeof value; i++) {
        value ^= value << 13;
        value ^= value >> 7;
        value ^= value << 17;
        gpu->source[i] = value;
    }
    return gpu->source != NULL;
}

static const char *block_of(const struct gpu *gpu, uint32_t block)
{
    return (const char *)gpu->source + block * SHIFT;
}

/* A process that may be the only one on a GPU would keep the program from it. */
static CUresult open_context(struct gpu *gpu)
{
    int mode = 0;
    CUresult result = tsr_share_device(gpu->number, &gpu->device);
    if (result == CUDA_SUCCESS)
        result = cuDeviceGetAttribute(&mode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, gpu->device);
    if (result == CUDA_SUCCESS && mode != CU_COMPUTEMODE_DEFAULT)
        result = CUDA_ERROR_DEVICE_UNAVAILABLE;
    if (result == CUDA_SUCCESS)
        result = cuDevicePrimaryCtxRetain(&gpu->context, gpu->device);
    return result == CUDA_SUCCESS ? cuCtxSetCurrent(gpu->context) : result;
}

static bool can_access(const struct gpu *user, const struct gpu *owner)
{
    int can = 0;
    return user->device == owner->device || (cuDeviceCanAccessPeer(&can, user->device, owner->device) == CUDA_SUCCESS && can);
}

/* As copies of the arena's memory are made (memory/replicas.c), seen by all that can. */
static CUresult make_memory(struct gpu *gpu)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = gpu->device}};
    CUresult result = cuMemCreate(&gpu->memory, 2 * bytes, &properties, 0);
    if (result == CUDA_SUCCESS)
        result = cuMemAddressReserve(&gpu->made, 2 * bytes, 0, 0, 0);
    if (result == CUDA_SUCCESS)
        result = cuMemMap(gpu->made, 2 * bytes, 0, gpu->memory, 0);
    for (uint32_t i = 0; i < gpu_count && result == CUDA_SUCCESS; i++) {
        CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = gpus[i].device},
                                  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        if (can_access(&gpus[i], gpu))
            result = cuMemSetAccess(gpu->made, 2 * bytes, &access, 1);
    }
    gpu->got = gpu->made + bytes;
    return result;
}

static CUresult fill(const struct gpu *gpu)
{
    CUresult result = cuCtxSetCurrent(gpu->context);
    for (uint32_t block = 0; block < blocks && result == CUDA_SUCCESS; block++)
        result = cuMemcpyHtoD(gpu->made + (CUdeviceptr)block * BLOCK, block_of(gpu, block), BLOCK);
    return result == CUDA_SUCCESS ? cuCtxSynchronize()
                                  : result; /* the driver may still keep some bytes; the other GPU would not wait */
}

static CUresult copy_timed(const struct gpu *user, const struct gpu *owner, CUstream stream, const CUevent events[2], float *ms)
{
    CUresult result = cuMemsetD8Async(user->got, 0xa5, bytes, stream);
    if (result == CUDA_SUCCESS)
        result = cuEventRecord(events[0], stream);
    if (result == CUDA_SUCCESS)
        result = cuMemcpyDtoDAsync(user->got, owner->made, bytes, stream);
    if (result == CUDA_SUCCESS)
        result = cuEventRecord(events[1], stream);
    if (result == CUDA_SUCCESS)
        result = cuStreamSynchronize(stream);
    return result == CUDA_SUCCESS ? cuEventElapsedTime(ms, events[0], events[1]) : result;
}

/* As a pull: by the user's GPU. */
static CUresult copy(const struct gpu *user, const struct gpu *owner, float *ms)
{
    CUstream stream = NULL;
    CUevent events[2] = {NULL, NULL};
    CUresult result = cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < 2 && result == CUDA_SUCCESS; i++)
        result = cuEventCreate(&events[i], CU_EVENT_DEFAULT);
    if (result == CUDA_SUCCESS)
        result = copy_timed(user, owner, stream, events, ms);
    for (int i = 0; i < 2; i++)
        if (events[i])
            cuEventDestroy(events[i]);
    if (stream)
        cuStreamDestroy(stream);
    return result;
}

/* *wrong: the first byte that differs; bytes: none does. */
static CUresult compare(const struct gpu *user, const struct gpu *owner, uint64_t *wrong)
{
    static char read[BLOCK];
    *wrong = bytes;
    for (uint32_t block = 0; block < blocks; block++) {
        const char *expected = block_of(owner, block);
        CUresult result = cuMemcpyDtoH(read, user->got + (CUdeviceptr)block * BLOCK, BLOCK);
        if (result != CUDA_SUCCESS)
            return result;
        if (memcmp(read, expected, BLOCK) == 0)
            continue;
        uint32_t at = 0;
        while (read[at] == expected[at])
            at++;
        *wrong = (uint64_t)block * BLOCK + at;
        return CUDA_SUCCESS;
    }
    return CUDA_SUCCESS;
}

static void report_wrong(const struct gpu *user, const struct gpu *owner, uint64_t wrong)
{
    fprintf(
        stderr,
        "tessera: GPU %u's copies of GPU %u's memory arrive wrong (of %u MiB first the byte at 0x%llx), without an error of the "
        "driver. They go through host memory in this run. To repair it: another driver, or the IOMMU or PCIe access control "
        "(ACS) switched off; see docs/memory.md\n",
        user->number, owner->number, blocks, (unsigned long long)wrong);
}

static void prove(const struct gpu *user, const struct gpu *owner)
{
    uint64_t wrong = bytes;
    float ms = 0;
    if (!can_access(user, owner)) {
        answer(user->number, owner->number, TSR_PROOF_NO_ACCESS, CUDA_SUCCESS, 0);
        return;
    }
    CUresult result = cuCtxSetCurrent(user->context);
    if (result == CUDA_SUCCESS)
        result = copy(user, owner, &ms);
    if (result == CUDA_SUCCESS)
        result = compare(user, owner, &wrong);
    if (result == CUDA_SUCCESS && wrong < bytes)
        report_wrong(user, owner, wrong);
    answer(user->number, owner->number,
           result != CUDA_SUCCESS ? TSR_PROOF_FAILED
           : wrong < bytes        ? TSR_PROOF_WRONG
                                  : TSR_PROOF_RIGHT,
           result, ms > 0 ? (uint64_t)((double)bytes * 1000 / (double)ms) : 0);
}

static void list_gpus(void)
{
    gpus[gpu_count++].number = table->home;
    for (uint32_t i = 0; i < table->executor_count && gpu_count < TSR_GPUS; i++)
        gpus[gpu_count++].number = table->executors[i].device;
}

static CUresult open_all(void)
{
    CUresult result = cuInit(0);
    bool any = false;
    for (uint32_t i = 0; i < gpu_count && result == CUDA_SUCCESS; i++)
        result = tsr_share_device(gpus[i].number, &gpus[i].device);
    for (uint32_t i = 0; i < gpu_count; i++)
        for (uint32_t other = 0; other < gpu_count && result == CUDA_SUCCESS; other++)
            any |= other != i && can_access(&gpus[i], &gpus[other]);
    for (uint32_t i = 0; i < gpu_count && any && result == CUDA_SUCCESS; i++) {
        result = make_source(&gpus[i]) ? open_context(&gpus[i]) : CUDA_ERROR_OUT_OF_MEMORY;
    }
    for (uint32_t i = 0; i < gpu_count && any && result == CUDA_SUCCESS; i++) {
        result = make_memory(&gpus[i]);
        if (result == CUDA_SUCCESS)
            result = fill(&gpus[i]);
    }
    return result;
}

static void answer_rest(CUresult error)
{
    for (uint32_t to = 0; to < TSR_GPUS; to++)
        for (uint32_t from = 0; from < TSR_GPUS; from++)
            if (table->pairs[to][from].proof == TSR_PROOF_PENDING)
                answer(to, from, TSR_PROOF_FAILED, error, 0);
}

/* The child. */
static void prove_all(void)
{
    CUresult result = open_all();
    for (uint32_t to = 0; to < gpu_count && result == CUDA_SUCCESS; to++)
        for (uint32_t from = 0; from < gpu_count; from++)
            if (from != to)
                prove(&gpus[to], &gpus[from]);
    answer_rest(result);
}

/* No longer than the run: then standard input is closed. */
static void await(pid_t child)
{
    uint64_t end = tsr_os_monotonic_ns() + LONGEST_NS;
    struct pollfd run = {.fd = STDIN_FILENO, .events = POLLIN};
    while (waitpid(child, NULL, WNOHANG) == 0)
        if (poll(&run, 1, POLL_MS) != 0 || tsr_os_monotonic_ns() > end) {
            kill(child, SIGKILL);
            waitpid(child, NULL, 0);
            return;
        }
}

int tsr_prove(int count, char **arguments)
{
    int descriptor = count >= 1 ? (int)strtol(arguments[0], NULL, 10) : -1;
    pid_t owner = count == 3 && strcmp(arguments[1], "--owner") == 0 ? (pid_t)strtol(arguments[2], NULL, 10) : 0;
    if (owner <= 0 || !tsr_watchdog_over_parent(owner))
        return 2;
    table = mmap(NULL, sizeof *table, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (table == MAP_FAILED || table->magic != TSR_POLICY_MAGIC || table->version != TSR_POLICY_VERSION)
        return 2;
    blocks = (uint32_t)(tsr_options()->proof < MOST_BLOCKS ? tsr_options()->proof : MOST_BLOCKS);
    bytes = (uint64_t)blocks * BLOCK;
    list_gpus();
    pid_t self = getpid(), child = fork();
    if (child == 0) {
        if (tsr_watchdog_over_parent(self))
            prove_all();
        _exit(0);
    }
    if (child > 0)
        await(child);
    answer_rest(CUDA_SUCCESS);
    return 0;
}
