/*
 * Managed memory for PyTorch (torch.cuda.memory.CUDAPluggableAllocator), for scripts/bench/spill: what does not fit the GPU its driver pages in and out. The first
 * call takes all of the GPU's free memory but MANAGED_LIMIT bytes away, as ordinary memory that stays.
 *
 *     cc -shared -fPIC -O2 -I CUDA/include managed_allocator.c -o managed_allocator.so -ldl
 */
#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>

static struct {
    CUresult (*init)(unsigned);
    CUresult (*get_current)(CUcontext *);
    CUresult (*set_current)(CUcontext);
    CUresult (*retain)(CUcontext *, CUdevice);
    CUresult (*info)(size_t *, size_t *);
    CUresult (*allocate)(CUdeviceptr *, size_t);
    CUresult (*managed)(CUdeviceptr *, size_t, unsigned);
    CUresult (*release)(CUdeviceptr);
} driver;

static void find(void *function, void *library, const char *name)
{
    *(void **)function = dlsym(library, name);
}

static void limit(void)
{
    const char *text = getenv("MANAGED_LIMIT");
    size_t most = text ? strtoull(text, NULL, 10) : SIZE_MAX, available, total;
    CUdeviceptr ballast;
    if (driver.info(&available, &total) == CUDA_SUCCESS && available > most)
        driver.allocate(&ballast, available - most);
}

static void begin(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    find(&driver.init, library, "cuInit");
    find(&driver.get_current, library, "cuCtxGetCurrent");
    find(&driver.set_current, library, "cuCtxSetCurrent");
    find(&driver.retain, library, "cuDevicePrimaryCtxRetain");
    find(&driver.info, library, "cuMemGetInfo_v2");
    find(&driver.allocate, library, "cuMemAlloc_v2");
    find(&driver.managed, library, "cuMemAllocManaged");
    find(&driver.release, library, "cuMemFree_v2");
    driver.init(0);
}

static void use_context(int device)
{
    CUcontext context = NULL;
    if ((driver.get_current(&context) != CUDA_SUCCESS || !context) && driver.retain(&context, device) == CUDA_SUCCESS)
        driver.set_current(context);
}

void *managed_malloc(ssize_t bytes, int device, void *stream)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT, limited = PTHREAD_ONCE_INIT;
    CUdeviceptr address = 0;
    (void)stream;
    pthread_once(&once, begin);
    use_context(device);
    pthread_once(&limited, limit);
    if (bytes > 0 && driver.managed(&address, (size_t)bytes, CU_MEM_ATTACH_GLOBAL) != CUDA_SUCCESS)
        address = 0;
    return (void *)(uintptr_t)address;
}

void managed_free(void *address, ssize_t bytes, int device, void *stream)
{
    (void)bytes;
    (void)stream;
    use_context(device);
    driver.release((CUdeviceptr)(uintptr_t)address);
}
