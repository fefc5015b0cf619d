/* Boxes of pitched memory in the driver's form, for copies and for copy nodes. CUDA arrays are not supported. */
#ifndef TESSERA_CUDART_BOX_H
#define TESSERA_CUDART_BOX_H

#include "cudart/register.h"

/* A box in pitched memory; cudaErrorNotSupported when an array takes part. In copy.c. */
cudaError_t tsr_cudart_box(const struct cudaMemcpy3DParms *in, CUDA_MEMCPY3D *out);

/* One row of bytes between two addresses, as a box. */
static inline CUDA_MEMCPY3D tsr_cudart_row(void *to, const void *from, size_t bytes)
{
    return (CUDA_MEMCPY3D){
        .srcMemoryType = CU_MEMORYTYPE_UNIFIED,
        .srcDevice = (CUdeviceptr)from,
        .srcPitch = bytes,
        .srcHeight = 1,
        .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
        .dstDevice = (CUdeviceptr)to,
        .dstPitch = bytes,
        .dstHeight = 1,
        .WidthInBytes = bytes,
        .Height = 1,
        .Depth = 1,
    };
}

#endif
