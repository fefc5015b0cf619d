/*
 * Which GPUs the program is shown, where it is not shown all that Tessera uses. CUDA_VISIBLE_DEVICES names the home GPU alone: frameworks count GPUs by it, and by the
 * management library. The driver, which reads it in cuInit, is shown all of them, home first (TESSERA_SHOWN): home's memory and other GPUs' are made and copied
 * in the program's process. The program gets at the first only (shim/devices.c). If it changes CUDA_VISIBLE_DEVICES before cuInit, it is shown what it asks for, and nothing
 * is hidden beside.
 */
#ifndef TSR_DRIVER_SHOWN_H
#define TSR_DRIVER_SHOWN_H

#include <stdbool.h>

#include "api/driver.h"

/* The driver's cuInit. */
CUresult tsr_shown_init(unsigned flags);

/* Whether the program gets at the first device only. Constant after cuInit. */
bool tsr_shown_is_one(void);

#endif
