/*
 * The evaluation of one launch while its ranges are collected: a run goes through the parts of the grid, and through the accesses in each part.
 * What is known of one part is in `e` and is discarded with it; ranges are kept.
 */
#ifndef TESSERA_ACCESS_RUN_H
#define TESSERA_ACCESS_RUN_H

#include "access/evaluation.h"

#define TSR_RUN_CHOICES 16u
#define TSR_RUN_PARTS 32u        /* of a grid that wait to be evaluated */
#define TSR_RUN_OVERWRITTEN 128u /* ranges, while they are collected */
#define TSR_RUN_COPIES 8u        /* of a store that are looked at together */

#define TSR_RANGE_LARGEST ((tsr_wide)1 << 40) /* bytes; a range beyond is no range */
#define TSR_NO_BASE TSR_NO_SYMBOL
#define TSR_LAST_WRITTEN (INT64_MAX - 1) /* the end of a range, until all writes are known */

/* An address: the symbol of the pointer that it begins with, or TSR_NO_BASE, and the rest of a form, `displacement` further. */
struct tsr_address {
    const struct tsr_form *form;
    tsr_wide displacement;
    uint32_t base;
};

struct tsr_known_shape;
struct tsr_store_group;

struct tsr_run {
    struct tsr_evaluation e;
    struct tsr_known_shape *shapes[TSR_VIEW_BUCKETS];
    struct tsr_store_group *groups;
    struct tsr_must *must;
    struct tsr_integer_points *systems; /* TSR_RUN_COPIES, and one more */
    struct tsr_access_range *overwritten;
    uint32_t overwritten_count;
    struct tsr_found *found;
    struct tsr_walk *walk;
    uint32_t walked[TSR_WALK_BASES];
    bool may_walk, has_tables, splits;
    uint32_t capacity, at; /* at: the access that is looked at */
    struct tsr_grid_part waiting[TSR_RUN_PARTS];
    uint32_t parts, kept; /* kept: ranges of parts that are done */
    uint32_t steps;       /* that other parts took, and tries */
    char *room;           /* scratch that is used for each part anew; NULL: all */
    struct tsr_symbol *top;
};

/* address.c */
bool tsr_address_is_private(struct tsr_run *run, const struct tsr_form *form); /* of shared, local or parameter memory */
uint32_t tsr_address_base(struct tsr_run *run, const struct tsr_form *form);   /* TSR_NO_BASE without a single one */
const struct tsr_form *tsr_address_wrapped(struct tsr_evaluation *e, const struct tsr_form *form, uint32_t base);
uint32_t tsr_address_choices(struct tsr_evaluation *e, const struct tsr_form *form,
                             const struct tsr_form *found[TSR_RUN_CHOICES]); /* how many */
bool tsr_address_is_offset(const struct tsr_address *address, const struct tsr_form *form);
const struct tsr_form *tsr_address_offset(struct tsr_evaluation *e, const struct tsr_address *address);
bool tsr_address_shape(struct tsr_run *run, const struct tsr_address *address, const struct tsr_facts *facts, uint32_t size,
                       struct tsr_strided_bytes *shape); /* false: it has no bounds */

/* ranges.c */
void tsr_run_why(struct tsr_run *run, uint32_t line, enum tsr_access_reason reason, const char *text);
bool tsr_run_goes_on(const struct tsr_run *run);
struct tsr_access_range tsr_run_range(const struct tsr_sections *template, uint32_t kind, int64_t slot, int32_t variable);
void tsr_range_make_whole(struct tsr_access_range *range);
void tsr_run_accesses(struct tsr_run *run);
void tsr_run_tensors(struct tsr_run *run, bool reached);
void tsr_run_rest(struct tsr_run *run);

/* overwritten.c */
void tsr_run_overwritten(struct tsr_run *run);
void tsr_run_hand_over(struct tsr_run *run);

#endif
