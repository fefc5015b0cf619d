/* The ranges of a launch, access by access. */
#include "access/memo.h"

#include <string.h>

#define CHOICES 16u
#define LARGEST ((tsr_wide)1 << 40) /* bytes; a range beyond is no range */
#define INDEX ((tsr_wide)1 << 31)   /* what an index of 32 bits spans */
#define RANGES 2048u                /* while they are collected */
#define STEPS 10000u                /* a quarter of a millisecond; most kernels take a few hundred, a Triton GEMM of 128 accesses 9,371 */
#define PIECES 32u                  /* that a store overwrites */
#define OVERWRITTEN 128u            /* while they are collected */
#define COPIES 8u                   /* of a store that are looked at together */
#define DIGITS 4u                   /* of the places of stores that are alike */
#define LEAST_STEPS 100u            /* to find out where addresses begin */
#define PARTS 32u                   /* of a grid that wait to be evaluated */
#define SPLIT_STEPS 16u             /* times as many for all parts of a grid */

#define NO_BASE TSR_NO_SYMBOL
#define LAST_WRITTEN (INT64_MAX - 1) /* the end of a range, until all writes are known */

/* An address: the symbol of the pointer that it begins with, or NO_BASE, and the rest of a form, `displacement` further. */
struct address {
    const struct tsr_form *form;
    tsr_wide displacement;
    uint32_t base;
};

/* The shape of addresses that differ by a number is found once, and of those of which the same is known. */
struct known_shape {
    struct known_shape *next;
    const struct tsr_form *form; /* without pointer and number */
    const struct tsr_facts *facts;
    uint64_t hash;
    uint32_t size;
    bool is_bounded;
    struct tsr_shape shape;
};

/* Stores whose addresses differ by numbers, their distances from the base, are looked at together: unrolled code has many of them. */
struct store_group {
    struct store_group *next;
    const struct tsr_form *offset;
    const struct tsr_access_access *access;
    uint32_t base, count;
    struct distance *distances;
    int64_t size; /* of each of its places */
    bool is_told; /* with another one that it is a copy of */
};

struct distance {
    struct distance *next;
    int64_t bytes;
};

struct run {
    struct tsr_evaluation e;
    struct known_shape *shapes[TSR_VIEW_BUCKETS];
    struct store_group *groups;
    struct tsr_must *must;
    struct tsr_lattice *systems; /* COPIES, and one more */
    struct tsr_access_range *overwritten;
    uint32_t overwritten_count;
    struct tsr_found *found;
    struct tsr_walk *walk;
    uint32_t walked[TSR_WALK_BASES];
    bool may_walk, has_tables, splits;
    uint32_t capacity, at; /* at: the access that is looked at */
    struct tsr_part waiting[PARTS];
    uint32_t parts, kept; /* kept: ranges of parts that are done */
    uint32_t steps;       /* that other parts took, and tries */
    char *room;           /* scratch that is used for each part anew; NULL: all */
    struct tsr_symbol *top;
};

static void why(struct run *run, uint32_t line, enum tsr_access_reason reason, const char *text)
{
    struct tsr_found *found = run->found;
    for (uint32_t i = 0; i < found->whys && i < found->room; i++)
        if (found->every[i].line == line && found->every[i].reason == reason && found->every[i].text == text)
            return;
    struct tsr_access_why why = {line, reason, text};
    if (found->whys == 0)
        found->why = why;
    if (found->whys < found->room)
        found->every[found->whys] = why;
    found->whys++;
    found->level = TSR_LEVEL_UNKNOWN;
}

/* False: there is no room. */
static bool add(struct run *run, const struct tsr_access_range *range)
{
    struct tsr_found *found = run->found;
    if (found->count == run->capacity)
        found->count = run->kept + tsr_ranges_merge(found->ranges + run->kept, found->count - run->kept);
    if (found->count == run->capacity)
        return false;
    found->ranges[found->count++] = *range;
    return true;
}

static int32_t parameter_at(const struct tsr_sections *template, uint32_t offset)
{
    for (uint32_t i = 0; i < template->header->parameters; i++)
        if (offset - template->parameters[i].offset < template->parameters[i].size)
            return (int32_t)template->parameters[i].index;
    return -1;
}

static struct tsr_access_range range_of(const struct tsr_sections *template, uint32_t kind, int64_t slot, int32_t variable)
{
    struct tsr_access_range range = {.kind = kind, .parameter = -1, .symbol = variable};
    if (slot >= 0) {
        range.offset = (uint32_t)slot;
        range.parameter = parameter_at(template, range.offset);
    }
    return range;
}

/* All of the allocation that a pointer points into: a program does not leave it. */
static void make_whole(struct tsr_access_range *range)
{
    range->whole = 1;
    range->first = INT64_MIN;
    range->last = INT64_MAX;
    range->stride = range->width = 0;
}

