/*
 * The evaluation of a template for one launch; private to this directory. ptxtools/README.md says how ranges are found; the head of each
 * file says why its step is sound.
 *
 * All memory comes from the caller's scratch: forms from the lower end, symbols from the upper end. During an evaluation it is released only where
 * nothing points into it any more. When the memory or the budget of steps is used up, or values depend on each other too deeply, the evaluation is
 * left by a longjmp to run.c, which gives coarser ranges for the remaining accesses (whole.c). Nothing is held that the jump would leak.
 */
#ifndef TESSERA_ACCESS_EVALUATION_H
#define TESSERA_ACCESS_EVALUATION_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tessera/access.h>

#include "access/wide.h"

#define TSR_FORM_TERMS 40u  /* of a form; one that would have more becomes a symbol */
#define TSR_VIEW_BUCKETS 32u
#define TSR_PHI_BUCKETS 32u
#define TSR_NO_SYMBOL UINT32_MAX
#define TSR_NO_CONDITION UINT32_MAX /* of a symbol whose facts hold together nowhere else */
#define TSR_DEPTH 250u /* of values that depend on each other */

/* A template's sections, checked. */
struct tsr_sections {
    const struct tsr_access_template *header;
    const struct tsr_access_parameter *parameters;
    const struct tsr_access_node *nodes;
    const uint32_t *operands;
    const struct tsr_access_condition *conditions;
    const struct tsr_access_loop *loops;
    const uint64_t *blocks;
    const struct tsr_access_access *accesses;
    const struct tsr_access_tensor *tensors;
    const struct tsr_access_unknown *unknowns;
    const struct tsr_access_symbol *symbols;
    const char *text;
};

/* A part of the parameter block that a template reads. */
struct tsr_input {
    uint32_t offset, size;
};

/* What an evaluation depends on besides grid and block: the values of inputs, then the addresses of symbols. */
struct tsr_inputs {
    struct tsr_sections template;
    const struct tsr_input *items;
    const uint32_t *of_node; /* by node of TSR_OP_PARAMETER: which input it is */
    uint32_t count;
    bool has_elements; /* tables are read with an index */
};

enum tsr_asked {
    TSR_ASKED_NULL = 1,     /* whether the value is 0 */
    TSR_ASKED_ALLOCATED = 2 /* whether it is an address in an allocation */
};

/* Which properties of an input an evaluation depends on. */
struct tsr_seen {
    uint64_t bits;  /* which bits of its value */
    uint32_t asked; /* enum tsr_asked */
};

/* The value of an input, or a symbol's address. 0: the launch has none. */
static inline uint64_t tsr_input_value(const struct tsr_inputs *inputs, const struct tsr_access_launch *launch, uint32_t number)
{
    uint64_t value = 0;
    uint32_t half;
    if (number >= inputs->count)
        return launch->symbols ? launch->symbols[number - inputs->count] : 0;
    struct tsr_input input = inputs->items[number];
    const char *from = (const char *)launch->parameters + input.offset;
    if ((uint64_t)input.offset + input.size > launch->parameter_bytes)
        return 0;
    if (input.size == sizeof value) {
        __builtin_memcpy(&value, from, sizeof value);
    } else if (input.size == sizeof half) {
        __builtin_memcpy(&half, from, sizeof half);
        value = half;
    } else {
        __builtin_memcpy(&value, from, input.size);
    }
    return value;
}

struct tsr_term {
    tsr_wide coefficient; /* not 0 */
    uint32_t symbol;
};

/* Which symbols a form has with positive and with negative coefficients: symbol n is bit n modulo 32. */
struct tsr_signs {
    uint32_t positive, negative;
};

/* Whether a form that is used as a fact follows from the bounds of its symbols. */
enum tsr_slack { TSR_SLACK_UNKNOWN, TSR_SLACK, TSR_NO_SLACK };

