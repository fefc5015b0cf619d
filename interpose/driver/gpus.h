/*
 * The two numbers of a GPU. One is the driver's in this process (CUdevice): CUDA_VISIBLE_DEVICES selects some of the machine's GPUs and orders them.
 * The other is the machine's number: the driver's where nothing is hidden. Policies, executors and records use the machine's.
 *
 * tessera-run says in TESSERA_GPUS which GPU has which number; without it, or where it does not match the GPUs, both numbers are the same. Under
 * TESSERA_SPLIT several numbers are one device.
 */
#ifndef TSR_DRIVER_GPUS_H
#define TSR_DRIVER_GPUS_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

#define TSR_GPU_UNKNOWN UINT32_MAX

/* After the driver's cuInit. The numbers are constant for the life of the process. */
void tsr_gpus_start(void);

/* The machine's number; of several, the first. */
uint32_t tsr_gpu_of(CUdevice device);

/* -1: the GPU is hidden from this process. */
CUdevice tsr_gpu_device(uint32_t gpu);

#endif
