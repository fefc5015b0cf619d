/*
 * The bytes of a tensor as ranges: elements at multiples of strides in several dimensions. ptxtools/ranges/box.py is the same in Python.
 */
#ifndef TSR_CALLS_BOX_H
#define TSR_CALLS_BOX_H

#include <stdbool.h>
#include <stdint.h>

#include <tessera/access.h>

#define TSR_BOX_AXES 8u
#define TSR_BOX_RANGES 16u /* that one box becomes at most */

struct tsr_box {
    uint64_t address;
    uint64_t element_bytes;
    uint32_t axes;
    uint64_t extents[TSR_BOX_AXES], strides[TSR_BOX_AXES]; /* elements in each dimension, bytes between them; in any order */
};

/* Gives how many ranges there are: each holds some of the elements, together they hold all, and nothing else as far as that many can say. */
uint32_t tsr_box_ranges(const struct tsr_box *box, enum tsr_access_kind kind, struct tsr_access_range ranges[TSR_BOX_RANGES]);

/* Whether they hold nothing but its elements. */
bool tsr_box_is_exact(const struct tsr_box *box);

#endif
