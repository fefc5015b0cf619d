/*
 * Elements of tables among the parameters: of a node's operands, the first is the index, the others are the elements and, as the last
 * one, any value beyond them. `number` is how far the index goes from one element to the next.
 *
 * Pointers, sizes and strides that lie in tables belong together: an index that is a block's decides all of them. What would multiply a
 * size by a coordinate is affine as soon as the size is a number. So the grid is split there, into parts in which the elements are the
 * same, or numbers that are affine in the block index; each part is evaluated on its own (run.c).
 */
#include "access/evaluation.h"

/* Which axis of the grid a form's only symbol is a block index of; 3: none. */
static uint32_t axis_of(const struct tsr_evaluation *e, const struct tsr_form *form)
{
    uint32_t axis = 0;
    if (form->count != 1)
        return 3;
    for (; axis < 3; axis++) {
        const struct tsr_form *of = e->special[TSR_SPECIAL_CTAID + axis];
        if (of && of->count == 1 && of->terms[0].symbol == form->terms[0].symbol)
            break;
    }
    return axis;
}

/* The operand that an index has as its element; where its condition does not hold, it may be negative. */
static uint32_t operand_of(const struct tsr_access_node *node, tsr_wide index)
{
    tsr_wide place = tsr_wide_divide(tsr_wide_most(index, 0), node->number), last = node->count - 2;
    return 1 + (uint32_t)tsr_wide_least(place, last);
}

static const struct tsr_form *at(struct tsr_evaluation *e, const struct tsr_access_node *node, tsr_wide index)
{
    return tsr_node_value(e, tsr_node_operand(e, node, operand_of(node, index)));
}

/* The elements at the first blocks of an axis, as one form, and at how many blocks they are that. */
static const struct tsr_form *alike(struct tsr_evaluation *e, const struct tsr_access_node *node, const struct tsr_form *index,
                                    tsr_wide last, tsr_wide *blocks)
{
    tsr_wide by = index->terms[0].coefficient, step = 0;
    const struct tsr_form *first = at(e, node, index->constant);
    for (*blocks = 1; *blocks <= last; ++*blocks) {
        const struct tsr_form *each = at(e, node, index->constant + by * *blocks);
        tsr_evaluation_spend(e, 1);
        if (each == first && step == 0)
            continue;
        if (each->count || first->count)
            break;
        if (*blocks == 1)
            step = each->constant - first->constant;
        if (each->constant != first->constant + step * *blocks)
            break;
    }
    if (step == 0)
        return first;
    const struct tsr_form *change = tsr_form_symbol(e, index->terms[0].symbol, step);
    return tsr_form_moved(e, change, first->constant);
}

/* Whatever element the index may be. */
static const struct tsr_form *any(struct tsr_evaluation *e, const struct tsr_access_node *node, const struct tsr_form *index)
{
    const struct tsr_facts *facts = tsr_condition_facts(e, node->condition);
    if (!facts)
        return &tsr_form_zero;
    tsr_wide low = tsr_bound_lower(e, index, facts), high = tsr_bound_upper(e, index, facts);
    uint32_t first = operand_of(node, low), last = operand_of(node, high);
    if (last < first)
        return &tsr_form_zero;
    const struct tsr_form **forms = tsr_scratch_take(e, (last - first + 1) * sizeof *forms);
    for (uint32_t i = first; i <= last; i++)
        forms[i - first] = tsr_node_value(e, tsr_node_operand(e, node, i));
    return tsr_form_one_of(e, node, forms, last - first + 1, facts);
}

const struct tsr_form *tsr_element_value(struct tsr_evaluation *e, const struct tsr_access_node *node)
{
    const struct tsr_form *index = tsr_node_viewed(e, tsr_node_operand(e, node, 0), node->width, false, node->condition);
    uint32_t axis = axis_of(e, index);
    if (index->count == 0)
        return at(e, node, index->constant);
    if (axis == 3 || !e->splits)
        return any(e, node, index);
    tsr_wide last = tsr_symbol_at(e, index->terms[0].symbol)->high, blocks;
    const struct tsr_form *form = alike(e, node, index, last, &blocks);
    if (blocks <= last)
        tsr_evaluation_split(e, axis, (uint32_t)blocks);
    return form;
}
