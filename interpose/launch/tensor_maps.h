/*
 * Tensor maps (TMA descriptors) that the application has encoded, by their 128 bytes: equal bytes mean the same tensor, wherever the map is
 * stored. The newest ones are kept. Of a map that is not among them, the first 8 bytes are the tensor's address (on H200
 * and in the emulated driver), and the tensor is taken to be as large as its allocation.
 */
#ifndef TSR_LAUNCH_TENSOR_MAPS_H
#define TSR_LAUNCH_TENSOR_MAPS_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

#include "calls/box.h"

#define TSR_TENSOR_MAP_BYTES 128u

/* The application has encoded it: these are its 128 bytes. */
void tsr_tensor_map_note(const void *map, const struct tsr_box *box);

/* False: nobody saw it being encoded, or its layout is not one of rows, planes and so on (interleaved; elements of less than a byte). */
bool tsr_tensor_map_find(const void *map, struct tsr_box *box);

/* What a launch with this map among its parameters may touch; a range without ends (`whole`) is the allocation that `base` lies in. */
uint32_t tsr_tensor_map_ranges(const void *map, enum tsr_access_kind kind, struct tsr_access_range ranges[TSR_BOX_RANGES]);

#endif
