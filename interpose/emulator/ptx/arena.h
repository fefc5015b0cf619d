/*
 * Bump allocation for one lifetime: everything is freed together. Memory is zeroed.
 * Zero bytes are the empty arena. Not shared between threads.
 */
#ifndef TSR_PTX_ARENA_H
#define TSR_PTX_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tsr_arena_chunk;

struct tsr_arena {
    struct tsr_arena_chunk *chunks; /* newest first */
    uint8_t *next, *end;            /* free part of the newest chunk */
};

/* align: a power of two, at most 64. NULL: out of memory. */
void *tsr_arena_alloc(struct tsr_arena *arena, size_t bytes, size_t align);
/* Forgets all contents; keeps one chunk for reuse. */
void tsr_arena_clear(struct tsr_arena *arena);
void tsr_arena_fini(struct tsr_arena *arena);

#endif
