/*
 * From a launch as the application describes it to a unit of work: finds the function, checks the shape against the device and the
 * function, and copies the parameters. Also used for the kernel nodes of graphs.
 */
#ifndef TSR_ENTRY_LAUNCH_H
#define TSR_ENTRY_LAUNCH_H

#include "api/driver.h"

#include "../stream/work.h"

struct tsr_emulated_launch {
    const void *function; /* CUfunction or CUkernel */
    uint32_t grid[3], block[3];
    uint32_t shared_dynamic_bytes;
    void **params, **extra; /* as in cuLaunchKernel: one of them, or none for a function without parameters */
    const CUlaunchAttribute *attributes;
    uint32_t attribute_count;
    bool cooperative;
};

/*
 * Fills *work (kind TSR_WORK_KERNEL), owned by the caller: submit it or release it with tsr_work_release.
 * Errors: INVALID_HANDLE, INVALID_VALUE, LAUNCH_OUT_OF_RESOURCES, COOPERATIVE_LAUNCH_TOO_LARGE, INVALID_CLUSTER_SIZE, those of loading the
 * function into the context, OUT_OF_MEMORY.
 */
CUresult tsr_emulated_launch_prepare(struct tsr_context *context, const struct tsr_emulated_launch *launch,
                                     struct tsr_work *work);

#endif
