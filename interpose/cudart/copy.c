/*
 * Copies and memsets. Addresses tell where memory is, so the direction that the caller names is only checked for being one; the
 * driver's unified copies do the rest. Forms without a stream run on the legacy default stream or, as _ptds, on the thread's own.
 */
#include "cudart/box.h"

static cudaError_t check_kind(enum cudaMemcpyKind kind)
{
    return (unsigned)kind <= cudaMemcpyDefault ? cudaSuccess : cudaErrorInvalidMemcpyDirection;
}

/* After work was put on the per-thread stream by a form that has to wait for it. */
static cudaError_t wait_for(cudaError_t status)
{
    return status == cudaSuccess ? TSR_CALL(cuStreamSynchronize(CU_STREAM_PER_THREAD)) : status;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    if (check_kind(kind) != cudaSuccess)
        return tsr_cudart_result(cudaErrorInvalidMemcpyDirection);
    return bytes ? TSR_CALL(cuMemcpy((CUdeviceptr)to, (CUdeviceptr)from, bytes)) : tsr_cudart_result(tsr_cudart_enter());
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    if (check_kind(kind) != cudaSuccess)
        return tsr_cudart_result(cudaErrorInvalidMemcpyDirection);
    return bytes ? TSR_CALL(cuMemcpyAsync((CUdeviceptr)to, (CUdeviceptr)from, bytes, stream))
                 : tsr_cudart_result(tsr_cudart_enter());
}

static cudaError_t copy_between(void *to, int to_device, const void *from, int from_device, size_t bytes, cudaStream_t stream,
                                int asynchronous)
{
    CUcontext to_context, from_context;
    cudaError_t status = tsr_cudart_enter();
    if (status == cudaSuccess)
        status = tsr_cudart_primary(to_device, &to_context);
    if (status == cudaSuccess)
        status = tsr_cudart_primary(from_device, &from_context);
    if (status == cudaSuccess && bytes)
        status = tsr_cudart_error(
            asynchronous
                ? tsr_driver.cuMemcpyPeerAsync((CUdeviceptr)to, to_context, (CUdeviceptr)from, from_context, bytes, stream)
                : tsr_driver.cuMemcpyPeer((CUdeviceptr)to, to_context, (CUdeviceptr)from, from_context, bytes));
    return tsr_cudart_result(status);
}

cudaError_t cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t bytes)
{
    return copy_between(to, to_device, from, from_device, bytes, NULL, 0);
}

cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes, cudaStream_t stream)
{
    return copy_between(to, to_device, from, from_device, bytes, stream, 1);
}

static CUDA_MEMCPY2D rectangle(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height)
{
    return (CUDA_MEMCPY2D){
        .srcMemoryType = CU_MEMORYTYPE_UNIFIED,
        .srcDevice = (CUdeviceptr)from,
        .srcPitch = from_pitch,
        .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
        .dstDevice = (CUdeviceptr)to,
        .dstPitch = to_pitch,
        .WidthInBytes = width,
        .Height = height,
    };
}

/* cudaSuccess, or why a rectangle cannot be copied; *empty when there is nothing to copy. */
static cudaError_t check_rectangle(size_t to_pitch, size_t from_pitch, size_t width, size_t height, enum cudaMemcpyKind kind,
                                   int *empty)
{
    *empty = width == 0 || height == 0;
    if (check_kind(kind) != cudaSuccess)
        return cudaErrorInvalidMemcpyDirection;
    return !*empty && (width > to_pitch || width > from_pitch) ? cudaErrorInvalidPitchValue : cudaSuccess;
}

cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                         enum cudaMemcpyKind kind)
{
    int empty;
    CUDA_MEMCPY2D copy = rectangle(to, to_pitch, from, from_pitch, width, height);
    cudaError_t status = check_rectangle(to_pitch, from_pitch, width, height, kind, &empty);
    if (status != cudaSuccess || empty)
        return tsr_cudart_result(status);
    return TSR_CALL(cuMemcpy2DUnaligned(&copy));
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                              enum cudaMemcpyKind kind, cudaStream_t stream)
{
    int empty;
    CUDA_MEMCPY2D copy = rectangle(to, to_pitch, from, from_pitch, width, height);
    cudaError_t status = check_rectangle(to_pitch, from_pitch, width, height, kind, &empty);
    if (status != cudaSuccess || empty)
        return tsr_cudart_result(status);
    return TSR_CALL(cuMemcpy2DAsync(&copy, stream));
}

