/* Forms of nodes that calculate. */
#include "access/evaluation.h"

/* A new symbol with these bounds that varies where its sources do. */
const struct tsr_form *tsr_form_between(struct tsr_evaluation *e, tsr_wide low, tsr_wide high, const struct tsr_form *a,
                                        const struct tsr_form *b, tsr_wide mask)
{
    struct tsr_symbol symbol = tsr_symbol_new(low, high, tsr_form_loops(e, a) | tsr_form_loops(e, b));
    symbol.mask = mask;
    return tsr_symbol_add(e, &symbol);
}

static const struct tsr_form *anything(struct tsr_evaluation *e, const struct tsr_form *a, const struct tsr_form *b)
{
    return tsr_form_between(e, -TSR_INFINITE, TSR_INFINITE, a, b, -1);
}

static const struct tsr_form *argument(struct tsr_evaluation *e, const struct tsr_access_node *node, uint32_t position)
{
    return tsr_node_value(e, tsr_node_operand(e, node, position));
}

/* The operand as the number that the instruction sees. */
static const struct tsr_form *seen(struct tsr_evaluation *e, const struct tsr_access_node *node, uint32_t position)
{
    return tsr_node_viewed(e, tsr_node_operand(e, node, position), node->width, tsr_node_is_signed(node), node->condition);
}

/* A number as the one nearest to 0. */
static const struct tsr_form *plain(struct tsr_evaluation *e, const struct tsr_form *form, unsigned width)
{
    tsr_wide small = tsr_wide_wrap(form->constant, width);
    return form->count || small == form->constant ? form : tsr_form_number(e, small);
}

static const struct tsr_form *product(struct tsr_evaluation *e, const struct tsr_access_node *node, const struct tsr_form *a,
                                      const struct tsr_form *b, bool wraps)
{
    tsr_wide number;
    if (tsr_form_value(e, a, &number))
        return tsr_form_times(e, b, wraps ? tsr_wide_wrap(number, node->width) : number);
    if (tsr_form_value(e, b, &number))
        return tsr_form_times(e, a, wraps ? tsr_wide_wrap(number, node->width) : number);
    tsr_wide lows[] = {tsr_form_low(e, a), tsr_form_high(e, a)}, highs[] = {tsr_form_low(e, b), tsr_form_high(e, b)};
    tsr_wide least = TSR_INFINITE, most = -TSR_INFINITE;
    for (int i = 0; i < 4; i++) {
        tsr_wide corner = tsr_bound_times(lows[i / 2], highs[i % 2]);
        least = tsr_wide_least(least, corner);
        most = tsr_wide_most(most, corner);
    }
    return tsr_form_between(e, least, most, a, b, -1);
}

static const struct tsr_form *shift_left(struct tsr_evaluation *e, const struct tsr_access_node *node)
{
    tsr_wide number, most;
    const struct tsr_form *amount = argument(e, node, 1);
    if (tsr_form_value(e, amount, &number)) {
        number &= UINT32_MAX;
        return number < node->width ? tsr_form_times(e, argument(e, node, 0), (tsr_wide)1 << number) : &tsr_form_zero;
    }
    const struct tsr_form *value = seen(e, node, 0);
    amount = tsr_form_viewed(e, amount, 32, false, node->condition);
    tsr_wide bottom = tsr_form_low(e, value), top = tsr_form_high(e, value), high = tsr_form_high(e, amount);
    if (high < 0 || high >= node->width || bottom < 0 || !tsr_wide_times(top, (tsr_wide)1 << high, &most))
        return anything(e, value, amount);
    return tsr_form_between(e, bottom << tsr_wide_most(tsr_form_low(e, amount), 0), most, value, amount, -1);
}