static bool is_allocated(struct run *run, struct tsr_symbol *symbol)
{
    uint64_t begin, end;
    const struct tsr_access_launch *launch = run->e.launch;
    symbol->seen = true;
    if (symbol->variable >= 0)
        return run->e.template->symbols[symbol->variable].size != 0;
    return launch->allocation && launch->allocation(launch->allocation_context, (uint64_t)symbol->low, &begin, &end);
}

static bool is_private_symbol(const struct tsr_evaluation *e, const struct tsr_symbol *symbol)
{
    return symbol->variable >= 0 && e->template->symbols[symbol->variable].private;
}

/* Whether the address is one of shared, local or parameter memory. */
static bool is_private(struct run *run, const struct tsr_form *form)
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

/* The only pointer that the address begins with; NO_BASE without a single one. */
static uint32_t base_of(struct run *run, const struct tsr_form *form)
{
    uint32_t count = 0, inside = 0, base = NO_BASE, only = NO_BASE;
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
    return inside == 1 ? only : NO_BASE;
}

/* The form with numbers for symbols of one value that no bound holds, a negative distance read without its sign: the machine adds modulo 2^64. */
static const struct tsr_form *wrapped(struct tsr_evaluation *e, const struct tsr_form *form, uint32_t base)
{
    for (uint32_t i = 0; i < form->count; i++) {
        struct tsr_term term = form->terms[i];
        struct tsr_symbol *symbol = tsr_symbol_at(e, term.symbol);
        if (term.symbol == base || symbol->low != symbol->high || tsr_wide_is_small(symbol->low))
            continue;
        symbol->seen = true;
        tsr_wide distance = tsr_wide_wrap((tsr_wide)((uint64_t)term.coefficient * (uint64_t)symbol->low), 64);
        return wrapped(e, tsr_form_moved(e, tsr_form_without(e, form, term.symbol), distance), base);
    }
    return form;
}

/* Bytes of one access at most; false when there is no bound. */
static bool size_of(struct run *run, const struct tsr_access_access *access, const struct tsr_facts *facts, uint32_t *size)
{
    *size = access->size;
    if (access->length < 0)
        return true;
    const struct tsr_form *length = tsr_node_viewed(&run->e, (uint32_t)access->length, 32, false, access->condition);
    tsr_wide high = tsr_bound_upper(&run->e, length, facts);
    *size = high > 0 ? (uint32_t)high : 0;
    return high <= UINT32_MAX;
}

/* The rows of matrices, `pitch` bytes apart: those of one that has a stride are on a common grid with it. */
static __attribute__((noinline)) bool repeat(struct run *run, const struct tsr_access_access *access,
                                             const struct tsr_facts *facts, struct tsr_shape *shape)
{
    const struct tsr_form *pitch = tsr_node_value(&run->e, (uint32_t)access->pitch);
    tsr_wide low = tsr_bound_lower(&run->e, pitch, facts), high = tsr_bound_upper(&run->e, pitch, facts);
    if (low < 0 || high >= LARGEST)
        return false;
    tsr_wide step = tsr_wide_common(shape->stride, high);
    tsr_wide width = shape->stride ? shape->width : shape->last - shape->first + 1;
    tsr_wide all_rows = width + (access->rows - 1) * high;
    if (low == high && width < step)
        shape->stride = step, shape->width = width;
    else if (all_rows < shape->stride)
        shape->width = all_rows;
    else
        shape->stride = shape->width = 0;
    shape->last += (access->rows - 1) * high;
    return true;
}

static bool are_same(const struct tsr_facts *a, const struct tsr_facts *b)
{
    return a->count == b->count && memcmp(a->items, b->items, a->count * sizeof a->items[0]) == 0;
}

/* Whether an address less its pointer and its number is a form without a number. */
static bool is_offset(const struct address *address, const struct tsr_form *form)
{
    const struct tsr_form *of = address->form;
    if (of->count - (address->base != NO_BASE) != form->count)
        return false;
    for (uint32_t i = 0; i < of->count; i++)
        if (of->terms[i].symbol != address->base && tsr_form_coefficient(form, of->terms[i].symbol) != of->terms[i].coefficient)
            return false;
    return true;
}

static const struct tsr_form *offset_of(struct tsr_evaluation *e, const struct address *address)
{
    struct tsr_form *offset = tsr_form_room(e, 0, address->form->count);
    for (uint32_t i = 0; i < address->form->count; i++)
        if (address->form->terms[i].symbol != address->base)
            offset->terms[offset->count++] = address->form->terms[i];
    return offset;
}

