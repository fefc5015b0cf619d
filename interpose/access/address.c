/*
 * The addresses of accesses: the pointer that one begins with, and the bytes between it and the first and last one touched. Shapes are
 * found once for all addresses that differ by a number and of which the same is known.
 */
#include "access/run.h"

#include <string.h>

struct tsr_known_shape {
    struct tsr_known_shape *next;
    const struct tsr_form *form; /* without pointer and number */
    const struct tsr_facts *facts;
    uint64_t hash;
    uint32_t size;
    bool is_bounded;
    struct tsr_strided_bytes shape;
};

static bool is_allocated(struct tsr_run *run, struct tsr_symbol *symbol)
{
    uint64_t begin, end;
    const struct tsr_access_launch *launch = run->e.launch;
    if (symbol->variable >= 0)
        return run->e.template->symbols[symbol->variable].size != 0;
    symbol->asked |= TSR_ASKED_ALLOCATED;
    return launch->allocation && launch->allocation(launch->allocation_context, (uint64_t)symbol->low, &begin, &end);
}

static bool is_private_symbol(const struct tsr_evaluation *e, const struct tsr_symbol *symbol)
{
    return symbol->variable >= 0 && e->template->symbols[symbol->variable].private;
}

/* Whether the address is one of shared, local or parameter memory. */
bool tsr_address_is_private(struct tsr_run *run, const struct tsr_form *form)
{
    bool found = false;
    for (uint32_t i = 0; i < form->count; i++)
        found |= form->terms[i].coefficient == 1 && is_private_symbol(&run->e, tsr_symbol_at(&run->e, form->terms[i].symbol));
    for (uint32_t i = 0; i < form->count && found; i++) {
        struct tsr_symbol *symbol = tsr_symbol_at(&run->e, form->terms[i].symbol);
        if (form->terms[i].coefficient == 1 && tsr_symbol_is_pointer(symbol) && !is_private_symbol(&run->e, symbol))
            found = !is_allocated(run, symbol);
    }
    return found;
}

/* The only pointer that the address begins with; TSR_NO_BASE without a single one. */
uint32_t tsr_address_base(struct tsr_run *run, const struct tsr_form *form)
{
    uint32_t count = 0, inside = 0, base = TSR_NO_BASE, only = TSR_NO_BASE;
    for (uint32_t i = 0; i < form->count; i++)
        if (form->terms[i].coefficient == 1 && tsr_symbol_is_pointer(tsr_symbol_at(&run->e, form->terms[i].symbol))) {
            base = form->terms[i].symbol;
            count++;
        }
    for (uint32_t i = 0; i < form->count && count > 1; i++) {
        struct tsr_symbol *symbol = tsr_symbol_at(&run->e, form->terms[i].symbol);
        if (form->terms[i].coefficient == 1 && tsr_symbol_is_pointer(symbol) && is_allocated(run, symbol)) {
            only = form->terms[i].symbol;
            inside++;
        }
    }
    if (count <= 1)
        return base;
    return inside == 1 ? only : TSR_NO_BASE;
}

/* The form with numbers for symbols of one value that no bound holds, a negative distance read without its sign: the machine adds modulo 2^64. */
const struct tsr_form *tsr_address_wrapped(struct tsr_evaluation *e, const struct tsr_form *form, uint32_t base)
{
    for (uint32_t i = 0; i < form->count; i++) {
        struct tsr_term term = form->terms[i];
        struct tsr_symbol *symbol = tsr_symbol_at(e, term.symbol);
        if (term.symbol == base || symbol->low != symbol->high || tsr_wide_is_small(symbol->low))
            continue;
        symbol->seen = true;
        tsr_wide distance = tsr_wide_wrap((tsr_wide)((uint64_t)term.coefficient * (uint64_t)symbol->low), 64);
        return tsr_address_wrapped(e, tsr_form_moved(e, tsr_form_without(e, form, term.symbol), distance), base);
    }
    return form;
}

