/* The parameters of launches, as records have them: the parameter block as the GPU sees it. */
#ifndef TSR_SHIM_PARAMETERS_H
#define TSR_SHIM_PARAMETERS_H

#include <stdbool.h>
#include <stdint.h>

struct tsr_launch;

#define TSR_PARAMETER_BYTES 4096u /* of a block that is recorded; CUDA allows 32764, which no known library uses */

struct tsr_parameter {
    uint16_t offset, bytes;
};

struct tsr_parameters {
    uint32_t count;
    uint32_t bytes;            /* of the block; 0: none, or their layout is not known, or they are too many */
    struct tsr_parameter *all; /* lives as long as what it is a part of */
};

/* Asks the driver for the layout. The result is the size of the block, also of one that is too large. */
uint32_t tsr_parameters_read(struct tsr_parameters *parameters, const void *handle, bool is_kernel);
/* Copies the launch's parameters into block, of TSR_PARAMETER_BYTES. The result is their size; 0: there are none, or they are not known. */
uint32_t tsr_parameters_gather(const struct tsr_launch *launch, uint8_t *block);

#endif
