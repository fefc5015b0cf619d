/*
 * Comparing memory of a GPU with a copy of it, on that GPU: two small kernels of our own. Of the context that was current when it was made.
 */
#ifndef TSR_CHECK_COMPARE_H
#define TSR_CHECK_COMPARE_H

#include "api/driver.h"

#include <stdint.h>

#define TSR_COMPARE_CHUNK (64u << 10) /* what is compared is a multiple of it */

struct tsr_compare;

struct tsr_compare_chunk {
    uint32_t different; /* bytes of it */
    uint32_t first;     /* offset of the first of them; UINT32_MAX: none is */
};

/* `width` bytes at `address` and at each `stride` after it, `count` times; of these, those from low on and below high. */
struct tsr_compare_rows {
    CUdeviceptr address, low, high;
    uint64_t count, width, stride;
};

/* Errors: the driver's. */
CUresult tsr_compare_create(struct tsr_compare **out);
void tsr_compare_destroy(struct tsr_compare *compare);

/* Both on the GPU, aligned to 16 bytes. One result per chunk is added to what stands in `found`, which begins with zeros and UINT32_MAX. */
CUresult tsr_compare_start(const struct tsr_compare *compare, CUdeviceptr here, CUdeviceptr there, uint64_t bytes,
                           CUdeviceptr found, CUstream stream);

/* Copies rows to the same places of a copy that lies `distance` bytes further on. */
CUresult tsr_compare_copy_rows(const struct tsr_compare *compare, const struct tsr_compare_rows *rows, uint64_t distance,
                               CUstream stream);

#endif
