/* See verify.h. */
#include "check/verify.h"

#include <string.h>

#include "base/demangle.h"
#include "base/log.h"
#include "memory/allocation.h"
#include "memory/arena.h"
#include "object/capture.h"
#include "lane/functions.h"
#include "order/gate.h"
#include "memory/quiet.h"
#include "memory/home.h"
#include "memory/owners.h"
#include "order/order.h"
#include "driver/real.h"
#include "object/session.h"
#include "check/snapshot.h"
#include "memory/copies.h"

#define QUIET_NS 1000000000ull
#define AWAY 0 /* numbers of snapshots: after the run elsewhere, */
#define BEFORE 1 /* and before both runs */

static void count(uint64_t *counter)
{
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static CUresult run_home(const struct tsr_verify_launch *launch)
{
    const struct tsr_lane_record *record = launch->record;
    size_t bytes = launch->parameter_bytes;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, (void *)launch->block, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    CUlaunchConfig config = {.gridDimX = record->grid[0],
                             .gridDimY = record->grid[1],
                             .gridDimZ = record->grid[2],
                             .blockDimX = record->block[0],
                             .blockDimY = record->block[1],
                             .blockDimZ = record->block[2],
                             .sharedMemBytes = record->shared_bytes,
                             .hStream = launch->stream,
                             .attrs = (CUlaunchAttribute *)launch->attributes,
                             .numAttrs = launch->attribute_count};
    if (launch->attribute_count)
        return tsr_real.cuLaunchKernelEx(&config, launch->handle, NULL, extra);
    return tsr_real.cuLaunchKernel(launch->handle, record->grid[0], record->grid[1], record->grid[2], record->block[0],
                                   record->block[1], record->block[2], record->shared_bytes, launch->stream, NULL, extra);
}

static CUresult wait_for(CUstream stream)
{
    CUresult result = tsr_order_join(stream, false);
    if (result == CUDA_SUCCESS)
        result = tsr_real.cuStreamSynchronize(stream);
    return result == CUDA_SUCCESS ? tsr_order_state() : result;
}

static bool is_other_process_too(CUdeviceptr address)
{
    const struct tsr_extent *extent = tsr_arena_covers(address) ? tsr_arena_find(address) : NULL;
    return extent && extent->residency.fixed;
}

/* Whether both runs would change memory that no snapshot holds. The memory lock is held. */
static bool points_outside_locked(const struct tsr_verify_launch *launch)
{
    for (size_t at = 0; at + sizeof(uint64_t) <= launch->parameter_bytes; at += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, launch->block + at, sizeof word);
        if (tsr_host_covers(word) || word - TSR_RESERVE_ADDRESS < TSR_RESERVE_BYTES || is_other_process_too(word))
            return true;
    }
    return false;
}

/* The parameter with the largest address in [base, address]; -1: none. */
static int parameter_of(const struct tsr_verify_launch *launch, CUdeviceptr base, CUdeviceptr address, CUdeviceptr *pointer)
{
    const struct tsr_parameters *parameters = &launch->function->parameters;
    int found = -1;
    *pointer = base;
    for (uint32_t i = 0; i < parameters->count; i++) {
        const struct tsr_parameter *parameter = &parameters->all[i];
        for (size_t at = 0; at + sizeof(uint64_t) <= parameter->bytes; at += sizeof(uint64_t)) {
            uint64_t word;
            if (parameter->offset + at + sizeof word > launch->parameter_bytes)
                break;
            memcpy(&word, launch->block + parameter->offset + at, sizeof word);
            if (word >= *pointer && word <= address) {
                *pointer = word;
                found = (int)i;
            }
        }
    }
    return found;
}

/* The memory lock is held. */
static void report_locked(const struct tsr_verify_launch *launch, const struct tsr_difference *difference)
{
    const struct tsr_allocation *allocation = tsr_allocation_find(difference->address);
    CUdeviceptr base = allocation ? allocation->address : difference->address, pointer;
    int parameter = parameter_of(launch, base, difference->address, &pointer);
    unsigned long long offset = difference->address - pointer, bytes = difference->bytes;
    const char *name = TSR_KERNEL_NAME(launch->function->name);
    if (parameter >= 0)
        tsr_error(
            "verify: %s gives other bytes on GPU %u than at home: parameter %d, byte %llu behind its address is %02x, at home "
            "%02x; %llu bytes differ in all; it stays home from now on",
            name, launch->device, parameter, offset, difference->there, difference->here, bytes);
    else
        tsr_error(
            "verify: %s gives other bytes on GPU %u than at home: byte %llu of the memory at 0x%llx, to which no parameter "
            "points, is %02x, at home %02x; %llu bytes differ in all; it stays home from now on",
            name, launch->device, offset, (unsigned long long)base, difference->there, difference->here, bytes);
}

static CUdeviceptr place_away(void *snapshots, CUdeviceptr extent)
{
    return tsr_snapshot_at(snapshots, AWAY, extent);
}

