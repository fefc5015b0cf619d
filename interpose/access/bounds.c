/*
 * Upper bounds of forms under facts; see ptxtools/ranges/bounds.py. Any facts f <= 0 with multipliers m >= 0 bound a form: form <=
 * form - m * f. Each step takes away the multiple of a fact that removes one symbol and lowers the bound most.
 */
#include "access/evaluation.h"

#include <string.h>

#define STEPS 12
#define LARGEST_SCALE ((tsr_wide)1 << 60)

/* How many terms are unbounded; the sum of the others. */
struct score {
    uint32_t unbounded;
    tsr_wide total;
};

/* A form on the way, `scale` times what is bounded. */
struct scaled {
    struct score score;
    tsr_wide scale, constant;
    uint32_t count;
    struct tsr_term terms[TSR_FORM_TERMS];
};

/* scale * form - multiple * fact. */
struct step {
    struct score score;
    tsr_wide scale, factor, multiple;
    const struct tsr_form *fact;
};

static bool add_term(struct tsr_evaluation *e, struct score *score, struct tsr_term term)
{
    struct tsr_symbol *symbol = tsr_symbol_at(e, term.symbol);
    tsr_wide bound = term.coefficient > 0 ? symbol->high : symbol->low, product;
    symbol->seen = true;
    if (!tsr_wide_fits(bound)) {
        score->unbounded++;
        return true;
    }
    if (!tsr_wide_times(term.coefficient, bound, &product))
        return false;
    score->total += product;
    return tsr_wide_fits(score->total);
}

static tsr_wide coefficient(const struct scaled *form, uint32_t symbol)
{
    for (uint32_t i = 0; i < form->count; i++)
        if (form->terms[i].symbol == symbol)
            return form->terms[i].coefficient;
    return 0;
}

/* factor * a - multiple * b; false: too large. */
static bool combined(tsr_wide a, tsr_wide factor, tsr_wide b, tsr_wide multiple, tsr_wide *result)
{
    tsr_wide left, right;
    if (!tsr_wide_times(a, factor, &left) || !tsr_wide_times(b, multiple, &right))
        return false;
    *result = left - right;
    return tsr_wide_fits(*result);
}

/* The score of a step, without taking it. */
static bool score_of(struct tsr_evaluation *e, const struct scaled *form, struct step *step)
{
    struct score score = {0, 0};
    struct tsr_term term;
    if (!combined(form->constant, step->factor, step->fact->constant, step->multiple, &score.total))
        return false;
    for (uint32_t i = 0; i < form->count; i++) {
        term.symbol = form->terms[i].symbol;
        tsr_wide b = tsr_form_coefficient(step->fact, term.symbol);
        if (!combined(form->terms[i].coefficient, step->factor, b, step->multiple, &term.coefficient))
            return false;
        if (term.coefficient && !add_term(e, &score, term))
            return false;
    }
    for (uint32_t i = 0; i < step->fact->count; i++) {
        term.symbol = step->fact->terms[i].symbol;
        if (coefficient(form, term.symbol))
            continue;
        if (!combined(0, 1, step->fact->terms[i].coefficient, step->multiple, &term.coefficient) || !add_term(e, &score, term))
            return false;
    }
    step->score = score;
    return true;
}

/* Whether a step leads below a score of the given scale. */
static bool is_better(const struct step *step, struct score score, tsr_wide scale)
{
    tsr_wide left, right;
    if (step->score.unbounded != score.unbounded)
        return step->score.unbounded < score.unbounded;
    return tsr_wide_times(step->score.total, scale, &left) && tsr_wide_times(score.total, step->scale, &right) && left < right;
}

static void try_fact(struct tsr_evaluation *e, const struct scaled *form, const struct tsr_form *fact, struct step *best)
{
    tsr_evaluation_spend(e, 1);
    for (uint32_t i = 0; i < fact->count; i++) {
        tsr_wide b = fact->terms[i].coefficient, a = coefficient(form, fact->terms[i].symbol);
        if (a == 0 || (a > 0) != (b > 0))
            continue;
        tsr_wide common = tsr_wide_common(a, b);
        struct step step = {.factor = tsr_wide_divide(tsr_wide_distance(b), common),
                            .multiple = tsr_wide_divide(tsr_wide_distance(a), common),
                            .fact = fact};
        if (!tsr_wide_times(form->scale, step.factor, &step.scale) || step.scale > LARGEST_SCALE)
            continue;
        tsr_evaluation_spend(e, form->count + fact->count);
        if (score_of(e, form, &step) && is_better(&step, best->score, best->scale))
            *best = step;
    }
}

/* Takes a step; false: the form would have too many terms. */
static bool take(struct scaled *form, const struct step *step)
{
    struct scaled taken;
    taken.count = 0;
    combined(form->constant, step->factor, step->fact->constant, step->multiple, &taken.constant);
    for (uint32_t i = 0; i < form->count; i++) {
        struct tsr_term *to = &taken.terms[taken.count];
        to->symbol = form->terms[i].symbol;
        combined(form->terms[i].coefficient, step->factor, tsr_form_coefficient(step->fact, to->symbol), step->multiple,
                 &to->coefficient);
        taken.count += to->coefficient != 0;
    }
    for (uint32_t i = 0; i < step->fact->count; i++) {
        const struct tsr_term *term = &step->fact->terms[i];
        if (coefficient(form, term->symbol))
            continue;
        if (taken.count == TSR_FORM_TERMS)
            return false;
        taken.terms[taken.count++] = (struct tsr_term){-step->multiple * term->coefficient, term->symbol};
    }
    form->score = step->score;
    form->scale = step->scale;
    form->constant = taken.constant;
    form->count = taken.count;
    memcpy(form->terms, taken.terms, taken.count * sizeof taken.terms[0]);
    return true;
}

static bool improve(struct tsr_evaluation *e, struct scaled *form, const struct tsr_facts *facts)
{
    struct step best = {.score = form->score, .scale = form->scale};
    for (uint32_t i = 0; i < facts->count; i++)
        try_fact(e, form, facts->items[i], &best);
    for (uint32_t i = 0; i < form->count; i++)
        for (struct tsr_fact_link *link = tsr_symbol_at(e, form->terms[i].symbol)->facts; link; link = link->next)
            try_fact(e, form, link->form, &best);
    return best.fact && take(form, &best);
}

/* The least bound found of sign * form. */
static tsr_wide bound(struct tsr_evaluation *e, const struct tsr_form *form, tsr_wide sign, const struct tsr_facts *facts)
{
    struct scaled current;
    current.score = (struct score){0, sign * form->constant};
    current.scale = 1;
    current.constant = sign * form->constant;
    for (current.count = 0; current.count < form->count; current.count++) {
        struct tsr_term *term = &current.terms[current.count];
        *term = (struct tsr_term){sign * form->terms[current.count].coefficient, form->terms[current.count].symbol};
        if (!add_term(e, &current.score, *term))
            return TSR_INFINITE;
    }
    for (int step = 0; step < STEPS && current.count && !e->coarse; step++)
        if (!improve(e, &current, facts))
            break;
    return current.score.unbounded ? TSR_INFINITE : tsr_wide_divide(current.score.total, current.scale);
}

tsr_wide tsr_bound_upper(struct tsr_evaluation *e, const struct tsr_form *form, const struct tsr_facts *facts)
{
    return bound(e, form, 1, facts);
}

tsr_wide tsr_bound_lower(struct tsr_evaluation *e, const struct tsr_form *form, const struct tsr_facts *facts)
{
    return -bound(e, form, -1, facts);
}
