/*
 * Trip counts, and induction variables. The iterations that have ended are a symbol k. A condition under which a loop
 * continues bounds k and, shifted to the next iteration, becomes a fact about k. That numbers do not wrap in the loop is proved by induction: assuming so, the bound follows; with the bound it is
 * checked that they cannot.
 */
#include "access/evaluation.h"

#include <string.h>

struct test {
    uint32_t predicate;
    bool truth;
};

struct tests {
    uint32_t count;
    struct test items[];
};

/* Whether a form may be taken to lie between two numbers for now: it counts a loop that is on trial. */
bool tsr_loop_assumed(struct tsr_evaluation *e, const struct tsr_form *form, tsr_wide low, tsr_wide high)
{
    for (struct tsr_trial *trial = e->trial; trial; trial = trial->outer) {
        if (!trial->assume || !tsr_form_coefficient(form, trial->symbol))
            continue;
        struct tsr_assumed *assumed = tsr_scratch_take(e, sizeof *assumed);
        *assumed = (struct tsr_assumed){trial->assumed, form, low, high};
        trial->assumed = assumed;
        return true;
    }
    return false;
}

/* A value that a number between low and high is added to in each iteration. */
static const struct tsr_form *drifting(struct tsr_evaluation *e, const struct tsr_form *start, const struct tsr_form *step,
                                       const struct tsr_form *k, uint64_t within)
{
    tsr_wide low = tsr_form_low(e, step), high = tsr_form_high(e, step), last = tsr_form_high(e, k);
    struct tsr_symbol made = tsr_symbol_new(-TSR_INFINITE, TSR_INFINITE, within | tsr_form_loops(e, start));
    const struct tsr_form *result = tsr_symbol_add(e, &made);
    struct tsr_symbol *symbol = tsr_symbol_at(e, result->terms[0].symbol);
    if (tsr_wide_fits(low)) {
        tsr_symbol_relate(e, result, tsr_form_plus(e, tsr_form_plus(e, start, k, low), result, -1));
        symbol->low = tsr_bound_plus(tsr_form_low(e, start), tsr_wide_least(0, tsr_bound_times(low, last)));
    }
    if (tsr_wide_fits(high)) {
        tsr_symbol_relate(e, result, tsr_form_plus(e, tsr_form_plus(e, result, start, -1), k, -high));
        symbol->high = tsr_bound_plus(tsr_form_high(e, start), tsr_wide_most(0, tsr_bound_times(high, last)));
    }
    return result;
}

/* The value of a LOOP node. */
const struct tsr_form *tsr_loop_value(struct tsr_evaluation *e, const struct tsr_access_node *node)
{
    const struct tsr_form *start = tsr_node_value(e, tsr_node_operand(e, node, 0));
    const struct tsr_form *step = tsr_node_value(e, tsr_node_operand(e, node, 1));
    const struct tsr_form *k = tsr_loop_induction(e, (uint32_t)node->number);
    tsr_wide number;
    if (tsr_form_value(e, step, &number))
        return tsr_form_plus(e, start, k, tsr_wide_wrap(number, node->width));
    return drifting(e, start, step, k, e->template->loops[node->number].within);
}

/* Predicates that hold on all paths from the header to a back edge. */
static const struct tests *tests_on_the_way(struct tsr_evaluation *e, uint32_t condition, uint32_t header)
{
    const struct tsr_access_condition *conditions = e->template->conditions;
    uint32_t most = 0;
    for (uint32_t at = condition; at != header && at != 0; at = conditions[at].parent)
        most++;
    tsr_evaluation_spend(e, 1 + most);
    struct tests *tests = tsr_scratch_take(e, sizeof *tests + most * sizeof tests->items[0]);
    tests->count = 0;
    for (; condition != header && condition != 0; condition = conditions[condition].parent)
        if (conditions[condition].predicate >= 0)
            tests->items[tests->count++] =
                (struct test){(uint32_t)conditions[condition].predicate, conditions[condition].truth != 0};
    return tests;
}

