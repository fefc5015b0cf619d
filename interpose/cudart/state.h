/*
 * What the runtime keeps between calls: per thread the device chosen and the last error, per device its primary context.
 *
 * Rules of the runtime API that live here: the first call that needs a device makes its primary context current; a context that the
 * application made current through the driver API is used as it is; every error is returned and remembered for cudaGetLastError.
 */
#ifndef TESSERA_CUDART_STATE_H
#define TESSERA_CUDART_STATE_H

#include "cudart/driver.h"

struct tsr_cudart_thread {
    int device;             /* what cudaSetDevice chose; the context in force may be another */
    unsigned resets;        /* of devices, as many as this thread has noticed */
    cudaError_t last_error; /* of any runtime call since cudaGetLastError */
};

extern __thread struct tsr_cudart_thread tsr_cudart_thread __attribute__((tls_model("initial-exec")));

/* Driver started and a context current on this thread. */
cudaError_t tsr_cudart_enter(void);
/* The primary context of a device, kept until the process ends or the device is reset. */
cudaError_t tsr_cudart_primary(int device, CUcontext *context);
/* The device of the current context, or the one chosen when there is none; the driver must have been started. */
cudaError_t tsr_cudart_device(int *device);
/* Ends the device's primary context. The next call that needs one, on any thread, begins with a fresh one. */
cudaError_t tsr_cudart_reset(int device);
/* Makes the device's primary context current and remembers the choice. */
cudaError_t tsr_cudart_choose(int device);

static inline cudaError_t tsr_cudart_result(cudaError_t status)
{
    if (status != cudaSuccess)
        tsr_cudart_thread.last_error = status;
    return status;
}

/* CUresult and cudaError_t share their numbers. */
static inline cudaError_t tsr_cudart_error(CUresult status)
{
    return (cudaError_t)status;
}

/* One driver call with a context current: `return TSR_CALL(cuMemFree(pointer));` */
#define TSR_CALL(call)                                                                                                         \
    ({                                                                                                                         \
        cudaError_t entered_ = tsr_cudart_enter();                                                                             \
        tsr_cudart_result(entered_ != cudaSuccess ? entered_ : tsr_cudart_error(tsr_driver.call));                             \
    })

/* The same for calls that need the driver but no context. */
#define TSR_CALL_WITHOUT_CONTEXT(call)                                                                                         \
    ({                                                                                                                         \
        cudaError_t started_ = tsr_cudart_start();                                                                             \
        tsr_cudart_result(started_ != cudaSuccess ? started_ : tsr_cudart_error(tsr_driver.call));                             \
    })

/* The stream that a per-thread form means by a handle. */
static inline cudaStream_t tsr_cudart_per_thread(cudaStream_t stream)
{
    return stream ? stream : cudaStreamPerThread;
}

/* A launch as the driver wants it. */
CUlaunchConfig tsr_cudart_launch_config(const cudaLaunchConfig_t *config);

#endif
