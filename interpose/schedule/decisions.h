/*
 * The decisions of schedule/automatic.h as a table: a line for each piece of work, for whoever wants to know why launches stay, or when they were expected to
 * begin (TESSERA_DECISIONS; columns: decisions.c). Not for several threads at a time: who calls holds a lock.
 */
#ifndef TSR_SCHEDULE_DECISIONS_H
#define TSR_SCHEDULE_DECISIONS_H

#include <stdbool.h>
#include <stdint.h>

#include <tessera/place.h>

struct tsr_decided {
    uint64_t number; /* of the piece of work, from 1 on */
    const char *name;
    bool unknown, stays, rests; /* what it touches is not known; it cannot leave; the guard keeps all at home */
    uint32_t joins;             /* of its stream so far */
    uint32_t gpu;               /* where it went */
    double pace;
    double start_ns; /* of the process' first piece of work: times count from here */
    const struct tsr_place_launch *asked;
    const struct tsr_place_choice *choice;
    const struct tsr_guard_clocks *clocks;
};

/* Constant for a process: whether anybody asked for them. */
extern bool tsr_decisions_are_wanted __attribute__((visibility("hidden")));

void tsr_decisions_start(void);
void tsr_decisions_add(const struct tsr_decided *decided);
/* Whenever the host waits: so nothing is missing of a program that waits at its end. */
void tsr_decisions_flush(void);

#endif
