/* The file through which checks are requested and their results reported (tessera/checks.h). */
#ifndef TSR_CHECK_CHECK_TABLE_H
#define TSR_CHECK_CHECK_TABLE_H

#include <stdint.h>

#include <tessera/checks.h>

#include "launch/predict.h"

struct tsr_difference;
struct tsr_function_record;
struct tsr_launch;
struct tsr_clone_result;

struct tsr_check_block { /* a launch's parameters, cut off if there are more */
    uint32_t bytes;
    uint8_t values[sizeof((struct tsr_check_violation *)0)->values];
};

struct tsr_check_place { /* allocation 0: the address is in none */
    uint64_t address, allocation, allocation_bytes;
};

struct tsr_check_finding {
    const struct tsr_launch *launch;
    const struct tsr_function_record *function;
    const struct tsr_check_block *block;
    const struct tsr_prediction *prediction;
    const struct tsr_difference *stray;
    const struct tsr_clone_result *access; /* NULL: bytes changed */
    enum tsr_check_claim claim;            /* NONE: what was not predicted; else stray is what came out otherwise */
    const struct tsr_access_range *claimed;
    struct tsr_check_place place; /* of the first byte */
};

/* NULL: nothing is to be checked, or the file cannot be used. */
struct tsr_checks *tsr_check_table_map(void);

/* Counts a violation, and reports it if there is room. */
void tsr_check_table_report(struct tsr_checks *checks, const struct tsr_check_finding *finding);

#endif
