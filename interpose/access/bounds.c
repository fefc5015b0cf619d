/*
 * Upper bounds of forms under facts. Any facts f <= 0 with multipliers m >= 0 bound a form: form <= form - m * f. Each step takes away the
 * multiple of a fact that removes one symbol and lowers the bound most: every result in between is a valid bound, too. A form is its
 * constant and a multiple of what divides all its coefficients, so the bound is rounded to that in the end.
 *
 * Most of an evaluation's time is spent here, most of that on facts that cannot help: the signs of a form's terms tell these apart before
 * their terms are looked at. Of a step, only what the fact changes is computed, with numbers of 64 bits: a bound that is too large for
 * them is none, and a step that is, is not taken.
 */
#include "access/evaluation.h"

#define STEPS 12
#define LARGEST_SCALE ((int64_t)1 << 60)
#define LARGEST_PART ((int64_t)1 << 61) /* beyond that it is none: sums of a few stay small enough */
#define ABSENT UINT32_MAX
#define UNBOUNDED INT64_MIN /* no number */

static inline bool is_short(tsr_wide a)
{
    return tsr_wide_is_small(a) && a != UNBOUNDED;
}

/* False, as with the next two: too large. */
static inline bool times(int64_t a, int64_t b, int64_t *product)
{
    return !__builtin_mul_overflow(a, b, product) && *product != UNBOUNDED;
}

static inline bool plus(int64_t a, int64_t b, int64_t *sum)
{
    return !__builtin_add_overflow(a, b, sum);
}

static inline bool minus(int64_t a, int64_t b, int64_t *difference)
{
    return !__builtin_sub_overflow(a, b, difference);
}

/* How many terms are unbounded; the sum of the others. */
struct score {
    uint32_t unbounded;
    int64_t total;
};

/* A form on the way, `scale` times what is bounded. */
struct scaled {
    struct score score;
    int64_t scale;
    uint32_t count;
    struct tsr_signs signs;
    uint32_t symbols[TSR_FORM_TERMS];
    int64_t coefficients[TSR_FORM_TERMS];
    int64_t parts[TSR_FORM_TERMS]; /* what each adds to the total; UNBOUNDED */
};

/* scale * form - multiple * fact. */
struct step {
    struct score score;
    int64_t scale, factor, multiple;
    const struct tsr_form *fact;
};

/* What a term adds to a total. */
static inline int64_t part_of(struct tsr_evaluation *e, uint32_t number, int64_t coefficient)
{
    int64_t part;
    struct tsr_symbol *symbol = tsr_symbol_at(e, number);
    tsr_wide bound = coefficient > 0 ? symbol->high : symbol->low;
    symbol->seen = true;
    if (is_short(bound) && times(coefficient, (int64_t)bound, &part) && part >= -LARGEST_PART && part <= LARGEST_PART)
        return part;
    return UNBOUNDED;
}

static inline bool add_part(struct score *score, int64_t part)
{
    if (part == UNBOUNDED) {
        score->unbounded++;
        return true;
    }
    return plus(score->total, part, &score->total);
}

/* factor * a - multiple * b; false: too large. */
static inline bool combined(int64_t a, int64_t factor, tsr_wide b, int64_t multiple, int64_t *result)
{
    int64_t left, right;
    return is_short(b) && times(a, factor, &left) && times((int64_t)b, multiple, &right) && minus(left, right, result);
}

/* Takes a term's part out of the score of a form that is scaled. */
static inline bool remove_part(struct score *score, int64_t part, int64_t factor)
{
    int64_t product;
    if (part == UNBOUNDED) {
        score->unbounded--;
        return true;
    }
    return times(part, factor, &product) && minus(score->total, product, &score->total);
}

static inline uint32_t place_of(const struct scaled *form, uint32_t symbol)
{
    for (uint32_t i = 0; i < form->count; i++)
        if (form->symbols[i] == symbol)
            return i;
    return ABSENT;
}

/* The score of a step, without taking it. `places`: of the fact's terms in the form. False: too large. */
static bool score_of(struct tsr_evaluation *e, const struct scaled *form, const uint32_t *places, struct step *step)
{
    const struct tsr_form *fact = step->fact;
    struct score score = {.unbounded = form->score.unbounded};
    int64_t coefficient;
    if (!combined(form->score.total, step->factor, fact->constant, step->multiple, &score.total))
        return false;
    for (uint32_t i = 0; i < fact->count; i++) {
        int64_t before = 0;
        if (places[i] != ABSENT) {
            before = form->coefficients[places[i]];
            if (!remove_part(&score, form->parts[places[i]], step->factor))
                return false;
        }
        if (!combined(before, step->factor, fact->terms[i].coefficient, step->multiple, &coefficient))
            return false;
        if (coefficient && !add_part(&score, part_of(e, fact->terms[i].symbol, coefficient)))
            return false;
    }
    step->score = score;
    return true;
}

