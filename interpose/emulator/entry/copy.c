/* Copies of linear memory, and batches of them. */
#include "copy_shape.h"
#include "guard.h"

#include "../context/context.h"

#define HOST CU_MEMORYTYPE_HOST
#define DEVICE CU_MEMORYTYPE_DEVICE
#define UNIFIED CU_MEMORYTYPE_UNIFIED

static CUresult now(CUmemorytype to, uint64_t dst, CUmemorytype from, uint64_t src, size_t bytes)
{
    CUDA_MEMCPY3D_PEER shape = tsr_copy_linear(to, dst, from, src, bytes);
    return tsr_copy_now(&shape);
}

static CUresult async(CUmemorytype to, uint64_t dst, CUmemorytype from, uint64_t src, size_t bytes, CUstream stream)
{
    CUDA_MEMCPY3D_PEER shape = tsr_copy_linear(to, dst, from, src, bytes);
    return tsr_copy_async(&shape, stream);
}

CUresult CUDAAPI cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount)
{
    return now(UNIFIED, dst, UNIFIED, src, ByteCount);
}

CUresult CUDAAPI cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount)
{
    return now(DEVICE, dstDevice, HOST, (uintptr_t)srcHost, ByteCount);
}

CUresult CUDAAPI cuMemcpyDtoH_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount)
{
    return now(HOST, (uintptr_t)dstHost, DEVICE, srcDevice, ByteCount);
}

CUresult CUDAAPI cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount)
{
    return now(DEVICE, dstDevice, DEVICE, srcDevice, ByteCount);
}

CUresult CUDAAPI cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream)
{
    return async(UNIFIED, dst, UNIFIED, src, ByteCount, hStream);
}

CUresult CUDAAPI cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream)
{
    return async(DEVICE, dstDevice, HOST, (uintptr_t)srcHost, ByteCount, hStream);
}

CUresult CUDAAPI cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream)
{
    return async(HOST, (uintptr_t)dstHost, DEVICE, srcDevice, ByteCount, hStream);
}

CUresult CUDAAPI cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream)
{
    return async(DEVICE, dstDevice, DEVICE, srcDevice, ByteCount, hStream);
}

static CUresult check_contexts(CUcontext dst, CUcontext src)
{
    struct tsr_context *found;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(dst && src, CUDA_ERROR_INVALID_CONTEXT);
    TSR_TRY(tsr_context_from_handle(dst, &found));
    return tsr_context_from_handle(src, &found);
}

static CUDA_MEMCPY3D_PEER peers(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src, CUcontext src_context, size_t bytes)
{
    CUDA_MEMCPY3D_PEER shape = tsr_copy_linear(DEVICE, dst, DEVICE, src, bytes);
    shape.dstContext = dst_context;
    shape.srcContext = src_context;
    return shape;
}

CUresult CUDAAPI cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext,
                              size_t ByteCount)
{
    TSR_TRY(check_contexts(dstContext, srcContext));
    CUDA_MEMCPY3D_PEER shape = peers(dstDevice, dstContext, srcDevice, srcContext, ByteCount);
    return tsr_copy_now(&shape);
}

CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext,
                                   size_t ByteCount, CUstream hStream)
{
    TSR_TRY(check_contexts(dstContext, srcContext));
    CUDA_MEMCPY3D_PEER shape = peers(dstDevice, dstContext, srcDevice, srcContext, ByteCount);
    return tsr_copy_async(&shape, hStream);
}

/* A batch belongs to a stream of the application: the default streams are refused. */
static CUresult check_batch(size_t count, CUstream stream)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(count && stream && stream != CU_STREAM_LEGACY && stream != CU_STREAM_PER_THREAD, CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

static CUresult check_attributes(size_t count, const CUmemcpyAttributes *attrs, const size_t *attrsIdxs, size_t numAttrs)
{
    TSR_REQUIRE(attrs && attrsIdxs && numAttrs && numAttrs <= count && attrsIdxs[0] == 0, CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < numAttrs; i++) {
        TSR_REQUIRE(attrs[i].srcAccessOrder >= CU_MEMCPY_SRC_ACCESS_ORDER_STREAM, CUDA_ERROR_INVALID_VALUE);
        TSR_REQUIRE(attrs[i].srcAccessOrder <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY, CUDA_ERROR_INVALID_VALUE);
        TSR_REQUIRE(attrsIdxs[i] < count && (!i || attrsIdxs[i] > attrsIdxs[i - 1]), CUDA_ERROR_INVALID_VALUE);
    }
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
                                    CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, size_t *failIdx,
                                    CUstream hStream)
{
    if (failIdx)
        *failIdx = SIZE_MAX;
    TSR_TRY(check_batch(count, hStream));
    TSR_REQUIRE(dsts && srcs && sizes, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(check_attributes(count, attrs, attrsIdxs, numAttrs));
    for (size_t i = 0; i < count; i++) {
        CUresult result = async(UNIFIED, dsts[i], UNIFIED, srcs[i], sizes[i], hStream);
        if (result && failIdx)
            *failIdx = i;
        TSR_TRY(result);
    }
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
                                       CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, CUstream hStream)
{
    return cuMemcpyBatchAsync(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, NULL, hStream);
}

static CUresult batch_shape(const CUDA_MEMCPY3D_BATCH_OP *op, CUDA_MEMCPY3D_PEER *shape)
{
    const CUmemcpy3DOperand *src = &op->src, *dst = &op->dst;
    TSR_REQUIRE(src->type != CU_MEMCPY_OPERAND_TYPE_ARRAY && dst->type != CU_MEMCPY_OPERAND_TYPE_ARRAY,
                CUDA_ERROR_NOT_SUPPORTED);
    TSR_REQUIRE(src->type == CU_MEMCPY_OPERAND_TYPE_POINTER && dst->type == CU_MEMCPY_OPERAND_TYPE_POINTER,
                CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(op->extent.width && op->extent.height && op->extent.depth, CUDA_ERROR_INVALID_VALUE);
    CUDA_MEMCPY3D_PEER whole = tsr_copy_linear(UNIFIED, dst->op.ptr.ptr, UNIFIED, src->op.ptr.ptr, op->extent.width);
    whole.Height = op->extent.height;
    whole.Depth = op->extent.depth;
    whole.srcPitch = src->op.ptr.rowLength;
    whole.srcHeight = src->op.ptr.layerHeight;
    whole.dstPitch = dst->op.ptr.rowLength;
    whole.dstHeight = dst->op.ptr.layerHeight;
    return tsr_copy_from_peer(&whole, shape);
}

CUresult CUDAAPI cuMemcpy3DBatchAsync(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, size_t *failIdx, unsigned long long flags,
                                      CUstream hStream)
{
    if (failIdx)
        *failIdx = SIZE_MAX;
    TSR_TRY(check_batch(numOps, hStream));
    TSR_REQUIRE(opList && !flags, CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < numOps; i++) {
        CUDA_MEMCPY3D_PEER shape;
        CUresult result = batch_shape(&opList[i], &shape);
        if (!result)
            result = tsr_copy_async(&shape, hStream);
        if (result && failIdx)
            *failIdx = i;
        TSR_TRY(result);
    }
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemcpy3DBatchAsync_v2(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, unsigned long long flags,
                                         CUstream hStream)
{
    return cuMemcpy3DBatchAsync(numOps, opList, NULL, flags, hStream);
}