cudaError_t tsr_cudart_box(const struct cudaMemcpy3DParms *in, CUDA_MEMCPY3D *out)
{
    if (!in)
        return cudaErrorInvalidValue;
    if (in->srcArray || in->dstArray)
        return cudaErrorNotSupported;
    if (check_kind(in->kind) != cudaSuccess)
        return cudaErrorInvalidMemcpyDirection;
    *out = (CUDA_MEMCPY3D){
        .srcXInBytes = in->srcPos.x,
        .srcY = in->srcPos.y,
        .srcZ = in->srcPos.z,
        .srcMemoryType = CU_MEMORYTYPE_UNIFIED,
        .srcDevice = (CUdeviceptr)in->srcPtr.ptr,
        .srcPitch = in->srcPtr.pitch,
        .srcHeight = in->srcPtr.ysize,
        .dstXInBytes = in->dstPos.x,
        .dstY = in->dstPos.y,
        .dstZ = in->dstPos.z,
        .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
        .dstDevice = (CUdeviceptr)in->dstPtr.ptr,
        .dstPitch = in->dstPtr.pitch,
        .dstHeight = in->dstPtr.ysize,
        .WidthInBytes = in->extent.width,
        .Height = in->extent.height,
        .Depth = in->extent.depth,
    };
    return cudaSuccess;
}

cudaError_t cudaMemcpy3D(const struct cudaMemcpy3DParms *parameters)
{
    CUDA_MEMCPY3D copy;
    cudaError_t status = tsr_cudart_box(parameters, &copy);
    return status == cudaSuccess ? TSR_CALL(cuMemcpy3D(&copy)) : tsr_cudart_result(status);
}

cudaError_t cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *parameters, cudaStream_t stream)
{
    CUDA_MEMCPY3D copy;
    cudaError_t status = tsr_cudart_box(parameters, &copy);
    return status == cudaSuccess ? TSR_CALL(cuMemcpy3DAsync(&copy, stream)) : tsr_cudart_result(status);
}

static cudaError_t peer_box(const struct cudaMemcpy3DPeerParms *in, CUDA_MEMCPY3D_PEER *out)
{
    CUDA_MEMCPY3D box;
    struct cudaMemcpy3DParms plain;
    if (!in)
        return cudaErrorInvalidValue;
    plain = (struct cudaMemcpy3DParms){.srcArray = in->srcArray,
                                       .srcPos = in->srcPos,
                                       .srcPtr = in->srcPtr,
                                       .dstArray = in->dstArray,
                                       .dstPos = in->dstPos,
                                       .dstPtr = in->dstPtr,
                                       .extent = in->extent,
                                       .kind = cudaMemcpyDefault};
    cudaError_t status = tsr_cudart_box(&plain, &box);
    if (status == cudaSuccess)
        status = tsr_cudart_enter();
    if (status != cudaSuccess)
        return status;
    *out = (CUDA_MEMCPY3D_PEER){
        .srcXInBytes = box.srcXInBytes,
        .srcY = box.srcY,
        .srcZ = box.srcZ,
        .srcMemoryType = box.srcMemoryType,
        .srcDevice = box.srcDevice,
        .srcPitch = box.srcPitch,
        .srcHeight = box.srcHeight,
        .dstXInBytes = box.dstXInBytes,
        .dstY = box.dstY,
        .dstZ = box.dstZ,
        .dstMemoryType = box.dstMemoryType,
        .dstDevice = box.dstDevice,
        .dstPitch = box.dstPitch,
        .dstHeight = box.dstHeight,
        .WidthInBytes = box.WidthInBytes,
        .Height = box.Height,
        .Depth = box.Depth,
    };
    status = tsr_cudart_primary(in->srcDevice, &out->srcContext);
    return status == cudaSuccess ? tsr_cudart_primary(in->dstDevice, &out->dstContext) : status;
}

cudaError_t cudaMemcpy3DPeer(const struct cudaMemcpy3DPeerParms *parameters)
{
    CUDA_MEMCPY3D_PEER copy;
    cudaError_t status = peer_box(parameters, &copy);
    return status == cudaSuccess ? TSR_CALL(cuMemcpy3DPeer(&copy)) : tsr_cudart_result(status);
}

