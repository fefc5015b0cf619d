/*
 * The order in which things are used, learnt from the run: programs repeat themselves, so what was used after the last time that matches the present is
 * what will be used now. Only decides: it knows neither driver nor clock nor locks.
 */
#ifndef TSR_MEMORY_RECURRENCE_H
#define TSR_MEMORY_RECURRENCE_H

#include <stdbool.h>
#include <stdint.h>

#define TSR_RECURRENCE_ITEMS 4096u /* that are remembered; a power of two */
#define TSR_RECURRENCE_SURE 8u
#define TSR_RECURRENCE_NONE UINT64_MAX

struct tsr_recurrence {
    uint32_t items[TSR_RECURRENCE_ITEMS]; /* a ring */
    uint64_t count;                       /* of all so far */
    uint64_t match; /* the place of an earlier item that what came before the last one matches; NONE: there is none */
    uint32_t sure;  /* 0 to SURE: grows where the next item is what was expected, and falls twice as fast */
};

void tsr_recurrence_start(struct tsr_recurrence *recurrence);

/* It is used now. The same as the last one counts once. True: it was noted. */
bool tsr_recurrence_note(struct tsr_recurrence *recurrence, uint32_t item);

/* Whether what is expected has come true lately. */
static inline bool tsr_recurrence_is_sure(const struct tsr_recurrence *recurrence)
{
    return recurrence->match != TSR_RECURRENCE_NONE && recurrence->sure >= TSR_RECURRENCE_SURE / 2;
}

/* How many uses until all repeats; 0: not known. */
uint64_t tsr_recurrence_period(const struct tsr_recurrence *recurrence);
/* What is used after so many others, from 0 on, less than the period. */
uint32_t tsr_recurrence_next(const struct tsr_recurrence *recurrence, uint64_t after);
/* What was used so many items ago, 0: the last one, less than min(count, ITEMS). */
uint32_t tsr_recurrence_last(const struct tsr_recurrence *recurrence, uint64_t ago);

#endif
