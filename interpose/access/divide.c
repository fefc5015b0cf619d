/* Quotients and remainders by a number as symbols with value = divisor * quotient + remainder among their facts. */
#include "access/evaluation.h"

/* form = divisor * whole + rest, the coefficients of the rest being smaller than the divisor. */
static void split(struct tsr_evaluation *e, const struct tsr_form *form, tsr_wide divisor, const struct tsr_form **whole,
                  const struct tsr_form **rest)
{
    struct tsr_form *first = tsr_form_room(e, tsr_wide_divide(form->constant, divisor), form->count);
    struct tsr_form *second = tsr_form_room(e, tsr_wide_modulo(form->constant, divisor), form->count);
    for (uint32_t i = 0; i < form->count; i++) {
        tsr_wide c = form->terms[i].coefficient;
        tsr_wide times = c >= 0 ? tsr_wide_divide(c, divisor) : -tsr_wide_divide(-c, divisor);
        if (times)
            first->terms[first->count++] = (struct tsr_term){times, form->terms[i].symbol};
        if (c != times * divisor)
            second->terms[second->count++] = (struct tsr_term){c - times * divisor, form->terms[i].symbol};
    }
    *whole = first, *rest = second;
}

static const struct tsr_division *known(const struct tsr_evaluation *e, const struct tsr_form *form, tsr_wide divisor,
                                        uint64_t hash)
{
    const struct tsr_division *each = e->divisions;
    while (each && (each->hash != hash || each->divisor != divisor || !tsr_form_equal(each->form, form)))
        each = each->older;
    return each;
}

static void connect(struct tsr_evaluation *e, const struct tsr_division *division)
{
    const struct tsr_form *quotient = division->quotient, *form = division->form;
    const struct tsr_form *product = tsr_form_plus(e, division->remainder, quotient, division->divisor);
    const struct tsr_form *rest = tsr_form_apart(e, form, product, false, 0);
    const struct tsr_form *negative = tsr_form_times(e, rest, -1);
    const struct tsr_form *both[] = {quotient, division->remainder};
    for (int i = 0; i < 2; i++)
        if (both[i]->count) {
            tsr_symbol_relate(e, both[i], rest);
            tsr_symbol_relate(e, both[i], negative);
            tsr_symbol_at(e, both[i]->terms[0].symbol)->zero = rest->count ? rest : NULL;
        }
}

/* Of a value's quotients by numbers of which one divides the other, what the greater leaves of the less is a digit. */
static void relate_quotients(struct tsr_evaluation *e, const struct tsr_division *division)
{
    for (const struct tsr_division *each = e->divisions; each; each = each->older) {
        if (each->hash != division->hash || !each->quotient->count || !tsr_form_equal(each->form, division->form))
            continue;
        bool is_less = each->divisor < division->divisor;
        const struct tsr_division *less = is_less ? each : division, *greater = is_less ? division : each;
        if (!tsr_wide_is_multiple(greater->divisor, less->divisor))
            continue;
        tsr_wide ratio = tsr_wide_divide(greater->divisor, less->divisor);
        const struct tsr_form *digit = tsr_form_plus(e, less->quotient, greater->quotient, -ratio);
        tsr_symbol_relate(e, division->quotient, tsr_form_moved(e, digit, 1 - ratio));
        tsr_symbol_relate(e, division->quotient, tsr_form_times(e, digit, -1));
    }
}

/* The form, or its value when it has only one: what is left of a pointer that is divided begins with none. */
static const struct tsr_form *plain(struct tsr_evaluation *e, const struct tsr_form *form)
{
    tsr_wide low = tsr_form_low(e, form);
    return low == tsr_form_high(e, form) ? tsr_form_number(e, low) : form;
}

