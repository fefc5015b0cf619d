/* Finds the driver and its functions. Nothing else in the runtime opens libraries. */
#include "cudart/driver.h"

#include <dlfcn.h>
#include <pthread.h>

#include "base/log.h"

struct tsr_driver tsr_driver;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static cudaError_t outcome = cudaErrorInsufficientDriver;

static CUresult missing(void)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

static void *find(void *library, const char *name)
{
    void *function = dlsym(library, name);
    if (!function) {
        tsr_debug("cudart: the driver has no %s", name);
        function = (void *)missing;
    }
    return function;
}

static void start(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) {
        tsr_error("cudart: %s", dlerror());
        return;
    }
#define NAME(function) NAME_AS_IS(function)
#define NAME_AS_IS(function) #function
#define FIND(function) tsr_driver.function = (__typeof__(tsr_driver.function))find(library, NAME(function));
    TSR_DRIVER_FUNCTIONS(FIND)
    outcome = (cudaError_t)tsr_driver.cuInit(0);
}

cudaError_t tsr_cudart_start(void)
{
    pthread_once(&once, start);
    return outcome;
}
