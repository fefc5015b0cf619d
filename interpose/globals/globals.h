/*
 * Global references of functions: what the functions of a module share besides their parameters. That is variables, the device heap, the buffer
 * of printf, and addresses of code. An executor has its own of each, so a function that uses one may run there only if nobody can notice the
 * difference: if it only reads variables that no function of the module ever writes, and only calls code that it names itself.
 *
 * Addresses of these differ from GPU to GPU. If functions store such addresses in memory, functions that load them must run on the same GPU:
 * all functions that call through pointers which they did not make themselves; and, in a module that stores addresses of variables or of the heap,
 * all functions that follow pointers in memory.
 *
 * Light scans of PTX (ptx_globals.c) and of machine code (elf_globals.c) answer; when in doubt they report a use. They scan everything that the
 * driver may choose for the GPU: machine code that fits it, and PTX if there is none. An image that cannot be read counts as using everything.
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

struct tsr_references {
    uint32_t flags;     /* enum tsr_global_flag (tessera/lane.h) */
    uint64_t variables; /* those that it may read, by tsr_variable_bit() */
};

/* image: as given to cuModuleLoadData, in `bytes` bytes. arch: the GPU's, for example 90. NULL: out of memory. */
struct tsr_globals *tsr_globals_read(const void *image, size_t bytes, uint32_t arch);
void tsr_globals_destroy(struct tsr_globals *globals);

/* Those of a kernel, by the name that cuModuleGetFunction takes; all flags if there is no such kernel. */
struct tsr_references tsr_globals_function(const struct tsr_globals *globals, const char *name);

/* Whether a function of the module, or its data, may refer to the variable. */
bool tsr_globals_leads_to(const struct tsr_globals *globals, const char *variable);

#endif
