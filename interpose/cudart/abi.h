/*
 * The runtime API as one major version of it exports it. TSR_CUDART_MAJOR (12 or 13) is set by the build, which compiles every
 * file once per version against the headers of 13.0.
 *
 * Functions whose newest form carries a suffix in 12 and none in 13 are written once, under the name of 13: in a build for 12 the
 * names below rename them before the header declares them. The older forms that 12 exports under the bare names are in
 * legacy12.c. Structures that callers provide and that 13 made another size are cudaDeviceProp and cudaPointerAttributes: the files
 * that fill them in know both. (A comparison of both headers found no other among the supported functions.)
 */
#ifndef TESSERA_CUDART_ABI_H
#define TESSERA_CUDART_ABI_H

#include <stddef.h>

#if TSR_CUDART_MAJOR == 12
#define TSR_CUDART_VERSION 12080
#define cudaGraphAddDependencies cudaGraphAddDependencies_v2
#define cudaGraphAddNode cudaGraphAddNode_v2
#define cudaGraphGetEdges cudaGraphGetEdges_v2
#define cudaGraphNodeGetDependencies cudaGraphNodeGetDependencies_v2
#define cudaGraphNodeGetDependentNodes cudaGraphNodeGetDependentNodes_v2
#define cudaGraphRemoveDependencies cudaGraphRemoveDependencies_v2
#define cudaMemAdvise cudaMemAdvise_v2
#define cudaMemPrefetchAsync cudaMemPrefetchAsync_v2
#define cudaMemPrefetchAsync_ptsz cudaMemPrefetchAsync_v2_ptsz
#define cudaStreamGetCaptureInfo cudaStreamGetCaptureInfo_v3
#define cudaStreamGetCaptureInfo_ptsz cudaStreamGetCaptureInfo_v3_ptsz
#define cudaStreamUpdateCaptureDependencies cudaStreamUpdateCaptureDependencies_v2
#define cudaStreamUpdateCaptureDependencies_ptsz cudaStreamUpdateCaptureDependencies_v2_ptsz
#elif TSR_CUDART_MAJOR == 13
#define TSR_CUDART_VERSION 13000
#else
#error "TSR_CUDART_MAJOR must be 12 or 13"
#endif

#pragma GCC visibility push(default)
#include <cuda_runtime_api.h>
#pragma GCC visibility pop

/* Marks an exported function that the header does not declare; the prototype comes with it. */
#define TSR_CUDART_EXPORT __attribute__((visibility("default")))

/* The per-thread form of a function whose last parameter is the stream. */
#define TSR_CUDART_PER_THREAD(name, parameters, ...)                                                                           \
    TSR_CUDART_EXPORT cudaError_t name##_ptsz parameters;                                                                      \
    cudaError_t name##_ptsz parameters                                                                                         \
    {                                                                                                                          \
        return name(__VA_ARGS__);                                                                                              \
    }

#endif