/* Whether a step leads below the best bound; false also if the numbers are too large. */
static inline bool is_better(const struct step *step, const struct step *best)
{
    int64_t left, right;
    if (step->score.unbounded != best->score.unbounded)
        return step->score.unbounded < best->score.unbounded;
    if (step->scale == best->scale)
        return step->score.total < best->score.total;
    return times(step->score.total, best->scale, &left) && times(best->score.total, step->scale, &right) && left < right;
}

/* The least factor and multiple with factor * |a| = multiple * |b|. */
static inline void balance(int64_t a, int64_t b, struct step *step)
{
    a = a < 0 ? -a : a, b = b < 0 ? -b : b;
    int64_t common = a == b ? a : (int64_t)tsr_wide_common(a, b);
    step->factor = (int64_t)tsr_wide_divide(b, common);
    step->multiple = (int64_t)tsr_wide_divide(a, common);
}

/* The same with numbers that do not fit. */
static __attribute__((noinline)) bool may_help_wide(struct tsr_evaluation *e, const struct scaled *form,
                                                    const struct tsr_form *fact, const uint32_t *places)
{
    tsr_wide most = fact->constant;
    bool more = false, less = false; /* without a bound */
    for (uint32_t i = 0; i < fact->count; i++) {
        const struct tsr_term *term = &fact->terms[i];
        const struct tsr_symbol *symbol = tsr_symbol_at(e, term->symbol);
        bool rises = term->coefficient > 0;
        bool is_shared = places[i] != ABSENT && (form->coefficients[places[i]] > 0) == rises;
        tsr_wide part = tsr_bound_times(term->coefficient, rises == is_shared ? symbol->high : symbol->low);
        more |= part >= TSR_INFINITE;
        less |= part <= -TSR_INFINITE;
        most = tsr_bound_plus(most, part);
    }
    return more || (!less && most > 0);
}

/*
 * Whether a step with the fact may lower the bound. It takes away at most the fact's value with the terms that the form has, of the same
 * sign, at their greatest, and with all others at their least.
 */
static bool may_help(struct tsr_evaluation *e, const struct scaled *form, const struct tsr_form *fact, uint32_t *places)
{
    int64_t most = (int64_t)fact->constant, part;
    bool fits = is_short(fact->constant);
    for (uint32_t i = 0; i < fact->count; i++) {
        const struct tsr_term *term = &fact->terms[i];
        struct tsr_symbol *symbol = tsr_symbol_at(e, term->symbol);
        bool rises = term->coefficient > 0;
        places[i] = place_of(form, term->symbol);
        bool is_shared = places[i] != ABSENT && (form->coefficients[places[i]] > 0) == rises;
        tsr_wide bound = rises == is_shared ? symbol->high : symbol->low;
        symbol->seen = true;
        fits = fits && is_short(term->coefficient) && is_short(bound) &&
               times((int64_t)term->coefficient, (int64_t)bound, &part) && plus(most, part, &most);
    }
    return fits ? most > 0 : may_help_wide(e, form, fact, places);
}

/* The best step with a fact that has terms of the same signs as the form. */
static void try_steps(struct tsr_evaluation *e, const struct scaled *form, const struct tsr_form *fact, struct step *best)
{
    uint32_t places[TSR_FORM_TERMS];
    tsr_evaluation_spend(e, 1);
    if (!may_help(e, form, fact, places))
        return;
    for (uint32_t i = 0; i < fact->count; i++) {
        tsr_wide b = fact->terms[i].coefficient;
        if (places[i] == ABSENT || (form->coefficients[places[i]] > 0) != (b > 0) || !is_short(b))
            continue;
        struct step step = {.fact = fact};
        balance(form->coefficients[places[i]], (int64_t)b, &step);
        if (!times(form->scale, step.factor, &step.scale) || step.scale > LARGEST_SCALE)
            continue;
        if (score_of(e, form, places, &step) && is_better(&step, best))
            *best = step;
    }
}

