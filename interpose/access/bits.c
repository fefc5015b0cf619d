/* Forms of nodes that work on bits. */
#include "access/evaluation.h"

#define ALIGNMENT 4096 /* masks below it ask how a pointer is aligned, others clear its low bits */

static const struct tsr_form *argument(struct tsr_evaluation *e, const struct tsr_access_node *node, uint32_t position)
{
    return tsr_node_value(e, tsr_node_operand(e, node, position));
}

static const struct tsr_form *seen(struct tsr_evaluation *e, const struct tsr_access_node *node, uint32_t position)
{
    return tsr_node_viewed(e, tsr_node_operand(e, node, position), node->width, tsr_node_is_signed(node), node->condition);
}

static tsr_wide all_bits(const struct tsr_access_node *node)
{
    return ((tsr_wide)1 << node->width) - 1;
}

/* The low bits of a form over parameters alone: nothing else of their values matters. False: it is over something else. */
static bool aligned(struct tsr_evaluation *e, const struct tsr_form *form, tsr_wide mask, tsr_wide *bits)
{
    tsr_uwide total = (tsr_uwide)form->constant;
    for (uint32_t i = 0; i < form->count; i++) {
        const struct tsr_symbol *symbol = tsr_symbol_at(e, form->terms[i].symbol);
        if (symbol->slot < 0)
            return false;
        total += (tsr_uwide)form->terms[i].coefficient * (tsr_uwide)symbol->low;
    }
    for (uint32_t i = 0; i < form->count; i++)
        tsr_symbol_at(e, form->terms[i].symbol)->seen_bits |= (uint64_t)tsr_wide_below(mask);
    *bits = (tsr_wide)(total & (tsr_uwide)mask);
    return true;
}

/* The form with the low bits of parameters in their places: those above a mask do not reach into it. */
static const struct tsr_form *with_low_bits(struct tsr_evaluation *e, const struct tsr_form *form, tsr_wide mask)
{
    struct tsr_form *rest = tsr_form_room(e, form->constant, form->count);
    tsr_wide below = tsr_wide_below(mask);
    for (uint32_t i = 0; i < form->count; i++) {
        struct tsr_symbol *symbol = tsr_symbol_at(e, form->terms[i].symbol);
        if (symbol->slot < 0) {
            rest->terms[rest->count++] = form->terms[i];
            continue;
        }
        symbol->seen_bits |= (uint64_t)below;
        rest->constant += (tsr_wide)((tsr_uwide)form->terms[i].coefficient * (tsr_uwide)symbol->low & (tsr_uwide)below);
    }
    return rest->count < form->count ? rest : form;
}

/* The bits that may be set in a value that facts keep from being negative; -1: not known. */
static tsr_wide proved_mask(struct tsr_evaluation *e, const struct tsr_form *form, uint32_t condition)
{
    tsr_wide bits = tsr_form_mask(e, form);
    const struct tsr_facts *facts = bits < 0 ? tsr_condition_facts(e, condition) : NULL;
    if (!facts)
        return bits;
    return tsr_form_mask_between(form, tsr_bound_lower(e, form, facts), tsr_bound_upper(e, form, facts));
}

static const struct tsr_form *masked(struct tsr_evaluation *e, const struct tsr_access_node *node, const struct tsr_form *form,
                                     tsr_wide mask)
{
    tsr_wide full = all_bits(node), known;
    if (mask == 0)
        return &tsr_form_zero;
    if (form->count == 0)
        return tsr_form_number(e, form->constant & mask);
    if (mask < ALIGNMENT && aligned(e, form, mask, &known))
        return tsr_form_number(e, known);
    if (mask < ALIGNMENT)
        form = with_low_bits(e, form, mask);
    tsr_wide bits = proved_mask(e, form, node->condition);
    bool fits = bits >= 0 && bits >> node->width == 0;
    if (fits && (bits & ~mask) == 0)
        return form;
    if (fits)
        mask &= bits;
    if (mask == 0)
        return &tsr_form_zero;
    tsr_wide low = mask & -mask, count = mask / low;
    bool cuts_below = mask == (full & ~(low - 1)) || (fits && (bits & ~mask) < low);
    if (cuts_below)
        return tsr_form_plus(e, form, tsr_divide_remainder(e, form, low), -1);
    if ((count & (count + 1)) && tsr_form_value(e, form, &known))
        return tsr_form_number(e, known & mask);
    if (count & (count + 1))
        return tsr_form_between(e, 0, mask, form, &tsr_form_zero, mask);
    return tsr_form_times(e, tsr_divide_remainder(e, tsr_divide_quotient(e, form, low), count + 1), low);
}

