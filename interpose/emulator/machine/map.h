/*
 * The machine file: maps it shared and checks that it is one of this version. Says in the log what is wrong with it.
 */
#ifndef TSR_MACHINE_MAP_H
#define TSR_MACHINE_MAP_H

#include <cuda.h>

#include <tessera/machine.h>

/* path may be empty: NO_DEVICE and a line that says how to start. Other errors: NO_DEVICE, SYSTEM_DRIVER_MISMATCH (another version). */
CUresult tsr_machine_map(const char *path, struct tsr_machine **out);

#endif