static const struct known_shape *known_shape(struct run *run, const struct address *address, const struct tsr_facts *facts,
                                             uint32_t size)
{
    struct tsr_evaluation *e = &run->e;
    char *before = e->next;
    facts = tsr_facts_about(e, address->form, address->base, facts);
    uint64_t hash = tsr_form_hash_terms(address->form, address->base);
    struct known_shape **bucket = &run->shapes[hash % TSR_VIEW_BUCKETS], *each = *bucket;
    while (each &&
           (each->hash != hash || each->size != size || !are_same(each->facts, facts) || !is_offset(address, each->form)))
        each = each->next;
    if (each) {
        e->next = before;
        return each;
    }
    const struct tsr_form *offset = offset_of(e, address);
    each = tsr_scratch_take(e, sizeof *each);
    *each = (struct known_shape){*bucket, offset, facts, hash, size, false, {0}};
    char *kept = e->next; /* what is made on the way is not needed later */
    each->is_bounded = tsr_shape_find(e, offset, facts, size, &each->shape);
    e->next = kept;
    return *bucket = each;
}

static bool shape_of(struct run *run, const struct address *address, const struct tsr_facts *facts, uint32_t size,
                     struct tsr_shape *shape)
{
    const struct known_shape *known = known_shape(run, address, facts, size);
    tsr_wide distance = address->form->constant + address->displacement;
    *shape = known->shape;
    shape->first += distance;
    shape->last += distance;
    return known->is_bounded;
}

/* Whether the bounds only say how many bits an index has. */
static bool is_anywhere(const struct tsr_evaluation *e, const struct address *address, tsr_wide length)
{
    bool is_index = false;
    for (uint32_t i = 0; i < address->form->count; i++) {
        uint32_t number = address->form->terms[i].symbol;
        const struct tsr_symbol *symbol = tsr_symbol_at(e, number);
        is_index |= number != address->base && symbol->high - symbol->low >= INDEX - 1;
    }
    return length >= LARGEST || (length >= INDEX && is_index);
}

/* False when the bytes go round the end of what offsets reach: an index that was loaded may be negative. */
static bool place(struct tsr_access_range *range, const struct tsr_shape *shape, bool has_base)
{
    tsr_wide first =
        has_base ? tsr_wide_wrap(shape->first, 64) : (tsr_wide)(uint64_t)shape->first; /* the machine adds modulo 2^64 */
    tsr_wide last = first + shape->last - shape->first;
    if (!tsr_wide_is_small(first) || !tsr_wide_is_small(last) || !tsr_wide_is_small(shape->stride))
        return false;
    range->first = (int64_t)first;
    range->last = (int64_t)last;
    range->stride = (int64_t)shape->stride;
    range->width = (int64_t)shape->width;
    return true;
}

