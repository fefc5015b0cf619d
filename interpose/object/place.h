/* Which GPU a stream belongs to. An application may use several GPUs itself: Tessera places only what it does on the home GPU. */
#ifndef TSR_OBJECT_PLACE_H
#define TSR_OBJECT_PLACE_H

#include "api/driver.h"

#include <stdint.h>

#include "driver/gpus.h"

#define TSR_PLACE_UNKNOWN TSR_GPU_UNKNOWN /* no context is current: the driver will say so */

/* The machine's number of the stream's GPU; a default stream (NULL included) is the current context's. */
uint32_t tsr_place_of(CUstream stream);

#endif