cudaError_t cudaMemcpy3DPeerAsync(const struct cudaMemcpy3DPeerParms *parameters, cudaStream_t stream)
{
    CUDA_MEMCPY3D_PEER copy;
    cudaError_t status = peer_box(parameters, &copy);
    return status == cudaSuccess ? TSR_CALL(cuMemcpy3DPeerAsync(&copy, stream)) : tsr_cudart_result(status);
}

/* The address of [offset, offset + bytes) in a registered variable. */
static cudaError_t part_of(const void *symbol, size_t bytes, size_t offset, void **address)
{
    CUdeviceptr start = 0;
    size_t size = 0;
    cudaError_t status = tsr_cudart_enter();
    if (status == cudaSuccess)
        status = tsr_cudart_variable(symbol, &start, &size);
    if (status == cudaSuccess && (offset > size || bytes > size - offset))
        status = cudaErrorInvalidValue;
    *address = (void *)(start + offset);
    return tsr_cudart_result(status);
}

cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *from, size_t bytes, size_t offset, enum cudaMemcpyKind kind)
{
    void *to;
    cudaError_t status = part_of(symbol, bytes, offset, &to);
    return status == cudaSuccess ? cudaMemcpy(to, from, bytes, kind) : status;
}

cudaError_t cudaMemcpyFromSymbol(void *to, const void *symbol, size_t bytes, size_t offset, enum cudaMemcpyKind kind)
{
    void *from;
    cudaError_t status = part_of(symbol, bytes, offset, &from);
    return status == cudaSuccess ? cudaMemcpy(to, from, bytes, kind) : status;
}

cudaError_t cudaMemcpyToSymbolAsync(const void *symbol, const void *from, size_t bytes, size_t offset, enum cudaMemcpyKind kind,
                                    cudaStream_t stream)
{
    void *to;
    cudaError_t status = part_of(symbol, bytes, offset, &to);
    return status == cudaSuccess ? cudaMemcpyAsync(to, from, bytes, kind, stream) : status;
}

cudaError_t cudaMemcpyFromSymbolAsync(void *to, const void *symbol, size_t bytes, size_t offset, enum cudaMemcpyKind kind,
                                      cudaStream_t stream)
{
    void *from;
    cudaError_t status = part_of(symbol, bytes, offset, &from);
    return status == cudaSuccess ? cudaMemcpyAsync(to, from, bytes, kind, stream) : status;
}

cudaError_t cudaMemset(void *to, int value, size_t bytes)
{
    return bytes ? TSR_CALL(cuMemsetD8((CUdeviceptr)to, (unsigned char)value, bytes)) : tsr_cudart_result(tsr_cudart_enter());
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    return bytes ? TSR_CALL(cuMemsetD8Async((CUdeviceptr)to, (unsigned char)value, bytes, stream))
                 : tsr_cudart_result(tsr_cudart_enter());
}

cudaError_t cudaMemset2D(void *to, size_t pitch, int value, size_t width, size_t height)
{
    if (width == 0 || height == 0)
        return tsr_cudart_result(tsr_cudart_enter());
    return TSR_CALL(cuMemsetD2D8((CUdeviceptr)to, pitch, (unsigned char)value, width, height));
}

cudaError_t cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream)
{
    if (width == 0 || height == 0)
        return tsr_cudart_result(tsr_cudart_enter());
    return TSR_CALL(cuMemsetD2D8Async((CUdeviceptr)to, pitch, (unsigned char)value, width, height, stream));
}

/* Slices that follow each other without a gap are one tall rectangle. */
cudaError_t cudaMemset3DAsync(struct cudaPitchedPtr to, int value, struct cudaExtent extent, cudaStream_t stream)
{
    if (extent.height == to.ysize || extent.depth == 1)
        return cudaMemset2DAsync(to.ptr, to.pitch, value, extent.width, extent.height * extent.depth, stream);
    cudaError_t status = cudaSuccess;
    for (size_t z = 0; z < extent.depth && status == cudaSuccess; z++)
        status =
            cudaMemset2DAsync((char *)to.ptr + z * to.pitch * to.ysize, to.pitch, value, extent.width, extent.height, stream);
    return status;
}

