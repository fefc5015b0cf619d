/*
 * Related phis of one block: of a counter and a pointer that both advance, one is determined by the other. Each is one of
 * several forms, by the incoming edge. If each edge's form of the one is the same multiple of its form of the other plus the same
 * form, that holds of what comes out, and one symbol does for both.
 *
 * What such a form is made of was made before the paths met, on every edge, or else it would be in none of the edges' forms. So nothing of
 * it is computed again before the value that came out is: the latter's symbol and the others go together wherever it is used. That does
 * not hold where one of the others is used: facts lie with the symbol that came out alone. They stay with it, so no symbol that was made
 * before a trial gets any.
 */
#include <string.h>

#include "access/evaluation.h"

#define MOST 4u /* values of one phi that others are compared with */

struct together {
    const struct tsr_form *const *options;
    const struct tsr_form *result;
};

struct tsr_phi {
    struct tsr_phi *older;
    const uint32_t *edges; /* path conditions of the edges into it that can be taken */
    uint32_t block, count, trial_depth, known;
    struct together values[MOST];
};

static struct tsr_phi **bucket_of(struct tsr_evaluation *e, uint32_t block)
{
    return &e->phis[block % TSR_PHI_BUCKETS];
}

static struct tsr_phi *find(struct tsr_phi *from, uint32_t block, const uint32_t *edges, uint32_t count)
{
    for (; from; from = from->older)
        if (from->block == block && from->count == count && memcmp(from->edges, edges, count * sizeof *edges) == 0)
            return from;
    return NULL;
}

/* Whether each edge is known by its condition: steps of loops join what comes from anywhere. */
static bool is_place(const uint32_t *edges, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (edges[i] == 0)
            return false;
        for (uint32_t other = 0; other < i; other++)
            if (edges[other] == edges[i])
                return false;
    }
    return true;
}

static tsr_wide divided(tsr_wide dividend, tsr_wide divisor)
{
    return dividend % divisor ? 0 : dividend / divisor;
}

/* (a - b) / (c - d) by the first coefficient, or the number, that c and d do not share; 0 when there is none or it leaves a rest. */
static tsr_wide quotient(const struct tsr_form *a, const struct tsr_form *b, const struct tsr_form *c, const struct tsr_form *d)
{
    for (uint32_t i = 0; i < c->count + d->count; i++) {
        uint32_t symbol = i < c->count ? c->terms[i].symbol : d->terms[i - c->count].symbol;
        tsr_wide divisor = tsr_form_coefficient(c, symbol) - tsr_form_coefficient(d, symbol);
        if (divisor)
            return divided(tsr_form_coefficient(a, symbol) - tsr_form_coefficient(b, symbol), divisor);
    }
    return c->constant == d->constant ? 0 : divided(a->constant - b->constant, c->constant - d->constant);
}

/* The multiple of the others' differences that the options' are; 0 when there is none. */
static tsr_wide factor_of(struct tsr_evaluation *e, const struct tsr_form *const *options, const struct tsr_form *const *others,
                          uint32_t count)
{
    tsr_wide factor = 0;
    for (uint32_t i = 1; i < count; i++) {
        if (tsr_form_equal(options[i], options[0]) && tsr_form_equal(others[i], others[0]))
            continue;
        if (factor == 0)
            factor = quotient(options[i], options[0], others[i], others[0]);
        if (factor == 0)
            return 0;
        char *kept = e->next; /* the differences are not needed later */
        const struct tsr_form *apart = tsr_form_plus(e, options[i], options[0], -1);
        const struct tsr_form *by = tsr_form_plus(e, others[i], others[0], -1);
        bool is_multiple = tsr_form_equal(apart, tsr_form_times(e, by, factor));
        e->next = kept;
        if (!is_multiple)
            return 0;
    }
    return factor;
}

