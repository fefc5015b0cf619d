/* The set of bytes that an address form describes, as first, last, stride and width. */
#include "access/evaluation.h"

#define REWRITES 4 /* one after the other */
#define MOST_FACTS 24
#define MOST_ZEROS 16
#define SPARSE 1.0 /* a stride is worth naming when fewer bytes than this share are inside */

/* The form plus a multiple of a zero that removes one of its terms; NULL: it is not there. */
static const struct tsr_form *without(struct tsr_evaluation *e, const struct tsr_form *form, const struct tsr_form *zero,
                                      uint32_t term)
{
    tsr_wide coefficient = zero->terms[term].coefficient, present = tsr_form_coefficient(form, zero->terms[term].symbol);
    if (present == 0 || !tsr_wide_is_multiple(present, coefficient))
        return NULL;
    return tsr_form_plus(e, form, zero, -(present / coefficient));
}

/* Without a term of what was divided, the first one that is there. Remainder and quotient follow. */
static const struct tsr_form *rewritten(struct tsr_evaluation *e, const struct tsr_form *form, const struct tsr_form *zero)
{
    const struct tsr_form *found = without(e, form, zero, 0);
    for (uint32_t i = 1; i + 2 < zero->count && !found; i++)
        found = without(e, form, zero, i);
    return found;
}

/*
 * With the fewest terms: which one it is must not hang on the order in which symbols were made. By the first term of what was divided, or
 * else by another one: then by no zero a second time, which would take it back.
 */
static const struct tsr_form *better(struct tsr_evaluation *e, const struct tsr_form *form, bool by_others,
                                     const struct tsr_form *used[], uint32_t *count)
{
    const struct tsr_form *found = NULL, *by = NULL;
    for (uint32_t i = 0; i < form->count; i++) {
        const struct tsr_form *zero = tsr_symbol_at(e, form->terms[i].symbol)->zero, *other = NULL;
        for (uint32_t n = 0; n < *count && zero; n++)
            zero = used[n] == zero ? NULL : zero;
        if (zero)
            other = by_others ? rewritten(e, form, zero) : without(e, form, zero, 0);
        if (other && (!found || other->count < found->count)) {
            found = other;
            by = zero;
        }
    }
    if (found && by_others)
        used[(*count)++] = by;
    return found;
}

/* The form, and what it is with divided values written as divisor * quotient + remainder. */
uint32_t tsr_form_writings(struct tsr_evaluation *e, const struct tsr_form *form, const struct tsr_form *found[5])
{
    const struct tsr_form *used[REWRITES + 1];
    uint32_t count = 0, uses = 0;
    while (form && count <= REWRITES) {
        found[count++] = form;
        const struct tsr_form *next = better(e, form, false, used, &uses);
        form = next ? next : better(e, form, true, used, &uses);
    }
    return count;
}

/* What a term can be moved by; a symbol that is one number moves nothing. */
static tsr_wide reach_of(struct tsr_evaluation *e, struct tsr_term term)
{
    const struct tsr_symbol *symbol = tsr_symbol_at(e, term.symbol);
    return symbol->low == symbol->high ? 0 : tsr_wide_distance(term.coefficient);
}

/* Terms with the largest coefficients first, those that are numbers last. */
static struct tsr_term *sorted(struct tsr_evaluation *e, const struct tsr_form *form)
{
    struct tsr_term *terms = tsr_scratch_take(e, form->count * sizeof *terms);
    for (uint32_t i = 0; i < form->count; i++) {
        tsr_wide reach = reach_of(e, form->terms[i]);
        uint32_t to = i;
        for (; to > 0 && reach_of(e, terms[to - 1]) < reach; to--)
            terms[to] = terms[to - 1];
        terms[to] = form->terms[i];
    }
    return terms;
}

static const struct tsr_form *of_terms(struct tsr_evaluation *e, tsr_wide constant, const struct tsr_term *terms,
                                       uint32_t count)
{
    struct tsr_form *form = tsr_form_room(e, constant, count);
    form->count = count;
    for (uint32_t i = 0; i < count; i++)
        form->terms[i] = terms[i];
    return form;
}

static void append(struct tsr_facts *facts, const struct tsr_form *form, uint32_t most)
{
    if (facts->count < most)
        facts->items[facts->count++] = form;
}

/* A fact, and what it says without its smallest terms: what is left can be divided and rounded. */
static void add_rounded(struct tsr_evaluation *e, struct tsr_facts *to, const struct tsr_form *each)
{
    const struct tsr_term *terms = sorted(e, each);
    tsr_wide step = 0;
    append(to, each, MOST_FACTS);
    for (uint32_t count = 1; count < each->count && to->count < MOST_FACTS; count++) {
        step = tsr_wide_common(step, terms[count - 1].coefficient);
        if (step <= tsr_wide_distance(terms[count].coefficient))
            continue;
        tsr_wide least = tsr_form_low(e, of_terms(e, 0, terms + count, each->count - count));
        if (tsr_wide_fits(least) && tsr_wide_fits(each->constant + least))
            append(to, tsr_form_fact(e, of_terms(e, each->constant + least, terms, count)), MOST_FACTS);
    }
}

