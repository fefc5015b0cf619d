/*
 * Streams by the order in which the application made them, which is how a policy names them. The default streams are number 0.
 */
#ifndef TSR_OBJECT_STREAM_NUMBER_H
#define TSR_OBJECT_STREAM_NUMBER_H

#include "api/driver.h"

#include <stdint.h>

#define TSR_STREAM_UNNUMBERED UINT32_MAX /* not made by a function that the shim wraps */

uint32_t tsr_stream_number(CUstream stream);
/* The stream has been made, by a function that the shim wraps. */
void tsr_stream_number_give(CUstream stream);
/* The stream is about to be destroyed. */
void tsr_stream_number_forget(CUstream stream);

#endif
