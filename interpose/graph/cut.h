/*
 * Where a sequence of work is cut that GPUs run in turn, each piece of it where it costs least: what a piece costs on each GPU, and what it costs
 * to go on elsewhere, both in bytes. Pure: no driver, no locks.
 */
#ifndef TSR_GRAPH_CUT_H
#define TSR_GRAPH_CUT_H

#include <stdbool.h>
#include <stdint.h>

struct tsr_cut_sequence {
    uint32_t count, gpus;
    const double *costs; /* of the first piece on each GPU, then of the second, ... */
    double elsewhere;    /* to go on on another GPU */
};

/* gpus: of each piece; among the cheapest, one with low numbers. False: no memory. */
bool tsr_cut(const struct tsr_cut_sequence *sequence, uint8_t *gpus);

#endif
