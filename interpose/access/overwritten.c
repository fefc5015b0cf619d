/*
 * What a launch overwrites: stores whose addresses differ only by numbers, their distances from the base, are handled together, since unrolled
 * code has many of them; must.c and points.c say which bytes they must write.
 */
#include "access/run.h"
#include "access/memo.h"

#define PIECES 32u /* that a store overwrites */
#define DIGITS 4u  /* of the places of stores that are alike */

struct tsr_store_group {
    struct tsr_store_group *next;
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

static bool are_alike(const struct tsr_access_access *a, const struct tsr_access_access *b)
{
    return a->must == b->must && a->loops == b->loops && a->size == b->size && a->rows == b->rows && a->pitch == b->pitch;
}

static struct tsr_store_group *group_of(struct tsr_run *run, const struct tsr_access_access *access,
                                        const struct tsr_address *address)
{
    struct tsr_store_group *each = run->groups;
    while (each &&
           (each->base != address->base || !are_alike(each->access, access) || !tsr_address_is_offset(address, each->offset)))
        each = each->next;
    if (each)
        return each;
    const struct tsr_form *offset = tsr_address_offset(&run->e, address);
    each = tsr_scratch_take(&run->e, sizeof *each);
    *each = (struct tsr_store_group){.next = run->groups, .offset = offset, .access = access, .base = address->base};
    return run->groups = each;
}

static void add_piece(struct tsr_run *run, const struct tsr_symbol *base, const struct tsr_points_piece *piece)
{
    struct tsr_access_range *range = &run->overwritten[run->overwritten_count];
    tsr_wide first = tsr_wide_wrap(piece->first, 64);
    tsr_wide span = (tsr_wide)piece->stride * (piece->count - 1) + piece->width;
    if (!tsr_wide_is_small(first) || !tsr_wide_is_small(first + span) || run->overwritten_count == TSR_RUN_OVERWRITTEN)
        return;
    *range = tsr_run_range(run->e.template, TSR_ACCESS_WRITE, base->slot, base->variable);
    range->overwritten = 1;
    range->first = (int64_t)first;
    range->last = (int64_t)(first + span) - 1;
    if (piece->count > 1) {
        range->stride = piece->stride;
        range->width = piece->width;
    }
    if (++run->overwritten_count == TSR_RUN_OVERWRITTEN)
        run->overwritten_count = tsr_ranges_merge_exact(run->overwritten, TSR_RUN_OVERWRITTEN);
}

/* A store joins those that it is like. */
static void put_into_group(struct tsr_run *run, const struct tsr_access_access *access)
{
    struct tsr_evaluation *e = &run->e;
    const struct tsr_form *forms[TSR_RUN_CHOICES];
    if (!tsr_condition_facts(e, access->condition) || tsr_address_choices(e, tsr_node_value(e, access->address), forms) != 1)
        return;
    uint32_t base = tsr_address_base(run, forms[0]);
    if (base == TSR_NO_BASE || tsr_address_is_private(run, forms[0]))
        return;
    struct tsr_address address = {tsr_address_wrapped(e, forms[0], base), access->displacement, base};
    tsr_wide bytes = tsr_wide_wrap(address.form->constant + address.displacement, 64);
    if (tsr_wide_distance(bytes) > TSR_RANGE_LARGEST)
        return;
    struct tsr_store_group *group = group_of(run, access, &address);
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
static uint32_t places_of(const struct tsr_store_group *group, int64_t *places, int64_t *size)
{
    uint32_t count = 0;
    int64_t own = group->access->size, last = 0;
    *size = 0;
    for (const struct distance *each = group->distances; each; each = each->next) {
        if (count && each->bytes < last)
            continue; /* the same again, or part of it */
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
static uint32_t digits_of(const int64_t *places, uint32_t count, struct tsr_points_digit *digits)
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
        digits[made++] = (struct tsr_points_digit){stride, steps};
        block *= steps;
    }
    for (uint32_t i = 0; i < count; i++)
        if (places[i] - places[i % block] != places[i / block * block] - places[0])
            return DIGITS + 1;
    return block == count ? made : DIGITS + 1;
}

/* What the stores of a system must write. False: nothing is known. */
static bool solve(struct tsr_run *run, const struct tsr_symbol *base, struct tsr_integer_points *system, int64_t size)
{
    struct tsr_points_piece pieces[PIECES];
    uint32_t found = tsr_points_solve(&run->e, system, size, pieces, PIECES);
    for (uint32_t i = 0; i < found; i++)
        add_piece(run, base, &pieces[i]);
    return found != 0;
}

/* The stores of a group as one system, if their places are that of digits. */
static bool put_down(struct tsr_run *run, struct tsr_store_group *group, struct tsr_integer_points *system)
{
    struct tsr_points_digit digits[DIGITS];
    int64_t *places = tsr_scratch_take(&run->e, group->count * sizeof *places);
    uint32_t count = group->access->rows > 1 ? 0 : places_of(group, places, &group->size), made = DIGITS + 1;
    if (count)
        made = digits_of(places, count, digits);
    return made <= DIGITS && tsr_must_write(run->must, group->access, group->offset, places[0], digits, made, system);
}

static bool may_join(const struct tsr_store_group *a, const struct tsr_store_group *b)
{
    return !b->is_told && a->base == b->base && a->access->size == b->access->size && a->count == b->count &&
           a->offset->count == b->offset->count && a->offset->count;
}

/* A group, and the later ones that are copies of it. False: nothing is known. */
static bool joined(struct tsr_run *run, struct tsr_store_group *group)
{
    struct tsr_integer_points *systems[TSR_RUN_COPIES], *alone = &run->systems[TSR_RUN_COPIES];
    struct tsr_store_group *members[TSR_RUN_COPIES];
    uint32_t count = 1;
    for (uint32_t i = 0; i < TSR_RUN_COPIES; i++)
        systems[i] = &run->systems[i];
    if (!put_down(run, group, systems[0]))
        return false;
    tsr_points_copy(alone, systems[0]);
    for (struct tsr_store_group *each = group->next; each && count < TSR_RUN_COPIES && alone->divisions; each = each->next) {
        members[count] = each;
        if (may_join(group, each) && put_down(run, each, systems[count]) && each->size == group->size)
            count++;
    }
    uint32_t of = count > 1 ? tsr_points_join(&run->e, systems, count) : 1;
    const struct tsr_symbol *base = tsr_symbol_at(&run->e, group->base);
    if (of == 1 || !solve(run, base, systems[0], group->size))
        return solve(run, base, alone, group->size);
    for (uint32_t i = 1; i < of; i++)
        members[i]->is_told = true;
    return true;
}

/* What stores must write. */
static void overwritten_by(struct tsr_run *run, struct tsr_store_group *group)
{
    const struct tsr_symbol *base = tsr_symbol_at(&run->e, group->base);
    bool is_told = group->is_told || joined(run, group);
    for (const struct distance *each = group->distances; each && !is_told; each = each->next)
        if (tsr_must_write(run->must, group->access, group->offset, each->bytes, NULL, 0, run->systems))
            solve(run, base, run->systems, group->access->size);
}

/* One store after the other; those left when the budget is used up count as not overwriting. */
__attribute__((noinline)) void tsr_run_overwritten(struct tsr_run *run)
{
    const struct tsr_access_template *header = run->e.template->header;
    bool is_unknown = run->found->level == TSR_LEVEL_UNKNOWN;
    run->e.depth = 0;
    run->e.most_steps += run->e.most_steps / 2;
    run->e.splits = false;
    if (run->e.coarse || is_unknown || _setjmp(run->e.out) != 0)
        return;
    run->must = tsr_must_start(&run->e);
    run->systems = tsr_scratch_take(&run->e, (TSR_RUN_COPIES + 1) * sizeof *run->systems);
    if (!run->overwritten)
        run->overwritten = tsr_scratch_take(&run->e, TSR_RUN_OVERWRITTEN * sizeof *run->overwritten);
    for (run->at = 0; run->at < header->accesses; run->at++)
        if (run->e.template->accesses[run->at].must != TSR_ACCESS_NEVER)
            put_into_group(run, &run->e.template->accesses[run->at]);
    for (struct tsr_store_group *each = run->groups; each; each = each->next)
        overwritten_by(run, each);
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
void tsr_run_hand_over(struct tsr_run *run)
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
