/*
 * Disorder, for tests: what is ready begins in random order and after random pauses, so that work runs as late, beside other work and in other
 * processes, as what it waits for allows. Otherwise the engine keeps the order of the calls, which hides a wait that is missing.
 */
#ifndef TSR_STREAM_DISORDER_H
#define TSR_STREAM_DISORDER_H

#include <stdint.h>
#include <unistd.h>

#include "base/options.h"

#define TSR_DISORDER_PAUSES 6u /* of so many pieces of work one begins late */
#define TSR_DISORDER_PAUSE_NS 3000000u

static inline uint64_t tsr_disorder_mix(uint64_t sequence)
{
    uint64_t value = (tsr_options()->disorder + ((uint64_t)getpid() << 40) + sequence) * 0x9e3779b97f4a7c15u;
    value ^= value >> 29;
    value *= 0xbf58476d1ce4e5b9u;
    return value ^ value >> 32;
}

/* Drawn; without disorder what is given. */
static inline uint64_t tsr_disorder_draw(uint64_t sequence, uint64_t otherwise)
{
    return tsr_options()->disorder ? tsr_disorder_mix(sequence) : otherwise;
}

static inline uint64_t tsr_disorder_pause_ns(uint64_t sequence)
{
    uint64_t drawn = tsr_options()->disorder ? tsr_disorder_mix(~sequence) : 1;
    return drawn % TSR_DISORDER_PAUSES ? 0 : drawn / TSR_DISORDER_PAUSES % TSR_DISORDER_PAUSE_NS;
}

#endif
