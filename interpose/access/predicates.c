/* What a predicate's value says about numbers. A conclusion not drawn is a fact less, never a wrong one. */
#include "access/evaluation.h"

const uint8_t tsr_compare_opposite[] = {TSR_COMPARE_GE, TSR_COMPARE_GT, TSR_COMPARE_LE,
                                        TSR_COMPARE_LT, TSR_COMPARE_NE, TSR_COMPARE_EQ};

/* What holds on either side. */
static const struct tsr_facts *in_both(struct tsr_evaluation *e, const struct tsr_access_node *node,
                                       const struct tsr_facts *sides[2])
{
    const struct tsr_facts *before = tsr_condition_facts(e, node->condition);
    before = tsr_facts_joined(e, before ? before : &tsr_facts_none, sides[1]);
    struct tsr_facts *found = tsr_facts_room(e, sides[0]->count);
    for (uint32_t i = 0; i < sides[0]->count; i++)
        if (tsr_bound_upper(e, sides[0]->items[i], before) <= 0)
            found->items[found->count++] = sides[0]->items[i];
    return found;
}

/* Both hold when "both" is true or "either" false. Otherwise at least one does: known when the other cannot. */
static const struct tsr_facts *of_two(struct tsr_evaluation *e, const struct tsr_access_node *node, bool truth)
{
    const struct tsr_facts *possible[2];
    int count = 0;
    bool is_join[2];
    for (uint32_t i = 0; i < 2; i++)
        is_join[i] = e->template->nodes[tsr_node_operand(e, node, i)].op == TSR_OP_PHI;
    for (uint32_t i = 0; i < 2; i++) { /* joins come last */
        const struct tsr_facts *side = tsr_predicate_facts(e, tsr_node_operand(e, node, is_join[0] ? 1 - i : i), truth);
        if (side && !tsr_facts_impossible(e, side, &tsr_facts_none))
            possible[count++] = side;
    }
    if ((node->op == TSR_OP_BOTH) == truth)
        return count == 2 ? tsr_facts_joined(e, possible[0], possible[1]) : NULL;
    if (count == 0)
        return NULL;
    if (count == 1)
        return possible[0];
    return is_join[0] || is_join[1] ? in_both(e, node, possible) : &tsr_facts_none;
}

static bool between(struct tsr_evaluation *e, const struct tsr_form *form, tsr_wide low, tsr_wide high)
{
    return low <= tsr_form_low(e, form) && tsr_form_high(e, form) <= high;
}

/* Both sides as the comparison sees them. Equality does not depend on the sign. */
void tsr_predicate_sides(struct tsr_evaluation *e, const struct tsr_access_node *node, const struct tsr_form *sides[2])
{
    bool is_signed = tsr_node_is_signed(node);
    if (node->code == TSR_COMPARE_EQ || node->code == TSR_COMPARE_NE) {
        for (uint32_t i = 0; i < 2; i++)
            sides[i] = tsr_node_value(e, tsr_node_operand(e, node, i));
        for (int sign = 1; sign >= 0; sign--) {
            tsr_wide low = tsr_limit_low(node->width, sign), high = tsr_limit_high(node->width, sign);
            if (between(e, sides[0], low, high) && between(e, sides[1], low, high))
                return;
        }
        is_signed = false;
    }
    for (uint32_t i = 0; i < 2; i++)
        sides[i] = tsr_node_viewed(e, tsr_node_operand(e, node, i), node->width, is_signed, node->condition);
}

static bool is_zero(const struct tsr_form *form)
{
    return form->count == 0 && form->constant == 0;
}

/* A parameter of eight bytes alone; NULL: it is something else. */
static struct tsr_symbol *only_parameter(const struct tsr_evaluation *e, const struct tsr_form *form)
{
    if (form->count != 1 || form->constant != 0 || form->terms[0].coefficient != 1)
        return NULL;
    struct tsr_symbol *symbol = tsr_symbol_at(e, form->terms[0].symbol);
    return symbol->slot >= 0 ? symbol : NULL;
}

/*
 * Whether a parameter is compared with 0, as pointers are that may be left out; nothing else of its value matters then. `equal`: whether it
 * is 0.
 */
