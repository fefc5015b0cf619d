/*
 * Where memory of the arena should be: on which GPU its one physical copy is. Only decides: knows neither driver nor clock nor locks.
 *
 * Under a fixed place, all memory is created there and stays. Otherwise memory follows its use: it is created where memory of its size was
 * used last (at first where the policy sends most launches), and moves when launches of another GPU have used it so much more than those of
 * its own that a move would have paid for itself. A move costs about as much as move_uses remote uses, so moving costs at
 * most twice what the best choice in hindsight would have cost. Each move makes the next one of the same memory four times as
 * hard, which bounds the number of moves for any program. With a move_uses of 0, memory moves whenever it can, which is for tests.
 */
#ifndef TSR_MEMORY_RESIDENCY_H
#define TSR_MEMORY_RESIDENCY_H

#include <stdbool.h>
#include <stdint.h>

#include "memory/heat.h"

#define TSR_RESIDENCY_MOST_MOVES 8u /* of one piece of memory; then it stays */
#define TSR_RESIDENCY_CLASSES 41u   /* sizes by powers of two, to that of the arena */

/* Of one piece of memory. */
struct tsr_residency {
    uint8_t gpu;
    uint8_t moves; /* so far */
    bool fixed;    /* others than the executors have the physical memory: it stays what it is */
};

/* What is known of all memory. */
struct tsr_residency_plan {
    bool follows;
    uint8_t gpu; /* where memory is created of which nothing is known; if it does not follow, all */
    uint32_t move_uses;
    struct {
        bool known;
        uint8_t gpu;
    } classes[TSR_RESIDENCY_CLASSES];
};

/* Where new memory goes. */
uint32_t tsr_residency_first(const struct tsr_residency_plan *plan, uint64_t bytes);

/* Where memory of so many bytes that was used like this should be; its own GPU when it is to stay. Learns where such memory is used. */
uint32_t tsr_residency_wanted(struct tsr_residency_plan *plan, const struct tsr_residency *of, uint64_t bytes,
                              const struct tsr_heat *uses);

/* Whether the counts are so old that they would hide a change: they are to be halved. */
bool tsr_residency_is_stale(const struct tsr_residency_plan *plan, const struct tsr_residency *of, const struct tsr_heat *uses);

#endif
