/* Values that streams write and wait for. The first versions of these functions differ from the second only in what devices had to support. */
#include "guard.h"

#include <stdlib.h>
#include <string.h>

#include "../stream/value.h"
#include "../stream/work.h"

#define MOST_OPERATIONS 256u

static CUresult submit(CUstream handle, const CUstreamBatchMemOpParams *ops, unsigned count)
{
    struct tsr_emulated_stream *stream;
    struct tsr_work work = {.kind = TSR_WORK_VALUES};
    TSR_TRY(tsr_driver_ready());
    TSR_TRY(tsr_stream_get(tsr_driver_stream(handle), &stream));
    CUresult result = tsr_values_check(ops, count);
    if (!result && !(work.values.ops = malloc((count ? count : 1) * sizeof *ops)))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (!result) {
        if (count)
            memcpy(work.values.ops, ops, count * sizeof *ops);
        work.values.count = count;
        result = tsr_stream_submit(stream, &work);
    }
    tsr_stream_put(stream);
    return result;
}

static CUresult wait(CUstream stream, CUstreamBatchMemOpType operation, CUdeviceptr address, uint64_t value, unsigned flags)
{
    CUstreamBatchMemOpParams op = {.waitValue = {.operation = operation, .address = address, .flags = flags}};
    op.waitValue.value64 = value;
    return submit(stream, &op, 1);
}

static CUresult write(CUstream stream, CUstreamBatchMemOpType operation, CUdeviceptr address, uint64_t value, unsigned flags)
{
    CUstreamBatchMemOpParams op = {.writeValue = {.operation = operation, .address = address, .flags = flags}};
    op.writeValue.value64 = value;
    return submit(stream, &op, 1);
}

CUresult CUDAAPI cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags)
{
    return wait(stream, CU_STREAM_MEM_OP_WAIT_VALUE_32, addr, value, flags);
}

CUresult CUDAAPI cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags)
{
    return wait(stream, CU_STREAM_MEM_OP_WAIT_VALUE_64, addr, value, flags);
}

CUresult CUDAAPI cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags)
{
    return write(stream, CU_STREAM_MEM_OP_WRITE_VALUE_32, addr, value, flags);
}

CUresult CUDAAPI cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags)
{
    return write(stream, CU_STREAM_MEM_OP_WRITE_VALUE_64, addr, value, flags);
}

CUresult CUDAAPI cuStreamBatchMemOp_v2(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *paramArray,
                                       unsigned int flags)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(count <= MOST_OPERATIONS && (paramArray || !count) && !flags, CUDA_ERROR_INVALID_VALUE);
    return submit(stream, paramArray, count);
}

CUresult CUDAAPI cuStreamWaitValue32(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags)
{
    return cuStreamWaitValue32_v2(stream, addr, value, flags);
}

CUresult CUDAAPI cuStreamWaitValue64(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags)
{
    return cuStreamWaitValue64_v2(stream, addr, value, flags);
}

CUresult CUDAAPI cuStreamWriteValue32(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags)
{
    return cuStreamWriteValue32_v2(stream, addr, value, flags);
}

CUresult CUDAAPI cuStreamWriteValue64(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags)
{
    return cuStreamWriteValue64_v2(stream, addr, value, flags);
}

CUresult CUDAAPI cuStreamBatchMemOp(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *paramArray,
                                    unsigned int flags)
{
    for (unsigned i = 0; paramArray && i < count; i++)
        TSR_REQUIRE(paramArray[i].operation != CU_STREAM_MEM_OP_BARRIER, CUDA_ERROR_NOT_SUPPORTED);
    return cuStreamBatchMemOp_v2(stream, count, paramArray, flags);
}