static bool is_multiple(const struct tsr_form *form, tsr_wide step)
{
    bool multiple = tsr_wide_is_multiple(form->constant, step);
    for (uint32_t i = 0; i < form->count && multiple; i++)
        multiple = tsr_wide_is_multiple(form->terms[i].coefficient, step);
    return multiple;
}

/* The form with the number for each symbol that has only one value. */
static const struct tsr_form *settled(struct tsr_evaluation *e, const struct tsr_form *form)
{
    const struct tsr_form *result = form;
    tsr_wide value;
    for (uint32_t i = 0; i < form->count; i++) {
        const struct tsr_form *term = tsr_form_symbol(e, form->terms[i].symbol, form->terms[i].coefficient);
        if (tsr_form_value(e, term, &value))
            result = tsr_form_moved(e, tsr_form_without(e, result, form->terms[i].symbol), value);
    }
    return result;
}

static bool comes_to_zero(struct tsr_evaluation *e, const struct tsr_form *rest, tsr_wide step)
{
    const struct tsr_form *written[5];
    bool found = is_multiple(settled(e, rest), step);
    uint32_t count = found ? 0 : tsr_form_writings(e, rest, written);
    for (uint32_t i = 0; i < count && !found; i++)
        found = is_multiple(written[i], step);
    return found;
}

static const struct tsr_facts *without(struct tsr_evaluation *e, const struct tsr_facts *facts, uint32_t symbol)
{
    struct tsr_facts *kept = tsr_facts_room(e, facts->count);
    for (uint32_t i = 0; i < facts->count; i++)
        if (!tsr_form_coefficient(facts->items[i], symbol))
            kept->items[kept->count++] = facts->items[i];
    return kept;
}

/* The comparison that a predicate is when it says that a loop goes on until two values are equal; else NULL. */
static const struct tsr_access_node *inequality(struct tsr_evaluation *e, struct test test)
{
    const struct tsr_access_node *node = &e->template->nodes[test.predicate];
    for (; node->op == TSR_OP_OPPOSITE; test.truth = !test.truth) {
        tsr_evaluation_spend(e, 1);
        node = &e->template->nodes[tsr_node_operand(e, node, 0)];
    }
    uint8_t wanted = test.truth ? TSR_COMPARE_NE : TSR_COMPARE_EQ;
    return node->op == TSR_OP_COMPARE && node->code == wanted ? node : NULL;
}

/* What holds while a loop goes on until two values are equal, if it comes to that step by step; else NULL. */
static const struct tsr_form *until_equal(struct tsr_evaluation *e, struct test test, uint32_t loop, uint32_t symbol,
                                          const struct tsr_facts *facts)
{
    const struct tsr_access_node *node = inequality(e, test);
    if (!node)
        return NULL;
    const struct tsr_form *a = tsr_node_value(e, tsr_node_operand(e, node, 0));
    const struct tsr_form *difference = tsr_form_plus(e, a, tsr_node_value(e, tsr_node_operand(e, node, 1)), -1);
    tsr_wide step = tsr_form_coefficient(difference, symbol);
    if (step < 0) {
        step = -step;
        difference = tsr_form_times(e, difference, -1);
    }
    const struct tsr_form *rest = tsr_form_without(e, difference, symbol);
    if (step == 0 || tsr_form_loops(e, rest) & 1ull << (loop < 63 ? loop : 63) || !comes_to_zero(e, rest, step))
        return NULL;
    bool ends = tsr_bound_upper(e, rest, without(e, facts, symbol)) < step; /* 0 then, or less */
    return ends ? tsr_form_moved(e, difference, step) : NULL;
}

/* Whether an edge back that is taken under these facts is not taken the first time, and so never. */
static bool ends_at_once(struct tsr_evaluation *e, const struct tsr_facts *facts, uint32_t symbol)
{
    struct tsr_facts *first = tsr_facts_room(e, 1);
    first->items[first->count++] = tsr_form_symbol(e, symbol, 1);
    const struct tsr_facts *then = tsr_facts_joined(e, facts, first);
    for (uint32_t i = 0; i < facts->count; i++)
        if (tsr_form_coefficient(facts->items[i], symbol) && tsr_bound_lower(e, facts->items[i], then) > 0)
            return true;
    return false;
}