/* constant + sum of coefficient * symbol, congruent to the machine's value. Never changed once made. */
struct tsr_form {
    tsr_wide constant;
    uint32_t count;
    enum tsr_slack slack;
    struct tsr_signs signs; /* both 0: not found yet */
    struct tsr_term terms[];
};

/* Forms that are at most 0. A NULL pointer to facts means unreachable. */
struct tsr_facts {
    uint32_t count;
    const struct tsr_form *items[];
};

struct tsr_fact_link {
    const struct tsr_form *form;
    struct tsr_fact_link *next;
};

/* An unknown integer. */
struct tsr_symbol {
    tsr_wide low, high;
    tsr_wide mask;      /* bits that may be set; -1: not known */
    uint64_t loops;     /* loops in which it takes new values */
    int64_t slot;       /* offset of the kernel parameter whose value it is; -1: none's */
    int32_t variable;   /* the template's symbol whose address it is; -1: none's */
    bool loaded;        /* from memory */
    bool seen;          /* its bounds were used */
    uint64_t seen_bits; /* bits of its value that were used otherwise */
    uint32_t asked;     /* enum tsr_asked */
    uint32_t input;     /* of which it is the value, if it is one's */
    uint32_t reach;     /* symbols that occur in its facts, and in theirs, itself included; as in tsr_signs */
    struct tsr_fact_link *facts, *last_fact;
    const struct tsr_form *zero;   /* a form that is 0; its first term is what was divided */
    const struct tsr_form *origin; /* of a quotient: what was divided, by `divisor` */
    tsr_wide divisor;
    const struct tsr_form *const *choices; /* forms of which it is one */
    uint32_t choice_count;
    const struct tsr_form *sides[2]; /* of a minimum or maximum: it is one of these; NULL: of none */
    uint32_t condition;              /* where its facts hold; elsewhere it is not defined */
};

struct tsr_view {
    struct tsr_view *next;
    const struct tsr_form *form, *result;
    uint64_t hash;
    uint32_t width;
    bool is_signed;
};

struct tsr_division {
    struct tsr_division *older;
    const struct tsr_form *form, *quotient, *remainder;
    tsr_wide divisor;
    uint64_t hash;
};

struct tsr_undo {
    struct tsr_undo *older;
    uint32_t index;
};

struct tsr_assumed {
    struct tsr_assumed *next;
    const struct tsr_form *form;
    tsr_wide low, high;
};

/* A loop whose iterations are being counted. */
struct tsr_trial {
    struct tsr_trial *outer;
    uint32_t symbol;
    bool assume;
    struct tsr_assumed *assumed; /* forms that are assumed to lie between two numbers */
    struct tsr_undo *values, *facts;
    struct tsr_division *divisions;
};

/* The symbol of a kernel parameter or of a variable. */
struct tsr_named {
    struct tsr_named *next;
    int64_t slot;
    int32_t variable;
    const struct tsr_form *form;
};

/* Blocks of the grid, from the first to the last one of each axis. */
struct tsr_grid_part {
    uint32_t first[3], last[3];
};

struct tsr_evaluation {
    const struct tsr_sections *template;
    const struct tsr_inputs *inputs;
    const struct tsr_access_launch *launch;
    struct tsr_seen *seen;     /* of each input, what was looked at; of pointers, see the symbols */
    char *next;                /* free scratch from here */
    struct tsr_symbol *lowest; /* to here; symbol n is top[-1 - n] */
    struct tsr_symbol *top;
    uint32_t symbol_count;
    uint32_t depth, trial_depth;
    uint32_t steps, most_steps;
    struct tsr_grid_part part; /* that is evaluated */
    struct tsr_grid_part rest; /* what is left after a part that has to be evaluated on its own */
    bool splits;               /* the evaluation may ask for smaller parts: then `rest` is set, and it is left */
    bool is_split;
    bool coarse;                        /* facts and strides are no longer looked for */
    const struct tsr_form **values;     /* by node */
    uint8_t *active;                    /* by node: trial_depth + 1 of the innermost trial in which it is being made */
    const struct tsr_facts **facts;     /* by condition; NULL: not made yet */
    const struct tsr_form **inductions; /* by loop; NULL: not made yet */
    const struct tsr_form *special[TSR_SPECIAL_OTHER];
    struct tsr_named *named;
    struct tsr_view *views[TSR_VIEW_BUCKETS];
    struct tsr_phi *phis[TSR_PHI_BUCKETS]; /* by block */
    struct tsr_division *divisions;
    struct tsr_trial *trial;
    struct tsr_undo *under_evaluation; /* conditions whose predicates are being evaluated */
    jmp_buf out;                       /* where to continue when the budget is used up */
};

