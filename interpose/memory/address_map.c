/* See address_map.h. */
#include "memory/address_map.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_BYTES (1ull << TSR_ADDRESS_PAGE_SHIFT)
#define UNIT_BYTES 512ull
#define PAGE_UNITS (PAGE_BYTES / UNIT_BYTES)

struct tsr_region {
    uint64_t version;        /* atomic; odd while it changes */
    uint64_t begin, end;     /* atomic; the same: it is not in use */
    struct tsr_region *free; /* memory lock; next one that can be used again */
};

/* A table of a page. One without a range is no page's, but a look-up may have it in hand: all it finds there is valid at any time. */
struct tsr_address_units {
    struct tsr_region *region[PAGE_UNITS]; /* atomic */
    uint32_t used;                         /* memory lock; units that lead to a range */
    struct tsr_address_units *free;        /* memory lock; next one that can be used again */
};

struct tsr_address_page *tsr_address_leaves[1u << (TSR_ADDRESS_TOP_SHIFT - TSR_ADDRESS_LEAF_SHIFT)];

uint64_t tsr_address_changes;

static pthread_mutex_t growing = PTHREAD_MUTEX_INITIALIZER; /* adding leaves */
static uint32_t lowest_leaf = UINT32_MAX, highest_leaf;     /* growing; of those that there are */
static struct tsr_region *unused;                           /* memory lock */
static struct tsr_address_units *unused_units;              /* memory lock; empty */

/* ---- looking ---- */

static struct tsr_region *region_at(const struct tsr_address_page *page, uint64_t address)
{
    struct tsr_region *region = __atomic_load_n(&page->region, __ATOMIC_ACQUIRE);
    if (region)
        return region;
    const struct tsr_address_units *units = __atomic_load_n(&page->units, __ATOMIC_ACQUIRE);
    return units ? __atomic_load_n(&units->region[address % PAGE_BYTES / UNIT_BYTES], __ATOMIC_ACQUIRE) : NULL;
}

static void read_region(const struct tsr_region *region, uint64_t *begin, uint64_t *end)
{
    for (;;) {
        uint64_t version = __atomic_load_n(&region->version, __ATOMIC_ACQUIRE);
        *begin = __atomic_load_n(&region->begin, __ATOMIC_ACQUIRE); /* no later than the version's second look */
        *end = __atomic_load_n(&region->end, __ATOMIC_ACQUIRE);
        if (!(version & 1) && __atomic_load_n(&region->version, __ATOMIC_RELAXED) == version)
            return;
        __builtin_ia32_pause();
    }
}

bool tsr_address_find_range(uint64_t address, uint64_t *begin, uint64_t *end)
{
    const struct tsr_address_page *page = tsr_address_page(address);
    const struct tsr_region *region = page ? region_at(page, address) : NULL;
    while (region) {
        uint64_t first, last;
        read_region(region, &first, &last);
        if (address - first < last - first) {
            *begin = first;
            *end = last;
            return true;
        }
        const struct tsr_region *now = region_at(page, address); /* another one, if it was given away meanwhile */
        if (now == region)
            return false;
        region = now;
    }
    return false;
}

/* ---- pages ---- */