/* Adds the ranges of an access at the addresses of a form. */
static enum tsr_access_reason form_of(struct run *run, const struct tsr_access_access *access, const struct tsr_form *form,
                                      const struct tsr_facts *facts)
{
    struct tsr_evaluation *e = &run->e;
    struct tsr_shape shape;
    uint32_t size;
    if (is_private(run, form))
        return access->flags & TSR_ACCESS_GENERIC ? TSR_WHY_NONE : TSR_WHY_PRIVATE;
    bool is_sized = size_of(run, access, facts, &size);
    if (is_sized && size == 0)
        return TSR_WHY_NONE;
    uint32_t base = base_of(run, form);
    struct address address = {wrapped(e, form, base), access->displacement, base};
    bool has_base = base != NO_BASE;
    if (!has_base && tsr_form_loaded(e, form))
        return TSR_WHY_LOADED;
    bool looks_back = has_base && access->flags & TSR_ACCESS_LOOKS_BACK;
    bool is_bounded = is_sized && !looks_back && shape_of(run, &address, facts, size, &shape);
    if (is_bounded && access->rows > 1)
        is_bounded = repeat(run, access, facts, &shape);
    bool anywhere = is_bounded && is_anywhere(e, &address, shape.last - shape.first);
    if (!has_base && (!is_bounded || anywhere))
        return TSR_WHY_NO_BASE;
    const struct tsr_symbol *symbol = has_base ? tsr_symbol_at(e, address.base) : NULL;
    struct tsr_access_range range =
        range_of(e->template, access->kind, symbol ? symbol->slot : -1, symbol ? symbol->variable : -1);
    range.whole = anywhere;
    if (looks_back) {
        range.last = LAST_WRITTEN;
    } else if (!is_bounded || !place(&range, &shape, has_base)) {
        if (!has_base)
            return TSR_WHY_NO_BASE;
        make_whole(&range);
    }
    return add(run, &range) ? TSR_WHY_NONE : TSR_WHY_BUDGET;
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
static uint32_t choices_of(struct tsr_evaluation *e, const struct tsr_form *form, const struct tsr_form *found[CHOICES])
{
    uint32_t done = 0, pending = 1, number; /* those that are done stand first, those that are pending last */
    const struct tsr_form *waiting[CHOICES];
    waiting[0] = form;
    while (pending) {
        tsr_evaluation_spend(e, 1);
        const struct tsr_form *each = waiting[--pending];
        const struct tsr_symbol *symbol = with_choices(e, each, &number);
        if (!symbol) {
            found[done++] = each;
            continue;
        }
        if (done + pending + symbol->choice_count > CHOICES) {
            found[0] = form;
            return 1;
        }
        const struct tsr_form *rest = tsr_form_without(e, each, number);
        for (uint32_t i = 0; i < symbol->choice_count; i++)
            waiting[pending++] = tsr_form_plus(e, rest, symbol->choices[i], 1);
    }
    return done;
}

static enum tsr_access_reason access_of(struct run *run, const struct tsr_access_access *access)
{
    struct tsr_evaluation *e = &run->e;
    const struct tsr_form *forms[CHOICES];
    const struct tsr_facts *facts = tsr_condition_facts(e, access->condition);
    if (!facts)
        return TSR_WHY_NONE;
    enum tsr_access_reason reason = TSR_WHY_NONE;
    uint32_t count = choices_of(e, tsr_node_value(e, access->address), forms);
    for (uint32_t i = 0; i < count && !reason; i++)
        reason = form_of(run, access, forms[i], facts);
    return reason;
}

/* What an access' address begins with, one of these in any case. 0: that is not known. */
static uint32_t bases_of(struct run *run, const struct tsr_access_access *access, const uint32_t **bases)
{
    *bases = &run->e.template->operands[access->first_base];
    if (access->based || !run->may_walk)
        return access->based ? access->bases : 0;
    *bases = run->walked;
    return tsr_walk_bases(run->walk, access->address, run->walked);
}

/* Whether the launch never gets to an access; asked where a pointer that points nowhere says that it may be so. */
static bool is_never(struct run *run, const struct tsr_access_access *access, uint32_t base)
{
    const struct tsr_inputs *inputs = run->e.inputs;
    uint32_t input = 0;
    while (input < inputs->count && (inputs->items[input].offset != base || inputs->items[input].size != sizeof(uint64_t)))
        input++;
    if (!run->may_walk || base & TSR_SYMBOL_BASE || input == inputs->count || tsr_input_is_allocated(&run->e, input))
        return false;
    return tsr_condition_facts(&run->e, access->condition) == NULL;
}

/* Without an evaluation: the allocations that the address may begin in. */
static void give_whole(struct run *run, const struct tsr_access_access *access)
{
    const struct tsr_sections *template = run->e.template;
    const uint32_t *bases;
    uint32_t count = bases_of(run, access, &bases);
    bool fits = count != 0;
    if (fits && is_never(run, access, bases[0]))
        return;
    for (uint32_t i = 0; i < count && fits; i++) {
        bool is_symbol = bases[i] & TSR_SYMBOL_BASE;
        struct tsr_access_range range = range_of(template, access->kind, is_symbol ? -1 : (int64_t)bases[i],
                                                 is_symbol ? (int32_t)(bases[i] & ~TSR_SYMBOL_BASE) : -1);
        make_whole(&range);
        fits = add(run, &range);
    }
    if (!fits)
        why(run, access->line, TSR_WHY_BUDGET, NULL);
}

static bool goes_on(const struct run *run)
{
    return run->found->whys == 0 || run->e.launch->options & TSR_ACCESS_ALL_REASONS;
}

static void evaluate_accesses(struct run *run)
{
    const struct tsr_sections *template = run->e.template;
    for (; run->at < template->header->accesses && goes_on(run); run->at++) {
        const struct tsr_access_access *access = &template->accesses[run->at];
        enum tsr_access_reason reason = access_of(run, access);
        if (reason)
            why(run, access->line, reason, NULL);
    }
}

/* The tensor of a map: its ends are found when the map's bytes are looked at. Any tensor that the launch gets to; all when `reached` is false. */
static void evaluate_tensors(struct run *run, bool reached)
{
    const struct tsr_sections *template = run->e.template;
    for (uint32_t i = 0; i < template->header->tensors && goes_on(run); i++) {
        const struct tsr_access_tensor *tensor = &template->tensors[i];
        if (reached && !tsr_condition_facts(&run->e, tensor->condition))
            continue;
        if (tensor->offset == TSR_ACCESS_IN_MEMORY) {
            why(run, tensor->line, TSR_WHY_MAP, NULL);
            continue;
        }
        struct tsr_access_range range = range_of(template, tensor->kind, tensor->offset, -1);
        range.tensor = 1;
        if (!add(run, &range))
            why(run, tensor->line, TSR_WHY_BUDGET, NULL);
    }
}

/* The accesses that are left when the work is used up; a little more of it finds out where they begin. */
static void give_rest(struct run *run)
{
    const struct tsr_sections *template = run->e.template;
    run->e.depth = 0;
    run->e.most_steps = run->e.steps + run->e.most_steps / 4 + LEAST_STEPS;
    run->may_walk = run->has_tables;
    if (_setjmp(run->e.out) != 0)
        run->may_walk = false;
    if (run->may_walk)
        run->walk = tsr_walk_start(&run->e);
    for (; run->at < template->header->accesses && goes_on(run); run->at++)
        if (!run->has_tables || !tsr_condition_is_never(&run->e, template->accesses[run->at].condition))
            give_whole(run, &template->accesses[run->at]);
    evaluate_tensors(run, false);
}

static bool are_alike(const struct tsr_access_access *a, const struct tsr_access_access *b)
{
    return a->must == b->must && a->loops == b->loops && a->size == b->size && a->rows == b->rows && a->pitch == b->pitch;
}

static struct store_group *group_of(struct run *run, const struct tsr_access_access *access, const struct address *address)
{
    struct store_group *each = run->groups;
    while (each && (each->base != address->base || !are_alike(each->access, access) || !is_offset(address, each->offset)))
        each = each->next;
    if (each)
        return each;
    const struct tsr_form *offset = offset_of(&run->e, address);
    each = tsr_scratch_take(&run->e, sizeof *each);
    *each = (struct store_group){.next = run->groups, .offset = offset, .access = access, .base = address->base};
    return run->groups = each;
}

static void add_piece(struct run *run, const struct tsr_symbol *base, const struct tsr_lattice_piece *piece)
{
    struct tsr_access_range *range = &run->overwritten[run->overwritten_count];
    tsr_wide first = tsr_wide_wrap(piece->first, 64);
    tsr_wide span = (tsr_wide)piece->stride * (piece->count - 1) + piece->width;
    if (!tsr_wide_is_small(first) || !tsr_wide_is_small(first + span) || run->overwritten_count == OVERWRITTEN)
        return;
    *range = range_of(run->e.template, TSR_ACCESS_WRITE, base->slot, base->variable);
    range->overwritten = 1;
    range->first = (int64_t)first;
    range->last = (int64_t)(first + span) - 1;
    if (piece->count > 1) {
        range->stride = piece->stride;
        range->width = piece->width;
    }
    if (++run->overwritten_count == OVERWRITTEN)
        run->overwritten_count = tsr_ranges_merge_exact(run->overwritten, OVERWRITTEN);
}

/* A store joins those that it is like. */
static void put_into_group(struct run *run, const struct tsr_access_access *access)
{
    struct tsr_evaluation *e = &run->e;
    const struct tsr_form *forms[CHOICES];
    if (!tsr_condition_facts(e, access->condition) || choices_of(e, tsr_node_value(e, access->address), forms) != 1)
        return;
    uint32_t base = base_of(run, forms[0]);
    if (base == NO_BASE || is_private(run, forms[0]))
        return;
    struct address address = {wrapped(e, forms[0], base), access->displacement, base};
    tsr_wide bytes = tsr_wide_wrap(address.form->constant + address.displacement, 64);
    if (tsr_wide_distance(bytes) > LARGEST)
        return;
    struct store_group *group = group_of(run, access, &address);
    struct distance *distance = tsr_scratch_take(e, sizeof *distance);
    distance->bytes = (int64_t)bytes;
    struct distance **at = &group->distances;
    for (; *at && (*at)->bytes < distance->bytes; at = &(*at)->next)
        tsr_evaluation_spend(e, 1);
    distance->next = *at;
    *at = distance;
    group->count++;
}

/* The distances, ascending, as places that are `*size` bytes long, those that touch each other as one. False: they overlap in another way. */
static uint32_t places_of(const struct store_group *group, int64_t *places, int64_t *size)
{
    uint32_t count = 0;
    int64_t own = group->access->size, last = 0;
    *size = 0;
    for (const struct distance *each = group->distances; each; each = each->next) {
        if (count && each->bytes < last)
            continue; /* the same once more, or part of it: told less */
        if (count && each->bytes == last) {
            last += own;
            continue;
        }
        if (count > 1 ? last - places[count - 1] != *size : false)
            return 0;
        if (count == 1)
            *size = last - places[0];
        places[count++] = each->bytes;
        last = each->bytes + own;
    }
    if (count == 1)
        *size = last - places[0];
    return last - places[count - 1] == *size ? count : 0;
}

/* Places as digits with a stride each. How many digits; more than DIGITS: they are no such places. */
static uint32_t digits_of(const int64_t *places, uint32_t count, struct tsr_lattice_digit *digits)
{
    uint32_t made = 0, block = 1; /* places of a digit's step */
    while (block < count && made < DIGITS) {
        int64_t stride = places[block] - places[0];
        uint32_t steps = 1;
        while ((steps + 1) * block <= count && places[steps * block] - places[0] == stride * steps)
            steps++;
        if (steps < 2 || count % (steps * block) != 0)
            return DIGITS + 1;
        for (uint32_t i = 0; i < steps * block; i++)
            if (places[i] - places[i % block] != stride * (i / block))
                return DIGITS + 1;
        digits[made++] = (struct tsr_lattice_digit){stride, steps};
        block *= steps;
    }
    for (uint32_t i = 0; i < count; i++)
        if (places[i] - places[i % block] != places[i / block * block] - places[0])
            return DIGITS + 1;
    return block == count ? made : DIGITS + 1;
}

/* What the stores of a system write. False: nothing is told. */
static bool solve(struct run *run, const struct tsr_symbol *base, struct tsr_lattice *system, int64_t size)
{
    struct tsr_lattice_piece pieces[PIECES];
    uint32_t found = tsr_lattice_solve(&run->e, system, size, pieces, PIECES);
    for (uint32_t i = 0; i < found; i++)
        add_piece(run, base, &pieces[i]);
    return found != 0;
}

/* The stores of a group as one system, if their places are that of digits. */
static bool put_down(struct run *run, struct store_group *group, struct tsr_lattice *system)
{
    struct tsr_lattice_digit digits[DIGITS];
    int64_t *places = tsr_scratch_take(&run->e, group->count * sizeof *places);
    uint32_t count = group->access->rows > 1 ? 0 : places_of(group, places, &group->size), made = DIGITS + 1;
    if (count)
        made = digits_of(places, count, digits);
    return made <= DIGITS && tsr_must_write(run->must, group->access, group->offset, places[0], digits, made, system);
}

static bool may_join(const struct store_group *a, const struct store_group *b)
{
    return !b->is_told && a->base == b->base && a->access->size == b->access->size && a->count == b->count &&
           a->offset->count == b->offset->count && a->offset->count;
}

/* A group, and those behind it that are copies of it. False: nothing is told. */
static bool joined(struct run *run, struct store_group *group)
{
    struct tsr_lattice *systems[COPIES], *alone = &run->systems[COPIES];
    struct store_group *members[COPIES];
    uint32_t count = 1;
    for (uint32_t i = 0; i < COPIES; i++)
        systems[i] = &run->systems[i];
    if (!put_down(run, group, systems[0]))
        return false;
    memcpy(alone, systems[0], sizeof *alone);
    for (struct store_group *each = group->next; each && count < COPIES && alone->divisions; each = each->next) {
        members[count] = each;
        if (may_join(group, each) && put_down(run, each, systems[count]) && each->size == group->size)
            count++;
    }
    uint32_t of = count > 1 ? tsr_lattice_join(&run->e, systems, count) : 1;
    const struct tsr_symbol *base = tsr_symbol_at(&run->e, group->base);
    if (of == 1 || !solve(run, base, systems[0], group->size))
        return solve(run, base, alone, group->size);
    for (uint32_t i = 1; i < of; i++)
        members[i]->is_told = true;
    return true;
}

/* What stores surely write. */
static void overwritten_by(struct run *run, struct store_group *group)
{
    const struct tsr_symbol *base = tsr_symbol_at(&run->e, group->base);
    bool is_told = group->is_told || joined(run, group);
    for (const struct distance *each = group->distances; each && !is_told; each = each->next)
        if (tsr_must_write(run->must, group->access, group->offset, each->bytes, NULL, 0, run->systems))
            solve(run, base, run->systems, group->access->size);
}

static bool is_same_place(const struct tsr_access_range *a, const struct tsr_access_range *b)
{
    return a->kind == b->kind && !a->whole && a->symbol == b->symbol && a->offset == b->offset &&
           a->parameter == b->parameter && !a->tensor && a->first == b->first && a->last == b->last && a->stride == b->stride &&
           a->width == b->width;
}

static uint64_t bytes_of(const struct tsr_access_range *range)
{
    uint64_t span = (uint64_t)range->last - (uint64_t)range->first + 1;
    return range->stride ? (span / (uint64_t)range->stride + 1) * (uint64_t)range->width : span;
}

/* The largest one of those that are left; `count`: none is. */
static uint32_t largest_of(const struct tsr_access_range *ranges, uint32_t count)
{
    uint32_t found = count;
    for (uint32_t i = 0; i < count; i++)
        if (ranges[i].overwritten && (found == count || bytes_of(&ranges[i]) > bytes_of(&ranges[found])))
            found = i;
    return found;
}

/* A range that is overwritten gets the mark; what is part of one is a range more, the largest first, as long as the memo keeps them all. */
static void hand_over(struct run *run)
{
    struct tsr_found *found = run->found;
    struct tsr_access_range *ranges = run->overwritten;
    uint32_t count = tsr_ranges_merge_exact(ranges, run->overwritten_count), before = found->count, largest;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t same = 0; same < before; same++)
            if (is_same_place(&found->ranges[same], &ranges[i])) {
                found->ranges[same].overwritten = 1;
                ranges[i].overwritten = 0;
            }
    while (found->count < run->capacity && found->count < TSR_MEMO_RANGES && (largest = largest_of(ranges, count)) < count) {
        found->ranges[found->count++] = ranges[largest];
        ranges[largest].overwritten = 0;
    }
}

