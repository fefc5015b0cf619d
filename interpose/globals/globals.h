/*
 * What a module's functions share with each other behind a program's back: variables, the device heap, the buffer of printf, and the code itself.
 * An executor has its own of each, so a function that uses one of them may run there only if that cannot be noticed: it reads variables that
 * no function of the module ever writes, and calls code that it names itself.
 *
 * Addresses of these differ from GPU to GPU. Where functions leave them in memory, those that find them there have to run where they were left:
 * all that call through pointers which they did not make themselves; and of a module that leaves addresses of variables or of the heap, all that follow
 * pointers in memory.
 *
 * Light scans of PTX (ptx_globals.c) and of machine code (elf_globals.c) answer; they err to the side of `state`. Looked at is all that the driver may
 * choose for the GPU: machine code that fits it, without that the PTX. What cannot be read uses everything.
 */
#ifndef TSR_GLOBALS_H
#define TSR_GLOBALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tessera/lane.h>

#include "base/hash.h"

/* Variables of a module by their names; some share a bit. */
static inline uint64_t tsr_variable_bit(const char *name, size_t length)
{
    return 1ull << (tsr_hash(name, length) >> 58);
}

struct tsr_globals;

struct tsr_use {
    uint32_t flags;     /* enum tsr_global_flag (tessera/lane.h) */
    uint64_t variables; /* those that it may read, by tsr_variable_bit() */
};

/* image: as given to cuModuleLoadData, in `bytes` bytes. arch: the GPU's, for example 90. NULL: out of memory. */
struct tsr_globals *tsr_globals_read(const void *image, size_t bytes, uint32_t arch);
void tsr_globals_destroy(struct tsr_globals *uses);

/* Of a kernel, by the name that cuModuleGetFunction takes; all flags when there is none of that name. */
struct tsr_use tsr_globals_function(const struct tsr_globals *uses, const char *name);

/* Whether a function of the module, or its data, may lead to the variable. */
bool tsr_globals_leads_to(const struct tsr_globals *uses, const char *variable);

#endif