/* before / total as undone / divisor, when `before` is a multiple of a reciprocal that is exact as far as the values go; NULL: it is not. */
static const struct tsr_form *undone(struct tsr_evaluation *e, const struct tsr_form *before, tsr_wide total, tsr_wide *divisor)
{
    tsr_wide factor = tsr_form_content(before), product, error;
    if (factor <= 1 || before->constant % factor)
        return NULL;
    struct tsr_form *result = tsr_form_room(e, before->constant / factor, before->count);
    result->count = before->count;
    for (uint32_t i = 0; i < before->count; i++)
        result->terms[i] = (struct tsr_term){before->terms[i].coefficient / factor, before->terms[i].symbol};
    tsr_wide low = tsr_form_low(e, result), high = tsr_form_high(e, result);
    *divisor = -tsr_wide_divide(-total, factor);
    bool is_exact = low >= 0 && high < TSR_INFINITE && tsr_wide_times(factor, *divisor, &product) &&
                    tsr_wide_times(product - total, high, &error) && error < total;
    return is_exact ? result : NULL;
}

/*
 * Rounded down. Compilers divide by multiplying with a rounded reciprocal, or with what it is above 1 and adding the value itself:
 * that is undone where it is exact.
 */
static const struct tsr_form *quotient(struct tsr_evaluation *e, const struct tsr_form *value, tsr_wide divisor)
{
    for (uint32_t i = 0; i < value->count; i++) {
        const struct tsr_symbol *symbol = tsr_symbol_at(e, value->terms[i].symbol);
        tsr_wide total, whole;
        if (value->terms[i].coefficient != 1 || !symbol->origin || !tsr_wide_times(symbol->divisor, divisor, &total) ||
            total & (total - 1))
            continue;
        tsr_wide content = tsr_form_content(symbol->origin);
        if (tsr_divide_origin(e, value) && content > 0 && total % content == 0)
            break; /* no reciprocal: a quotient's quotient */
        const struct tsr_form *rest = tsr_form_without(e, value, value->terms[i].symbol);
        const struct tsr_form *before = undone(e, tsr_form_plus(e, symbol->origin, rest, symbol->divisor), total, &whole);
        if (before)
            return tsr_divide_quotient(e, before, whole);
    }
    return tsr_divide_quotient(e, value, divisor);
}

/* A quotient that would be one greater only for threads beyond the end of the data, as it is for the others. */
static const struct tsr_form *settled(struct tsr_evaluation *e, const struct tsr_form *value, uint32_t condition)
{
    const struct tsr_symbol *symbol = tsr_divide_origin(e, value);
    if (!symbol || symbol->high - symbol->low != 1 || e->coarse)
        return value;
    const struct tsr_facts *facts = tsr_condition_facts(e, condition);
    if (!facts || !facts->count)
        return value;
    tsr_wide low = symbol->low, high = tsr_bound_upper(e, symbol->origin, facts);
    return high < symbol->divisor * (low + 1) ? tsr_form_number(e, low) : value;
}

static const struct tsr_form *shift_right(struct tsr_evaluation *e, const struct tsr_access_node *node)
{
    tsr_wide number;
    const struct tsr_form *value = seen(e, node, 0);
    const struct tsr_form *amount = tsr_node_viewed(e, tsr_node_operand(e, node, 1), 32, false, node->condition);
    if (!tsr_form_value(e, amount, &number)) {
        tsr_wide low = tsr_wide_least(0, tsr_form_low(e, value)), high = tsr_wide_most(0, tsr_form_high(e, value));
        return tsr_form_between(e, low, high, value, amount, -1);
    }
    if (number >= node->width && !tsr_node_is_signed(node))
        return &tsr_form_zero;
    return settled(e, quotient(e, value, (tsr_wide)1 << tsr_wide_least(number, node->width - 1)), node->condition);
}

