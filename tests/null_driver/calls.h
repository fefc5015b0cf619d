/* Counting calls: a counter per row of the driver table, in its order, and those of enum extra after them. */
#ifndef TESSERA_TESTS_NULL_DRIVER_CALLS_H
#define TESSERA_TESTS_NULL_DRIVER_CALLS_H

#include "api/driver.h"

#include <stdint.h>

enum row {
#define TSR_DRIVER(symbol, class, status, type) ROW_##symbol,
#define TSR_DRIVER_TWIN(symbol, base, type) ROW_##symbol,
#define TSR_DRIVER_UNTYPED(symbol, class, status) ROW_##symbol,
#include "api/driver.def"
    ROW_COUNT
};

enum extra {
    EXTRA_FUTURE = ROW_COUNT, /* calls of cuNullFuture */
    EXTRA_STRANGERS,          /* look-ups that did not come from a driver library in front of this one */
    COUNTERS
};

extern uint64_t *null_counters __attribute__((visibility("hidden")));

#define CALLED(symbol) __atomic_fetch_add(&null_counters[ROW_##symbol], 1, __ATOMIC_RELAXED)

#endif
