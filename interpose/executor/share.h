/*
 * The part of a GPU that an executor may use: all of its SMs or some (a green context), all of its memory or some.
 */
#ifndef TSR_EXECUTOR_SHARE_H
#define TSR_EXECUTOR_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

/* The driver's device of a GPU, by the machine's number: under TESSERA_SPLIT several GPUs are one. */
CUresult tsr_share_device(uint32_t gpu, CUdevice *out);

/* A context of that GPU, the executor's, on at least sm_limit SMs, rounded up to what the GPU can set apart; 0: on all of them. It becomes current,
   and ends with the process. Errors: INVALID_RESOURCE_CONFIGURATION when the GPU has fewer. */
CUresult tsr_share_open(uint32_t gpu, unsigned sm_limit, CUdevice *device, CUcontext *out);
/* The executor's GPU, by the machine's number. */
uint32_t tsr_share_gpu(void);

/* Memory that the executor may allocate on its GPU from now on, 0: its part of the device's under TESSERA_SPLIT, else without limit. Pages of the
   home GPU that it maps are none of it. */
void tsr_share_limit_memory(CUdevice device, uint64_t bytes);
/* False: the limit forbids it. What was taken is given back when it is freed. */
bool tsr_share_take(uint64_t bytes);
void tsr_share_give(uint64_t bytes);

#endif
