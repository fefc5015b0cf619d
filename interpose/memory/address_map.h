/*
 * The address map: what is known of a device address, for readers that must not take a lock. Pages of 2 MiB have flags, and lead to the range that
 * contains the address: an allocation of the application, or adjacent mappings of its own.
 *
 * Code that allocates and frees, or maps and unmaps, updates the map, one thread at a time for each kind of change (under the memory lock; home_only.c has a lock of its own
 * for its flag). Look-ups take no lock: tables and ranges are never freed but used again, and each range has a version number that is odd
 * while it changes (a seqlock). A look-up during a change sees the state before it or after it: a range that does not contain the address, which
 * it met in a table that now is another page's, makes it look again.
 */
#ifndef TSR_MEMORY_ADDRESS_MAP_H
#define TSR_MEMORY_ADDRESS_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TSR_ADDRESS_PAGE_SHIFT 21u
#define TSR_ADDRESS_LEAF_SHIFT 30u
#define TSR_ADDRESS_TOP_SHIFT 49u /* addresses of GPUs are lower */
#define TSR_ADDRESS_LEAF_PAGES (1u << (TSR_ADDRESS_LEAF_SHIFT - TSR_ADDRESS_PAGE_SHIFT))

enum tsr_address_flag {
    TSR_ADDRESS_EVERYWHERE = 1, /* every executor has it mapped there, to read and write */
    TSR_ADDRESS_HOME_ONLY = 2   /* some of it exists at home only (home_only.h) */
};

extern uint64_t tsr_address_changes __attribute__((visibility("hidden"))); /* atomic; of ranges so far */

struct tsr_region;
struct tsr_address_units;

struct tsr_address_page {
    uint32_t flags;                  /* atomic */
    struct tsr_region *region;       /* atomic; that the whole page, or what there is of it, lies in */
    struct tsr_address_units *units; /* atomic; else of each 512 bytes; NULL: none, no range lies in the page with others */
};

extern struct tsr_address_page *tsr_address_leaves[1u << (TSR_ADDRESS_TOP_SHIFT - TSR_ADDRESS_LEAF_SHIFT)]
    __attribute__((visibility("hidden"))); /* atomic; NULL: nothing is known there */

/* NULL: nothing is known of any address near. */
static inline struct tsr_address_page *tsr_address_page(uint64_t address)
{
    if (address >> TSR_ADDRESS_TOP_SHIFT)
        return NULL;
    struct tsr_address_page *leaf = __atomic_load_n(&tsr_address_leaves[address >> TSR_ADDRESS_LEAF_SHIFT], __ATOMIC_ACQUIRE);
    return leaf ? &leaf[address >> TSR_ADDRESS_PAGE_SHIFT & (TSR_ADDRESS_LEAF_PAGES - 1)] : NULL;
}

static inline uint32_t tsr_address_flags(uint64_t address)
{
    const struct tsr_address_page *page = tsr_address_page(address);
    return page ? __atomic_load_n(&page->flags, __ATOMIC_ACQUIRE) : 0;
}

/* The range that the address lies in. False: none. Takes no lock. */
bool tsr_address_find_range(uint64_t address, uint64_t *begin, uint64_t *end);

/* Sets or clears a flag of all pages that the bytes touch. False: no memory; some may be set. */
bool tsr_address_set_flag(uint64_t address, uint64_t bytes, enum tsr_address_flag flag);
void tsr_address_clear_flag(uint64_t address, uint64_t bytes, enum tsr_address_flag flag);

/*
 * With the memory lock. Without memory the range is not found: what may be touched through it is then unknown.
 * shares: others' ranges may lie in the same pages, in other units of 512 bytes; else the pages are its own.
 */
void tsr_address_add(uint64_t address, uint64_t bytes, bool shares);
/* The range that begins there, if there is one, goes. */
void tsr_address_remove(uint64_t address, bool shares);

/* Whole pages that become, or cease to be, part of a range: together with what ends where they begin, and what begins where they end. */
void tsr_address_join(uint64_t address, uint64_t bytes, bool left, bool right);
void tsr_address_cut(uint64_t address, uint64_t bytes);

/* In a forked child: forgets everything. */
void tsr_address_forget(void);

#endif
