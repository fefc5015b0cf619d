/*
 * The driver as the runtime uses it: documented functions of libcuda.so.1, found by their exported names when the first of them is
 * needed. `tsr_driver.cuMemAlloc(...)` calls the newest form of cuMemAlloc that cuda.h names. A function that the driver lacks
 * answers CUDA_ERROR_NOT_SUPPORTED.
 */
#ifndef TESSERA_CUDART_DRIVER_H
#define TESSERA_CUDART_DRIVER_H

#include <cuda.h>

#include "cudart/abi.h"

#define TSR_DRIVER_FUNCTIONS(X)                                                                                                                                                      \
    X(cuInit)                                                                                                                                                                        \
    X(cuDriverGetVersion) X(cuGetErrorString) X(cuGetProcAddress) X(cuDeviceGet) X(cuDeviceGetCount) X(cuDeviceGetName) X(                                                           \
        cuDeviceGetUuid) X(cuDeviceTotalMem) X(cuDeviceGetAttribute) X(cuDeviceGetLuid) X(cuDeviceGetPCIBusId)                                                                       \
        X(cuDeviceGetByPCIBusId) X(cuDeviceGetP2PAttribute) X(cuDeviceCanAccessPeer) X(cuDeviceGetDefaultMemPool) X(cuDeviceGetMemPool) X(                                           \
            cuDeviceSetMemPool) X(cuDeviceGetGraphMemAttribute) X(cuDeviceSetGraphMemAttribute) X(cuDeviceGraphMemTrim) X(cuDevicePrimaryCtxRetain)                                  \
            X(cuDevicePrimaryCtxRelease) X(cuDevicePrimaryCtxReset) X(cuDevicePrimaryCtxGetState) X(cuDevicePrimaryCtxSetFlags) X(cuCtxGetCurrent) X(                                                             \
                cuCtxSetCurrent) X(cuCtxGetDevice) X(cuCtxSynchronize) X(cuCtxGetLimit) X(cuCtxSetLimit) X(cuCtxGetCacheConfig) X(cuCtxSetCacheConfig)                               \
                X(cuCtxGetStreamPriorityRange) X(cuCtxResetPersistingL2Cache) X(cuCtxEnablePeerAccess) X(cuCtxDisablePeerAccess) X(                                                  \
                    cuLibraryLoadData) X(cuLibraryLoadFromFile) X(cuLibraryUnload) X(cuLibraryGetKernel) X(cuLibraryGetGlobal)                                                       \
                    X(cuLibraryGetManaged) X(cuLibraryGetUnifiedFunction) X(cuLibraryGetKernelCount) X(cuLibraryEnumerateKernels) X(                                                 \
                        cuKernelGetFunction) X(cuKernelGetAttribute) X(cuKernelSetAttribute) X(cuKernelSetCacheConfig) X(cuKernelGetName) X(cuKernelGetParamInfo)                    \
                        X(cuMemAlloc) X(cuMemFree) X(cuMemAllocPitch) X(cuMemAllocManaged) X(cuMemGetInfo) X(cuMemHostAlloc) X(                                                      \
                            cuMemFreeHost) X(cuMemHostRegister) X(cuMemHostUnregister) X(cuMemHostGetDevicePointer) X(cuMemHostGetFlags)                                             \
                            X(cuMemAdvise) X(cuMemPrefetchAsync) X(cuMemRangeGetAttribute) X(cuMemRangeGetAttributes) X(                                                             \
                                cuPointerGetAttributes) X(cuMemAllocAsync) X(cuMemFreeAsync) X(cuMemAllocFromPoolAsync)                                                              \
                                X(cuMemPoolCreate) X(cuMemPoolDestroy) X(cuMemPoolTrimTo) X(cuMemPoolSetAttribute) X(cuMemPoolGetAttribute) X(cuMemPoolSetAccess) X(                 \
                                    cuMemPoolGetAccess) X(cuMemPoolExportToShareableHandle) X(cuMemPoolImportFromShareableHandle) X(cuMemPoolExportPointer)                          \
                                    X(cuMemPoolImportPointer) X(cuMemcpy) X(cuMemcpyAsync) X(cuMemcpyPeer) X(cuMemcpyPeerAsync) X(                                                   \
                                        cuMemcpy2DUnaligned) X(cuMemcpy2DAsync) X(cuMemcpy3D) X(cuMemcpy3DAsync)                                                                     \
                                        X(cuMemcpy3DPeer) X(cuMemcpy3DPeerAsync) X(cuMemsetD8) X(cuMemsetD8Async) X(cuMemsetD2D8) X(                                                 \
                                            cuMemsetD2D8Async) X(cuStreamCreateWithPriority) X(cuStreamDestroy) X(cuStreamQuery) X(cuStreamSynchronize)                              \
                                            X(cuStreamWaitEvent) X(cuStreamGetFlags) X(                                                                                              \
                                                cuStreamGetPriority) X(cuStreamGetId) X(cuStreamGetDevice)                                                                           \
                                                X(cuStreamAddCallback) X(cuStreamAttachMemAsync) X(cuStreamGetAttribute) X(cuStreamSetAttribute) X(                                  \
                                                    cuStreamCopyAttributes) X(cuStreamBeginCapture) X(cuStreamBeginCaptureToGraph) X(cuStreamEndCapture)                             \
                                                    X(cuStreamIsCapturing) X(cuStreamGetCaptureInfo) X(cuStreamUpdateCaptureDependencies) X(                                         \
                                                        cuThreadExchangeStreamCaptureMode) X(cuLaunchHostFunc) X(cuEventCreate) X(cuEventDestroy)                                    \
                                                        X(cuEventRecord) X(cuEventRecordWithFlags) X(cuEventQuery) X(cuEventSynchronize) X(cuEventElapsedTime) X(                    \
                                                            cuLaunchKernel) X(cuLaunchKernelEx) X(cuLaunchCooperativeKernel) X(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags) \
                                                            X(cuOccupancyAvailableDynamicSMemPerBlock) X(cuOccupancyMaxPotentialClusterSize) X(cuOccupancyMaxActiveClusters) X(      \
                                                                cuIpcGetMemHandle) X(cuIpcOpenMemHandle) X(cuIpcCloseMemHandle) X(cuIpcGetEventHandle) X(cuIpcOpenEventHandle)       \
                                                                X(cuGraphCreate) X(cuGraphDestroy) X(cuGraphClone) X(cuGraphGetNodes) X(                                             \
                                                                    cuGraphGetRootNodes) X(cuGraphGetEdges) X(cuGraphAddDependencies) X(cuGraphRemoveDependencies)                   \
                                                                    X(cuGraphNodeGetDependencies) X(cuGraphNodeGetDependentNodes) X(                                                 \
                                                                        cuGraphNodeGetType) X(cuGraphNodeFindInClone)                                                                \
                                                                        X(cuGraphDestroyNode) X(cuGraphDebugDotPrint) X(cuGraphNodeSetEnabled) X(                                    \
                                                                            cuGraphNodeGetEnabled) X(cuGraphAddKernelNode) X(cuGraphKernelNodeGetParams)                             \
                                                                            X(cuGraphKernelNodeSetParams) X(                                                                         \
                                                                                cuGraphExecKernelNodeSetParams) X(cuGraphKernelNodeGetAttribute) X(cuGraphKernelNodeSetAttribute)    \
                                                                                X(cuGraphKernelNodeCopyAttributes) X(cuGraphAddMemcpyNode) X(                                        \
                                                                                    cuGraphMemcpyNodeGetParams) X(cuGraphMemcpyNodeSetParams)                                        \
                                                                                    X(cuGraphExecMemcpyNodeSetParams) X(cuGraphAddMemsetNode) X(                                     \
                                                                                        cuGraphMemsetNodeGetParams) X(cuGraphMemsetNodeSetParams) X(cuGraphExecMemsetNodeSetParams)  \
                                                                                        X(cuGraphAddHostNode) X(cuGraphHostNodeGetParams) X(cuGraphHostNodeSetParams) X(             \
                                                                                            cuGraphExecHostNodeSetParams) X(cuGraphAddChildGraphNode)                                \
                                                                                            X(cuGraphChildGraphNodeGetGraph) X(cuGraphExecChildGraphNodeSetParams) X(                \
                                                                                                cuGraphAddEmptyNode) X(cuGraphAddEventRecordNode)                                    \
                                                                                                X(cuGraphEventRecordNodeGetEvent) X(                                                 \
                                                                                                    cuGraphEventRecordNodeSetEvent) X(cuGraphExecEventRecordNodeSetEvent)            \
                                                                                                    X(cuGraphAddEventWaitNode) X(cuGraphEventWaitNodeGetEvent) X(                    \
                                                                                                        cuGraphEventWaitNodeSetEvent) X(cuGraphExecEventWaitNodeSetEvent)            \
                                                                                                        X(cuGraphAddMemAllocNode) X(cuGraphMemAllocNodeGetParams) X(                 \
                                                                                                            cuGraphAddMemFreeNode) X(cuGraphMemFreeNodeGetParams)                    \
                                                                                                            X(cuGraphInstantiateWithFlags) X(                                        \
                                                                                                                cuGraphInstantiateWithParams)                                        \
                                                                                                                X(cuGraphExecGetFlags) X(                                            \
                                                                                                                    cuGraphExecUpdate) X(cuGraphExecDestroy)                         \
                                                                                                                    X(cuGraphLaunch) X(                                              \
                                                                                                                        cuGraphUpload)                                               \
                                                                                                                        X(cuUserObjectCreate) X(                                     \
                                                                                                                            cuUserObjectRetain)                                      \
                                                                                                                            X(cuUserObjectRelease)                                   \
                                                                                                                                X(cuGraphRetainUserObject)                           \
                                                                                                                                    X(cuGraphReleaseUserObject)

struct tsr_driver {
#define MEMBER(function) __typeof__(&function) function;
    TSR_DRIVER_FUNCTIONS(MEMBER)
#undef MEMBER
};

extern struct tsr_driver tsr_driver; /* filled in by tsr_cudart_start */

/* Loads the driver and calls cuInit, once; cudaErrorInsufficientDriver without a driver. */
cudaError_t tsr_cudart_start(void);

#endif