/* Stores are looked at one after the other; what is not done when the work is used up is not told. */
static __attribute__((noinline)) void find_overwritten(struct run *run)
{
    const struct tsr_access_template *header = run->e.template->header;
    bool is_unknown = run->found->level == TSR_LEVEL_UNKNOWN;
    run->e.depth = 0;
    run->e.most_steps += run->e.most_steps / 2;
    run->e.splits = false;
    if (run->e.coarse || is_unknown || _setjmp(run->e.out) != 0)
        return;
    run->must = tsr_must_start(&run->e);
    run->systems = tsr_scratch_take(&run->e, (COPIES + 1) * sizeof *run->systems);
    if (!run->overwritten)
        run->overwritten = tsr_scratch_take(&run->e, OVERWRITTEN * sizeof *run->overwritten);
    for (run->at = 0; run->at < header->accesses; run->at++)
        if (run->e.template->accesses[run->at].must != TSR_ACCESS_NEVER)
            put_into_group(run, &run->e.template->accesses[run->at]);
    for (struct store_group *each = run->groups; each; each = each->next)
        overwritten_by(run, each);
}

/* Tables by node, condition and loop. */
static void take_tables(struct run *run)
{
    const struct tsr_access_template *header = run->e.template->header;
    struct tsr_evaluation *e = &run->e;
    size_t pointers = (size_t)header->nodes + header->conditions + header->loops;
    size_t bytes = pointers * sizeof(void *) + header->nodes;
    char *tables = tsr_scratch_take(e, bytes);
    memset(tables, 0, bytes);
    e->values = (const struct tsr_form **)tables;
    e->facts = (const struct tsr_facts **)(e->values + header->nodes);
    e->counts = (const struct tsr_form **)(e->facts + header->conditions);
    e->active = (uint8_t *)(e->counts + header->loops);
    e->facts[0] = &tsr_facts_none;
    run->has_tables = true;
}

