/* Forms of nodes that are one of several values: minimum and maximum, selects by a predicate, phis. */
#include "access/evaluation.h"

#define MANY_LOOPS (1ull << 63) /* of several loops, not known which */

struct option {
    const struct tsr_form *form;
    const struct tsr_facts *facts;
};

static const struct tsr_form *extreme(struct tsr_evaluation *e, const struct tsr_access_node *node)
{
    const struct tsr_form *sides[2];
    tsr_wide low[2], high[2];
    bool is_min = node->op == TSR_OP_MIN;
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t operand = tsr_node_operand(e, node, i);
        sides[i] = tsr_node_viewed(e, operand, node->width, tsr_node_is_signed(node), node->condition);
        low[i] = tsr_form_low(e, sides[i]), high[i] = tsr_form_high(e, sides[i]);
    }
    if (is_min ? high[0] <= low[1] : low[0] >= high[1])
        return sides[0];
    if (is_min ? high[1] <= low[0] : low[1] >= high[0])
        return sides[1];
    tsr_wide bottom = is_min ? tsr_wide_least(low[0], low[1]) : tsr_wide_most(low[0], low[1]);
    tsr_wide top = is_min ? tsr_wide_least(high[0], high[1]) : tsr_wide_most(high[0], high[1]);
    const struct tsr_form *result = tsr_form_between(e, bottom, top, sides[0], sides[1], -1);
    tsr_symbol_set_sides(e, result, sides);
    if (result->count) /* the facts of the condition may say how the sides are seen */
        tsr_symbol_at(e, result->terms[0].symbol)->condition = node->condition;
    for (int i = 0; i < 2 && !e->coarse; i++)
        tsr_symbol_relate(e, result, is_min ? tsr_form_plus(e, result, sides[i], -1) : tsr_form_plus(e, sides[i], result, -1));
    return result;
}

static bool is_base(const struct tsr_evaluation *e, uint32_t number)
{
    const struct tsr_symbol *symbol = tsr_symbol_at(e, number);
    return tsr_symbol_is_pointer(symbol) || symbol->choice_count;
}

/* Whether all pointers of a are among those of b. */
static bool bases_within(const struct tsr_evaluation *e, const struct tsr_form *a, const struct tsr_form *b)
{
    for (uint32_t i = 0; i < a->count; i++)
        if (is_base(e, a->terms[i].symbol) && !tsr_form_coefficient(b, a->terms[i].symbol))
            return false;
    return true;
}

/* The options as the symbol's choices, when they begin with different pointers. */
static bool set_choices(struct tsr_evaluation *e, struct tsr_symbol *symbol, const struct option *options, uint32_t count)
{
    bool differ = false;
    for (uint32_t i = 1; i < count; i++)
        differ |= !bases_within(e, options[0].form, options[i].form) || !bases_within(e, options[i].form, options[0].form);
    if (!differ)
        return false;
    const struct tsr_form **choices = tsr_scratch_take(e, count * sizeof *choices);
    for (uint32_t i = 0; i < count; i++)
        choices[i] = options[i].form;
    symbol->choices = choices;
    symbol->choice_count = count;
    return true;
}

static bool are_known(const struct tsr_evaluation *e, const struct tsr_form *form, uint32_t condition)
{
    for (uint32_t i = 0; i < form->count; i++)
        if (!tsr_condition_is_around(e, tsr_symbol_at(e, form->terms[i].symbol)->condition, condition))
            return false;
    return true;
}

/* Whether what is known of a form, and of what that is made of, holds wherever a condition does. What another edge makes may not
 * be anything here that would agree with all that is known of it. */
static bool is_made(const struct tsr_evaluation *e, const struct tsr_form *form, uint32_t condition)
{
    if (!are_known(e, form, condition))
        return false;
    for (uint32_t i = 0; i < form->count; i++) {
        const struct tsr_fact_link *link = tsr_symbol_at(e, form->terms[i].symbol)->facts;
        for (; link; link = link->next)
            if (!are_known(e, link->form, condition))
                return false;
    }
    return true;
}

