/*
 * Where in the iteration of a plan (tessera/plan.h) a thread is, found by the classes of its launches. Knows neither driver nor clock nor locks.
 *
 * A position that is known moves on with each launch that is the next one. A launch that is not in the plan at all is passed over. One that is
 * in it, but is not the next, ends the knowledge: from then on the launches since are compared with every place of the iteration until one place
 * alone is left, at most TSR_PLAN_HISTORY of them. Copies and memsets do not tell where a thread is, but move the position if they come where
 * the plan has them.
 */
#ifndef TSR_SCHEDULE_PLAN_POSITION_H
#define TSR_SCHEDULE_PLAN_POSITION_H

#include <stdbool.h>
#include <stdint.h>

#include <tessera/plan.h>

#define TSR_PLAN_HISTORY 64u /* launches; a power of two */
#define TSR_PLAN_NOWHERE UINT32_MAX
#define TSR_PLAN_SYMBOLS (2 * TSR_PLAN_CLASSES)

/* A table, with what is derived from it. */
struct tsr_plan_index {
    struct tsr_plan_table table;
    uint32_t launch_count;
    uint16_t launches[TSR_PLAN_OPERATIONS]; /* operations that are launches */
    uint16_t symbols[TSR_PLAN_OPERATIONS];  /* by launch */
    uint16_t next[TSR_PLAN_OPERATIONS];     /* by launch: the one before with the same symbol, from 1 on; 0: none */
    uint16_t last[TSR_PLAN_SYMBOLS];        /* by symbol: its last launch, from 1 on; 0: none */
    uint8_t settled[TSR_PLAN_SYMBOLS]; /* by symbol: from 1 on, the one group of all its places in all placements; 0: several */
};

/* Zero bytes: nothing is known. */
struct tsr_plan_position {
    bool known;
    uint32_t at;     /* known: the last operation that was met */
    uint32_t length; /* of the history that counts */
    uint32_t seen;   /* launches */
    uint16_t history[TSR_PLAN_HISTORY];
};

/* What a launch reads of what the operation before it in its stream wrote. */
enum tsr_plan_reads { TSR_PLAN_READS_NOTHING, TSR_PLAN_READS_SOME, TSR_PLAN_READS_UNKNOWN };

enum tsr_plan_met {
    TSR_PLAN_MET_NEXT,       /* it is at the position */
    TSR_PLAN_MET_FIRST,      /* the same, of a new request */
    TSR_PLAN_MET_UNPLACED,   /* it may be in several places */
    TSR_PLAN_MET_UNEXPECTED, /* it has no place after those before it */
    TSR_PLAN_MET_NONE        /* a copy or memset that is not expected there */
};

/* False: the table is not as it should be. */
bool tsr_plan_index_make(struct tsr_plan_index *index);
/* The thread's next operation. class: its number in the table. */
enum tsr_plan_met tsr_plan_meet(const struct tsr_plan_index *index, struct tsr_plan_position *position, uint32_t class,
                                enum tsr_plan_reads reads);
/* Of a launch, wherever it is; TSR_PLAN_NOWHERE: that depends. */
uint32_t tsr_plan_settled(const struct tsr_plan_index *index, uint32_t class, enum tsr_plan_reads reads);

#endif
