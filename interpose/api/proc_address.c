/*
 * cuGetProcAddress: from a name, a CUDA version and a stream flag to the exported function, as driver 580 answers.
 *
 * - A version above the driver's, an unknown flag or a NULL argument is CUDA_ERROR_INVALID_VALUE; nothing is written.
 * - A name that no table row has, the versioned and per-thread names included, is "symbol not found".
 * - A name whose first version is newer than the one asked for is "version not sufficient".
 * The second form of the call reports the latter two as success with a NULL pointer and the status, the first form as
 * CUDA_ERROR_NOT_FOUND. With both stream flags the per-thread one counts. The steps of every name stand in routes.tsv.
 */
#include "api/driver.h"

#include <string.h>

struct route_step {
    int version;
    void *function;
};

struct route_range {
    unsigned short first, count;
};

struct route {
    const char *name;
    struct route_range legacy, per_thread;
};

#include "tsr_driver_routes.inc"

static const struct route *route_find(const char *name)
{
    size_t low = 0, high = sizeof(routes) / sizeof(routes[0]);
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(name, routes[middle].name);
        if (order == 0)
            return &routes[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

static void *route_resolve(const char *name, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
    const struct route *route = route_find(name);
    if (!route) {
        *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
        return NULL;
    }
    struct route_range range = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM ? route->per_thread : route->legacy;
    void *function = NULL;
    for (unsigned step = range.first; step < (unsigned)range.first + range.count && route_steps[step].version <= version;
         step++)
        function = route_steps[step].function;
    *status = function ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    return function;
}

static int flags_known(cuuint64_t flags)
{
    return !(flags & ~(cuuint64_t)(CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM));
}

CUresult CUDAAPI cuGetProcAddress_v2(const char *symbol, void **pfn, int version, cuuint64_t flags,
                                     CUdriverProcAddressQueryResult *symbol_status)
{
    if (!symbol || !pfn || version > TSR_ROUTES_DRIVER_VERSION || !flags_known(flags))
        return CUDA_ERROR_INVALID_VALUE;
    CUdriverProcAddressQueryResult status;
    *pfn = route_resolve(symbol, version, flags, &status);
    if (symbol_status)
        *symbol_status = status;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGetProcAddress(const char *symbol, void **pfn, int version, cuuint64_t flags)
{
    CUresult result = cuGetProcAddress_v2(symbol, pfn, version, flags, NULL);
    return result == CUDA_SUCCESS && !*pfn ? CUDA_ERROR_NOT_FOUND : result;
}