/* What options become that go with others, and the symbol of these; NULL when they go with none. */
const struct tsr_form *tsr_phi_find(struct tsr_evaluation *e, uint32_t block, const uint32_t *edges,
                                    const struct tsr_form *const *options, uint32_t count, const struct tsr_form **symbol)
{
    const struct tsr_phi *phi = find(*bucket_of(e, block), block, edges, count);
    if (!phi || phi->trial_depth != e->trial_depth)
        return NULL;
    for (uint32_t i = 0; i < phi->known; i++) {
        const struct together *each = &phi->values[i];
        tsr_wide factor = factor_of(e, options, each->options, count);
        if (factor == 0)
            continue;
        *symbol = each->result;
        return tsr_form_plus(e, tsr_form_plus(e, options[0], each->options[0], -factor), each->result, factor);
    }
    return NULL;
}

/* Keeps the symbol that options became; of a form that is one of them nothing is kept. Options and edges stay with the phi. */
void tsr_phi_add(struct tsr_evaluation *e, uint32_t block, const uint32_t *edges, const struct tsr_form *const *options,
                 uint32_t count, const struct tsr_form *result)
{
    bool is_new = result->count == 1 && is_place(edges, count);
    for (uint32_t i = 0; i < count && is_new; i++)
        is_new = !tsr_form_equal(result, options[i]);
    if (!is_new)
        return;
    struct tsr_phi **bucket = bucket_of(e, block), *phi = find(*bucket, block, edges, count);
    if (!phi || phi->trial_depth != e->trial_depth) {
        phi = tsr_scratch_take(e, sizeof *phi);
        *phi = (struct tsr_phi){*bucket, edges, block, count, e->trial_depth, 0, {{NULL, NULL}}};
        *bucket = phi;
    }
    if (phi->known < MOST)
        phi->values[phi->known++] = (struct together){options, result};
}

/* Forgets what was found in the trial that ends. */
void tsr_phis_forget(struct tsr_evaluation *e)
{
    for (uint32_t i = 0; i < TSR_PHI_BUCKETS; i++)
        while (e->phis[i] && e->phis[i]->trial_depth >= e->trial_depth)
            e->phis[i] = e->phis[i]->older;
}

/* What is known of all that came out by one of the edges. */
static const struct tsr_facts *on_edge(struct tsr_evaluation *e, uint32_t block, const uint32_t *edges, uint32_t count,
                                       uint32_t edge)
{
    const struct tsr_facts *found = &tsr_facts_none;
    struct tsr_phi *phi = *bucket_of(e, block);
    while ((phi = find(phi, block, edges, count)) != NULL) {
        struct tsr_facts *facts = tsr_facts_room(e, 2 * phi->known);
        for (uint32_t i = 0; i < phi->known; i++) {
            const struct tsr_form *option = phi->values[i].options[edge];
            facts->items[facts->count++] = tsr_form_apart(e, phi->values[i].result, option, false, 0);
            facts->items[facts->count++] = tsr_form_apart(e, phi->values[i].result, option, true, 0);
        }
        found = tsr_facts_joined(e, found, facts);
        phi = phi->older;
    }
    return found;
}

/* Facts of a condition from the `first` on. */
struct latest {
    const struct tsr_facts *facts;
    uint32_t first;
};

/* What holds in a condition and not yet where it and an earlier one have parted. */
static struct latest since(struct tsr_evaluation *e, uint32_t early, uint32_t late)
{
    const struct tsr_access_condition *conditions = e->template->conditions;
    uint32_t common = late;
    for (; common; common = conditions[common].parent) {
        uint32_t above = early;
        while (above && above != common)
            above = conditions[above].parent;
        if (above == common)
            break;
    }
    const struct tsr_facts *all = tsr_condition_facts(e, late), *before = tsr_condition_facts(e, common);
    if (!all || !before || all->count < before->count)
        return (struct latest){&tsr_facts_none, 0};
    return (struct latest){all, before->count};
}

static const struct tsr_facts *taken(struct tsr_evaluation *e, struct latest latest)
{
    struct tsr_facts *found = tsr_facts_room(e, latest.facts->count - latest.first);
    for (uint32_t i = latest.first; i < latest.facts->count; i++)
        found->items[found->count++] = latest.facts->items[i];
    return found;
}

