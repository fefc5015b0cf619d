/*
 * Templates of functions, as they become known while a program runs: written by the control plane into a memory file that TESSERA_TEMPLATES names
 * (/proc/<pid>/fd/<n>), read by the shims of all processes of a run. Append-only: what is published stays as it is.
 *
 * The file is a tsr_templates, an open-addressing table of TSR_TEMPLATES_SLOTS slots from TSR_TEMPLATES_SLOTS_OFFSET on, and the templates'
 * bytes (tessera/access.h), each at a multiple of 8, and clones. A slot's key is mixed by tsr_templates_place, which is where looking for it begins; the
 * next slot follows the last by going round. The writer writes a template, then the slot, then its `offset`, then counts `published` up. A reader
 * trusts nothing in it: offsets and bytes are bounded, and the template is checked.
 *
 * The last TSR_SHAPES_BYTES, from TSR_SHAPES_OFFSET on, are the shims': a tsr_shapes, followed by entries, launches whose ranges had to be
 * evaluated, so that who makes an evaluator has them remembered before they are made again. A writer takes room, writes, and then says how
 * many bytes its entry has; a reader ends where nobody has said so. The control plane keeps them from run to run, and does not look inside.
 *
 * The part between the marks is read by Python through cffi as well. Bump TSR_TEMPLATES_VERSION on any change.
 */
#ifndef TESSERA_TEMPLATES_H
#define TESSERA_TEMPLATES_H

#include <stdint.h>

#define TSR_TEMPLATES_MAGIC 0x544c504d52535454ull
#define TSR_TEMPLATES_VERSION 4u
#define TSR_TEMPLATES_SLOTS 65536u /* a power of two; at most half of them are used */
#define TSR_TEMPLATES_SLOTS_OFFSET 4096u
#define TSR_TEMPLATES_EMULATED 0x10000u /* in a slot's architecture: an emulated GPU's, which runs other code of an image */
#define TSR_TEMPLATES_BYTES (256u << 20) /* of the file, which takes memory as it is filled */

#define TSR_SHAPES_BYTES (2u << 20)
#define TSR_SHAPES_OFFSET (254u << 20) /* up to the file's end */

/* cffi: begin */
struct tsr_templates {
    uint64_t magic;
    uint32_t version;
    uint32_t bytes;     /* of this struct */
    uint32_t published; /* atomic, release: slots in use; after a failed look-up, look again only when it has changed */
    uint32_t reserved;
};

struct tsr_templates_slot {
    uint64_t code;     /* hash of the image that the function is in */
    uint64_t function; /* hash of its name (base/hash.h) */
    uint32_t architecture;
    uint32_t bytes;                 /* of the template; 0: the function is analysed, and what it touches is unknown */
    uint64_t offset;                /* atomic, release: of the template in the file; 0: the slot is empty */
    uint64_t clone;                 /* of the function's clone (tessera/clones.h) */
    uint32_t clone_bytes, reserved; /* 0: none was made */
};

struct tsr_shapes {
    uint64_t used; /* atomic; bytes of entries, and of room that somebody wanted and was not there */
};
/* cffi: end */

/* An entry, a multiple of 8 bytes; the block of parameters follows. */
struct tsr_shape {
    uint32_t bytes; /* atomic, release; of it and what follows; 0: not written yet */
    uint32_t parameter_bytes;
    uint64_t code, function; /* as a slot has them */
    uint32_t grid[3], block[3];
    uint32_t shared_bytes, reserved;
};

static inline uint32_t tsr_templates_place(uint64_t code, uint64_t function, uint32_t architecture)
{
    return (uint32_t)((code ^ function ^ architecture) * 0x9e3779b97f4a7c15ull >> 32) % TSR_TEMPLATES_SLOTS;
}

#endif