/* Puts the bytes that the executor's own copy holds into AWAY. Then the directory records that home writes what the launch writes, which it is about to do. */
static CUresult take_copies(const struct tsr_verify_launch *launch)
{
    struct tsr_copies_fetch fetch = {
        .stream = launch->stream, .lane = launch->use->lane, .place = place_away, .context = launch->snapshots};
    struct tsr_copies_use use = *launch->use;
    struct tsr_order_hold hold;
    CUresult result = tsr_copies_fetch(&fetch);
    use.lane = NULL;
    use.ticket = NULL;
    if (result == CUDA_SUCCESS)
        result = tsr_copies_enter(&use, &hold);
    if (result != CUDA_SUCCESS)
        return result;
    tsr_order_leave(&hold);
    return tsr_real.cuStreamSynchronize(launch->stream);
}

/* The launch has run elsewhere from BEFORE. Saves the result as AWAY, restores BEFORE, runs it at home, and leaves that result in memory. */
static CUresult run_home_too(const struct tsr_verify_launch *launch)
{
    CUresult result = wait_for(launch->stream);
    if (result == CUDA_SUCCESS)
        result = tsr_snapshot_take(launch->snapshots, AWAY);
    if (result == CUDA_SUCCESS && launch->use)
        result = take_copies(launch);
    if (result == CUDA_SUCCESS)
        result = tsr_snapshot_restore(launch->snapshots, BEFORE);
    if (result == CUDA_SUCCESS)
        result = run_home(launch);
    return result == CUDA_SUCCESS ? tsr_real.cuStreamSynchronize(launch->stream) : result;
}

static CUresult compare_locked(const struct tsr_verify_launch *launch)
{
    struct tsr_policy *policy = tsr_session()->policy;
    struct tsr_difference difference;
    CUresult result = tsr_snapshot_compare(launch->snapshots, AWAY, &difference);
    if (result != CUDA_SUCCESS)
        return result;
    count(&policy->verified);
    if (difference.bytes) {
        count(&policy->different);
        __atomic_store_n(&launch->function->different, true, __ATOMIC_RELAXED);
        tsr_function_changed();
        report_locked(launch, &difference);
        if (launch->use) /* no copy is trusted any more */
            result = tsr_copies_only_home(launch->stream);
    }
    return result;
}

/* So that what home has is right, also where the launch is not known to touch it. */
static CUresult complete_home_locked(const struct tsr_verify_launch *launch)
{
    CUresult result = launch->use ? tsr_copies_complete_home(launch->stream) : CUDA_SUCCESS;
    return launch->use && result == CUDA_SUCCESS ? wait_for(launch->stream) : result;
}

/* The memory lock is held and the gate closed. False: no room. */
static bool copy_locked(struct tsr_verify_launch *launch)
{
    if (complete_home_locked(launch) != CUDA_SUCCESS)
        return false;
    if (tsr_snapshots_create(TSR_SNAPSHOTS, launch->limit_bytes, &launch->snapshots) != CUDA_SUCCESS)
        return false;
    if (tsr_snapshot_take(launch->snapshots, BEFORE) == CUDA_SUCCESS)
        return true;
    tsr_snapshots_destroy(launch->snapshots);
    return false;
}

/* The memory lock is held. True: the gate is closed, and memory copied. */
static bool prepare_locked(struct tsr_verify_launch *launch)
{
    if (points_outside_locked(launch) || !tsr_gate_close(QUIET_NS))
        return false;
    /* Querying all work of a context would invalidate captures in it. */
    bool ready =
        !tsr_is_any_capture() && !tsr_order_is_any_step() && tsr_quiet_wait(QUIET_NS) == CUDA_SUCCESS && copy_locked(launch);
    if (!ready)
        tsr_gate_open();
    return ready;
}

bool tsr_verify_begin(struct tsr_verify_launch *launch)
{
    bool ready = false;
    if (tsr_gate_watched && tsr_memory_at_home() && !tsr_owners_are_wanted()) { /* where two GPUs may share one copy */
        launch->mode = tsr_memory_relax_begin();
        tsr_memory_lock();
        ready = prepare_locked(launch);
        if (!ready) {
            tsr_memory_unlock();
            tsr_memory_relax_end(launch->mode);
        }
    }
    if (!ready)
        count(&tsr_session()->policy->not_verified);
    return ready;
}

CUresult tsr_verify_end(struct tsr_verify_launch *launch, CUresult posted)
{
    CUresult result = posted == CUDA_SUCCESS ? run_home_too(launch) : posted;
    if (result == CUDA_SUCCESS)
        result = compare_locked(launch);
    tsr_snapshots_destroy(launch->snapshots);
    tsr_gate_open();
    tsr_memory_unlock();
    tsr_memory_relax_end(launch->mode);
    return result == tsr_order_state() ? CUDA_SUCCESS
                                       : result; /* a fault of the launch on the executor is returned by later calls */
}