static bool has_parameter(const struct tsr_evaluation *e, const struct tsr_form *form)
{
    for (uint32_t i = 0; i < form->count; i++)
        if (tsr_symbol_at(e, form->terms[i].symbol)->slot >= 0)
            return true;
    return false;
}

/* Low bits of an address that was shifted: those of the address that come to lie there. NULL: it is something else. */
static const struct tsr_form *bits_of_shifted(struct tsr_evaluation *e, const struct tsr_access_node *node, uint32_t position,
                                              const struct tsr_form *mask)
{
    const struct tsr_access_node *shift = &e->template->nodes[tsr_node_operand(e, node, position)];
    if (shift->op != TSR_OP_SHR || shift->width != 64 || mask->count || mask->constant <= 0 || mask->constant >= ALIGNMENT)
        return NULL;
    const struct tsr_form *value = argument(e, shift, 0), *amount = argument(e, shift, 1);
    if (!has_parameter(e, value) || amount->count || amount->constant < 0 || amount->constant >= 12 ||
        mask->constant << amount->constant >= ALIGNMENT)
        return NULL;
    value = masked(e, shift, value, mask->constant << amount->constant);
    return tsr_divide_quotient(e, value, (tsr_wide)1 << amount->constant);
}

static const struct tsr_form *both_bits(struct tsr_evaluation *e, const struct tsr_access_node *node)
{
    uint32_t number_at = e->template->nodes[tsr_node_operand(e, node, 1)].op == TSR_OP_NUMBER;
    const struct tsr_form *shifted = bits_of_shifted(e, node, 1 - number_at, argument(e, node, number_at));
    if (shifted)
        return shifted;
    const struct tsr_form *a = argument(e, node, 0), *b = argument(e, node, 1);
    tsr_wide number;
    if (a->count == 0 && b->count) /* a pointer's value is not asked for when the other side is plainly a number */
        return masked(e, node, b, a->constant & all_bits(node));
    if (tsr_form_value(e, b, &number))
        return masked(e, node, a, number & all_bits(node));
    if (tsr_form_value(e, a, &number))
        return masked(e, node, b, number & all_bits(node));
    a = seen(e, node, 0), b = seen(e, node, 1);
    tsr_wide high = tsr_wide_least(tsr_form_high(e, a), tsr_form_high(e, b));
    return tsr_form_between(e, 0, high, a, b, -1);
}

/* Whether the form is a multiple of a power of two above the number. */
static bool disjoint_low(const struct tsr_form *form, tsr_wide number)
{
    tsr_wide below = tsr_wide_below(number);
    bool disjoint = (form->constant & below) == 0;
    for (uint32_t i = 0; i < form->count && disjoint; i++)
        disjoint = (form->terms[i].coefficient & below) == 0;
    return disjoint;
}

/* Or, and exclusive or, of forms whose bits may overlap. */
static const struct tsr_form *overlapping(struct tsr_evaluation *e, const struct tsr_access_node *node,
                                          const struct tsr_form *a, const struct tsr_form *b)
{
    tsr_wide bits = tsr_form_mask(e, a), more = tsr_form_mask(e, b), low = 0;
    bool holds_here = bits < 0 || more < 0 || (bits | more) >> node->width;
    if (holds_here) { /* the condition's facts may bound them, and what follows holds in that condition only */
        a = seen(e, node, 0), b = seen(e, node, 1);
        bits = proved_mask(e, a, node->condition), more = proved_mask(e, b, node->condition);
    }
    if (bits < 0 || more < 0 || (bits | more) >> node->width)
        return tsr_form_between(e, 0, all_bits(node), a, b, -1);
    if ((bits & more) == 0)
        return tsr_form_plus(e, a, b, 1);
    if (node->op == TSR_OP_OR)
        low = tsr_wide_most(tsr_form_low(e, a), tsr_form_low(e, b));
    const struct tsr_form *result = tsr_form_between(e, low, tsr_wide_below(bits | more), a, b, bits | more);
    if (result->count) {
        tsr_symbol_at(e, result->terms[0].symbol)->condition = holds_here ? node->condition : 0;
        tsr_symbol_relate(e, result, tsr_form_plus(e, tsr_form_plus(e, result, a, -1), b, -1));
    }
    return result;
}

