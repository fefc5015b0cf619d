/*
 * The real driver: its functions by name, opened on the first call of any of our exports.
 *
 * struct tsr_real has one pointer per row of the driver table, in its order. Every export that the shim does not wrap is a jump through its
 * pointer (forward.c), so arguments and results pass untouched whatever the function's type is. Until the driver is open the pointers
 * lead to a loader that opens it and continues with the call. A function that this driver lacks leads to an answer NOT_FOUND.
 */
#ifndef TSR_DRIVER_REAL_H
#define TSR_DRIVER_REAL_H

#include "api/driver.h"

#include <cudaTypedefs.h>
#include <stdbool.h>

typedef CUresult (*tsr_untyped)(void);

struct tsr_real {
#define TSR_DRIVER(symbol, class, status, type) type symbol;
#define TSR_DRIVER_TWIN(symbol, base, type) type symbol;
#define TSR_DRIVER_UNTYPED(symbol, class, status) tsr_untyped symbol;
#include "api/driver.def"
};

extern struct tsr_real tsr_real __attribute__((visibility("hidden")));

/* Opens the real driver if that has not happened; called by the loader stubs and by wrappers that may run first. False: there is none. */
bool tsr_real_open(void);

/* The handle of the real driver, opened now if it was not; NULL if there is none. */
void *tsr_real_library(void);

/* Where the real driver begins in memory; 0 while it is not open. */
uintptr_t tsr_real_start(void);

/* Where the loader stub of a row continues: called with the arguments of a driver function saved. */
void *tsr_forward_target(uint64_t row) __attribute__((visibility("hidden")));

/* What cuGetProcAddress answers for a pointer of the real driver: ours if we wrap it, else the pointer itself. */
void *tsr_real_route(void *pointer);

#endif