/* The edges into a phi that can be taken: conditions, and values. */
static uint32_t edges_into(struct tsr_evaluation *e, const struct tsr_access_node *node, uint32_t *conditions, uint32_t *values)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < node->count; i++) {
        uint32_t condition = tsr_node_operand(e, node, node->count + i);
        if (tsr_condition_facts(e, condition))
            conditions[count] = condition, values[count++] = tsr_node_operand(e, node, i);
    }
    return count;
}

/* Whether a fact is one about a form and numbers. */
static bool is_about(struct tsr_evaluation *e, const struct tsr_form *fact, const struct tsr_form *form)
{
    for (uint32_t i = 0; i < fact->count; i++) {
        struct tsr_symbol *symbol = tsr_symbol_at(e, fact->terms[i].symbol);
        if (tsr_form_coefficient(form, fact->terms[i].symbol))
            continue;
        symbol->seen = true;
        if (symbol->low != symbol->high)
            return false;
    }
    return true;
}

static bool is_among(const struct tsr_form *fact, const struct tsr_facts *facts)
{
    uint32_t i = 0;
    while (i < facts->count && facts->items[i] != fact)
        i++;
    return i < facts->count;
}

/*
 * What is known of a value that loops change from the only edge to where it is from, if paths meet there, and not yet in a condition. Their
 * ends say it; of other values the work does not pay.
 */
const struct tsr_facts *tsr_phi_only_edge(struct tsr_evaluation *e, uint32_t index, uint32_t condition)
{
    const struct tsr_access_node *node = &e->template->nodes[index];
    if (node->op != TSR_OP_PHI)
        return &tsr_facts_none;
    uint32_t *conditions = tsr_scratch_take(e, 2 * node->count * sizeof *conditions);
    if (edges_into(e, node, conditions, conditions + node->count) != 1)
        return &tsr_facts_none;
    const struct tsr_form *form = tsr_node_value(e, index);
    if (!tsr_form_loops(e, form))
        return &tsr_facts_none;
    const struct tsr_facts *before = tsr_condition_facts(e, condition);
    struct latest latest = since(e, node->condition, conditions[0]);
    struct tsr_facts *found = NULL;
    for (uint32_t i = latest.first; i < latest.facts->count; i++) {
        const struct tsr_form *fact = latest.facts->items[i];
        if (!is_about(e, fact, form) || (before && is_among(fact, before)))
            continue;
        if (!found)
            found = tsr_facts_room(e, latest.facts->count - i);
        found->items[found->count++] = fact;
    }
    return found ? found : &tsr_facts_none;
}

/* What holds of the only edge that brings a predicate of this value; NULL: none does. Most of them bring numbers. */
const struct tsr_facts *tsr_phi_facts(struct tsr_evaluation *e, const struct tsr_access_node *node, bool truth)
{
    uint32_t others = 0, edge = 0, possible = 0;
    for (uint32_t i = 0; i < node->count; i++)
        others += e->template->nodes[tsr_node_operand(e, node, i)].op != TSR_OP_NUMBER;
    if (others > 1)
        return &tsr_facts_none;
    uint32_t *conditions = tsr_scratch_take(e, 2 * node->count * sizeof *conditions), *values = conditions + node->count;
    uint32_t count = edges_into(e, node, conditions, values);
    const struct tsr_facts *found = NULL;
    for (uint32_t i = 0; i < count; i++) {
        const struct tsr_facts *side = tsr_predicate_facts(e, values[i], truth);
        if (side && ++possible == 1)
            edge = i, found = tsr_facts_joined(e, taken(e, since(e, node->condition, conditions[i])), side);
    }
    if (possible != 1)
        return possible ? &tsr_facts_none : NULL;
    return tsr_facts_joined(e, found, on_edge(e, node->block, conditions, count, edge));
}
