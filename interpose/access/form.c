/*
 * Affine forms over symbols, and the symbols. A form is congruent to a machine value modulo 2 to its width. A symbol is an unknown integer:
 * the index of a thread or block, how many iterations of a loop have ended, or a value that no form describes; where a form is used, it
 * means the latest such value.
 */
#include "access/evaluation.h"

#include <string.h>

const struct tsr_form tsr_form_zero;
const struct tsr_facts tsr_facts_none;

void tsr_evaluation_leave(struct tsr_evaluation *e)
{
    tsr_evaluation_undo(e);
    longjmp(e->out, 1);
}

/* The blocks of the evaluated part that lie within so many of its first ones on an axis are to be evaluated first, and the rest later. */
void tsr_evaluation_split(struct tsr_evaluation *e, uint32_t axis, uint32_t blocks)
{
    e->rest = e->part;
    e->part.last[axis] = e->part.first[axis] + blocks - 1;
    e->rest.first[axis] = e->part.last[axis] + 1;
    e->is_split = true;
    tsr_evaluation_leave(e);
}

void *tsr_scratch_take(struct tsr_evaluation *e, size_t bytes)
{
    bytes = (bytes + 15) & ~(size_t)15;
    if (bytes > (size_t)((char *)e->lowest - e->next))
        tsr_evaluation_leave(e);
    void *taken = e->next;
    e->next += bytes;
    return taken;
}

struct tsr_symbol tsr_symbol_new(tsr_wide low, tsr_wide high, uint64_t loops)
{
    return (struct tsr_symbol){.low = low, .high = high, .loops = loops, .mask = -1, .slot = -1, .variable = -1};
}

const struct tsr_form *tsr_symbol_add(struct tsr_evaluation *e, const struct tsr_symbol *symbol)
{
    if (symbol->low == symbol->high && tsr_wide_fits(symbol->low) && !tsr_symbol_is_pointer(symbol))
        return tsr_form_number(e, symbol->low);
    if ((char *)e->lowest - e->next < (ptrdiff_t)sizeof *symbol)
        tsr_evaluation_leave(e);
    *--e->lowest = *symbol;
    e->lowest->reach = 1u << (e->symbol_count & 31);
    return tsr_form_symbol(e, e->symbol_count++, 1);
}

/* What is known of a symbol by what is known of others holds only where that does. */
static void narrow(struct tsr_evaluation *e, struct tsr_symbol *symbol, const struct tsr_form *fact)
{
    for (uint32_t i = 0; i < fact->count; i++) {
        uint32_t other = tsr_symbol_at(e, fact->terms[i].symbol)->condition;
        if (tsr_condition_is_around(e, other, symbol->condition))
            continue;
        symbol->condition = tsr_condition_is_around(e, symbol->condition, other) ? other : TSR_NO_CONDITION;
    }
}

/* Adds a fact to each symbol of a form, which is one symbol or a number. */
void tsr_symbol_relate(struct tsr_evaluation *e, const struct tsr_form *symbol, const struct tsr_form *fact)
{
    for (uint32_t i = 0; i < symbol->count; i++) {
        struct tsr_symbol *of = tsr_symbol_at(e, symbol->terms[i].symbol);
        of->reach |= tsr_form_reach(e, fact, TSR_NO_SYMBOL);
        narrow(e, of, fact);
        struct tsr_fact_link *link = tsr_scratch_take(e, sizeof *link);
        *link = (struct tsr_fact_link){.form = fact};
        if (of->last_fact)
            of->last_fact->next = link;
        else
            of->facts = link;
        of->last_fact = link;
    }
}

void tsr_symbol_set_sides(struct tsr_evaluation *e, const struct tsr_form *symbol, const struct tsr_form *const sides[2])
{
    if (symbol->count == 1)
        memcpy(tsr_symbol_at(e, symbol->terms[0].symbol)->sides, sides, 2 * sizeof sides[0]);
}

/* A form without terms, and room for some. */
struct tsr_form *tsr_form_room(struct tsr_evaluation *e, tsr_wide constant, uint32_t terms)
{
    tsr_evaluation_spend(e, 1 + terms);
    struct tsr_form *form = tsr_scratch_take(e, sizeof(struct tsr_form) + terms * sizeof(struct tsr_term));
    *form = (struct tsr_form){.constant = constant};
    return form;
}

