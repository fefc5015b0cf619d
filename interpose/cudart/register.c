/* Registration of images, functions and variables, as nvcc's host code does it, and the look-ups on what it registered. */
#include "cudart/register.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/map.h"

enum { WRAPPER_MAGIC = 0x466243b1 };

/* What nvcc places in the program for each translation unit. */
struct wrapper {
    int magic, version;
    const void *image;
    void *file_name;
};

enum symbol_kind { SYMBOL_FUNCTION, SYMBOL_VARIABLE, SYMBOL_MANAGED };

/* One translation unit's device code. */
struct image {
    const void *data;
    pthread_mutex_t lock; /* guards what follows */
    bool tried;
    cudaError_t status; /* of loading, once tried */
    CUlibrary library;
    struct symbol *symbols; /* fixed after registration */
};

struct symbol {
    enum symbol_kind kind;
    struct image *image;
    const void *host;
    const char *name;
    void **managed;  /* the program's pointer to a managed variable */
    CUkernel kernel; /* atomic; NULL until first needed */
    struct symbol *next;
};

static struct tsr_map symbols; /* host address -> struct symbol */
static struct tsr_map kernels; /* CUkernel -> host function, or itself */

TSR_CUDART_EXPORT void **__cudaRegisterFatBinary(void *wrapper);
TSR_CUDART_EXPORT void __cudaRegisterFatBinaryEnd(void **handle);
TSR_CUDART_EXPORT void __cudaUnregisterFatBinary(void **handle);
TSR_CUDART_EXPORT void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int threads,
                                              void *tid, void *bid, void *block, void *grid, int *warp);
TSR_CUDART_EXPORT void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external, size_t bytes,
                                         int constant, int global);
TSR_CUDART_EXPORT void __cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name, int external,
                                                size_t bytes, int constant, int global);
TSR_CUDART_EXPORT char __cudaInitModule(void **handle);
TSR_CUDART_EXPORT cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *function);

void **__cudaRegisterFatBinary(void *pointer)
{
    const struct wrapper *wrapper = pointer;
    struct image *image = calloc(1, sizeof(*image));
    if (!image)
        return NULL;
    if (wrapper->magic != WRAPPER_MAGIC)
        tsr_error("cudart: device code registered with unknown magic 0x%x", (unsigned)wrapper->magic);
    image->data = wrapper->magic == WRAPPER_MAGIC ? wrapper->image : pointer;
    pthread_mutex_init(&image->lock, NULL);
    return (void **)image;
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}

void __cudaUnregisterFatBinary(void **handle)
{
    struct image *image = (struct image *)handle;
    if (!image)
        return;
    while (image->symbols) {
        struct symbol *symbol = image->symbols;
        image->symbols = symbol->next;
        tsr_map_remove(&symbols, (uint64_t)symbol->host);
        if (symbol->kernel)
            tsr_map_remove(&kernels, (uint64_t)symbol->kernel);
        free(symbol);
    }
    if (image->library)
        tsr_driver.cuLibraryUnload(image->library);
    pthread_mutex_destroy(&image->lock);
    free(image);
}

static void add_symbol(void **handle, enum symbol_kind kind, const void *host, const char *name, void **managed)
{
    struct image *image = (struct image *)handle;
    struct symbol *symbol = image ? calloc(1, sizeof(*symbol)) : NULL;
    if (!symbol || !tsr_map_set(&symbols, (uint64_t)host, symbol)) {
        tsr_error("cudart: out of memory while registering %s", name);
        free(symbol);
        return;
    }
    *symbol =
        (struct symbol){.kind = kind, .image = image, .host = host, .name = name, .managed = managed, .next = image->symbols};
    image->symbols = symbol;
}

void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int threads, void *tid, void *bid,
                            void *block, void *grid, int *warp)
{
    (void)device, (void)threads, (void)tid, (void)bid, (void)block, (void)grid, (void)warp;
    add_symbol(handle, SYMBOL_FUNCTION, host, name, NULL);
}

void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external, size_t bytes, int constant,
                       int global)
{
    (void)device, (void)external, (void)bytes, (void)constant, (void)global;
    add_symbol(handle, SYMBOL_VARIABLE, host, name, NULL);
}

void __cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name, int external, size_t bytes,
                              int constant, int global)
{
    (void)device, (void)external, (void)bytes, (void)constant, (void)global;
    add_symbol(handle, SYMBOL_MANAGED, host, name, host);
}

/* Points the program's pointers at the managed variables of a library just loaded. */
static cudaError_t place_managed(struct image *image)
{
    for (struct symbol *symbol = image->symbols; symbol; symbol = symbol->next) {
        CUdeviceptr address;
        size_t bytes;
        if (symbol->kind != SYMBOL_MANAGED)
            continue;
        CUresult status = tsr_driver.cuLibraryGetManaged(&address, &bytes, image->library, symbol->name);
        if (status != CUDA_SUCCESS)
            return tsr_cudart_error(status);
        *symbol->managed = (void *)address;
    }
    return cudaSuccess;
}