extern const struct tsr_form tsr_form_zero;
extern const struct tsr_facts tsr_facts_none;

/* form.c */
void *tsr_scratch_take(struct tsr_evaluation *e, size_t bytes);
void tsr_evaluation_leave(struct tsr_evaluation *e) __attribute__((noreturn));
void tsr_evaluation_split(struct tsr_evaluation *e, uint32_t axis, uint32_t blocks) __attribute__((noreturn));

static inline void tsr_evaluation_spend(struct tsr_evaluation *e, uint32_t steps)
{
    e->steps += steps;
    if (e->steps > e->most_steps / 4 * 3)
        e->coarse = true;
    if (e->steps > e->most_steps)
        tsr_evaluation_leave(e);
}

static inline struct tsr_symbol *tsr_symbol_at(const struct tsr_evaluation *e, uint32_t number)
{
    return &e->top[-1 - (ptrdiff_t)number];
}

static inline bool tsr_symbol_is_pointer(const struct tsr_symbol *symbol)
{
    return symbol->slot >= 0 || symbol->variable >= 0;
}

static inline void tsr_signs_add(struct tsr_signs *signs, uint32_t symbol, tsr_wide coefficient)
{
    uint32_t bit = 1u << (symbol & 31);
    signs->positive |= coefficient > 0 ? bit : 0;
    signs->negative |= coefficient < 0 ? bit : 0;
}

/* Whether there may be a symbol that both have with the same sign. */
static inline bool tsr_signs_meet(struct tsr_signs a, struct tsr_signs b)
{
    return ((a.positive & b.positive) | (a.negative & b.negative)) != 0;
}

static inline struct tsr_signs tsr_form_signs(const struct tsr_form *form)
{
    struct tsr_signs signs = form->signs;
    if ((signs.positive | signs.negative) == 0 && form->count) {
        for (uint32_t i = 0; i < form->count; i++)
            tsr_signs_add(&signs, form->terms[i].symbol, form->terms[i].coefficient);
        ((struct tsr_form *)form)->signs = signs;
    }
    return signs;
}

/* Where a form has a symbol; its count: nowhere. */
static inline uint32_t tsr_form_place(const struct tsr_form *form, uint32_t symbol)
{
    uint32_t i = 0;
    while (i < form->count && form->terms[i].symbol != symbol)
        i++;
    return i;
}

struct tsr_symbol tsr_symbol_new(tsr_wide low, tsr_wide high, uint64_t loops);
const struct tsr_form *tsr_symbol_add(struct tsr_evaluation *e, const struct tsr_symbol *symbol);
void tsr_symbol_relate(struct tsr_evaluation *e, const struct tsr_form *symbol, const struct tsr_form *fact);
void tsr_symbol_set_sides(struct tsr_evaluation *e, const struct tsr_form *symbol, const struct tsr_form *const sides[2]);

struct tsr_form *tsr_form_room(struct tsr_evaluation *e, tsr_wide constant, uint32_t terms);
const struct tsr_form *tsr_form_number(struct tsr_evaluation *e, tsr_wide value);
const struct tsr_form *tsr_form_symbol(struct tsr_evaluation *e, uint32_t symbol, tsr_wide coefficient);
const struct tsr_form *tsr_form_plus(struct tsr_evaluation *e, const struct tsr_form *a, const struct tsr_form *b,
                                     tsr_wide factor);