/* Room for ranges, of all parts of the grid. */
static void take_room(struct run *run)
{
    const struct tsr_access_template *header = run->e.template->header;
    bool is_split = run->e.inputs->has_elements;
    uint32_t wanted = 4 * (header->accesses + CHOICES) + header->tensors;
    uint32_t capacity = wanted < RANGES && !is_split ? wanted : RANGES;
    run->found->ranges = tsr_scratch_take(&run->e, capacity * sizeof *run->found->ranges);
    run->capacity = capacity;
    if (is_split)
        run->overwritten = tsr_scratch_take(&run->e, OVERWRITTEN * sizeof *run->overwritten);
    run->room = run->e.next;
}

static void start(struct run *run, const struct tsr_inputs *inputs, const struct tsr_access_launch *launch, char *scratch,
                  size_t scratch_bytes, struct tsr_found *found, uint64_t *seen)
{
    uintptr_t end = (uintptr_t)(scratch + scratch_bytes) & ~(uintptr_t)15;
    memset(run, 0, sizeof *run);
    memset(found, 0, offsetof(struct tsr_found, why));
    run->found = found;
    run->e.template = &inputs->template;
    run->e.inputs = inputs;
    run->e.seen = seen;
    memset(seen, 0, (inputs->count + inputs->template.header->symbols) * sizeof *seen);
    run->e.launch = launch;
    run->splits = inputs->has_elements;
    run->room = (char *)run + ((sizeof *run + 15) & ~(size_t)15);
    run->top = (struct tsr_symbol *)end;
}

