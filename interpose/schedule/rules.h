/*
 * The rules of one generation of the decision table, ready for use: regular expressions compiled, places resolved to lanes.
 *
 * Conditions on what a function is (its name, its module, this process) are tested once per function and generation and give its
 * candidates, a set of rules; those on a single launch are tested per launch, by decide.c, on the candidates only.
 * Rules that have been replaced are freed only when many others have been, because a launch may be looking at them.
 */
#ifndef TSR_SCHEDULE_RULES_H
#define TSR_SCHEDULE_RULES_H

#include <regex.h>
#include <stdbool.h>
#include <stdint.h>

#include <tessera/library_calls.h>
#include <tessera/policy.h>

#include "object/registry.h"

/* The conditions that need the launch; all others are known with the function. */
#define TSR_RULES_PER_LAUNCH                                                                                                   \
    (TSR_POLICY_LIBRARY_CALL | TSR_POLICY_BLOCKS | TSR_POLICY_THREADS | TSR_POLICY_BLOCK_THREADS | TSR_POLICY_STREAM |         \
     TSR_POLICY_NTH | TSR_POLICY_SHARE)

struct tsr_function_record;
struct tsr_lane_client;

struct tsr_rule {
    struct tsr_policy_rule spec;
    uint32_t per_launch; /* of its conditions */
    bool holds_never;    /* not in this process, or not understood */
    regex_t regex;
    uint64_t library_calls[TSR_LIBRARY_CALLS_MOST / 64]; /* set of those that the rule names */
    struct tsr_lane_client *lane;                        /* NULL: home, or out of reach */
    bool leaves;                                         /* it sends launches elsewhere */
};

struct tsr_rules {
    uint32_t generation, count;
    int32_t home; /* its number */
    struct tsr_lane_client *default_lane;
    bool default_leaves;
    int32_t default_device;
    uint32_t verify_every;
    uint64_t verify_limit_bytes;
    bool log_decisions;
    bool numbers;                       /* one asks for a launch's number: */
    uint64_t numbered[TSR_RULES_WORDS]; /* set of those that do */
    uint32_t text_bytes;
    char *text; /* after the rules */
    struct tsr_rule rules[];
};

/* The rules of the table's present generation. NULL: it is being changed, or memory is short; ask again at the next launch. */
struct tsr_rules *tsr_rules_create(const struct tsr_policy *policy);
void tsr_rules_destroy(struct tsr_rules *rules); /* NULL: nothing */
/* Writes the set of the rules that may hold for launches of the function. */
void tsr_rules_match(const struct tsr_rules *rules, const struct tsr_function_record *function,
                     uint64_t candidates[TSR_RULES_WORDS]);

#endif