/* How far the result can be from the first option, when that is bounded. */
static void relate_to_first(struct tsr_evaluation *e, const struct tsr_form *result, const struct option *options,
                            uint32_t count, uint32_t condition)
{
    const struct tsr_form *first = options[0].form;
    if (!is_made(e, first, condition))
        return;
    tsr_wide low = 0, high = 0;
    char *kept = e->next; /* the differences are not needed later */
    for (uint32_t i = 1; i < count; i++) {
        const struct tsr_form *difference = tsr_form_plus(e, options[i].form, first, -1);
        low = tsr_wide_least(low, tsr_bound_lower(e, difference, options[i].facts));
        high = tsr_wide_most(high, tsr_bound_upper(e, difference, options[i].facts));
    }
    e->next = kept;
    if (tsr_wide_fits(high))
        tsr_symbol_relate(e, result, tsr_form_moved(e, tsr_form_plus(e, result, first, -1), -high));
    if (tsr_wide_fits(low))
        tsr_symbol_relate(e, result, tsr_form_moved(e, tsr_form_plus(e, first, result, -1), low));
}

/* Whether a edge to a phi brings what a loop before it counted, and a number: its end is known there. */
static bool is_count(const struct tsr_evaluation *e, const struct tsr_form *form, const struct tsr_access_node *node)
{
    return node->op == TSR_OP_PHI && form->count == 1 && form->terms[0].coefficient == 1 &&
           tsr_form_loops(e, form) & ~e->template->blocks[node->block];
}

/* A fact of the option at `position`, which is what a loop counted, as far as it holds of the others, too. */
static void relate_by_fact(struct tsr_evaluation *e, const struct tsr_form *result, const struct option *options,
                           uint32_t count, uint32_t position, const struct tsr_form *fact, const struct tsr_access_node *node)
{
    uint64_t around = e->template->blocks[node->block];
    const struct tsr_form *form = options[position].form;
    const struct tsr_form number = {.constant = form->constant};
    uint32_t own = form->terms[0].symbol;
    tsr_wide factor = tsr_form_coefficient(fact, own), above = 0;
    if (!factor)
        return;
    const struct tsr_form *rest = tsr_form_without(e, fact, own);
    if (tsr_form_loops(e, rest) & ~(around & ~MANY_LOOPS) || !is_made(e, rest, node->condition))
        return;
    rest = tsr_form_plus(e, rest, &number, -factor);
    for (uint32_t i = 0; i < count; i++)
        if (i != position)
            above = tsr_wide_most(above, tsr_bound_upper(e, tsr_form_plus(e, rest, options[i].form, factor), options[i].facts));
    if (!tsr_wide_fits(above))
        return;
    const struct tsr_form *related = tsr_form_moved(e, tsr_form_plus(e, rest, result, factor), -above);
    tsr_symbol_relate(e, result, tsr_form_fact(e, related));
}

/* What is known of what a loop counted. Facts with something else that varies in that loop say nothing of the others. */
static void relate_by_facts(struct tsr_evaluation *e, const struct tsr_form *result, const struct option *options,
                            uint32_t count, const struct tsr_access_node *node)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct tsr_form *form = options[i].form;
        if (!is_count(e, form, node))
            continue;
        for (uint32_t n = 0; n < options[i].facts->count; n++)
            relate_by_fact(e, result, options, count, i, options[i].facts->items[n], node);
        struct tsr_fact_link *link = tsr_symbol_at(e, form->terms[0].symbol)->facts;
        for (; link; link = link->next)
            relate_by_fact(e, result, options, count, i, link->form, node);
    }
}

static const struct tsr_form *one_of(struct tsr_evaluation *e, const struct tsr_access_node *node, const struct option *options,
                                     uint32_t count)
{
    bool are_equal = true;
    if (count == 0)
        return &tsr_form_zero;
    for (uint32_t i = 1; i < count && are_equal; i++)
        are_equal = tsr_form_equal(options[i].form, options[0].form);
    if (are_equal && !is_count(e, options[0].form, node))
        return options[0].form;
    struct tsr_symbol symbol = tsr_symbol_new(TSR_INFINITE, -TSR_INFINITE, e->template->blocks[node->block]);
    for (uint32_t i = 0; i < count; i++) {
        symbol.low = tsr_wide_least(symbol.low, tsr_bound_lower(e, options[i].form, options[i].facts));
        symbol.high = tsr_wide_most(symbol.high, tsr_bound_upper(e, options[i].form, options[i].facts));
        symbol.loops |= tsr_form_loops(e, options[i].form);
        symbol.loaded |= tsr_form_loaded(e, options[i].form);
    }
    const struct tsr_form *first = options[0].form;
    if (symbol.low == symbol.high && tsr_form_low(e, first) == symbol.low && tsr_form_high(e, first) == symbol.low)
        return first; /* pointers to one place: an address keeps what it begins with */
    symbol.condition = node->condition;
    bool has_choices = set_choices(e, &symbol, options, count);
    const struct tsr_form *result = tsr_symbol_add(e, &symbol);
    if (result->count && !has_choices && !e->coarse) {
        relate_to_first(e, result, options, count, node->condition);
        relate_by_facts(e, result, options, count, node);
    }
    return result;
}

