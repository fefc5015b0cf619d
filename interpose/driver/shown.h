/*
 * Which GPUs the program is shown, where it is not shown all that Tessera uses. CUDA_VISIBLE_DEVICES names the home GPU alone: frameworks count GPUs by it, and by the
 * management library. The driver, which reads it in cuInit, is shown all of them, home first (TESSERA_SHOWN): home's memory and other GPUs' are made and copied
 * in the program's process. It says so to whoever asks it: CUDA's runtime computes a checksum over the devices that it finds, which the driver compares with its own, and
 * fails (cudaErrorSoftwareValidityNotEstablished) if it was told of fewer. If the program changes CUDA_VISIBLE_DEVICES before cuInit, it is shown what it asks for.
 */
#ifndef TSR_DRIVER_SHOWN_H
#define TSR_DRIVER_SHOWN_H

#include "api/driver.h"

/* The driver's cuInit. */
CUresult tsr_shown_init(unsigned flags);

#endif