const struct tsr_form *tsr_form_apart(struct tsr_evaluation *e, const struct tsr_form *a, const struct tsr_form *b,
                                      bool opposite, tsr_wide distance);
const struct tsr_form *tsr_form_moved(struct tsr_evaluation *e, const struct tsr_form *a, tsr_wide distance);
const struct tsr_form *tsr_form_times(struct tsr_evaluation *e, const struct tsr_form *a, tsr_wide factor);
const struct tsr_form *tsr_form_without(struct tsr_evaluation *e, const struct tsr_form *a, uint32_t symbol);
const struct tsr_form *tsr_form_fact(struct tsr_evaluation *e, const struct tsr_form *a);
tsr_wide tsr_form_coefficient(const struct tsr_form *a, uint32_t symbol); /* 0: not there */
tsr_wide tsr_form_content(const struct tsr_form *a);
bool tsr_form_equal(const struct tsr_form *a, const struct tsr_form *b);
uint64_t tsr_form_hash(const struct tsr_form *a);
uint64_t tsr_form_hash_terms(const struct tsr_form *a, uint32_t without); /* of a symbol */
tsr_wide tsr_form_low(struct tsr_evaluation *e, const struct tsr_form *a);
tsr_wide tsr_form_high(struct tsr_evaluation *e, const struct tsr_form *a);
bool tsr_form_value(struct tsr_evaluation *e, const struct tsr_form *a, tsr_wide *value); /* when it has only one */
uint64_t tsr_form_loops(const struct tsr_evaluation *e, const struct tsr_form *a);
bool tsr_form_loaded(const struct tsr_evaluation *e, const struct tsr_form *a);
tsr_wide tsr_form_mask(struct tsr_evaluation *e, const struct tsr_form *a); /* -1: not known */
tsr_wide tsr_form_mask_between(const struct tsr_form *a, tsr_wide low, tsr_wide high);
struct tsr_facts *tsr_facts_room(struct tsr_evaluation *e, uint32_t count); /* empty */
const struct tsr_facts *tsr_facts_joined(struct tsr_evaluation *e, const struct tsr_facts *a, const struct tsr_facts *b);
uint32_t tsr_form_reach(const struct tsr_evaluation *e, const struct tsr_form *a, uint32_t without);
const struct tsr_facts *tsr_facts_about(struct tsr_evaluation *e, const struct tsr_form *form, uint32_t without,
                                        const struct tsr_facts *facts);

/* bounds.c */
tsr_wide tsr_bound_upper(struct tsr_evaluation *e, const struct tsr_form *form, const struct tsr_facts *facts);
tsr_wide tsr_bound_lower(struct tsr_evaluation *e, const struct tsr_form *form, const struct tsr_facts *facts);

/* divide.c */
const struct tsr_form *tsr_divide_quotient(struct tsr_evaluation *e, const struct tsr_form *form, tsr_wide divisor);
const struct tsr_form *tsr_divide_remainder(struct tsr_evaluation *e, const struct tsr_form *form, tsr_wide divisor);
const struct tsr_symbol *tsr_divide_origin(const struct tsr_evaluation *e, const struct tsr_form *form); /* NULL: no quotient */

/* evaluate.c */
const struct tsr_form *tsr_node_value(struct tsr_evaluation *e, uint32_t node);
const struct tsr_form *tsr_node_viewed(struct tsr_evaluation *e, uint32_t node, unsigned width, bool is_signed,
                                       uint32_t condition);
const struct tsr_form *tsr_form_viewed(struct tsr_evaluation *e, const struct tsr_form *form, unsigned width, bool is_signed,
                                       uint32_t condition);
