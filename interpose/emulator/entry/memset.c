/* Memsets: of elements of 1, 2 or 4 bytes, in one row or several. */
#include "guard.h"

#include "../stream/copy.h"
#include "../stream/work.h"

static CUresult submit(struct tsr_emulated_stream *stream, struct tsr_work *work, bool wait)
{
    uint32_t location;
    size_t width_bytes;
    TSR_REQUIRE(!__builtin_mul_overflow(work->memset.width, work->memset.element_bytes, &width_bytes),
                CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(work->memset.dst % work->memset.element_bytes == 0, CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(work->memset.height <= 1 || work->memset.pitch % work->memset.element_bytes == 0, CUDA_ERROR_INVALID_VALUE);
    if (wait)
        TSR_TRY(tsr_capture_check_unsafe_call(tsr_stream_context(stream)));
    TSR_TRY(tsr_memset_check(work->memset.dst, work->memset.pitch, width_bytes, work->memset.height, tsr_stream_context(stream),
                             &location));
    /* Only a memset of host memory is waited for: others are asynchronous to the host even without Async in their name. */
    wait = wait && location == TSR_LOCATION_HOST;
    TSR_TRY(tsr_stream_submit(stream, work));
    return wait ? tsr_stream_wait(stream) : CUDA_SUCCESS;
}

static CUresult fill(CUdeviceptr dst, size_t pitch, unsigned value, unsigned element_bytes, size_t width, size_t height,
                     CUstream handle, bool wait)
{
    struct tsr_emulated_stream *stream;
    struct tsr_work work = {.kind = TSR_WORK_MEMSET, .memset = {dst, pitch, width, height, value, element_bytes}};
    TSR_TRY(tsr_driver_ready());
    TSR_TRY(tsr_stream_get(tsr_driver_stream(handle), &stream));
    CUresult result = submit(stream, &work, wait);
    tsr_stream_put(stream);
    return result;
}

CUresult CUDAAPI cuMemsetD8_v2(CUdeviceptr dstDevice, unsigned char uc, size_t N)
{
    return fill(dstDevice, 0, uc, 1, N, 1, NULL, true);
}

CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream)
{
    return fill(dstDevice, 0, uc, 1, N, 1, hStream, false);
}

CUresult CUDAAPI cuMemsetD2D8_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height)
{
    return fill(dstDevice, dstPitch, uc, 1, Width, Height, NULL, true);
}

CUresult CUDAAPI cuMemsetD2D8Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height,
                                   CUstream hStream)
{
    return fill(dstDevice, dstPitch, uc, 1, Width, Height, hStream, false);
}

CUresult CUDAAPI cuMemsetD16_v2(CUdeviceptr dstDevice, unsigned short us, size_t N)
{
    return fill(dstDevice, 0, us, 2, N, 1, NULL, true);
}

CUresult CUDAAPI cuMemsetD16Async(CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream)
{
    return fill(dstDevice, 0, us, 2, N, 1, hStream, false);
}

CUresult CUDAAPI cuMemsetD2D16_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height)
{
    return fill(dstDevice, dstPitch, us, 2, Width, Height, NULL, true);
}

CUresult CUDAAPI cuMemsetD2D16Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height,
                                    CUstream hStream)
{
    return fill(dstDevice, dstPitch, us, 2, Width, Height, hStream, false);
}

CUresult CUDAAPI cuMemsetD32_v2(CUdeviceptr dstDevice, unsigned int ui, size_t N)
{
    return fill(dstDevice, 0, ui, 4, N, 1, NULL, true);
}

CUresult CUDAAPI cuMemsetD32Async(CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream)
{
    return fill(dstDevice, 0, ui, 4, N, 1, hStream, false);
}

CUresult CUDAAPI cuMemsetD2D32_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height)
{
    return fill(dstDevice, dstPitch, ui, 4, Width, Height, NULL, true);
}

CUresult CUDAAPI cuMemsetD2D32Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height,
                                    CUstream hStream)
{
    return fill(dstDevice, dstPitch, ui, 4, Width, Height, hStream, false);
}
