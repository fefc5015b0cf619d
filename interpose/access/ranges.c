/* The ranges of a launch, access by access, and what is said of those that are left when the work is used up. */
#include "access/run.h"

#include <string.h>

#define INDEX ((tsr_wide)1 << 31) /* what an index of 32 bits spans */
#define LEAST_STEPS 100u          /* to find out where addresses begin */

void tsr_run_why(struct tsr_run *run, uint32_t line, enum tsr_access_reason reason, const char *text)
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
static bool add(struct tsr_run *run, const struct tsr_access_range *range)
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

struct tsr_access_range tsr_run_range(const struct tsr_sections *template, uint32_t kind, int64_t slot, int32_t variable)
{
    struct tsr_access_range range = {.kind = kind, .parameter = -1, .symbol = variable};
    if (slot >= 0) {
        range.offset = (uint32_t)slot;
        range.parameter = parameter_at(template, range.offset);
    }
    return range;
}

/* All of the allocation that a pointer points into: a program does not leave it. */
void tsr_range_make_whole(struct tsr_access_range *range)
{
    range->whole = 1;
    range->first = INT64_MIN;
    range->last = INT64_MAX;
    range->stride = range->width = 0;
}

/* Bytes of one access at most; false when there is no bound. */
static bool size_of(struct tsr_run *run, const struct tsr_access_access *access, const struct tsr_facts *facts, uint32_t *size)
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
static __attribute__((noinline)) bool repeat(struct tsr_run *run, const struct tsr_access_access *access,
                                             const struct tsr_facts *facts, struct tsr_strided_bytes *shape)
{
    const struct tsr_form *pitch = tsr_node_value(&run->e, (uint32_t)access->pitch);
    tsr_wide low = tsr_bound_lower(&run->e, pitch, facts), high = tsr_bound_upper(&run->e, pitch, facts);
    if (low < 0 || high >= TSR_RANGE_LARGEST)
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

/* Whether the bounds only say how many bits an index has. */
static bool is_anywhere(const struct tsr_evaluation *e, const struct tsr_address *address, tsr_wide length)
{
    bool is_index = false;
    for (uint32_t i = 0; i < address->form->count; i++) {
        uint32_t number = address->form->terms[i].symbol;
        const struct tsr_symbol *symbol = tsr_symbol_at(e, number);
        is_index |= number != address->base && symbol->high - symbol->low >= INDEX - 1;
    }
    return length >= TSR_RANGE_LARGEST || (length >= INDEX && is_index);
}

/* False when the bytes go round the end of what offsets reach: an index that was loaded may be negative. */
static bool place(struct tsr_access_range *range, const struct tsr_strided_bytes *shape, bool has_base)
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
static enum tsr_access_reason form_of(struct tsr_run *run, const struct tsr_access_access *access, const struct tsr_form *form,
                                      const struct tsr_facts *facts)
{
    struct tsr_evaluation *e = &run->e;
    struct tsr_strided_bytes shape;
    uint32_t size;
    if (tsr_address_is_private(run, form))
        return access->flags & TSR_ACCESS_GENERIC ? TSR_WHY_NONE : TSR_WHY_PRIVATE;
    bool is_sized = size_of(run, access, facts, &size);
    if (is_sized && size == 0)
        return TSR_WHY_NONE;
    uint32_t base = tsr_address_base(run, form);
    struct tsr_address address = {tsr_address_wrapped(e, form, base), access->displacement, base};
    bool has_base = base != TSR_NO_BASE;
    if (!has_base && tsr_form_loaded(e, form))
        return TSR_WHY_LOADED;
    bool looks_back = has_base && access->flags & TSR_ACCESS_LOOKS_BACK;
    bool is_bounded = is_sized && !looks_back && tsr_address_shape(run, &address, facts, size, &shape);
    if (is_bounded && access->rows > 1)
        is_bounded = repeat(run, access, facts, &shape);
    bool anywhere = is_bounded && is_anywhere(e, &address, shape.last - shape.first);
    if (!has_base && (!is_bounded || anywhere))
        return TSR_WHY_NO_BASE;
    const struct tsr_symbol *symbol = has_base ? tsr_symbol_at(e, address.base) : NULL;
    struct tsr_access_range range =
        tsr_run_range(e->template, access->kind, symbol ? symbol->slot : -1, symbol ? symbol->variable : -1);
    range.whole = anywhere;
    if (looks_back) {
        range.last = TSR_LAST_WRITTEN;
    } else if (!is_bounded || !place(&range, &shape, has_base)) {
        if (!has_base)
            return TSR_WHY_NO_BASE;
        tsr_range_make_whole(&range);
    }
    return add(run, &range) ? TSR_WHY_NONE : TSR_WHY_BUDGET;
}

static enum tsr_access_reason access_of(struct tsr_run *run, const struct tsr_access_access *access)
{
    struct tsr_evaluation *e = &run->e;
    const struct tsr_form *forms[TSR_RUN_CHOICES];
    const struct tsr_facts *facts = tsr_condition_facts(e, access->condition);
    if (!facts)
        return TSR_WHY_NONE;
    enum tsr_access_reason reason = TSR_WHY_NONE;
    uint32_t count = tsr_address_choices(e, tsr_node_value(e, access->address), forms);
    for (uint32_t i = 0; i < count && !reason; i++)
        reason = form_of(run, access, forms[i], facts);
    return reason;
}

bool tsr_run_goes_on(const struct tsr_run *run)
{
    return run->found->whys == 0 || run->e.launch->options & TSR_ACCESS_ALL_REASONS;
}

void tsr_run_accesses(struct tsr_run *run)
{
    const struct tsr_sections *template = run->e.template;
    for (; run->at < template->header->accesses && tsr_run_goes_on(run); run->at++) {
        const struct tsr_access_access *access = &template->accesses[run->at];
        enum tsr_access_reason reason = access_of(run, access);
        if (reason)
            tsr_run_why(run, access->line, reason, NULL);
    }
}

/* The tensor of a map: its ends are found when the map's bytes are looked at. Any tensor that the launch gets to; all when `reached` is false. */
void tsr_run_tensors(struct tsr_run *run, bool reached)
{
    const struct tsr_sections *template = run->e.template;
    for (uint32_t i = 0; i < template->header->tensors && tsr_run_goes_on(run); i++) {
        const struct tsr_access_tensor *tensor = &template->tensors[i];
        if (reached && !tsr_condition_facts(&run->e, tensor->condition))
            continue;
        if (tensor->offset == TSR_ACCESS_IN_MEMORY) {
            tsr_run_why(run, tensor->line, TSR_WHY_MAP, NULL);
            continue;
        }
        struct tsr_access_range range = tsr_run_range(template, tensor->kind, tensor->offset, -1);
        range.tensor = 1;
        if (!add(run, &range))
            tsr_run_why(run, tensor->line, TSR_WHY_BUDGET, NULL);
    }
}

/* What an access' address begins with, one of these in any case. 0: that is not known. */
static uint32_t bases_of(struct tsr_run *run, const struct tsr_access_access *access, const uint32_t **bases)
{
    *bases = &run->e.template->operands[access->first_base];
    if (access->based || !run->may_walk)
        return access->based ? access->bases : 0;
    *bases = run->walked;
    return tsr_walk_bases(run->walk, access->address, run->walked);
}

/* Whether the launch never gets to an access; asked where a pointer that points nowhere says that it may be so. */
static bool is_never(struct tsr_run *run, const struct tsr_access_access *access, uint32_t base)
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
static void give_whole(struct tsr_run *run, const struct tsr_access_access *access)
{
    const struct tsr_sections *template = run->e.template;
    const uint32_t *bases;
    uint32_t count = bases_of(run, access, &bases);
    bool fits = count != 0;
    if (fits && is_never(run, access, bases[0]))
        return;
    for (uint32_t i = 0; i < count && fits; i++) {
        bool is_symbol = bases[i] & TSR_SYMBOL_BASE;
        struct tsr_access_range range = tsr_run_range(template, access->kind, is_symbol ? -1 : (int64_t)bases[i],
                                                      is_symbol ? (int32_t)(bases[i] & ~TSR_SYMBOL_BASE) : -1);
        tsr_range_make_whole(&range);
        fits = add(run, &range);
    }
    if (!fits)
        tsr_run_why(run, access->line, TSR_WHY_BUDGET, NULL);
}

/* The accesses that are left when the work is used up; a little more of it finds out where they begin. */
void tsr_run_rest(struct tsr_run *run)
{
    const struct tsr_sections *template = run->e.template;
    run->e.depth = 0;
    run->e.most_steps = run->e.steps + run->e.most_steps / 4 + LEAST_STEPS;
    run->may_walk = run->has_tables;
    if (_setjmp(run->e.out) != 0)
        run->may_walk = false;
    if (run->may_walk)
        run->walk = tsr_walk_start(&run->e);
    for (; run->at < template->header->accesses && tsr_run_goes_on(run); run->at++)
        if (!run->has_tables || !tsr_condition_is_never(&run->e, template->accesses[run->at].condition))
            give_whole(run, &template->accesses[run->at]);
    tsr_run_tensors(run, false);
}
