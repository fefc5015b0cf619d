/*
 * Which driver functions the shim wraps; all others are forwarded by a jump (forward.c). The list is generated: what a .c file of the
 * shim's layers defines as `CUresult CUDAAPI cuXxx(` or `TSR_ENGAGED(cuXxx)(`, itself or through a macro, and what generate_wrappers.py makes.
 */
#ifndef TSR_DRIVER_WRAPPED_H
#define TSR_DRIVER_WRAPPED_H

#define TSR_ALWAYS ~, 1
#define TSR_WHEN_ENGAGED ~, 2
/* The same, where launches are deferred (shim/deferred.h): they do not wait for those, or for none of other threads. */
#define TSR_AT_ONCE ~, 3
#define TSR_AFTER_OWN ~, 4
#define TSR_WRAPS_SECOND(a, b, ...) b
#define TSR_WRAPS_TEST(...) TSR_WRAPS_SECOND(__VA_ARGS__, 0, ~)
#define TSR_WRAPS(symbol) TSR_WRAPS_TEST(TSR_WRAPS_##symbol)

#include "wrapped_rows.h"

#endif
