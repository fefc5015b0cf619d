/*
 * Page heat: how often launches of each GPU were passed an address in a page of the arena. Counted only when memory follows its use
 * (residency.h). Every aligned 8-byte word of a launch's parameters counts as an address, as in home_only.h. Counts are estimates: they are
 * written without locks, and an increment may be lost when two threads write at once. After its first launches, each thread samples: a launch that is
 * counted stands for those since the last one, and the gap is drawn at random each time, because programs launch the same kernels in the same
 * order again and again.
 */
#ifndef TSR_MEMORY_HEAT_H
#define TSR_MEMORY_HEAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <tessera/apart.h>
#include <tessera/lane.h>

#define TSR_HEAT_GPUS 16u
#define TSR_HEAT_PAGE_SHIFT 21u

struct tsr_heat {
    uint32_t by_gpu[TSR_HEAT_GPUS];
};

extern struct tsr_heat *tsr_heat_pages
    __attribute__((visibility("hidden"))); /* by page of the arena; NULL: nothing is counted */

#define TSR_HEAT_MOST_GAP 8u

/* Begins to count, from zero, one of `gap` launches in the mean (TSR_HEAT_MOST_GAP at most; below 2: all). False: no memory, nothing is counted. */
bool tsr_heat_start(uint32_t gap);
/* Nothing is counted any more. No thread is counting. */
void tsr_heat_stop(void);

/* Launches since the last time this was set to zero, but for the last few of each thread: written by all threads, read by none of their launches. */
struct tsr_heat_counter {
    TSR_APART uint32_t launches; /* atomic */
};
#define TSR_HEAT_AT_ONCE 64u /* launches of a thread that are added to it together; as long as all are looked at: the mean gap */
extern __thread uint32_t tsr_heat_at_once, tsr_heat_pending __attribute__((visibility("hidden")));
extern struct tsr_heat_counter tsr_heat_counter __attribute__((visibility("hidden")));

/* Launches of the calling thread until the next one that counts, that one included; 0: none has been drawn. */
extern __thread uint32_t tsr_heat_left __attribute__((visibility("hidden")));
/* Draws the next one. The launches that the present one counts for. */
uint32_t tsr_heat_draw(void);

static inline void tsr_heat_add(uint32_t *count, uint32_t launches)
{
    __atomic_store_n(count, __atomic_load_n(count, __ATOMIC_RELAXED) + launches, __ATOMIC_RELAXED);
}

#define TSR_HEAT_CERTAIN 4096u

/* More would say nothing new: then threads that use the same page do not take its counts from each other. */
static inline bool tsr_heat_is_certain(const struct tsr_heat *page, uint32_t own)
{
    uint32_t others = 0, count = __atomic_load_n(&page->by_gpu[own], __ATOMIC_RELAXED);
    if (count < TSR_HEAT_CERTAIN)
        return false;
    for (uint32_t gpu = 0; gpu < TSR_HEAT_GPUS; gpu++)
        others += gpu == own ? 0 : __atomic_load_n(&page->by_gpu[gpu], __ATOMIC_RELAXED);
    return others < count / 8;
}

static inline void tsr_heat_count_address(uint64_t address, uint32_t launches, uint32_t gpu)
{
    uint64_t offset = address - TSR_ARENA_ADDRESS;
    struct tsr_heat *page = &tsr_heat_pages[offset >> TSR_HEAT_PAGE_SHIFT];
    if (offset < TSR_ARENA_BYTES && !tsr_heat_is_certain(page, gpu % TSR_HEAT_GPUS))
        tsr_heat_add(&page->by_gpu[gpu % TSR_HEAT_GPUS], launches);
}

/* The addresses in a block of parameters. */
static inline void tsr_heat_count_words(const void *parameters, size_t bytes, uint32_t launches, uint32_t gpu)
{
    uint64_t word;
    for (size_t at = 0; at + sizeof word <= bytes; at += sizeof word) {
        memcpy(&word, (const uint8_t *)parameters + at, sizeof word);
        tsr_heat_count_address(word, launches, gpu);
    }
}

/* How many launches the thread's present one counts for; 0: it does not count. To be asked once per launch. */
static inline uint32_t tsr_heat_weight(void)
{
    if (__builtin_expect(tsr_heat_pages == NULL, 1))
        return 0;
    if (tsr_heat_left > 1) {
        tsr_heat_left--;
        return 0;
    }
    return tsr_heat_draw();
}

/* A launch on the GPU with this block of parameters, and those that it counts for. */
static inline void tsr_heat_count(const void *parameters, size_t bytes, uint32_t launches, uint32_t gpu)
{
    tsr_heat_pending += launches;
    if (tsr_heat_pending >= tsr_heat_at_once) {
        tsr_heat_add(&tsr_heat_counter.launches, tsr_heat_pending);
        tsr_heat_pending = 0;
    }
    tsr_heat_count_words(parameters, bytes, launches, gpu);
}

/* Of all pages of a range, which is whole pages of the arena. */
struct tsr_heat tsr_heat_of(uint64_t address, uint64_t bytes);
void tsr_heat_halve(uint64_t address, uint64_t bytes);
void tsr_heat_clear(uint64_t address, uint64_t bytes);

#endif
