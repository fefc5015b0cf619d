/*
 * Instrumented clones: kernels whose PTX was rewritten so that each access is tested against the launch's predicted ranges (ptxtools/clone/). A clone's
 * module has a variable of this layout, TSR_CLONE_VARIABLE: the shim writes the ranges into it before a launch and reads the results afterwards.
 *
 * A clone's bytes (tessera/templates.h) are lines ended by zeros, each with one of the marks below before its text, an empty line, and the PTX, ended by
 * a zero, too. Without PTX there is no clone, and TSR_CLONE_UNTESTED says why.
 *
 * The part between the marks is read by Python through cffi as well, which writes the clones by it. Bump TSR_TEMPLATES_VERSION on any change.
 */
#ifndef TESSERA_CLONES_H
#define TESSERA_CLONES_H

#include <stdint.h>

#define TSR_CLONE_VARIABLE "tessera_clone"
#define TSR_CLONE_RANGES 512u
#define TSR_CLONE_PLACES 64u

#define TSR_CLONE_UNTESTED '!' /* what the clone does not test */
#define TSR_CLONE_GLOBAL '@'   /* a variable of the function's module: its address is to be in the next place */
#define TSR_CLONE_CONSTANT '=' /* a variable of the function's module: the clone's own is to have the same content */

/* cffi: begin */
struct
    tsr_clone_range { /* accesses of `kind` may touch [low, high), of these `width` bytes at low and at each stride after it */
    uint64_t low, high, stride, width; /* stride 0: all */
    uint64_t kind;                     /* enum tsr_access_kind (tessera/access.h) */
};

struct tsr_clone_block {
    uint32_t count;           /* of ranges */
    uint32_t taken;           /* atomic; 1: a thread reports the first access outside */
    uint64_t tested, outside; /* atomic; accesses of threads: all, and those with a byte outside of the ranges of their kind */
    uint64_t address, bytes;  /* of one of the latter: its first byte outside; how many it touches in all */
    uint32_t what, reserved;  /* its line in the PTX << 2 | enum tsr_access_kind */
};
/* cffi: end */
/* The ranges follow the block, and the places, of 8 bytes each, follow these. */

#endif
