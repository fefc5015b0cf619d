/* See heat.h. */
#include "memory/heat.h"

#include <sys/mman.h>

#include "base/os.h"
#include "driver/engaged.h"

#define FIRST_LOOKS 1024u /* of a thread, all at successive launches: where memory belongs mostly shows early */
#define COUNTED_PAGES (TSR_ARENA_BYTES >> TSR_HEAT_PAGE_SHIFT)

struct tsr_heat *tsr_heat_pages TSR_HOT; /* away from what is written */
struct tsr_heat_counter tsr_heat_counter;

__thread uint32_t tsr_heat_left, tsr_heat_pending, tsr_heat_at_once;
static uint32_t mean_gap = 1; /* constant while something is counted */
static __thread uint32_t gap, random_state, looks;
static uint32_t threads; /* atomic; that have drawn: each has random numbers of its own */

static uint32_t draw(void)
{
    if (!random_state)
        random_state = 0x9e3779b9u * (1 + 2 * __atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED));
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state;
}

uint32_t tsr_heat_draw(void)
{
    uint32_t now = tsr_heat_left ? gap : 1;
    bool each = mean_gap < 2 || looks < FIRST_LOOKS;
    looks += looks < FIRST_LOOKS;
    gap = each ? 1 : 1 + (draw() >> 8) % (2 * mean_gap - 1);
    tsr_heat_left = gap;
    tsr_heat_at_once = !each ? TSR_HEAT_AT_ONCE : mean_gap < 2 ? 0 : mean_gap;
    return now;
}

bool tsr_heat_start(uint32_t of)
{
    mean_gap = of < TSR_HEAT_MOST_GAP ? of : TSR_HEAT_MOST_GAP;
    tsr_heat_pages = tsr_os_map(NULL, COUNTED_PAGES * sizeof(struct tsr_heat), PROT_READ | PROT_WRITE, -1, 0);
    tsr_heat_counter.launches = 0;
    return tsr_heat_pages != NULL;
}

void tsr_heat_stop(void)
{
    if (tsr_heat_pages)
        tsr_os_unmap(tsr_heat_pages, COUNTED_PAGES * sizeof(struct tsr_heat));
    tsr_heat_pages = NULL;
}

static uint64_t page_of(uint64_t address)
{
    return (address - TSR_ARENA_ADDRESS) >> TSR_HEAT_PAGE_SHIFT;
}

struct tsr_heat tsr_heat_of(uint64_t address, uint64_t bytes)
{
    struct tsr_heat sum = {0};
    for (uint64_t page = page_of(address); page < page_of(address + bytes); page++)
        for (uint32_t gpu = 0; gpu < TSR_HEAT_GPUS; gpu++)
            sum.by_gpu[gpu] += __atomic_load_n(&tsr_heat_pages[page].by_gpu[gpu], __ATOMIC_RELAXED);
    return sum;
}

/* Pages that nobody has used stay as they are: the system has given them no memory yet. */
static void shift(uint64_t address, uint64_t bytes, unsigned by)
{
    for (uint64_t page = page_of(address); page < page_of(address + bytes); page++)
        for (uint32_t gpu = 0; gpu < TSR_HEAT_GPUS; gpu++) {
            uint32_t *count = &tsr_heat_pages[page].by_gpu[gpu], now = __atomic_load_n(count, __ATOMIC_RELAXED);
            if (now)
                __atomic_store_n(count, by < 32 ? now >> by : 0, __ATOMIC_RELAXED);
        }
}

void tsr_heat_halve(uint64_t address, uint64_t bytes)
{
    shift(address, bytes, 1);
}

void tsr_heat_clear(uint64_t address, uint64_t bytes)
{
    shift(address, bytes, 32);
}
