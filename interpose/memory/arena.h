/*
 * The arena: physical memory at addresses that are the same in the application and in every executor.
 *
 * Memory comes in extents of whole 2 MiB pages, each one physical allocation on the home GPU or, as residency.h decides, on another,
 * mapped at home and in every executor at the same address (backing.h). An extent that an executor cannot map exists at home
 * only (home_only.h). How an extent is used is up to the code that holds it (allocation.h). All functions but tsr_arena_holds are called with the memory lock held.
 */
#ifndef TSR_MEMORY_ARENA_H
#define TSR_MEMORY_ARENA_H

#include "api/driver.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tessera/lane.h>

#include "memory/residency.h"

#define TSR_ARENA_PAGE (2ull << 20)

struct tsr_block;
struct tsr_heap;
struct tsr_allocation;
struct tsr_copies;
struct tsr_policy;

struct tsr_extent {
    CUdeviceptr address;
    uint64_t bytes;
    CUmemGenericAllocationHandle memory;
    struct tsr_block *block;           /* its addresses in the arena */
    struct tsr_heap *heap;             /* of the code that uses it: allocations share it ... */
    struct tsr_allocation *allocation; /* ... or it is one */
    bool shared;                       /* all executors have mapped it */
    uint8_t owner;                     /* in a pool (owners.h): the rank of the GPU whose memory it is; else 0 */
    uint32_t peers;                    /* bit n: device n of the application may access it, too */
    struct tsr_residency residency;    /* where the memory is */
    struct tsr_copies *copies;         /* copies of other GPUs (copies.h); NULL: none, all GPUs use the one memory */
    struct tsr_extent
        *next; /* the rest of it is on another GPU, because none had room for all (owners.h): at the addresses that follow */
};

/* A session begins, whose policy places memory; nothing is mapped yet. */
void tsr_arena_start(const struct tsr_policy *policy);
struct tsr_residency_plan *tsr_arena_plan(void);

/*
 * New memory, of the home GPU or where the policy wants it: bytes is a multiple of TSR_ARENA_PAGE. Devices whose bit is set in `peers` may access it, too. Errors: the
 * driver's; NOT_SUPPORTED when the arena cannot be had at all, OUT_OF_MEMORY also when its addresses are used up.
 */
CUresult tsr_arena_map(uint64_t bytes, uint32_t peers, struct tsr_extent **out);
void tsr_arena_unmap(struct tsr_extent *extent); /* with what comes next */

/* With what comes next. */
uint64_t tsr_arena_bytes(const struct tsr_extent *extent);

/* The extent that holds the address, or NULL. */
struct tsr_extent *tsr_arena_find(CUdeviceptr address);
/* Calls visit for every extent; it may unmap the one that it is called with, if that is no other's next. */
void tsr_arena_each(void (*visit)(struct tsr_extent *extent, void *argument), void *argument);

/*
 * Whether all of [address, address + bytes) is memory that every executor has mapped at the same place to read and write, the arena's or
 * what the application has mapped in a reservation of its own (vmm.h, which marks it). Takes no lock.
 */
bool tsr_arena_holds(CUdeviceptr address, uint64_t bytes);

/* Whole pages become such memory, or cease to be. False: out of memory; then they do not count as such. */
bool tsr_arena_mark(CUdeviceptr address, uint64_t bytes, bool mapped);

/* Whether the address is in the arena, whether or not memory is there: the driver has it mapped or reserved, so do not ask the driver about it. */
bool tsr_arena_covers(CUdeviceptr address);

/* In a forked child: forgets everything without a driver call. */
void tsr_arena_forget(void);

#endif