static const struct tsr_division *divided(struct tsr_evaluation *e, const struct tsr_form *form, tsr_wide divisor)
{
    uint64_t hash = tsr_form_hash(form);
    const struct tsr_division *found = known(e, form, divisor, hash);
    if (found)
        return found;
    struct tsr_division *division = tsr_scratch_take(e, sizeof *division);
    tsr_wide low = tsr_form_low(e, form), high = tsr_form_high(e, form);
    uint64_t loops = tsr_form_loops(e, form);
    struct tsr_symbol quotient = tsr_symbol_new(tsr_wide_fits(low) ? tsr_wide_divide(low, divisor) : low,
                                                tsr_wide_fits(high) ? tsr_wide_divide(high, divisor) : high, loops);
    *division = (struct tsr_division){.older = e->divisions, .form = form, .divisor = divisor, .hash = hash};
    division->quotient = tsr_symbol_add(e, &quotient);
    if (division->quotient->count) {
        struct tsr_symbol remainder = tsr_symbol_new(0, divisor - 1, loops);
        if ((divisor & (divisor - 1)) == 0)
            remainder.mask = divisor - 1;
        division->remainder = tsr_symbol_add(e, &remainder);
        struct tsr_symbol *symbol = tsr_symbol_at(e, division->quotient->terms[0].symbol);
        symbol->origin = form;
        symbol->divisor = divisor;
        if (!e->coarse) {
            connect(e, division);
            relate_quotients(e, division);
        }
    } else {
        division->remainder = plain(e, tsr_form_plus(e, form, division->quotient, -divisor));
    }
    e->divisions = division;
    return division;
}

/* With divisor > 1: the quotient, or the remainder. */
static const struct tsr_form *either(struct tsr_evaluation *e, const struct tsr_form *form, tsr_wide divisor, bool quotient)
{
    const struct tsr_form *whole, *rest;
    split(e, form, divisor, &whole, &rest);
    if (tsr_form_low(e, rest) >= 0 && tsr_form_high(e, rest) < divisor)
        return quotient ? whole : rest;
    const struct tsr_division *division = divided(e, rest, divisor);
    return quotient ? tsr_form_plus(e, division->quotient, whole, 1) : division->remainder;
}

/* The quotient of a quotient, if it is new: what is left of the first one, a digit, is at least 0 and below the divisor. */
static void relate_digit(struct tsr_evaluation *e, const struct tsr_form *form, tsr_wide divisor,
                         const struct tsr_form *quotient, uint32_t before)
{
    for (uint32_t i = 0; i < quotient->count; i++) {
        if (quotient->terms[i].symbol < before)
            continue;
        const struct tsr_form *of = tsr_form_symbol(e, quotient->terms[i].symbol, 1);
        const struct tsr_form *digit = tsr_form_plus(e, form, quotient, -divisor);
        tsr_symbol_relate(e, of, tsr_form_moved(e, digit, 1 - divisor));
        tsr_symbol_relate(e, of, tsr_form_times(e, digit, -1));
        return;
    }
}

/* The value divided by a positive number, rounded down. A quotient divided again is a quotient by the product. */
const struct tsr_form *tsr_divide_quotient(struct tsr_evaluation *e, const struct tsr_form *form, tsr_wide divisor)
{
    const struct tsr_symbol *origin = tsr_divide_origin(e, form);
    tsr_wide product;
    if (divisor == 1)
        return form;
    if (!origin || !tsr_wide_times(divisor, origin->divisor, &product))
        return either(e, form, divisor, true);
    uint32_t before = e->symbol_count;
    const struct tsr_form *quotient = either(e, origin->origin, product, true);
    if (!e->coarse)
        relate_digit(e, form, divisor, quotient, before);
    return quotient;
}

/* What rounding down leaves: at least 0 and below the divisor. */
const struct tsr_form *tsr_divide_remainder(struct tsr_evaluation *e, const struct tsr_form *form, tsr_wide divisor)
{
    return divisor == 1 ? &tsr_form_zero : either(e, form, divisor, false);
}

/* The symbol of a form that is nothing but a quotient. */
const struct tsr_symbol *tsr_divide_origin(const struct tsr_evaluation *e, const struct tsr_form *form)
{
    if (form->count != 1 || form->constant != 0 || form->terms[0].coefficient != 1)
        return NULL;
    const struct tsr_symbol *symbol = tsr_symbol_at(e, form->terms[0].symbol);
    return symbol->origin ? symbol : NULL;
}