static const struct tsr_symbol *with_choices(const struct tsr_evaluation *e, const struct tsr_form *form, uint32_t *number)
{
    for (uint32_t i = 0; i < form->count; i++) {
        const struct tsr_symbol *symbol = tsr_symbol_at(e, form->terms[i].symbol);
        *number = form->terms[i].symbol;
        if (form->terms[i].coefficient == 1 && symbol->choice_count)
            return symbol;
    }
    return NULL;
}

/* The form for each of the pointers that it may begin with. */
uint32_t tsr_address_choices(struct tsr_evaluation *e, const struct tsr_form *form,
                             const struct tsr_form *found[TSR_RUN_CHOICES])
{
    uint32_t done = 0, pending = 1, number; /* those that are done stand first, those that are pending last */
    const struct tsr_form *waiting[TSR_RUN_CHOICES];
    waiting[0] = form;
    while (pending) {
        tsr_evaluation_spend(e, 1);
        const struct tsr_form *each = waiting[--pending];
        const struct tsr_symbol *symbol = with_choices(e, each, &number);
        if (!symbol) {
            found[done++] = each;
            continue;
        }
        if (done + pending + symbol->choice_count > TSR_RUN_CHOICES) {
            found[0] = form;
            return 1;
        }
        const struct tsr_form *rest = tsr_form_without(e, each, number);
        for (uint32_t i = 0; i < symbol->choice_count; i++)
            waiting[pending++] = tsr_form_plus(e, rest, symbol->choices[i], 1);
    }
    return done;
}

static bool are_same(const struct tsr_facts *a, const struct tsr_facts *b)
{
    return a->count == b->count && memcmp(a->items, b->items, a->count * sizeof a->items[0]) == 0;
}

/* Whether an address less its pointer and its number is a form without a number. */
bool tsr_address_is_offset(const struct tsr_address *address, const struct tsr_form *form)
{
    const struct tsr_form *of = address->form;
    if (of->count - (address->base != TSR_NO_BASE) != form->count)
        return false;
    for (uint32_t i = 0; i < of->count; i++)
        if (of->terms[i].symbol != address->base && tsr_form_coefficient(form, of->terms[i].symbol) != of->terms[i].coefficient)
            return false;
    return true;
}

const struct tsr_form *tsr_address_offset(struct tsr_evaluation *e, const struct tsr_address *address)
{
    struct tsr_form *offset = tsr_form_room(e, 0, address->form->count);
    for (uint32_t i = 0; i < address->form->count; i++)
        if (address->form->terms[i].symbol != address->base)
            offset->terms[offset->count++] = address->form->terms[i];
    return offset;
}

static const struct tsr_known_shape *known_shape(struct tsr_run *run, const struct tsr_address *address,
                                                 const struct tsr_facts *facts, uint32_t size)
{
    struct tsr_evaluation *e = &run->e;
    char *before = e->next;
    facts = tsr_facts_about(e, address->form, address->base, facts);
    uint64_t hash = tsr_form_hash_terms(address->form, address->base);
    struct tsr_known_shape **bucket = &run->shapes[hash % TSR_VIEW_BUCKETS], *each = *bucket;
    while (each && (each->hash != hash || each->size != size || !are_same(each->facts, facts) ||
                    !tsr_address_is_offset(address, each->form)))
        each = each->next;
    if (each) {
        e->next = before;
        return each;
    }
    const struct tsr_form *offset = tsr_address_offset(e, address);
    each = tsr_scratch_take(e, sizeof *each);
    *each = (struct tsr_known_shape){*bucket, offset, facts, hash, size, false, {0}};
    char *kept = e->next; /* what is made on the way is not needed later */
    each->is_bounded = tsr_shape_find(e, offset, facts, size, &each->shape);
    e->next = kept;
    return *bucket = each;
}

bool tsr_address_shape(struct tsr_run *run, const struct tsr_address *address, const struct tsr_facts *facts, uint32_t size,
                       struct tsr_strided_bytes *shape)
{
    const struct tsr_known_shape *known = known_shape(run, address, facts, size);
    tsr_wide distance = address->form->constant + address->displacement;
    *shape = known->shape;
    shape->first += distance;
    shape->last += distance;
    return known->is_bounded;
}