/* The greatest count with which an edge back is taken; -1 when it never is. alone: the loop has no other. */
static tsr_wide passes(struct tsr_evaluation *e, uint32_t back, uint32_t loop, uint32_t symbol, bool alone)
{
    const struct tsr_facts *facts = tsr_condition_facts(e, back);
    if (!facts)
        return -1;
    const struct tests *tests = tests_on_the_way(e, back, 0);
    struct tsr_facts *more = tsr_facts_room(e, tests->count);
    for (uint32_t i = 0; i < tests->count; i++) {
        const struct tsr_form *end = until_equal(e, tests->items[i], loop, symbol, facts);
        if (end)
            more->items[more->count++] = end;
    }
    const struct tsr_form *k = tsr_form_symbol(e, symbol, 1);
    tsr_wide most = tsr_wide_most(-1, tsr_bound_upper(e, k, tsr_facts_joined(e, facts, more)));
    return alone && most >= TSR_INFINITE && ends_at_once(e, facts, symbol) ? -1 : most;
}

static bool contains(const struct tests *tests, struct test test)
{
    for (uint32_t i = 0; i < tests->count; i++)
        if (tests->items[i].predicate == test.predicate && tests->items[i].truth == test.truth)
            return true;
    return false;
}

/* A condition for going on, as the iteration after sees it; NULL: it says nothing there. */
static const struct tsr_form *seen_after(struct tsr_evaluation *e, const struct tsr_access_loop *place, uint32_t symbol,
                                         const struct tsr_form *form)
{
    tsr_wide c = tsr_form_coefficient(form, symbol);
    const struct tsr_form *moved = tsr_form_moved(e, form, -c);
    const struct tsr_form *first = tsr_form_without(e, moved, symbol);
    bool any = false;
    tsr_wide at_first = 0;
    for (uint32_t i = 0; i < place->entries; i++) {
        const struct tsr_facts *facts = tsr_condition_facts(e, e->template->operands[place->first_entry + i]);
        if (!facts)
            continue;
        tsr_wide high = tsr_bound_upper(e, first, facts);
        at_first = any ? tsr_wide_most(at_first, high) : high;
        any = true;
    }
    if (at_first >= TSR_INFINITE)
        return NULL;
    return tsr_form_fact(e, tsr_form_moved(e, moved, -tsr_wide_most(0, at_first)));
}

static bool varies(const struct tsr_evaluation *e, const struct tsr_form *form, uint32_t loop, uint32_t symbol)
{
    for (uint32_t i = 0; i < form->count; i++)
        if (form->terms[i].symbol != symbol && tsr_symbol_at(e, form->terms[i].symbol)->loops & 1ull << (loop < 63 ? loop : 63))
            return true;
    return false;
}

static void add_header_fact(struct tsr_evaluation *e, const struct tsr_access_loop *place, uint32_t loop, uint32_t symbol,
                            const struct tsr_form *form, struct tsr_fact_link ***end)
{
    if (!tsr_form_coefficient(form, symbol) || varies(e, form, loop, symbol))
        return;
    const struct tsr_form *fact = seen_after(e, place, symbol, form);
    if (!fact)
        return;
    **end = tsr_scratch_take(e, sizeof ***end);
    ***end = (struct tsr_fact_link){.form = fact};
    *end = &(**end)->next;
}

/* Facts about the count from conditions under which every edge back is taken. */
static struct tsr_fact_link *header_facts(struct tsr_evaluation *e, const struct tsr_access_loop *place, uint32_t loop,
                                          uint32_t symbol, const struct tests *const *tests)
{
    struct tsr_fact_link *found = NULL, **end = &found;
    const struct tsr_facts *here = tsr_condition_facts(e, place->condition);
    for (uint32_t i = 0; place->backs && i < tests[0]->count; i++) {
        struct test test = tests[0]->items[i];
        bool common = true;
        for (uint32_t back = 1; back < place->backs; back++)
            common = common && contains(tests[back], test);
        if (!common)
            continue;
        const struct tsr_form *until = until_equal(e, test, loop, symbol, here ? here : &tsr_facts_none);
        const struct tsr_facts *facts = tsr_predicate_facts(e, test.predicate, test.truth);
        for (uint32_t n = 0; facts && n < facts->count; n++)
            add_header_fact(e, place, loop, symbol, facts->items[n], &end);
        if (until)
            add_header_fact(e, place, loop, symbol, until, &end);
    }
    return found;
}

