#include "value.h"

#include "../space/space.h"
#include "value_time.h"

#define COMPARISON 3u /* bits of CUstreamWaitValue_flags that say how */

static uint64_t progress_ns; /* engine thread only: latest end of something that may have written values */

void tsr_value_progress(uint64_t ns)
{
    if (ns > progress_ns)
        progress_ns = ns;
}

static bool is_wide(CUstreamBatchMemOpType operation)
{
    return operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 || operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
}

static CUresult check_place(uint64_t address, bool wide, bool write)
{
    uint64_t bytes = wide ? 8 : 4;
    if (!address || address % bytes)
        return CUDA_ERROR_INVALID_VALUE;
    struct tsr_space *space = tsr_space_instance();
    const struct tsr_snapshot *snapshot = tsr_space_get(space);
    const struct tsr_range *range = tsr_snapshot_find(snapshot, address);
    bool allowed = range && address + bytes <= range->base + range->bytes && tsr_range_devices(range, write);
    tsr_space_put(space, snapshot);
    return allowed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult check(const CUstreamBatchMemOpParams *op)
{
    switch (op->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        if (op->waitValue.flags & CU_STREAM_WAIT_VALUE_FLUSH)
            return CUDA_ERROR_NOT_SUPPORTED;
        if (op->waitValue.flags & ~COMPARISON)
            return CUDA_ERROR_INVALID_VALUE;
        return check_place(op->waitValue.address, is_wide(op->operation), false);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        if (op->writeValue.flags) /* the driver refuses CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER too */
            return CUDA_ERROR_INVALID_VALUE;
        return check_place(op->writeValue.address, is_wide(op->operation), true);
    case CU_STREAM_MEM_OP_BARRIER:
        return op->memoryBarrier.flags > CU_STREAM_MEMORY_BARRIER_TYPE_GPU ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
        return CUDA_ERROR_NOT_SUPPORTED;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult tsr_values_check(const CUstreamBatchMemOpParams *ops, unsigned count)
{
    CUresult result = CUDA_SUCCESS;
    for (unsigned i = 0; !result && i < count; i++)
        result = check(&ops[i]);
    return result;
}

/* The comparison of 32-bit values is cyclic in 32 bits, that of 64-bit ones in 64. */
static bool fulfilled(uint64_t found, uint64_t wanted, unsigned flags, bool wide)
{
    uint64_t mask = wide ? UINT64_MAX : UINT32_MAX;
    found &= mask;
    wanted &= mask;
    switch (flags & COMPARISON) {
    case CU_STREAM_WAIT_VALUE_GEQ:
        return wide ? (int64_t)(found - wanted) >= 0 : (int32_t)(uint32_t)(found - wanted) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
        return found == wanted;
    case CU_STREAM_WAIT_VALUE_AND:
        return (found & wanted) != 0;
    default:
        return (~(found | wanted) & mask) != 0;
    }
}

static uint64_t load(uint64_t address, bool wide)
{
    return wide ? __atomic_load_n((const uint64_t *)(uintptr_t)address, __ATOMIC_ACQUIRE)
                : __atomic_load_n((const uint32_t *)(uintptr_t)address, __ATOMIC_ACQUIRE);
}

static void store(uint64_t address, uint64_t value, bool wide)
{
    if (wide)
        __atomic_store_n((uint64_t *)(uintptr_t)address, value, __ATOMIC_RELEASE);
    else
        __atomic_store_n((uint32_t *)(uintptr_t)address, (uint32_t)value, __ATOMIC_RELEASE);
}

static bool fulfils(const void *condition, uint64_t value)
{
    const CUstreamBatchMemOpParams *op = condition;
    bool wide = is_wide(op->operation);
    return fulfilled(value, wide ? op->waitValue.value64 : op->waitValue.value, op->waitValue.flags, wide);
}

static bool wait_step(struct tsr_work *work, const CUstreamBatchMemOpParams *op, uint64_t *now_ns)
{
    if (!fulfils(op, load(op->waitValue.address, is_wide(op->operation)))) {
        work->values.waited = true;
        return false;
    }
    uint64_t written_ns = tsr_value_time_load(op->waitValue.address, fulfils, op);
    if (!written_ns && work->values.waited)
        written_ns = progress_ns;
    work->values.waited = false;
    if (written_ns > *now_ns)
        *now_ns = written_ns;
    return true;
}

/* The memory may have gone since the operation was submitted; then it is skipped. */
bool tsr_values_advance(struct tsr_work *work, uint64_t *ready_ns, uint64_t *end_ns)
{
    struct tsr_space *space = tsr_space_instance();
    const struct tsr_snapshot *snapshot = tsr_space_get(space);
    bool done = true;
    for (; work->values.next < work->values.count; work->values.next++) {
        const CUstreamBatchMemOpParams *op = &work->values.ops[work->values.next];
        if (op->operation == CU_STREAM_MEM_OP_BARRIER || !tsr_snapshot_find(snapshot, op->waitValue.address))
            continue;
        if (op->operation == CU_STREAM_MEM_OP_WRITE_VALUE_32 || op->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64) {
            bool wide = is_wide(op->operation);
            uint64_t value = wide ? op->writeValue.value64 : op->writeValue.value;
            tsr_value_time_store(op->writeValue.address, value, *ready_ns); /* before the value: who sees it finds the time */
            store(op->writeValue.address, value, wide);
        } else if (!(done = wait_step(work, op, ready_ns))) {
            break;
        }
    }
    tsr_space_put(space, snapshot);
    *end_ns = *ready_ns;
    return done;
}
