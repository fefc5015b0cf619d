/*
 * From a name, a CUDA version and a stream flag to the exported function, as driver 580 answers.
 *
 * - A version above the driver's, an unknown flag or a NULL argument is CUDA_ERROR_INVALID_VALUE; nothing is written.
 * - A name that no table row has, the versioned and per-thread names included, is "symbol not found".
 * - A name whose first version is newer than the one asked for is "version not sufficient".
 * The latter two are success with a NULL pointer and the status, which may be NULL. With both stream flags the per-thread one counts.
 */
#ifndef TESSERA_API_LOOK_UP_H
#define TESSERA_API_LOOK_UP_H

#include "api/driver.h"

CUresult tsr_driver_look_up(const char *symbol, void **function, int version, cuuint64_t flags,
                            CUdriverProcAddressQueryResult *status);

#endif
