/*
 * The shim's use of the dynamic loader, and its own dlsym.
 *
 * The library exports dlsym in addition to the driver's functions: code that has opened a driver by absolute path, or as libcuda.so, has a handle for which
 * our SONAME could not stand in, but it looks functions up with dlsym. Look-ups that do not concern the driver continue in the C library's dlsym
 * by a jump, so that the caller's address, on which RTLD_NEXT and RTLD_DEFAULT depend, is kept. The shim itself must not call dlsym, which
 * would be its own export, but tsr_loader_symbol.
 */
#ifndef TSR_DRIVER_LOADER_H
#define TSR_DRIVER_LOADER_H

#include <stdbool.h>
#include <stdint.h>

/* The C library's dlsym, even if other libraries export one. For explicit handles only. */
void *tsr_loader_symbol(void *handle, const char *name);

/* Whether a handle of dlopen is that of this library. */
bool tsr_loader_is_self(const void *handle);

/* Where this library begins in memory, and where another does by its handle. */
uintptr_t tsr_loader_self_start(void);
uintptr_t tsr_loader_start_of(const void *handle);

#endif
