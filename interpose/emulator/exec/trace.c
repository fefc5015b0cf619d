#include "trace.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "lines.h"
#include "state.h"

#define CHUNK_SHIFT 14 /* bytes of address space per chunk: 16 KiB */
#define CHUNK_BYTES (1u << CHUNK_SHIFT)
#define KINDS 3
#define FIRST_SLOTS 1024u

struct chunk {
    uint64_t number;
    uint64_t bits[KINDS][CHUNK_BYTES / 64];
};

struct tsr_trace {
    pthread_mutex_t lock;
    struct chunk **slots; /* open addressing */
    uint32_t slot_count, used;
    bool incomplete; /* out of memory: accesses have been lost */
};

static bool enabled; /* atomic */

void tsr_exec_trace_enable(bool on)
{
    __atomic_store_n(&enabled, on, __ATOMIC_RELAXED);
}
bool tsr_trace_enabled(void)
{
    return __atomic_load_n(&enabled, __ATOMIC_RELAXED);
}

struct tsr_trace *tsr_trace_create(void)
{
    struct tsr_trace *trace = calloc(1, sizeof *trace);
    if (trace == NULL)
        return NULL;
    trace->slot_count = FIRST_SLOTS;
    trace->slots = calloc(trace->slot_count, sizeof *trace->slots);
    if (trace->slots == NULL) {
        free(trace);
        return NULL;
    }
    pthread_mutex_init(&trace->lock, NULL);
    return trace;
}

void tsr_trace_destroy(struct tsr_trace *trace)
{
    if (trace == NULL)
        return;
    for (uint32_t s = 0; s < trace->slot_count; s++)
        free(trace->slots[s]);
    free(trace->slots);
    pthread_mutex_destroy(&trace->lock);
    free(trace);
}

static struct chunk **slot_of(struct chunk **slots, uint32_t count, uint64_t number)
{
    uint32_t s = (uint32_t)(number * 0x9e3779b97f4a7c15ull >> 40) % count;
    while (slots[s] != NULL && slots[s]->number != number)
        s = (s + 1) % count;
    return &slots[s];
}

static bool grow(struct tsr_trace *trace)
{
    uint32_t count = trace->slot_count * 2;
    struct chunk **slots = calloc(count, sizeof *slots);
    if (slots == NULL)
        return false;
    for (uint32_t s = 0; s < trace->slot_count; s++)
        if (trace->slots[s] != NULL)
            *slot_of(slots, count, trace->slots[s]->number) = trace->slots[s];
    free(trace->slots);
    trace->slots = slots;
    trace->slot_count = count;
    return true;
}

static struct chunk *chunk_locked(struct tsr_trace *trace, uint64_t number)
{
    struct chunk **slot = slot_of(trace->slots, trace->slot_count, number);
    if (*slot != NULL)
        return *slot;
    if (trace->used * 2 >= trace->slot_count) {
        if (!grow(trace))
            return NULL;
        slot = slot_of(trace->slots, trace->slot_count, number);
    }
    *slot = calloc(1, sizeof **slot);
    if (*slot != NULL) {
        (*slot)->number = number;
        trace->used++;
    }
    return *slot;
}

void tsr_trace_add(struct tsr_grid *grid, enum tsr_memory_access access, uint64_t address, uint64_t bytes)
{
    struct tsr_trace *trace = grid->trace;
    pthread_mutex_lock(&trace->lock);
    for (uint64_t at = address; at < address + bytes; at++) {
        struct chunk *chunk = chunk_locked(trace, at >> CHUNK_SHIFT);
        if (chunk == NULL) {
            trace->incomplete = true;
            break;
        }
        uint64_t bit = at & (CHUNK_BYTES - 1);
        chunk->bits[access][bit / 64] |= 1ull << bit % 64;
    }
    pthread_mutex_unlock(&trace->lock);
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = (*(struct chunk *const *)a)->number, y = (*(struct chunk *const *)b)->number;
    return x < y ? -1 : x > y;
}

static void visit_kind(struct chunk **chunks, uint32_t count, unsigned kind, tsr_trace_visit *visit, void *ctx)
{
    uint64_t begin = 0, end = 0;
    for (uint32_t n = 0; n < count; n++)
        for (uint32_t bit = 0; bit < CHUNK_BYTES; bit++) {
            uint64_t word = chunks[n]->bits[kind][bit / 64];
            if (word == 0) {
                bit |= 63;
                continue;
            }
            if (!(word >> bit % 64 & 1))
                continue;
            uint64_t address = (chunks[n]->number << CHUNK_SHIFT) + bit;
            if (address != end) {
                if (end != begin)
                    visit(ctx, (enum tsr_access_kind)kind, begin, end);
                begin = address;
            }
            end = address + 1;
        }
    if (end != begin)
        visit(ctx, (enum tsr_access_kind)kind, begin, end);
}

void tsr_trace_each(const struct tsr_trace *trace, tsr_trace_visit *visit, void *ctx)
{
    TSR_VEC(struct chunk *) chunks = {0};
    for (uint32_t s = 0; s < trace->slot_count; s++)
        if (trace->slots[s] != NULL && !tsr_vec_push(&chunks, trace->slots[s]))
            goto out;
    if (chunks.count != 0)
        qsort(chunks.data, chunks.count, sizeof *chunks.data, by_number);
    for (unsigned kind = 0; kind < KINDS; kind++)
        visit_kind(chunks.data, (uint32_t)chunks.count, kind, visit, ctx);
out:
    tsr_vec_fini(&chunks);
}
