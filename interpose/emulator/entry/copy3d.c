/* Copies of rectangles and boxes. */
#include "copy_shape.h"
#include "guard.h"

CUresult CUDAAPI cuMemcpy2D_v2(const CUDA_MEMCPY2D *pCopy)
{
    CUDA_MEMCPY3D_PEER shape;
    TSR_TRY(tsr_driver_ready());
    TSR_TRY(tsr_copy_from_2d(pCopy, &shape));
    return tsr_copy_now(&shape);
}

CUresult CUDAAPI cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *pCopy)
{
    CUDA_MEMCPY3D_PEER shape;
    TSR_TRY(tsr_driver_ready());
    TSR_TRY(tsr_copy_from_2d(pCopy, &shape));
    return tsr_copy_now(&shape);
}

CUresult CUDAAPI cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *pCopy, CUstream hStream)
{
    CUDA_MEMCPY3D_PEER shape;
    TSR_TRY(tsr_driver_ready());
    TSR_TRY(tsr_copy_from_2d(pCopy, &shape));
    return tsr_copy_async(&shape, hStream);
}

CUresult CUDAAPI cuMemcpy3D_v2(const CUDA_MEMCPY3D *pCopy)
{
    CUDA_MEMCPY3D_PEER shape;
    TSR_TRY(tsr_driver_ready());
    TSR_TRY(tsr_copy_from_3d(pCopy, &shape));
    return tsr_copy_now(&shape);
}

CUresult CUDAAPI cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *pCopy, CUstream hStream)
{
    CUDA_MEMCPY3D_PEER shape;
    TSR_TRY(tsr_driver_ready());
    TSR_TRY(tsr_copy_from_3d(pCopy, &shape));
    return tsr_copy_async(&shape, hStream);
}

CUresult CUDAAPI cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *pCopy)
{
    CUDA_MEMCPY3D_PEER shape;
    TSR_TRY(tsr_driver_ready());
    TSR_TRY(tsr_copy_from_peer(pCopy, &shape));
    return tsr_copy_now(&shape);
}

CUresult CUDAAPI cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream)
{
    CUDA_MEMCPY3D_PEER shape;
    TSR_TRY(tsr_driver_ready());
    TSR_TRY(tsr_copy_from_peer(pCopy, &shape));
    return tsr_copy_async(&shape, hStream);
}
