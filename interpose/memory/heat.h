/*
 * Who uses the arena: how often launches of each GPU were given an address in a page. Only counted when memory follows its use
 * (residency.h). Every aligned 8-byte word of a launch's parameters counts as an address, as in home_only.h. The counts are evidence, not
 * accounts: they are written without locks, and a count that two threads write at once may be lost.
 */
#ifndef TSR_MEMORY_HEAT_H
#define TSR_MEMORY_HEAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <tessera/lane.h>

#define TSR_HEAT_GPUS 16u
#define TSR_HEAT_PAGE_SHIFT 21u

struct tsr_heat {
    uint32_t by_gpu[TSR_HEAT_GPUS];
};

extern struct tsr_heat *tsr_heat_pages
    __attribute__((visibility("hidden"))); /* by page of the arena; NULL: nothing is counted */

/* Begins to count, from zero. False: no memory, nothing is counted. */
bool tsr_heat_start(void);
/* Nothing is counted any more. No thread is counting. */
void tsr_heat_stop(void);

/* Counts launches since the last time this was set to zero. */
extern uint32_t tsr_heat_launches __attribute__((visibility("hidden"))); /* atomic */

static inline void tsr_heat_add(uint32_t *count)
{
    __atomic_store_n(count, __atomic_load_n(count, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
}

static inline void tsr_heat_count_address(uint64_t address, uint32_t gpu)
{
    uint64_t offset = address - TSR_ARENA_ADDRESS;
    if (offset < TSR_ARENA_BYTES)
        tsr_heat_add(&tsr_heat_pages[offset >> TSR_HEAT_PAGE_SHIFT].by_gpu[gpu % TSR_HEAT_GPUS]);
}

/* The addresses in a parameter, or in a whole block of them, that is aligned. */
static inline void tsr_heat_count_words(const void *parameters, size_t bytes, uint32_t gpu)
{
    uint64_t word;
    for (size_t at = 0; at + sizeof word <= bytes; at += sizeof word) {
        memcpy(&word, (const uint8_t *)parameters + at, sizeof word);
        tsr_heat_count_address(word, gpu);
    }
}

/* A launch on the GPU with this block of parameters. */
static inline void tsr_heat_count(const void *parameters, size_t bytes, uint32_t gpu)
{
    if (__builtin_expect(tsr_heat_pages == NULL, 1))
        return;
    tsr_heat_add(&tsr_heat_launches);
    tsr_heat_count_words(parameters, bytes, gpu);
}

/* Of all pages of a range, which is whole pages of the arena. */
struct tsr_heat tsr_heat_of(uint64_t address, uint64_t bytes);
void tsr_heat_halve(uint64_t address, uint64_t bytes);
void tsr_heat_clear(uint64_t address, uint64_t bytes);

#endif