static inline void try_fact(struct tsr_evaluation *e, const struct scaled *form, const struct tsr_form *fact, struct step *best)
{
    if (tsr_signs_meet(tsr_form_signs(fact), form->signs))
        try_steps(e, form, fact, best);
}

static inline void set_term(struct tsr_evaluation *e, struct scaled *form, uint32_t place, uint32_t symbol, int64_t coefficient)
{
    form->symbols[place] = symbol;
    form->coefficients[place] = coefficient;
    form->parts[place] = part_of(e, symbol, coefficient);
    tsr_signs_add(&form->signs, symbol, coefficient);
}

/* Takes a step; false: the form would be too large. */
static bool take(struct tsr_evaluation *e, struct scaled *form, const struct step *step)
{
    const struct tsr_form *fact = step->fact;
    uint32_t kept = 0;
    uint64_t shared = 0; /* terms of the fact that the form has, too */
    int64_t coefficient;
    form->signs = (struct tsr_signs){0, 0};
    for (uint32_t i = 0; i < form->count; i++) {
        uint32_t symbol = form->symbols[i], place = tsr_form_place(fact, symbol);
        bool is_shared = place < fact->count;
        shared |= (uint64_t)is_shared << (is_shared ? place : 0);
        tsr_wide b = is_shared ? fact->terms[place].coefficient : 0;
        if (!combined(form->coefficients[i], step->factor, b, step->multiple, &coefficient))
            return false;
        if (coefficient)
            set_term(e, form, kept++, symbol, coefficient);
    }
    for (uint32_t i = 0; i < fact->count; i++) {
        if (shared >> i & 1)
            continue;
        if (kept == TSR_FORM_TERMS || !combined(0, 1, fact->terms[i].coefficient, step->multiple, &coefficient))
            return false;
        set_term(e, form, kept++, fact->terms[i].symbol, coefficient);
    }
    form->count = kept;
    form->score = step->score;
    form->scale = step->scale;
    return true;
}

static bool improve(struct tsr_evaluation *e, struct scaled *form, const struct tsr_facts *facts)
{
    struct step best = {.score = form->score, .scale = form->scale};
    tsr_evaluation_spend(e, 1 + facts->count / 4);
    for (uint32_t i = 0; i < facts->count; i++)
        try_fact(e, form, facts->items[i], &best);
    for (uint32_t i = 0; i < form->count; i++)
        for (struct tsr_fact_link *link = tsr_symbol_at(e, form->symbols[i])->facts; link; link = link->next)
            try_fact(e, form, link->form, &best);
    return best.fact && take(e, form, &best);
}

/* Down to what the form can be: its constant and a multiple of what divides all coefficients. */
static tsr_wide rounded(const struct tsr_form *form, bool negative, tsr_wide high)
{
    tsr_wide unit = tsr_form_content(form);
    return unit > 1 ? high - tsr_wide_modulo(high - (negative ? -form->constant : form->constant), unit) : high;
}

/* The least bound found of a form or, when it is `negative`, of its opposite. */
static tsr_wide bound(struct tsr_evaluation *e, const struct tsr_form *form, bool negative, const struct tsr_facts *facts)
{
    struct scaled current; /* as far as it is used */
    if (!is_short(form->constant))
        return TSR_INFINITE;
    current.score = (struct score){0, (int64_t)(negative ? -form->constant : form->constant)};
    current.scale = 1;
    current.count = form->count;
    current.signs = (struct tsr_signs){0, 0};
    for (uint32_t i = 0; i < form->count; i++) {
        const struct tsr_term *term = &form->terms[i];
        if (!is_short(term->coefficient))
            return TSR_INFINITE;
        set_term(e, &current, i, term->symbol, (int64_t)(negative ? -term->coefficient : term->coefficient));
        if (!add_part(&current.score, current.parts[i]))
            return TSR_INFINITE;
    }
    for (int step = 0; step < STEPS && current.count && !e->coarse; step++)
        if (!improve(e, &current, facts))
            break;
    return current.score.unbounded ? TSR_INFINITE
                                   : rounded(form, negative, tsr_wide_divide(current.score.total, current.scale));
}

tsr_wide tsr_bound_upper(struct tsr_evaluation *e, const struct tsr_form *form, const struct tsr_facts *facts)
{
    return bound(e, form, false, facts);
}

tsr_wide tsr_bound_lower(struct tsr_evaluation *e, const struct tsr_form *form, const struct tsr_facts *facts)
{
    return -bound(e, form, true, facts);
}
