/* The parameters of launches: their layout, according to the driver, and the parameter block as the GPU sees it. */
#ifndef TSR_OBJECT_PARAMETERS_H
#define TSR_OBJECT_PARAMETERS_H

#include <stdbool.h>
#include <stdint.h>

#define TSR_PARAMETER_BYTES 4096u /* most of a block that is gathered; CUDA allows 32764, which no known library uses */

struct tsr_parameter {
    uint16_t offset, bytes;
};

/* Zero bytes: not known. */
struct tsr_parameters {
    bool
        known; /* atomic; false: the driver has not given the layout; without a current context it does not give that of a CUkernel */
    uint32_t count;
    uint32_t bytes;            /* of the block */
    struct tsr_parameter *all; /* NULL: there are none, or too many */
};

/* Asks the driver for the layout; unchanged if it does not tell, or if there is no memory. */
void tsr_parameters_read(struct tsr_parameters *parameters, const void *handle, bool is_kernel);
void tsr_parameters_fini(struct tsr_parameters *parameters);

/*
 * The block, from either form in which a launch has its parameters, into TSR_PARAMETER_BYTES; bytes between parameters are zero. False: their
 * layout is not known, or they are too many.
 */
bool tsr_parameters_gather(const struct tsr_parameters *parameters, void *const *params, void *const *extra, uint8_t *block,
                           uint32_t *bytes);

#endif