const struct tsr_form *tsr_form_number(struct tsr_evaluation *e, tsr_wide value)
{
    if (value == 0)
        return &tsr_form_zero;
    return tsr_form_room(e, value, 0);
}

const struct tsr_form *tsr_form_symbol(struct tsr_evaluation *e, uint32_t symbol, tsr_wide coefficient)
{
    struct tsr_form *form = tsr_form_room(e, 0, 1);
    form->count = 1;
    form->terms[0] = (struct tsr_term){coefficient, symbol};
    return form;
}

/* A form too large to be written down: a symbol that has its value. */
static const struct tsr_form *too_large(struct tsr_evaluation *e, const struct tsr_form *a, const struct tsr_form *b)
{
    struct tsr_symbol symbol = tsr_symbol_new(-TSR_INFINITE, TSR_INFINITE, tsr_form_loops(e, a) | tsr_form_loops(e, b));
    symbol.loaded = tsr_form_loaded(e, a) || tsr_form_loaded(e, b);
    return tsr_symbol_add(e, &symbol);
}

static bool add_term(struct tsr_form *form, uint32_t symbol, tsr_wide coefficient)
{
    uint32_t i = tsr_form_place(form, symbol);
    if (i == form->count) {
        form->terms[form->count++] = (struct tsr_term){coefficient, symbol};
        return true;
    }
    tsr_wide total = form->terms[i].coefficient + coefficient;
    form->terms[i].coefficient = total;
    if (total == 0)
        memmove(&form->terms[i], &form->terms[i + 1], (--form->count - i) * sizeof form->terms[0]);
    return tsr_wide_fits(total);
}

/* The form, or its opposite, plus factor * b. */
static bool fill_sum(struct tsr_form *sum, const struct tsr_form *a, bool negative, const struct tsr_form *b, tsr_wide factor)
{
    tsr_wide product;
    sum->count = a->count;
    sum->constant += negative ? -a->constant : a->constant;
    for (uint32_t i = 0; i < a->count; i++)
        sum->terms[i] = (struct tsr_term){negative ? -a->terms[i].coefficient : a->terms[i].coefficient, a->terms[i].symbol};
    if (!tsr_wide_times(b->constant, factor, &product))
        return false;
    sum->constant += product;
    for (uint32_t i = 0; i < b->count && factor; i++)
        if (!tsr_wide_times(b->terms[i].coefficient, factor, &product) || !add_term(sum, b->terms[i].symbol, product))
            return false;
    return tsr_wide_fits(sum->constant) && sum->count <= TSR_FORM_TERMS;
}

/* a + factor * b. */
const struct tsr_form *tsr_form_plus(struct tsr_evaluation *e, const struct tsr_form *a, const struct tsr_form *b,
                                     tsr_wide factor)
{
    struct tsr_form *sum = tsr_form_room(e, 0, a->count + b->count);
    return fill_sum(sum, a, false, b, factor) ? sum : too_large(e, a, b);
}

/* a - b, or its opposite, plus a distance. */
const struct tsr_form *tsr_form_apart(struct tsr_evaluation *e, const struct tsr_form *a, const struct tsr_form *b,
                                      bool opposite, tsr_wide distance)
{
    struct tsr_form *sum = tsr_form_room(e, distance, a->count + b->count);
    return fill_sum(sum, a, opposite, b, opposite ? 1 : -1) ? sum : too_large(e, a, b);
}

const struct tsr_form *tsr_form_moved(struct tsr_evaluation *e, const struct tsr_form *a, tsr_wide distance)
{
    if (distance == 0)
        return a;
    const struct tsr_form by = {.constant = distance};
    return tsr_form_plus(e, a, &by, 1);
}

const struct tsr_form *tsr_form_times(struct tsr_evaluation *e, const struct tsr_form *a, tsr_wide factor)
{
    if (factor == 1)
        return a;
    return factor == 0 ? &tsr_form_zero : tsr_form_plus(e, &tsr_form_zero, a, factor);
}

/* The form less its term with a symbol. */
const struct tsr_form *tsr_form_without(struct tsr_evaluation *e, const struct tsr_form *a, uint32_t symbol)
{
    struct tsr_form *rest = tsr_form_room(e, a->constant, a->count);
    for (uint32_t i = 0; i < a->count; i++)
        if (a->terms[i].symbol != symbol)
            rest->terms[rest->count++] = a->terms[i];
    return rest;
}

