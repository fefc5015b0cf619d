/* What a driver function answers that the emulator does not support. Used by the generated stubs alone. */
#ifndef TESSERA_API_UNSUPPORTED_H
#define TESSERA_API_UNSUPPORTED_H

#include "api/driver.h"

/* CUDA_ERROR_NOT_SUPPORTED; the first call per function is logged. `logged` is the function's own flag. */
CUresult tsr_driver_unsupported(const char *name, int *logged);

#endif
