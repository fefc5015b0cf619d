/* See arena.h. */
#include "arena.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES ((size_t)256 << 10)

struct tsr_arena_chunk {
    struct tsr_arena_chunk *older;
    size_t bytes; /* of data */
    uint8_t data[] __attribute__((aligned(64)));
};

static bool add_chunk(struct tsr_arena *arena, size_t bytes)
{
    if (bytes > SIZE_MAX / 2)
        return false;
    size_t room = bytes + 64 > CHUNK_BYTES ? bytes + 64 : CHUNK_BYTES;
    struct tsr_arena_chunk *chunk = aligned_alloc(64, (sizeof *chunk + room + 63) / 64 * 64);
    if (!chunk)
        return false;
    chunk->older = arena->chunks;
    chunk->bytes = room;
    arena->chunks = chunk;
    arena->next = chunk->data;
    arena->end = chunk->data + room;
    return true;
}

void *tsr_arena_alloc(struct tsr_arena *arena, size_t bytes, size_t align)
{
    uint8_t *place = (uint8_t *)(((uintptr_t)arena->next + align - 1) & ~(uintptr_t)(align - 1));
    if (!arena->next || place > arena->end || bytes > (size_t)(arena->end - place)) {
        if (!add_chunk(arena, bytes))
            return NULL;
        place = arena->next;
    }
    arena->next = place + bytes;
    return memset(place, 0, bytes);
}

void tsr_arena_clear(struct tsr_arena *arena)
{
    struct tsr_arena_chunk *kept = arena->chunks;
    if (!kept)
        return;
    while (kept->older) {
        struct tsr_arena_chunk *older = kept->older;
        free(kept);
        kept = older;
    }
    arena->chunks = kept;
    arena->next = kept->data;
    arena->end = kept->data + kept->bytes;
}

void tsr_arena_fini(struct tsr_arena *arena)
{
    while (arena->chunks) {
        struct tsr_arena_chunk *older = arena->chunks->older;
        free(arena->chunks);
        arena->chunks = older;
    }
    arena->next = arena->end = NULL;
}