/* The strongest form of a <= 0 over integers. */
const struct tsr_form *tsr_form_fact(struct tsr_evaluation *e, const struct tsr_form *a)
{
    tsr_wide divisor = tsr_form_content(a);
    if (divisor <= 1)
        return a;
    struct tsr_form *result = tsr_form_room(e, -tsr_wide_divide(-a->constant, divisor), a->count);
    result->count = a->count;
    for (uint32_t i = 0; i < a->count; i++)
        result->terms[i] = (struct tsr_term){tsr_wide_divide(a->terms[i].coefficient, divisor), a->terms[i].symbol};
    return result;
}

tsr_wide tsr_form_coefficient(const struct tsr_form *a, uint32_t symbol)
{
    uint32_t i = tsr_form_place(a, symbol);
    return i < a->count ? a->terms[i].coefficient : 0;
}

tsr_wide tsr_form_content(const struct tsr_form *a)
{
    tsr_wide common = 0;
    for (uint32_t i = 0; i < a->count && common != 1; i++)
        common = tsr_wide_common(common, a->terms[i].coefficient);
    return common;
}

/* Whatever the order of the terms. */
bool tsr_form_equal(const struct tsr_form *a, const struct tsr_form *b)
{
    if (a == b)
        return true;
    if (a->constant != b->constant || a->count != b->count)
        return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (tsr_form_coefficient(b, a->terms[i].symbol) != a->terms[i].coefficient)
            return false;
    return true;
}

/* Whatever the order of the terms. */
uint64_t tsr_form_hash_terms(const struct tsr_form *a, uint32_t without)
{
    uint64_t hash = 0;
    for (uint32_t i = 0; i < a->count; i++) {
        if (a->terms[i].symbol == without)
            continue;
        uint64_t term =
            ((uint64_t)a->terms[i].coefficient + 0x9e3779b97f4a7c15ull * (a->terms[i].symbol + 1)) * 0xbf58476d1ce4e5b9ull;
        hash += term ^ term >> 29;
    }
    return hash ^ hash >> 32;
}

uint64_t tsr_form_hash(const struct tsr_form *a)
{
    return tsr_form_hash_terms(a, TSR_NO_SYMBOL) + (uint64_t)a->constant * 0x9e3779b97f4a7c15ull;
}

/* The least value, or the greatest. */
static tsr_wide end(struct tsr_evaluation *e, const struct tsr_form *a, bool upper)
{
    tsr_wide total = a->constant;
    for (uint32_t i = 0; i < a->count; i++) {
        struct tsr_symbol *symbol = tsr_symbol_at(e, a->terms[i].symbol);
        tsr_wide c = a->terms[i].coefficient;
        symbol->seen = true;
        total = tsr_bound_plus(total, tsr_bound_times(c, (c > 0) == upper ? symbol->high : symbol->low));
    }
    return total;
}

tsr_wide tsr_form_low(struct tsr_evaluation *e, const struct tsr_form *a)
{
    return a->count ? end(e, a, false) : a->constant;
}

tsr_wide tsr_form_high(struct tsr_evaluation *e, const struct tsr_form *a)
{
    return a->count ? end(e, a, true) : a->constant;
}

/* Whether each symbol has one value. That of a pointer is not looked at: whatever it is, it is one; but a variable may have none. */
static bool are_settled(const struct tsr_evaluation *e, const struct tsr_form *a)
{
    for (uint32_t i = 0; i < a->count; i++) {
        struct tsr_symbol *symbol = tsr_symbol_at(e, a->terms[i].symbol);
        symbol->seen |= symbol->variable >= 0;
        if (symbol->low != symbol->high)
            return false;
    }
    return true;
}

bool tsr_form_value(struct tsr_evaluation *e, const struct tsr_form *a, tsr_wide *value)
{
    *value = a->constant;
    if (a->count == 0)
        return true;
    if (!are_settled(e, a))
        return false;
    *value = tsr_form_low(e, a);
    return tsr_wide_fits(*value) && *value == tsr_form_high(e, a);
}

uint64_t tsr_form_loops(const struct tsr_evaluation *e, const struct tsr_form *a)
{
    uint64_t loops = 0;
    for (uint32_t i = 0; i < a->count; i++)
        loops |= tsr_symbol_at(e, a->terms[i].symbol)->loops;
    return loops;
}