const struct tsr_facts *tsr_condition_facts(struct tsr_evaluation *e, uint32_t condition); /* NULL: unreachable */
bool tsr_condition_is_around(const struct tsr_evaluation *e, uint32_t outer, uint32_t condition);
bool tsr_condition_is_never(const struct tsr_evaluation *e, uint32_t condition); /* as far as it has been evaluated */
bool tsr_facts_impossible(struct tsr_evaluation *e, const struct tsr_facts *found, const struct tsr_facts *before);
void tsr_trial_begin(struct tsr_evaluation *e, struct tsr_trial *trial, uint32_t symbol, bool assume);
void tsr_trial_end(struct tsr_evaluation *e);
void tsr_evaluation_undo(struct tsr_evaluation *e);
tsr_wide tsr_limit_low(unsigned width, bool is_signed);
tsr_wide tsr_limit_high(unsigned width, bool is_signed);

static inline uint32_t tsr_node_operand(const struct tsr_evaluation *e, const struct tsr_access_node *node, uint32_t position)
{
    return e->template->operands[node->first + position];
}

static inline bool tsr_node_is_signed(const struct tsr_access_node *node)
{
    return node->flags & TSR_NODE_SIGNED;
}

/* arithmetic.c, bits.c, choices.c, elements.c */
const struct tsr_form *tsr_arithmetic_value(struct tsr_evaluation *e, const struct tsr_access_node *node);
const struct tsr_form *tsr_bits_value(struct tsr_evaluation *e, const struct tsr_access_node *node);
const struct tsr_form *tsr_choice_value(struct tsr_evaluation *e, const struct tsr_access_node *node);
const struct tsr_form *tsr_element_value(struct tsr_evaluation *e, const struct tsr_access_node *node);
const struct tsr_form *tsr_form_one_of(struct tsr_evaluation *e, const struct tsr_access_node *node,
                                       const struct tsr_form *const *forms, uint32_t count, const struct tsr_facts *facts);
const struct tsr_form *tsr_form_between(struct tsr_evaluation *e, tsr_wide low, tsr_wide high, const struct tsr_form *a,
                                        const struct tsr_form *b, tsr_wide mask);

/* phis.c */
const struct tsr_form *tsr_phi_find(struct tsr_evaluation *e, uint32_t block, const uint32_t *edges,
                                    const struct tsr_form *const *options, uint32_t count, const struct tsr_form **symbol);
void tsr_phi_add(struct tsr_evaluation *e, uint32_t block, const uint32_t *edges, const struct tsr_form *const *options,
                 uint32_t count, const struct tsr_form *result);
void tsr_phis_forget(struct tsr_evaluation *e);
const struct tsr_facts *tsr_phi_only_edge(struct tsr_evaluation *e, uint32_t node, uint32_t condition);
const struct tsr_facts *tsr_phi_facts(struct tsr_evaluation *e, const struct tsr_access_node *node, bool truth);

/* predicates.c */
const struct tsr_facts *tsr_predicate_facts(struct tsr_evaluation *e, uint32_t node, bool truth); /* NULL: impossible */
bool tsr_predicate_is_null_test(struct tsr_evaluation *e, const struct tsr_access_node *node, bool *equal);
void tsr_predicate_sides(struct tsr_evaluation *e, const struct tsr_access_node *node, const struct tsr_form *sides[2]);
extern const uint8_t tsr_compare_opposite[]; /* by enum tsr_access_compare, up to TSR_COMPARE_NE */

/* loops.c */
const struct tsr_form *tsr_loop_value(struct tsr_evaluation *e, const struct tsr_access_node *node);
const struct tsr_form *tsr_loop_induction(struct tsr_evaluation *e, uint32_t loop);
bool tsr_loop_assumed(struct tsr_evaluation *e, const struct tsr_form *form, tsr_wide low, tsr_wide high);

/* shape.c */
struct tsr_strided_bytes {
    tsr_wide first, last, stride, width;
    uint32_t size;
};

bool tsr_shape_find(struct tsr_evaluation *e, const struct tsr_form *form, const struct tsr_facts *facts, uint32_t size,
                    struct tsr_strided_bytes *shape);
uint32_t tsr_form_writings(struct tsr_evaluation *e, const struct tsr_form *form, const struct tsr_form *found[5]);

