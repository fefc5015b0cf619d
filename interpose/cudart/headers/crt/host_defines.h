/*
 * The words that the runtime headers decorate their declarations with, for a host compiler that reads them as C. The header of this
 * name belongs to the compiler (PyPI: nvidia-cuda-crt) and is not part of nvidia-cuda-runtime.
 */
#ifndef TESSERA_CUDART_HOST_DEFINES_H
#define TESSERA_CUDART_HOST_DEFINES_H

#define CUDARTAPI
#define CUDARTAPI_CDECL
#define CUDA_CB
#define __host__
#define __device__
#define __global__
#define __shared__
#define __constant__
#define __managed__
#define __no_return__ __attribute__((noreturn))
#define __noinline__ __attribute__((noinline))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __align__(n)
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__
#define __location__(a)

#endif