/* Whether what was assumed follows from the bound that was found with it. */
static bool holds(struct tsr_evaluation *e, const struct tsr_trial *trial, const struct tsr_access_loop *place)
{
    const struct tsr_facts *before = tsr_condition_facts(e, place->condition);
    if (!before)
        before = &tsr_facts_none;
    for (const struct tsr_assumed *each = trial->assumed; each; each = each->next)
        if (tsr_bound_lower(e, each->form, before) < each->low || tsr_bound_upper(e, each->form, before) > each->high)
            return false;
    return true;
}

static void set_bound(struct tsr_evaluation *e, uint32_t symbol, tsr_wide high, struct tsr_fact_link *facts)
{
    struct tsr_symbol *k = tsr_symbol_at(e, symbol);
    k->high = high;
    k->facts = facts;
    k->last_fact = NULL;
    for (struct tsr_fact_link *link = facts; link; link = link->next) {
        k->reach |= tsr_form_reach(e, link->form, TSR_NO_SYMBOL);
        k->last_fact = link;
    }
}

/* Whether the launch may get into a loop at all. */
static bool is_entered(struct tsr_evaluation *e, const struct tsr_access_loop *place)
{
    bool entered = false;
    for (uint32_t i = 0; i < place->entries; i++)
        entered |= tsr_condition_facts(e, e->template->operands[place->first_entry + i]) != NULL;
    return entered;
}

/* Bounds the count. False when an assumption that was made does not follow. */
static bool bound(struct tsr_evaluation *e, uint32_t loop, uint32_t symbol, bool assume)
{
    const struct tsr_access_loop *place = &e->template->loops[loop];
    struct tsr_trial trial;
    size_t bytes = e->template->header->loops * sizeof e->inductions[0];
    const struct tsr_form **known = tsr_scratch_take(e, bytes); /* loops counted on the way are counted again later */
    const struct tests **tests = tsr_scratch_take(e, place->backs * sizeof *tests);
    memcpy(known, e->inductions, bytes);
    tsr_trial_begin(e, &trial, symbol, assume);
    tsr_wide most = -1;
    for (uint32_t i = 0; i < place->backs; i++)
        tests[i] = tests_on_the_way(e, e->template->operands[place->first_back + i], place->condition);
    bool entered = is_entered(e, place);
    for (uint32_t i = 0; entered && i < place->backs; i++)
        most = tsr_wide_most(most, passes(e, e->template->operands[place->first_back + i], loop, symbol, place->backs == 1));
    struct tsr_fact_link *facts = header_facts(e, place, loop, symbol, tests);
    set_bound(e, symbol, tsr_bound_plus(most, 1), facts);
    bool follows = holds(e, &trial, place);
    if (!follows)
        set_bound(e, symbol, TSR_INFINITE, NULL);
    tsr_trial_end(e);
    memcpy(e->inductions, known, bytes);
    return follows;
}

/* The iterations of a loop that have ended, as a symbol. */
const struct tsr_form *tsr_loop_induction(struct tsr_evaluation *e, uint32_t loop)
{
    if (e->inductions[loop])
        return e->inductions[loop];
    struct tsr_symbol symbol = tsr_symbol_new(0, TSR_INFINITE, e->template->loops[loop].within);
    symbol.condition = e->template->loops[loop].condition;
    const struct tsr_form *k = tsr_symbol_add(e, &symbol);
    e->inductions[loop] = k;
    if (!bound(e, loop, k->terms[0].symbol, true))
        bound(e, loop, k->terms[0].symbol, false);
    return k;
}