/* Nothing is known of the part of the grid that is next. */
static void start_part(struct run *run)
{
    const struct tsr_access_launch *launch = run->e.launch;
    run->e = (struct tsr_evaluation){.template = run->e.template,
                                     .inputs = run->e.inputs,
                                     .launch = launch,
                                     .seen = run->e.seen,
                                     .part = run->waiting[run->parts - 1],
                                     .splits = run->splits,
                                     .most_steps = launch->steps ? launch->steps : STEPS,
                                     .next = run->room,
                                     .lowest = run->top,
                                     .top = run->top};
    memset(run->shapes, 0, sizeof run->shapes);
    run->groups = NULL;
    run->walk = NULL;
    run->may_walk = run->has_tables = false;
    run->at = 0;
    run->found->count = run->kept;
}

/* The whole grid, and nothing found yet. */
static void start_grid(struct run *run)
{
    struct tsr_part *part = &run->waiting[0];
    for (int axis = 0; axis < 3; axis++) {
        part->first[axis] = 0;
        part->last[axis] = run->e.launch->grid[axis] - 1;
    }
    run->parts = 1;
    run->kept = run->overwritten_count = 0;
}

/* Of pointers, what was looked at of their symbols. */
static void note_seen(const struct run *run, const struct tsr_inputs *inputs, uint64_t *seen)
{
    for (uint32_t number = 0; number < run->e.symbol_count; number++) {
        const struct tsr_symbol *symbol = tsr_symbol_at(&run->e, number);
        uint64_t bits = symbol->seen ? UINT64_MAX : symbol->seen_bits;
        if (symbol->variable >= 0)
            seen[inputs->count + (uint32_t)symbol->variable] |= bits;
        for (uint32_t i = 0; symbol->slot >= 0 && i < inputs->count; i++)
            if (inputs->items[i].offset == symbol->slot && inputs->items[i].size == 8)
                seen[i] |= bits;
    }
}

