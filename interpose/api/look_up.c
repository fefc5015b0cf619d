/* See look_up.h. The steps of every name stand in routes.tsv; the build expands them into tsr_driver_routes.inc. */
#include "api/look_up.h"

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

CUresult tsr_driver_look_up(const char *symbol, void **function, int version, cuuint64_t flags,
                            CUdriverProcAddressQueryResult *status)
{
    if (!symbol || !function || version > TSR_ROUTES_DRIVER_VERSION || !flags_known(flags))
        return CUDA_ERROR_INVALID_VALUE;
    CUdriverProcAddressQueryResult found;
    *function = route_resolve(symbol, version, flags, &found);
    if (status)
        *status = found;
    return CUDA_SUCCESS;
}