/* whole.c */

#define TSR_SYMBOL_BASE 0x80000000u /* what an address begins with is a symbol's number and this, or an offset in the parameter block */
#define TSR_WALK_BASES 16u

bool tsr_input_is_allocated(struct tsr_evaluation *e, uint32_t input);

struct tsr_walk;
struct tsr_walk *tsr_walk_start(struct tsr_evaluation *e);
uint32_t tsr_walk_bases(struct tsr_walk *walk, uint32_t node, uint32_t found[TSR_WALK_BASES]); /* 0: not known */

/* merge.c */
uint32_t tsr_ranges_merge(struct tsr_access_range *ranges, uint32_t count);       /* in place; how many are left */
uint32_t tsr_ranges_merge_exact(struct tsr_access_range *ranges, uint32_t count); /* so, not a byte more */

/* points.c */

#define TSR_POINTS_COLUMNS 24u
#define TSR_POINTS_ROWS 40u

/* constant + sum of coefficient * column. */
struct tsr_points_row {
    int64_t constant;
    int64_t by[TSR_POINTS_COLUMNS];
};

/* A variable: each integer from 0 to `last`. */
struct tsr_points_column {
    int64_t last;
    uint32_t symbol;
    bool is_result; /* of a division: removed when that is done */
};

/* quotient and remainder: columns, TSR_POINTS_COLUMNS when nobody asks for them; dividend: a row. */
struct tsr_points_division {
    int64_t divisor;
    uint32_t quotient, remainder, dividend;
};

enum tsr_points_use { TSR_ROW_NONE, TSR_ROW_ADDRESS, TSR_ROW_CONDITION, TSR_ROW_DIVIDEND };

/* Integer points: a box, and of that those where all conditions are at most 0. The first row is the address. */
struct tsr_integer_points {
    uint32_t columns, rows, divisions;
    struct tsr_points_column column[TSR_POINTS_COLUMNS];
    enum tsr_points_use use[TSR_POINTS_ROWS];
    struct tsr_points_row row[TSR_POINTS_ROWS];
    struct tsr_points_division division[TSR_POINTS_COLUMNS]; /* by when they were made */
};

/* `width` bytes at `first` and at count - 1 places more, `stride` apart. */
struct tsr_points_piece {
    int64_t first, stride, count, width;
};

void tsr_points_copy(struct tsr_integer_points *to, const struct tsr_integer_points *from);
uint32_t tsr_points_solve(struct tsr_evaluation *e, struct tsr_integer_points *system, int64_t size,
                          struct tsr_points_piece *pieces, uint32_t capacity);

/* joined.c */
uint32_t tsr_points_join(struct tsr_evaluation *e, struct tsr_integer_points *const *systems, uint32_t count);

/* must.c */

/* `count` places, `stride` bytes apart. */
struct tsr_points_digit {
    int64_t stride, count;
};

struct tsr_must;
struct tsr_must *tsr_must_start(struct tsr_evaluation *e);
bool tsr_must_write(struct tsr_must *must, const struct tsr_access_access *access, const struct tsr_form *offset, int64_t first,
                    const struct tsr_points_digit *digits, uint32_t count, struct tsr_integer_points *system);

/* run.c */

#define TSR_RANGES_SCRATCH 4096u /* the least that it works with */

/* What evaluating found: ranges relative to their bases, not clamped. */
struct tsr_found {
    struct tsr_access_range *ranges;
    uint32_t count, whys, steps;
    enum tsr_access_level level;
    struct tsr_access_why why;    /* the first */
    struct tsr_access_why *every; /* from here on set by the caller, as in tsr_access_result */
    uint32_t room;
};

/* Evaluates; `seen` gets, for each parameter of the list and then for each symbol, which of its properties mattered. */
void tsr_ranges_find(const struct tsr_inputs *inputs, const struct tsr_access_launch *launch, void *scratch,
                     size_t scratch_bytes, struct tsr_found *found, struct tsr_seen *seen);

#endif
