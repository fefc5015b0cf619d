/* The driver table's rows as numbers, in its order: TSR_ROW_cuLaunchKernel and so on; what tsr_record.call holds. */
#ifndef TSR_DRIVER_ROWS_H
#define TSR_DRIVER_ROWS_H

enum tsr_row {
#define TSR_DRIVER(symbol, class, status, type) TSR_ROW_##symbol,
#define TSR_DRIVER_TWIN(symbol, base, type) TSR_ROW_##symbol,
#define TSR_DRIVER_UNTYPED(symbol, class, status) TSR_ROW_##symbol,
#include "api/driver.def"
    TSR_ROWS
};

#endif