static uint32_t zeros_of(struct tsr_evaluation *e, const struct tsr_form *const *written, uint32_t count,
                         const struct tsr_form **zeros)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t n = 0; n < written[i]->count; n++) {
            const struct tsr_form *zero = tsr_symbol_at(e, written[i]->terms[n].symbol)->zero;
            bool is_new = zero != NULL;
            for (uint32_t z = 0; z < found && is_new; z++)
                is_new = !tsr_form_equal(zeros[z], zero);
            if (is_new && found < MOST_ZEROS)
                zeros[found++] = zero;
        }
    return found;
}

/* What the symbols of a form are known by themselves, but for what says how they were divided. */
static const struct tsr_facts *own_facts(struct tsr_evaluation *e, const struct tsr_form *form)
{
    struct tsr_facts *found = tsr_facts_room(e, MOST_FACTS);
    for (uint32_t i = 0; i < form->count; i++) {
        const struct tsr_symbol *symbol = tsr_symbol_at(e, form->terms[i].symbol);
        for (const struct tsr_fact_link *link = symbol->zero ? NULL : symbol->facts; link; link = link->next)
            append(found, link->form, MOST_FACTS);
    }
    return found;
}

/* The facts, and facts about divided values as facts about quotients: without the remainders, they can be rounded. */
static const struct tsr_facts *with_rewritten(struct tsr_evaluation *e, const struct tsr_form *const *written, uint32_t count,
                                              const struct tsr_facts *facts)
{
    const struct tsr_form *zeros[MOST_ZEROS];
    uint32_t zero_count = zeros_of(e, written, count, zeros);
    if (!zero_count)
        return facts;
    const struct tsr_facts *all = facts, *latest = tsr_facts_joined(e, facts, own_facts(e, written[0]));
    for (int round = 0; round < REWRITES && latest->count; round++) {
        struct tsr_facts *next = tsr_facts_room(e, MOST_FACTS);
        for (uint32_t i = 0; i < latest->count; i++)
            for (uint32_t z = 0; z < zero_count && next->count < MOST_FACTS; z++) {
                const struct tsr_form *form = without(e, latest->items[i], zeros[z], 0);
                if (form)
                    add_rounded(e, next, form);
            }
        all = tsr_facts_joined(e, all, next);
        latest = next;
    }
    return all;
}

/*
 * Stride and width with the least share of bytes inside, if that is less than `best`. The terms with the largest coefficients are taken
 * as whole steps of their common divisor, the others as what is inside of a step.
 */
static void find_stride(struct tsr_evaluation *e, const struct tsr_form *form, const struct tsr_facts *facts,
                        struct tsr_strided_bytes *shape, double *best, tsr_wide *first)
{
    const struct tsr_term *terms = sorted(e, form);
    tsr_wide step = 0;
    for (uint32_t count = 1; count <= form->count; count++) {
        step = tsr_wide_common(step, terms[count - 1].coefficient);
        if (count < form->count && tsr_wide_is_multiple(terms[count].coefficient, step))
            continue;
        if (shape->size >= *best * (double)step)
            continue; /* the step is too small, whatever is inside of it */
        const struct tsr_form *inner = of_terms(e, form->constant, terms + count, form->count - count);
        tsr_wide low = tsr_bound_lower(e, inner, facts);
        if (!tsr_wide_fits(low))
            continue;
        tsr_wide high = tsr_bound_upper(e, inner, facts);
        if (!tsr_wide_fits(high))
            continue;
        tsr_wide width = high - low + shape->size;
        double share = (double)width / (double)step;
        tsr_wide before = tsr_wide_modulo(shape->first - low, step); /* the first step starts at its beginning */
        bool has_several = shape->first - before + width <= shape->last;
        if (share < *best && before < width && has_several) {
            *best = share;
            *first = shape->first - before;
            shape->stride = step;
            shape->width = width;
        }
    }
}

/* Bytes of accesses of `size` bytes at the addresses of a form; false when there is no bound. */
bool tsr_shape_find(struct tsr_evaluation *e, const struct tsr_form *form, const struct tsr_facts *facts, uint32_t size,
                    struct tsr_strided_bytes *shape)
{
    const struct tsr_form *written[5];
    uint32_t count = e->coarse ? 1 : tsr_form_writings(e, form, written);
    double best = SPARSE;
    written[0] = form;
    if (!e->coarse)
        facts = with_rewritten(e, written, count, facts);
    tsr_wide low = -TSR_INFINITE, high = TSR_INFINITE;
    for (uint32_t i = 0; i < count; i++) {
        low = tsr_wide_most(low, tsr_bound_lower(e, written[i], facts));
        high = tsr_wide_least(high, tsr_bound_upper(e, written[i], facts));
    }
    if (!tsr_wide_fits(low) || !tsr_wide_fits(high))
        return false;
    *shape = (struct tsr_strided_bytes){.first = low, .last = high + size - 1, .size = size};
    for (uint32_t i = 0; i < count && !e->coarse; i++)
        find_stride(e, written[i], facts, shape, &best, &low);
    shape->first = low;
    return true;
}