bool tsr_predicate_is_null_test(struct tsr_evaluation *e, const struct tsr_access_node *node, bool *equal)
{
    if (node->width != 64 || (node->code != TSR_COMPARE_EQ && node->code != TSR_COMPARE_NE))
        return false;
    const struct tsr_form *a = tsr_node_value(e, tsr_node_operand(e, node, 0));
    const struct tsr_form *b = tsr_node_value(e, tsr_node_operand(e, node, 1));
    struct tsr_symbol *symbol = is_zero(b) ? only_parameter(e, a) : is_zero(a) ? only_parameter(e, b) : NULL;
    if (!symbol)
        return false;
    symbol->asked |= TSR_ASKED_NULL;
    *equal = symbol->low == 0;
    return true;
}

/* A single fact, strengthened; NULL: it cannot hold. */
static const struct tsr_facts *add_fact(struct tsr_evaluation *e, struct tsr_facts *facts, const struct tsr_form *form)
{
    form = tsr_form_fact(e, form);
    if (tsr_form_low(e, form) > 0)
        return NULL;
    if (form->count)
        facts->items[facts->count++] = form;
    return facts;
}

/* Not equal: at an end of its range, a difference is at least one further in. */
static const struct tsr_facts *different(struct tsr_evaluation *e, const struct tsr_form *difference)
{
    tsr_wide low = tsr_form_low(e, difference), high = tsr_form_high(e, difference);
    if (low == 0 && high == 0)
        return NULL;
    if (low != 0 && high != 0)
        return &tsr_facts_none;
    struct tsr_facts *facts = tsr_facts_room(e, 1);
    facts->items[facts->count++] = tsr_form_apart(e, difference, &tsr_form_zero, low == 0, 1);
    return facts;
}

static const struct tsr_facts *compared(struct tsr_evaluation *e, const struct tsr_access_node *node, bool truth)
{
    const struct tsr_form *sides[2];
    uint8_t code = truth ? node->code : tsr_compare_opposite[node->code];
    bool equal;
    if (tsr_predicate_is_null_test(e, node, &equal))
        return equal == (code == TSR_COMPARE_EQ) ? &tsr_facts_none : NULL;
    tsr_predicate_sides(e, node, sides);
    if (code == TSR_COMPARE_NE)
        return different(e, tsr_form_apart(e, sides[0], sides[1], false, 0));
    struct tsr_facts *facts = tsr_facts_room(e, 2);
    const struct tsr_facts *found = facts;
    if (code == TSR_COMPARE_LT || code == TSR_COMPARE_LE || code == TSR_COMPARE_EQ)
        found = add_fact(e, facts, tsr_form_apart(e, sides[0], sides[1], false, code == TSR_COMPARE_LT));
    if (found && (code == TSR_COMPARE_GT || code == TSR_COMPARE_GE || code == TSR_COMPARE_EQ))
        found = add_fact(e, facts, tsr_form_apart(e, sides[0], sides[1], true, code == TSR_COMPARE_GT));
    for (uint32_t i = 0; i < 2 && found && !e->coarse; i++)
        found = tsr_facts_joined(e, found, tsr_phi_only_edge(e, tsr_node_operand(e, node, i), node->condition));
    return found;
}

/* Forms that are at most 0 when the predicate has this value. */
const struct tsr_facts *tsr_predicate_facts(struct tsr_evaluation *e, uint32_t index, bool truth)
{
    const struct tsr_access_node *node = &e->template->nodes[index];
    tsr_evaluation_spend(e, 1); /* those that depend on two others each, deeply, are looked at very often */
    for (; node->op == TSR_OP_OPPOSITE; truth = !truth) {
        tsr_evaluation_spend(e, 1);
        node = &e->template->nodes[tsr_node_operand(e, node, 0)];
    }
    if (++e->depth > TSR_DEPTH)
        tsr_evaluation_leave(e);
    const struct tsr_facts *found = &tsr_facts_none;
    if (node->op == TSR_OP_BOTH || node->op == TSR_OP_EITHER)
        found = of_two(e, node, truth);
    else if (node->op == TSR_OP_NUMBER)
        found = (node->number != 0) == truth ? &tsr_facts_none : NULL;
    else if (node->op == TSR_OP_COMPARE && node->code < TSR_COMPARE_OTHER)
        found = compared(e, node, truth);
    else if (node->op == TSR_OP_PHI)
        found = tsr_phi_facts(e, node, truth);
    e->depth--;
    return found;
}