static const struct tsr_form *either_bits(struct tsr_evaluation *e, const struct tsr_access_node *node)
{
    const struct tsr_form *a = argument(e, node, 0), *b = argument(e, node, 1);
    tsr_wide full = all_bits(node), x, y;
    bool is_or = node->op == TSR_OP_OR, knows_a = tsr_form_value(e, a, &x), knows_b = tsr_form_value(e, b, &y);
    x &= full, y &= full;
    if (knows_a && knows_b)
        return tsr_form_number(e, is_or ? x | y : x ^ y);
    if (!is_or && ((knows_a && x == full) || (knows_b && y == full)))
        return tsr_form_moved(e, tsr_form_times(e, knows_a ? b : a, -1), -1);
    /* A number's low bits can fill what the other is a multiple of, whatever its sign. */
    if (knows_b && disjoint_low(a, y))
        return tsr_form_moved(e, a, y);
    if (knows_a && disjoint_low(b, x))
        return tsr_form_moved(e, b, x);
    return overlapping(e, node, a, b);
}

static const struct tsr_form *extract(struct tsr_evaluation *e, const struct tsr_access_node *node)
{
    tsr_wide first, count;
    bool is_known = tsr_form_value(e, argument(e, node, 1), &first) & tsr_form_value(e, argument(e, node, 2), &count);
    const struct tsr_form *value = argument(e, node, 0);
    const struct tsr_form *zero = &tsr_form_zero;
    if (!is_known || count > node->width)
        return tsr_form_between(e, -TSR_INFINITE, TSR_INFINITE, value, zero, -1);
    first &= 255, count &= 255;
    if (count == 0 || first >= node->width)
        return tsr_node_is_signed(node) ? tsr_form_between(e, -TSR_INFINITE, TSR_INFINITE, value, zero, -1) : zero;
    if (first + count > node->width) {
        if (tsr_node_is_signed(node))
            return tsr_form_between(e, -TSR_INFINITE, TSR_INFINITE, value, zero, -1);
        count = node->width - first;
    }
    if (first > 120 || count > 120)
        return tsr_form_between(e, -TSR_INFINITE, TSR_INFINITE, value, zero, -1);
    const struct tsr_form *part = tsr_divide_quotient(e, value, (tsr_wide)1 << first);
    part = tsr_divide_remainder(e, part, (tsr_wide)1 << count);
    return tsr_node_is_signed(node) ? tsr_form_viewed(e, part, (unsigned)count, true, node->condition) : part;
}

static const struct tsr_form *pack(struct tsr_evaluation *e, const struct tsr_access_node *node)
{
    const struct tsr_form *total = &tsr_form_zero;
    for (uint32_t i = 0; i < node->count; i++) {
        const struct tsr_form *part = tsr_node_viewed(e, tsr_node_operand(e, node, i), node->width, false, node->condition);
        if (i * node->width > 120)
            return tsr_form_between(e, -TSR_INFINITE, TSR_INFINITE, total, part, -1);
        total = tsr_form_plus(e, total, part, (tsr_wide)1 << i * node->width);
    }
    return total;
}

const struct tsr_form *tsr_bits_value(struct tsr_evaluation *e, const struct tsr_access_node *node)
{
    switch (node->op) {
    case TSR_OP_AND:
        return both_bits(e, node);
    case TSR_OP_EXTRACT:
        return extract(e, node);
    case TSR_OP_PACK:
        return pack(e, node);
    default:
        return either_bits(e, node);
    }
}