static cudaError_t load(struct image *image)
{
    pthread_mutex_lock(&image->lock);
    if (!image->tried) {
        image->status =
            tsr_cudart_error(tsr_driver.cuLibraryLoadData(&image->library, image->data, NULL, NULL, 0, NULL, NULL, 0));
        if (image->status == cudaSuccess)
            image->status = place_managed(image);
        image->tried = true;
    }
    cudaError_t status = image->status;
    pthread_mutex_unlock(&image->lock);
    return status;
}

char __cudaInitModule(void **handle)
{
    cudaError_t status = tsr_cudart_enter();
    if (status == cudaSuccess)
        status = load((struct image *)handle);
    return tsr_cudart_result(status) == cudaSuccess;
}

static cudaError_t symbol_kernel(struct symbol *symbol, CUkernel *kernel)
{
    cudaError_t status = load(symbol->image);
    if (status == cudaSuccess)
        status = tsr_cudart_error(tsr_driver.cuLibraryGetKernel(kernel, symbol->image->library, symbol->name));
    if (status == cudaErrorSymbolNotFound)
        return cudaErrorInvalidDeviceFunction;
    if (status == cudaSuccess && !tsr_map_set(&kernels, (uint64_t)*kernel, (void *)symbol->host))
        return cudaErrorMemoryAllocation;
    if (status == cudaSuccess)
        __atomic_store_n(&symbol->kernel, *kernel, __ATOMIC_RELEASE);
    return status;
}

cudaError_t tsr_cudart_kernel(const void *function, CUkernel *kernel)
{
    if (!function)
        return cudaErrorInvalidDeviceFunction;
    if (tsr_map_find(&kernels, (uint64_t)function)) {
        *kernel = (CUkernel)function;
        return cudaSuccess;
    }
    struct symbol *symbol = tsr_map_find(&symbols, (uint64_t)function);
    if (!symbol || symbol->kind != SYMBOL_FUNCTION) /* from 13 on it is taken for a handle */
        return TSR_CUDART_VERSION >= 13000 ? cudaErrorInvalidResourceHandle : cudaErrorInvalidDeviceFunction;
    *kernel = __atomic_load_n(&symbol->kernel, __ATOMIC_ACQUIRE);
    return *kernel ? cudaSuccess : symbol_kernel(symbol, kernel);
}

void *tsr_cudart_host_function(CUkernel kernel)
{
    void *host = tsr_map_find(&kernels, (uint64_t)kernel);
    return host ? host : (void *)kernel;
}

cudaError_t tsr_cudart_kernel_note(CUkernel kernel)
{
    if (tsr_map_find(&kernels, (uint64_t)kernel))
        return cudaSuccess;
    return tsr_map_set(&kernels, (uint64_t)kernel, kernel) ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t tsr_cudart_variable(const void *host, CUdeviceptr *address, size_t *bytes)
{
    struct symbol *symbol = host ? tsr_map_find(&symbols, (uint64_t)host) : NULL;
    if (!symbol || symbol->kind == SYMBOL_FUNCTION)
        return cudaErrorInvalidSymbol;
    cudaError_t status = load(symbol->image);
    if (status != cudaSuccess)
        return status;
    CUresult found = symbol->kind == SYMBOL_MANAGED
                         ? tsr_driver.cuLibraryGetManaged(address, bytes, symbol->image->library, symbol->name)
                         : tsr_driver.cuLibraryGetGlobal(address, bytes, symbol->image->library, symbol->name);
    return found == CUDA_ERROR_NOT_FOUND ? cudaErrorInvalidSymbol : tsr_cudart_error(found);
}

static cudaError_t get_kernel(cudaKernel_t *kernel, const void *function)
{
    if (!kernel)
        return tsr_cudart_result(cudaErrorInvalidValue);
    cudaError_t status = tsr_cudart_enter();
    return tsr_cudart_result(status == cudaSuccess ? tsr_cudart_kernel(function, (CUkernel *)kernel) : status);
}

cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *function)
{
    return get_kernel(kernel, function);
}

cudaError_t cudaGetKernel(cudaKernel_t *kernel, const void *function)
{
    return get_kernel(kernel, function);
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t *function, const void *symbol)
{
    CUkernel kernel;
    if (!function)
        return tsr_cudart_result(cudaErrorInvalidValue);
    cudaError_t status = tsr_cudart_enter();
    if (status == cudaSuccess)
        status = tsr_cudart_kernel(symbol, &kernel);
    if (status == cudaSuccess)
        status = tsr_cudart_error(tsr_driver.cuKernelGetFunction(function, kernel));
    return tsr_cudart_result(status);
}

cudaError_t cudaGetSymbolAddress(void **address, const void *symbol)
{
    size_t bytes;
    cudaError_t status = address ? tsr_cudart_enter() : cudaErrorInvalidValue;
    return tsr_cudart_result(status == cudaSuccess ? tsr_cudart_variable(symbol, (CUdeviceptr *)address, &bytes) : status);
}

cudaError_t cudaGetSymbolSize(size_t *bytes, const void *symbol)
{
    CUdeviceptr address;
    cudaError_t status = bytes ? tsr_cudart_enter() : cudaErrorInvalidValue;
    return tsr_cudart_result(status == cudaSuccess ? tsr_cudart_variable(symbol, &address, bytes) : status);
}
