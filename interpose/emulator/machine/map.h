/*
 * The machine file: maps it shared and checks that it is one of this version. Says in the log what is wrong with it.
 */
#ifndef TSR_MACHINE_MAP_H
#define TSR_MACHINE_MAP_H

#include <cuda.h>

#include <tessera/machine.h>

/*
 * path may be empty: NO_DEVICE and a line that says how to start. visible: CUDA_VISIBLE_DEVICES or "all"; with fewer or reordered devices the
 * process gets its own copy of the constant part, in which its devices are numbered from 0, while the live part stays shared.
 * Other errors: NO_DEVICE, SYSTEM_DRIVER_MISMATCH (another version).
 */
CUresult tsr_machine_map(const char *path, const char *visible, struct tsr_machine **out);

/* The number in the machine, as the live part and other processes know it, of a device of this process; and back (-1: not visible). */
uint32_t tsr_machine_number(uint32_t device);
int tsr_machine_device(uint32_t number);

#endif