static const struct tsr_form *divide(struct tsr_evaluation *e, const struct tsr_access_node *node)
{
    const struct tsr_form *a = seen(e, node, 0), *b = seen(e, node, 1);
    tsr_wide low = tsr_form_low(e, a), high = tsr_form_high(e, a), number;
    bool is_positive = tsr_form_value(e, b, &number) && number > 0;
    if (is_positive && low >= 0)
        return settled(e, tsr_divide_quotient(e, a, number), node->condition);
    if (is_positive && tsr_wide_fits(low) && tsr_wide_fits(high))
        return tsr_form_between(e, -tsr_wide_divide(-low, number), high >= 0 ? tsr_wide_divide(high, number) : 0, a, b, -1);
    if (tsr_form_low(e, b) <= 0 && tsr_form_high(e, b) >= 0)
        return anything(e, a, b);
    return tsr_form_between(e, tsr_wide_least(low, -high), tsr_wide_most(high, -low), a, b, -1);
}

static const struct tsr_form *modulo(struct tsr_evaluation *e, const struct tsr_access_node *node)
{
    const struct tsr_form *a = seen(e, node, 0), *b = seen(e, node, 1);
    tsr_wide low = tsr_form_low(e, a), high = tsr_form_high(e, a), number;
    if (low >= 0 && tsr_form_value(e, b, &number) && number > 0)
        return tsr_divide_remainder(e, a, number);
    tsr_wide bottom = tsr_form_low(e, b), top = tsr_form_high(e, b);
    if (bottom <= 0 && top >= 0)
        return anything(e, a, b);
    tsr_wide largest = tsr_wide_most(tsr_wide_distance(bottom), tsr_wide_distance(top));
    tsr_wide limit = tsr_wide_fits(largest) ? largest - 1 : TSR_INFINITE;
    tsr_wide least = low >= 0 ? 0 : -tsr_wide_least(limit, -low);
    return tsr_form_between(e, least, tsr_wide_most(tsr_wide_least(limit, high), 0), a, b, -1);
}

static const struct tsr_form *distance(struct tsr_evaluation *e, const struct tsr_access_node *node)
{
    const struct tsr_form *value = tsr_node_viewed(e, tsr_node_operand(e, node, 0), node->width, true, node->condition);
    tsr_wide low = tsr_form_low(e, value), high = tsr_form_high(e, value);
    return low >= 0 ? value : tsr_form_between(e, 0, tsr_wide_most(-low, high), value, &tsr_form_zero, -1);
}

static const struct tsr_form *sum(struct tsr_evaluation *e, const struct tsr_access_node *node)
{
    const struct tsr_form *a = argument(e, node, 0), *b = argument(e, node, 1);
    if (node->op == TSR_OP_SUB)
        return tsr_form_plus(e, a, plain(e, b, node->width), -1);
    return tsr_form_plus(e, plain(e, a, node->width), plain(e, b, node->width), 1);
}

/* Sums and products by numbers need no view: congruence passes through them. */
const struct tsr_form *tsr_arithmetic_value(struct tsr_evaluation *e, const struct tsr_access_node *node)
{
    switch (node->op) {
    case TSR_OP_ADD:
    case TSR_OP_SUB:
        return sum(e, node);
    case TSR_OP_NEG:
        return tsr_form_times(e, argument(e, node, 0), -1);
    case TSR_OP_NOT:
        return tsr_form_moved(e, tsr_form_times(e, argument(e, node, 0), -1), -1);
    case TSR_OP_MUL:
        return product(e, node, argument(e, node, 0), argument(e, node, 1), true);
    case TSR_OP_MUL_WIDE:
        return product(e, node, seen(e, node, 0), seen(e, node, 1), false);
    case TSR_OP_MUL_HIGH:
        return tsr_divide_quotient(e, product(e, node, seen(e, node, 0), seen(e, node, 1), false), (tsr_wide)1 << node->width);
    case TSR_OP_SHL:
        return shift_left(e, node);
    case TSR_OP_SHR:
        return shift_right(e, node);
    case TSR_OP_DIV:
        return divide(e, node);
    case TSR_OP_REM:
        return modulo(e, node);
    case TSR_OP_ABS:
        return distance(e, node);
    default:
        return seen(e, node, 0); /* TSR_OP_CONVERT */
    }
}