static struct tsr_address_page *make_leaf(uint32_t number)
{
    pthread_mutex_lock(&growing);
    struct tsr_address_page *leaf = tsr_address_leaves[number];
    if (!leaf && (leaf = calloc(TSR_ADDRESS_LEAF_PAGES, sizeof *leaf))) {
        lowest_leaf = number < lowest_leaf ? number : lowest_leaf;
        highest_leaf = number > highest_leaf ? number : highest_leaf;
        __atomic_store_n(&tsr_address_leaves[number], leaf, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&growing);
    return leaf;
}

/* NULL: no memory, or no address of a GPU. */
static struct tsr_address_page *make_page(uint64_t address)
{
    struct tsr_address_page *page = tsr_address_page(address);
    if (!page && address >> TSR_ADDRESS_TOP_SHIFT == 0 && make_leaf((uint32_t)(address >> TSR_ADDRESS_LEAF_SHIFT)))
        page = tsr_address_page(address);
    return page;
}

bool tsr_address_set_flag(uint64_t address, uint64_t bytes, enum tsr_address_flag flag)
{
    for (uint64_t at = address & ~(PAGE_BYTES - 1); at < address + bytes; at += PAGE_BYTES) {
        struct tsr_address_page *page = make_page(at);
        if (!page)
            return false;
        __atomic_fetch_or(&page->flags, (uint32_t)flag, __ATOMIC_RELEASE);
    }
    return true;
}

void tsr_address_clear_flag(uint64_t address, uint64_t bytes, enum tsr_address_flag flag)
{
    for (uint64_t at = address & ~(PAGE_BYTES - 1); at < address + bytes; at += PAGE_BYTES) {
        struct tsr_address_page *page = tsr_address_page(at);
        if (page)
            __atomic_fetch_and(&page->flags, ~(uint32_t)flag, __ATOMIC_RELEASE);
    }
}

static struct tsr_address_units *take_units(void)
{
    struct tsr_address_units *units = unused_units;
    if (units)
        unused_units = units->free;
    return units ? units : calloc(1, sizeof *units);
}

static void give_units(struct tsr_address_page *page)
{
    struct tsr_address_units *units = page->units;
    __atomic_store_n(&page->units, NULL, __ATOMIC_RELEASE);
    units->free = unused_units;
    unused_units = units;
}

/* Bytes of one page, which it may share. False: no memory. */
static bool point_units(struct tsr_address_page *page, uint64_t begin, uint64_t end, struct tsr_region *region)
{
    if (!page->units && region) {
        struct tsr_address_units *units = take_units();
        if (!units)
            return false;
        __atomic_store_n(&page->units, units, __ATOMIC_RELEASE);
    }
    struct tsr_address_units *units = page->units;
    for (uint64_t at = begin; units && at < end; at += UNIT_BYTES) {
        struct tsr_region **unit = &units->region[at % PAGE_BYTES / UNIT_BYTES];
        units->used += region != NULL;
        units->used -= *unit != NULL;
        __atomic_store_n(unit, region, __ATOMIC_RELEASE);
    }
    if (units && !units->used)
        give_units(page);
    return true;
}

/* Lets [begin, end) lead to the region (NULL: nowhere). False: no memory; part of it may. */
static bool point(uint64_t begin, uint64_t end, bool shares, struct tsr_region *region)
{
    for (uint64_t at = begin, next; at < end; at = next) {
        next = (at & ~(PAGE_BYTES - 1)) + PAGE_BYTES;
        next = next < end ? next : end;
        struct tsr_address_page *page = region ? make_page(at) : tsr_address_page(at);
        if (!page && region)
            return false;
        if (!page)
            continue;
        if (!shares || next - at == PAGE_BYTES)
            __atomic_store_n(&page->region, region, __ATOMIC_RELEASE);
        else if (!point_units(page, at, next, region))
            return false;
    }
    return true;
}

/* ---- ranges ---- */

static void set_region(struct tsr_region *region, uint64_t begin, uint64_t end)
{
    uint64_t version = region->version;
    __atomic_store_n(&region->version, version + 1, __ATOMIC_RELAXED);
    __atomic_store_n(&region->begin, begin, __ATOMIC_RELEASE); /* who sees it sees the odd version, too */
    __atomic_store_n(&region->end, end, __ATOMIC_RELEASE);
    __atomic_store_n(&region->version, version + 2, __ATOMIC_RELEASE);
}

static struct tsr_region *take_region(uint64_t begin, uint64_t end)
{
    struct tsr_region *region = unused;
    if (region)
        unused = region->free;
    else if (!(region = calloc(1, sizeof *region)))
        return NULL;
    set_region(region, begin, end);
    return region;
}

/* Nothing leads to it any more, but a look-up may have it in hand. */
static void give_region(struct tsr_region *region)
{
    set_region(region, 0, 0);
    region->free = unused;
    unused = region;
}

static struct tsr_region *held_at(uint64_t address)
{
    const struct tsr_address_page *page = tsr_address_page(address);
    return page ? region_at(page, address) : NULL;
}

static void count_change(void)
{
    __atomic_add_fetch(&tsr_address_changes, 1, __ATOMIC_RELEASE);
}

void tsr_address_add(uint64_t address, uint64_t bytes, bool shares)
{
    struct tsr_region *region = bytes ? take_region(address, address + bytes) : NULL;
    if (region && !point(address, address + bytes, shares, region)) {
        point(address, address + bytes, shares, NULL);
        give_region(region);
    }
    count_change();
}

void tsr_address_remove(uint64_t address, bool shares)
{
    struct tsr_region *region = held_at(address);
    if (!region || region->begin != address)
        return;
    point(address, region->end, shares, NULL);
    give_region(region);
    count_change();
}

/* Of two neighbours the shorter one's pages come to the other one. */
static struct tsr_region *unite(struct tsr_region *left, struct tsr_region *right)
{
    bool keeps_left = left->end - left->begin >= right->end - right->begin;
    struct tsr_region *kept = keeps_left ? left : right, *other = keeps_left ? right : left;
    uint64_t begin = other->begin, end = other->end;
    set_region(kept, left->begin, right->end);
    point(begin, end, false, kept);
    give_region(other);
    return kept;
}

void tsr_address_join(uint64_t address, uint64_t bytes, bool left, bool right)
{
    struct tsr_region *before = left ? held_at(address - 1) : NULL, *after = right ? held_at(address + bytes) : NULL;
    struct tsr_region *region = before ? before : after;
    if (!region) {
        tsr_address_add(address, bytes, false);
        return;
    }
    if (!point(address, address + bytes, false, region)) {
        point(address, address + bytes, false, NULL);
        return;
    }
    set_region(region, before ? region->begin : address, before ? address + bytes : region->end);
    if (before && after && before != after)
        unite(before, after);
    count_change();
}

/* What is left on the other side is never missing: its pages lead to a range of its own before the old one shrinks. */
void tsr_address_cut(uint64_t address, uint64_t bytes)
{
    struct tsr_region *region = held_at(address);
    if (!region)
        return;
    uint64_t begin = region->begin, end = region->end, cut = address + bytes < end ? address + bytes : end;
    bool keeps_left = address - begin >= end - cut;
    uint64_t other_begin = keeps_left ? cut : begin, other_end = keeps_left ? end : address;
    struct tsr_region *other = other_begin < other_end ? take_region(other_begin, other_end) : NULL;
    point(other_begin, other_end, false, other);
    set_region(region, keeps_left ? begin : cut, keeps_left ? address : end);
    point(address, cut, false, NULL);
    if (region->begin == region->end)
        give_region(region);
    count_change();
}

/* All that lies in the page, each region once: one that was given back is empty. */
static void give_regions(const struct tsr_address_page *page)
{
    if (page->region && page->region->end)
        give_region(page->region);
    for (uint32_t unit = 0; page->units && unit < PAGE_UNITS; unit++)
        if (page->units->region[unit] && page->units->region[unit]->end)
            give_region(page->units->region[unit]);
}

void tsr_address_forget(void)
{
    pthread_mutex_init(&growing, NULL);
    for (uint32_t number = lowest_leaf; number <= highest_leaf && lowest_leaf != UINT32_MAX; number++)
        for (uint32_t i = 0; tsr_address_leaves[number] && i < TSR_ADDRESS_LEAF_PAGES; i++) {
            struct tsr_address_page *page = &tsr_address_leaves[number][i];
            give_regions(page);
            free(page->units);
            *page = (struct tsr_address_page){0};
        }
    while (unused) {
        struct tsr_region *next = unused->free;
        free(unused);
        unused = next;
    }
    while (unused_units) {
        struct tsr_address_units *next = unused_units->free;
        free(unused_units);
        unused_units = next;
    }
    count_change();
}