/* One of several forms, of which nothing else is known than where it is made. */
const struct tsr_form *tsr_form_one_of(struct tsr_evaluation *e, const struct tsr_access_node *node,
                                       const struct tsr_form *const *forms, uint32_t count, const struct tsr_facts *facts)
{
    struct option *options = tsr_scratch_take(e, count * sizeof *options);
    for (uint32_t i = 0; i < count; i++)
        options[i] = (struct option){forms[i], facts};
    return one_of(e, node, options, count);
}

static const struct tsr_form *selected(struct tsr_evaluation *e, const struct tsr_access_node *node)
{
    struct option options[2];
    uint32_t count = 0;
    const struct tsr_facts *before = tsr_condition_facts(e, node->condition);
    for (uint32_t side = 0; side < 2; side++) {
        const struct tsr_facts *facts = tsr_predicate_facts(e, tsr_node_operand(e, node, 0), side == 0);
        if (!before || !facts || tsr_facts_impossible(e, facts, before))
            continue;
        const struct tsr_form *form = tsr_node_value(e, tsr_node_operand(e, node, 1 + side));
        options[count++] = (struct option){form, tsr_facts_joined(e, before, facts)};
    }
    return one_of(e, node, options, count);
}

/* Keeps the bounds that a form has as one of the options, with the symbol that was known of it. */
static void limit(struct tsr_evaluation *e, const struct tsr_form *known, const struct tsr_form *form,
                  const struct option *options, uint32_t count)
{
    tsr_wide low = TSR_INFINITE, high = -TSR_INFINITE;
    for (uint32_t i = 0; i < count; i++) {
        low = tsr_wide_least(low, tsr_bound_lower(e, options[i].form, options[i].facts));
        high = tsr_wide_most(high, tsr_bound_upper(e, options[i].form, options[i].facts));
    }
    if (tsr_wide_fits(high))
        tsr_symbol_relate(e, known, tsr_form_moved(e, form, -high));
    if (tsr_wide_fits(low))
        tsr_symbol_relate(e, known, tsr_form_apart(e, form, &tsr_form_zero, true, low));
}

static const struct tsr_form *joined(struct tsr_evaluation *e, const struct tsr_access_node *node)
{
    struct option *options = tsr_scratch_take(e, node->count * sizeof *options);
    const struct tsr_form **forms = tsr_scratch_take(e, node->count * sizeof *forms);
    uint32_t *edges = tsr_scratch_take(e, node->count * sizeof *edges), count = 0;
    for (uint32_t i = 0; i < node->count; i++) {
        uint32_t condition = tsr_node_operand(e, node, node->count + i);
        const struct tsr_facts *facts = tsr_condition_facts(e, condition);
        if (!facts)
            continue;
        forms[count] = tsr_node_value(e, tsr_node_operand(e, node, i));
        options[count] = (struct option){forms[count], facts};
        edges[count++] = condition;
    }
    const struct tsr_form *known;
    const struct tsr_form *result = e->coarse ? NULL : tsr_phi_find(e, node->block, edges, forms, count, &known);
    if (result) {
        limit(e, known, result, options, count);
        return result;
    }
    result = one_of(e, node, options, count);
    if (!e->coarse)
        tsr_phi_add(e, node->block, edges, forms, count, result);
    return result;
}

const struct tsr_form *tsr_choice_value(struct tsr_evaluation *e, const struct tsr_access_node *node)
{
    if (node->op == TSR_OP_SELECT)
        return selected(e, node);
    return node->op == TSR_OP_PHI ? joined(e, node) : extreme(e, node);
}