/* What looks back gets its end: that of all that is written through its pointer. */
static void end_looking_back(struct run *run)
{
    struct tsr_found *found = run->found;
    for (uint32_t i = 0; i < found->count; i++) {
        struct tsr_access_range *range = &found->ranges[i];
        int64_t last = -1;
        for (uint32_t n = 0; n < found->count && range->last == LAST_WRITTEN; n++) {
            const struct tsr_access_range *each = &found->ranges[n];
            if (each->kind != TSR_ACCESS_READ && each->offset == range->offset && each->symbol == range->symbol)
                last = each->last > last ? each->last : last;
        }
        if (range->last == LAST_WRITTEN && (last < 0 || last == INT64_MAX))
            make_whole(range);
        else if (range->last == LAST_WRITTEN)
            range->last = last;
    }
}

static void finish_part(struct run *run)
{
    struct tsr_found *found = run->found;
    end_looking_back(run);
    if (run->e.coarse && found->level == TSR_LEVEL_FULL)
        found->level = TSR_LEVEL_INTERVALS;
    if (--run->parts == 0 || found->count > run->capacity / 2)
        found->count = tsr_ranges_merge(found->ranges, found->count);
    run->kept = found->count;
    find_overwritten(run);
}

/* After an evaluation was left: two parts instead of one, or the whole grid as one. False: that is what was tried. */
static bool try_again(struct run *run)
{
    uint32_t most = run->e.launch->steps ? run->e.launch->steps : STEPS;
    if (run->e.is_split && run->parts < PARTS && run->steps / SPLIT_STEPS <= most) {
        run->waiting[run->parts - 1] = run->e.rest;
        run->waiting[run->parts++] = run->e.part;
        return true;
    }
    if (!run->splits)
        return false;
    run->splits = false;
    start_grid(run);
    return true;
}

/* The accesses of the part that is next. */
static void evaluate_part(struct run *run)
{
    start_part(run);
    if (_setjmp(run->e.out) == 0) {
        if (!run->capacity)
            take_room(run);
        take_tables(run);
        evaluate_accesses(run);
        evaluate_tensors(run, true);
    } else if (try_again(run)) {
        return;
    } else {
        run->found->level = run->found->level > TSR_LEVEL_WHOLE ? run->found->level : TSR_LEVEL_WHOLE;
        give_rest(run);
    }
    finish_part(run);
}

void tsr_ranges_find(const struct tsr_inputs *inputs, const struct tsr_access_launch *launch, void *scratch,
                     size_t scratch_bytes, struct tsr_found *found, uint64_t *seen)
{
    const struct tsr_sections *template = &inputs->template;
    struct run *run = scratch;
    start(run, inputs, launch, scratch, scratch_bytes, found, seen);
    for (uint32_t i = 0; i < template->header->unknowns && goes_on(run); i++)
        why(run, template->unknowns[i].line, TSR_WHY_TEMPLATE, template->text + template->unknowns[i].reason);
    start_grid(run);
    do {
        evaluate_part(run);
        run->steps += run->e.steps;
        note_seen(run, inputs, seen);
    } while (run->parts && goes_on(run));
    found->steps = run->steps;
    hand_over(run);
}