cudaError_t cudaMemset3D(struct cudaPitchedPtr to, int value, struct cudaExtent extent)
{
    cudaError_t status = cudaMemset3DAsync(to, value, extent, NULL);
    return status == cudaSuccess ? TSR_CALL(cuStreamSynchronize(CU_STREAM_LEGACY)) : status;
}

#define OWN tsr_cudart_per_thread(stream)

TSR_CUDART_PER_THREAD(cudaMemcpyAsync,
                      (void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream), to, from,
                      bytes, kind, OWN)
TSR_CUDART_PER_THREAD(cudaMemcpy2DAsync,
                      (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                       enum cudaMemcpyKind kind, cudaStream_t stream),
                      to, to_pitch, from, from_pitch, width, height, kind, OWN)
TSR_CUDART_PER_THREAD(cudaMemcpy3DAsync, (const struct cudaMemcpy3DParms *parameters, cudaStream_t stream), parameters, OWN)
TSR_CUDART_PER_THREAD(cudaMemcpy3DPeerAsync, (const struct cudaMemcpy3DPeerParms *parameters, cudaStream_t stream), parameters,
                      OWN)
TSR_CUDART_PER_THREAD(cudaMemcpyToSymbolAsync,
                      (const void *symbol, const void *from, size_t bytes, size_t offset, enum cudaMemcpyKind kind,
                       cudaStream_t stream),
                      symbol, from, bytes, offset, kind, OWN)
TSR_CUDART_PER_THREAD(cudaMemcpyFromSymbolAsync,
                      (void *to, const void *symbol, size_t bytes, size_t offset, enum cudaMemcpyKind kind,
                       cudaStream_t stream),
                      to, symbol, bytes, offset, kind, OWN)
TSR_CUDART_PER_THREAD(cudaMemsetAsync, (void *to, int value, size_t bytes, cudaStream_t stream), to, value, bytes, OWN)
TSR_CUDART_PER_THREAD(cudaMemset2DAsync, (void *to, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream),
                      to, pitch, value, width, height, OWN)
TSR_CUDART_PER_THREAD(cudaMemset3DAsync, (struct cudaPitchedPtr to, int value, struct cudaExtent extent, cudaStream_t stream),
                      to, value, extent, OWN)

/* The per-thread form of a function that waits: its asynchronous form on the thread's stream, then the wait. */
#define PER_THREAD_AND_WAIT(name, parameters, ...)                                                                             \
    TSR_CUDART_EXPORT cudaError_t name##_ptds parameters;                                                                      \
    cudaError_t name##_ptds parameters                                                                                         \
    {                                                                                                                          \
        return wait_for(name##Async(__VA_ARGS__, cudaStreamPerThread));                                                        \
    }

PER_THREAD_AND_WAIT(cudaMemcpy, (void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind), to, from, bytes, kind)
PER_THREAD_AND_WAIT(cudaMemcpy2D,
                    (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                     enum cudaMemcpyKind kind),
                    to, to_pitch, from, from_pitch, width, height, kind)
PER_THREAD_AND_WAIT(cudaMemcpy3D, (const struct cudaMemcpy3DParms *parameters), parameters)
PER_THREAD_AND_WAIT(cudaMemcpy3DPeer, (const struct cudaMemcpy3DPeerParms *parameters), parameters)
PER_THREAD_AND_WAIT(cudaMemcpyToSymbol,
                    (const void *symbol, const void *from, size_t bytes, size_t offset, enum cudaMemcpyKind kind), symbol, from,
                    bytes, offset, kind)
PER_THREAD_AND_WAIT(cudaMemcpyFromSymbol, (void *to, const void *symbol, size_t bytes, size_t offset, enum cudaMemcpyKind kind),
                    to, symbol, bytes, offset, kind)
PER_THREAD_AND_WAIT(cudaMemset, (void *to, int value, size_t bytes), to, value, bytes)
PER_THREAD_AND_WAIT(cudaMemset2D, (void *to, size_t pitch, int value, size_t width, size_t height), to, pitch, value, width,
                    height)
PER_THREAD_AND_WAIT(cudaMemset3D, (struct cudaPitchedPtr to, int value, struct cudaExtent extent), to, value, extent)
