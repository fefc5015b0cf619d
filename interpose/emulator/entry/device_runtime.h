/*
 * What the linker gives for the vendor's device runtime library (libcudadevrt): its functions for cooperative grids, as PTX. The rest of that
 * library, dynamic parallelism, is not emulated.
 */
#ifndef TSR_ENTRY_DEVICE_RUNTIME_H
#define TSR_ENTRY_DEVICE_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>

/* Whether the bytes are an archive that holds the device runtime. */
bool tsr_device_runtime_is(const void *archive, size_t size);
extern const char tsr_device_runtime_text[];

#endif
