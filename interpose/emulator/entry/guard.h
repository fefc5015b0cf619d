/* The checks with which entry points begin. */
#ifndef TSR_ENTRY_GUARD_H
#define TSR_ENTRY_GUARD_H

#include "api/driver.h"

#include "../context/context.h"

/* Leaves the function with the result of the expression unless it is CUDA_SUCCESS. */
#define TSR_TRY(expression)                                                                                                    \
    do {                                                                                                                       \
        CUresult tsr_try_result = (expression);                                                                                \
        if (tsr_try_result != CUDA_SUCCESS)                                                                                    \
            return tsr_try_result;                                                                                             \
    } while (0)

#define TSR_REQUIRE(condition, error)                                                                                          \
    do {                                                                                                                       \
        if (!(condition))                                                                                                      \
            return error;                                                                                                      \
    } while (0)

/* NOT_INITIALIZED, DEINITIALIZED, or INVALID_DEVICE. */
static inline CUresult tsr_device_check(CUdevice device)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(device >= 0 && (uint32_t)device < tsr_machine_instance()->device_count, CUDA_ERROR_INVALID_DEVICE);
    return CUDA_SUCCESS;
}

#endif