/* The symbols that facts may lead to from the form's, less one, as in tsr_signs. */
uint32_t tsr_form_reach(const struct tsr_evaluation *e, const struct tsr_form *a, uint32_t without)
{
    uint32_t reach = 0;
    for (uint32_t i = 0; i < a->count; i++)
        reach |= a->terms[i].symbol == without ? 0 : tsr_symbol_at(e, a->terms[i].symbol)->reach;
    return reach;
}

bool tsr_form_loaded(const struct tsr_evaluation *e, const struct tsr_form *a)
{
    bool loaded = false;
    for (uint32_t i = 0; i < a->count; i++)
        loaded |= tsr_symbol_at(e, a->terms[i].symbol)->loaded;
    return loaded;
}

/* From the bounds, and from the powers of two that divide everything. */
tsr_wide tsr_form_mask_between(const struct tsr_form *a, tsr_wide low, tsr_wide high)
{
    if (low < 0 || high >= TSR_INFINITE)
        return -1;
    tsr_wide common = tsr_wide_common(tsr_form_content(a), a->constant);
    tsr_wide lowest = common ? common & -common : 1;
    return tsr_wide_below(high) & ~(lowest - 1);
}

static tsr_wide loose_mask(struct tsr_evaluation *e, const struct tsr_form *a)
{
    return tsr_form_mask_between(a, tsr_form_low(e, a), tsr_form_high(e, a));
}

/* The bits that may be set in a value that is never negative. */
tsr_wide tsr_form_mask(struct tsr_evaluation *e, const struct tsr_form *a)
{
    if (a->constant < 0)
        return -1;
    tsr_wide result = a->constant, bits;
    for (uint32_t i = 0; i < a->count; i++) {
        struct tsr_symbol *symbol = tsr_symbol_at(e, a->terms[i].symbol);
        tsr_wide c = a->terms[i].coefficient;
        symbol->seen = true;
        if (c < 0 || c & (c - 1) || symbol->low < 0 || symbol->high >= TSR_INFINITE)
            return loose_mask(e, a);
        if (!tsr_wide_times(symbol->mask >= 0 ? symbol->mask : tsr_wide_below(symbol->high), c, &bits) || result & bits)
            return loose_mask(e, a);
        result |= bits;
    }
    return result;
}

struct tsr_facts *tsr_facts_room(struct tsr_evaluation *e, uint32_t count)
{
    tsr_evaluation_spend(e, 1 + count / 4);
    struct tsr_facts *facts = tsr_scratch_take(e, sizeof *facts + count * sizeof facts->items[0]);
    facts->count = 0;
    return facts;
}

const struct tsr_facts *tsr_facts_joined(struct tsr_evaluation *e, const struct tsr_facts *a, const struct tsr_facts *b)
{
    if (a->count == 0 || b->count == 0)
        return a->count ? a : b;
    struct tsr_facts *both = tsr_facts_room(e, a->count + b->count);
    memcpy(both->items, a->items, a->count * sizeof a->items[0]);
    memcpy(both->items + a->count, b->items, b->count * sizeof b->items[0]);
    both->count = a->count + b->count;
    return both;
}

static bool is_slack(struct tsr_evaluation *e, const struct tsr_form *fact)
{
    if (fact->slack == TSR_SLACK_UNKNOWN)
        ((struct tsr_form *)fact)->slack = tsr_form_high(e, fact) <= 0 ? TSR_SLACK : TSR_NO_SLACK;
    return fact->slack == TSR_SLACK;
}

/*
 * The facts that say something about a form which its symbols' bounds do not: those that have its symbols, or others that these lead to.
 * Not while a loop is on trial: bounds may become wider then.
 */
const struct tsr_facts *tsr_facts_about(struct tsr_evaluation *e, const struct tsr_form *form, uint32_t without,
                                        const struct tsr_facts *facts)
{
    uint32_t reach = tsr_form_reach(e, form, without), before;
    struct tsr_facts *found = tsr_facts_room(e, facts->count);
    do {
        before = reach;
        for (uint32_t i = 0; i < facts->count; i++)
            if (tsr_form_reach(e, facts->items[i], TSR_NO_SYMBOL) & reach && !is_slack(e, facts->items[i]))
                reach |= tsr_form_reach(e, facts->items[i], TSR_NO_SYMBOL);
    } while (reach != before);
    for (uint32_t i = 0; i < facts->count; i++)
        if (tsr_form_reach(e, facts->items[i], TSR_NO_SYMBOL) & reach && !is_slack(e, facts->items[i]))
            found->items[found->count++] = facts->items[i];
    return found;
}
