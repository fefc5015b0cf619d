/* See tessera/access.h. */
#include "access/memo.h"
#include "access/template.h"

#include <stdlib.h>
#include <string.h>

#define TENSOR_MAP_BYTES 128u

struct tsr_access {
    void *bytes;
    struct tsr_inputs inputs;
    struct tsr_memo memo;
    uint32_t *of_node;
    uint64_t may_write[TSR_ACCESS_MASK_WORDS];
    bool writes_are_known, writes_variables;
    struct tsr_input items[];
};

struct read {
    struct tsr_input input;
    uint32_t node;
};

static int by_place(const void *a, const void *b)
{
    const struct tsr_input *x = &((const struct read *)a)->input, *y = &((const struct read *)b)->input;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return (x->size > y->size) - (x->size < y->size);
}

/* The inputs, by offset and size, and which of them each node is. */
static bool list_inputs(struct tsr_access *access, uint32_t most)
{
    const struct tsr_sections *template = &access->inputs.template;
    struct read *reads = calloc(most + 1u, sizeof *reads);
    uint32_t count = 0;
    access->of_node = calloc(template->header->nodes + 1u, sizeof *access->of_node);
    for (uint32_t i = 0; access->of_node && reads && i < template->header->nodes; i++) {
        const struct tsr_access_node *node = &template->nodes[i];
        access->inputs.has_elements |= node->op == TSR_OP_ELEMENT;
        if (node->op == TSR_OP_PARAMETER)
            reads[count++] = (struct read){{(uint32_t)node->number, node->width / 8u}, i};
    }
    if (count)
        qsort(reads, count, sizeof *reads, by_place);
    for (uint32_t i = 0; i < count; i++) {
        if (i == 0 || by_place(&reads[i - 1], &reads[i]) != 0)
            access->items[access->inputs.count++] = reads[i].input;
        access->of_node[reads[i].node] = access->inputs.count - 1;
    }
    free(reads);
    access->inputs.items = access->items;
    access->inputs.of_node = access->of_node;
    return access->of_node && reads;
}

/* False: there is no bit for it. */
static bool mark_write(struct tsr_access *access, uint32_t base)
{
    if (base & TSR_SYMBOL_BASE) {
        access->writes_variables = true;
        return true;
    }
    if (base / 512 >= TSR_ACCESS_MASK_WORDS)
        return false;
    access->may_write[base / 512] |= 1ull << base / 8 % 64;
    return true;
}

static void list_writes(struct tsr_access *access)
{
    const struct tsr_sections *template = &access->inputs.template;
    bool is_known = template->header->unknowns == 0;
    for (uint32_t i = 0; i < template->header->accesses; i++) {
        const struct tsr_access_access *each = &template->accesses[i];
        if (each->kind == TSR_ACCESS_READ)
            continue;
        is_known &= each->based != 0;
        for (uint32_t n = 0; n < each->bases; n++)
            is_known &= mark_write(access, template->operands[each->first_base + n]);
    }
    for (uint32_t i = 0; i < template->header->tensors; i++)
        if (template->tensors[i].kind != TSR_ACCESS_READ)
            is_known &= template->tensors[i].offset != TSR_ACCESS_IN_MEMORY && mark_write(access, template->tensors[i].offset);
    access->writes_are_known = is_known;
}

bool tsr_access_write_mask(const struct tsr_access *access, uint64_t mask[TSR_ACCESS_MASK_WORDS], bool *variables)
{
    memcpy(mask, access->may_write, sizeof access->may_write);
    *variables = access->writes_variables;
    return access->writes_are_known;
}

static uint32_t parameter_nodes(const struct tsr_sections *template)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < template->header->nodes; i++)
        count += template->nodes[i].op == TSR_OP_PARAMETER;
    return count;
}

struct tsr_access *tsr_access_create(const void *bytes, size_t size, uint32_t memo_entries)
{
    struct tsr_sections sections;
    void *copy = malloc(size ? size : 1);
    if (!copy)
        return NULL;
    memcpy(copy, bytes, size); /* what is checked is what is used: the bytes may be in shared memory */
    if (!tsr_template_read(copy, size, &sections))
        goto no_template;
    uint32_t most = parameter_nodes(&sections);
    struct tsr_access *access = calloc(1, sizeof *access + most * sizeof access->items[0]);
    if (!access)
        goto no_template;
    access->bytes = copy;
    access->inputs.template = sections;
    list_writes(access);
    if (list_inputs(access, most) && tsr_memo_init(&access->memo, memo_entries, &access->inputs))
        return access;
    free(access->of_node);
    free(access);
no_template:
    free(copy);
    return NULL;
}

void tsr_access_destroy(struct tsr_access *access)
{
    if (!access)
        return;
    tsr_memo_fini(&access->memo);
    free(access->of_node);
    free(access->bytes);
    free(access);
}

uint32_t tsr_access_symbols(const struct tsr_access *access, const char **names, uint32_t room)
{
    const struct tsr_sections *template = &access->inputs.template;
    uint32_t count = template->header->symbols;
    for (uint32_t i = 0; i < count && i < room; i++)
        names[i] = template->symbols[i].private ? NULL : template->text + template->symbols[i].name;
    return count;
}

/* The allocation that a range's base lies in, as offsets from it. */
static bool allocation_of(const struct tsr_sections *template, const struct tsr_access_launch *launch,
                          const struct tsr_access_range *range, int64_t *first, int64_t *last)
{
    uint64_t begin, end;
    *first = 0;
    if (range->symbol >= 0) {
        *last = (int64_t)template->symbols[range->symbol].size - 1;
        return *last >= 0;
    }
    if (range->parameter < 0 || !launch->allocation ||
        !launch->allocation(launch->allocation_context, range->base, &begin, &end))
        return false;
    *first = (int64_t)(begin - range->base);
    *last = (int64_t)(end - range->base) - 1;
    return true;
}

/* An overwritten range must not be widened: it is kept exactly, or dropped. */
static bool is_inside(const struct tsr_access_range *range, int64_t first, int64_t last)
{
    return range->first >= first && range->last <= last;
}

/* False: nothing is left of the range. */
static bool clamp(const struct tsr_sections *template, const struct tsr_access_launch *launch, struct tsr_access_range *range)
{
    int64_t first, last;
    if (!allocation_of(template, launch, range, &first, &last)) {
        if (range->whole) {
            range->first = 0;
            range->last = -1;
        }
        return true;
    }
    if (range->overwritten && !is_inside(range, first, last))
        range->overwritten = 0;
    if (range->first < first) {
        range->first = first;
        range->stride = range->width = 0;
    }
    if (range->last > last)
        range->last = last;
    return range->first <= range->last;
}

/* Fewer ranges, each as long as all of its kind and base. */
static uint32_t without_strides(struct tsr_access_range *ranges, uint32_t count)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct tsr_access_range *last = kept ? &ranges[kept - 1] : NULL, *each = &ranges[i];
        each->overwritten = 0;
        each->stride = each->width = 0;
        if (last && last->kind == each->kind && last->whole == each->whole && last->parameter == each->parameter &&
            last->symbol == each->symbol && last->offset == each->offset && last->tensor == each->tensor) {
            last->first = each->first < last->first ? each->first : last->first;
            last->last = each->last > last->last ? each->last : last->last;
        } else {
            ranges[kept++] = *each;
        }
    }
    return kept;
}

/* The ranges of the tensor whose map the range is about; 0: none are known. */
static uint32_t tensor_ranges(const struct tsr_access_launch *launch, uint32_t offset, struct tsr_access_range *found)
{
    const char *map = (const char *)launch->parameters + offset;
    if ((uint64_t)offset + TENSOR_MAP_BYTES > launch->parameter_bytes)
        return 0;
    if (launch->tensor)
        return launch->tensor(launch->tensor_context, map, found);
    found[0] = (struct tsr_access_range){.whole = 1};
    memcpy(&found[0].base, map, sizeof found[0].base);
    return 1;
}

static void fail(struct tsr_access_result *result, enum tsr_access_reason reason)
{
    struct tsr_access_why why = {0, reason, NULL};
    result->level = TSR_LEVEL_UNKNOWN;
    if (result->whys == 0)
        result->why = why;
    if (result->whys < result->room)
        result->every[result->whys] = why;
    result->whys++;
}

static void hand_over_tensor(const struct tsr_sections *template, const struct tsr_access_launch *launch,
                             const struct tsr_access_range *of, struct tsr_access_result *result)
{
    struct tsr_access_range found[TSR_ACCESS_TENSOR_RANGES];
    uint32_t count = tensor_ranges(launch, of->offset, found);
    if (count == 0 || count > TSR_ACCESS_TENSOR_RANGES || count > result->capacity - result->count) {
        fail(result, count == 0 ? TSR_WHY_TENSOR : TSR_WHY_BUDGET);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct tsr_access_range *to = &result->ranges[result->count];
        *to = found[i];
        to->kind = of->kind;
        to->parameter = of->parameter;
        to->symbol = -1;
        to->offset = of->offset;
        to->tensor = 1;
        if (to->whole) {
            to->first = INT64_MIN;
            to->last = INT64_MAX;
        }
        result->count += clamp(template, launch, to);
        if (to->whole && to->last < to->first)
            fail(result, TSR_WHY_TENSOR);
    }
}

static uint64_t pointer_at(const struct tsr_access_launch *launch, uint32_t offset)
{
    uint64_t pointer = 0;
    if ((uint64_t)offset + sizeof pointer <= launch->parameter_bytes)
        memcpy(&pointer, (const char *)launch->parameters + offset, sizeof pointer);
    return pointer;
}

static bool has_tensors(const struct tsr_found *found)
{
    for (uint32_t i = 0; i < found->count; i++)
        if (found->ranges[i].tensor)
            return true;
    return false;
}

/*
 * The ranges with their bases, as far as there is room for them. What was found may stand where the result is to stand; tensors, which become
 * more ranges, are then in `room`, which has as much space.
 */
static void hand_over(const struct tsr_access *access, const struct tsr_access_launch *launch, struct tsr_found *found,
                      struct tsr_access_range *room, struct tsr_access_result *result)
{
    if (found->ranges == result->ranges && has_tensors(found)) {
        memcpy(room, found->ranges, found->count * sizeof *room);
        found->ranges = room;
    }
    const struct tsr_sections *template = &access->inputs.template;
    result->level = found->level;
    if (found->count > result->capacity) {
        found->count = without_strides(found->ranges, found->count);
        result->level = found->level > TSR_LEVEL_INTERVALS ? found->level : TSR_LEVEL_INTERVALS;
    }
    result->whys = found->whys;
    result->why = found->why;
    if (found->count > result->capacity) {
        fail(result, TSR_WHY_BUDGET);
        return;
    }
    for (uint32_t i = 0; i < found->count; i++) {
        struct tsr_access_range *to = &result->ranges[result->count];
        if (found->ranges[i].tensor) {
            hand_over_tensor(template, launch, &found->ranges[i], result);
            continue;
        }
        if (result->count == result->capacity) { /* tensors took more room than they were counted for */
            fail(result, TSR_WHY_BUDGET);
            return;
        }
        if (to != &found->ranges[i])
            *to = found->ranges[i];
        if (to->symbol >= 0)
            to->base = launch->symbols ? launch->symbols[to->symbol] : 0;
        else if (to->parameter >= 0)
            to->base = pointer_at(launch, to->offset);
        result->count += clamp(template, launch, to);
    }
}

static bool is_launchable(const struct tsr_access_launch *launch)
{
    uint64_t shape = 1;
    for (int axis = 0; axis < 3; axis++)
        shape &= launch->grid[axis] && launch->block[axis];
    return shape;
}

void tsr_access_evaluate(struct tsr_access *access, const struct tsr_access_launch *launch, void *scratch, size_t scratch_bytes,
                         struct tsr_access_result *result)
{
    struct tsr_found found = {.ranges = result->ranges, .every = result->every, .room = result->room};
    const struct tsr_sections *template = &access->inputs.template;
    uint32_t inputs = access->inputs.count + template->header->symbols;
    size_t used = (inputs * sizeof(struct tsr_seen) + access->memo.most * sizeof(uint64_t) + 15) & ~(size_t)15;
    struct tsr_seen *seen = scratch;
    uint64_t *key = (uint64_t *)(seen + inputs);
    bool may_remember = !(launch->options & (TSR_ACCESS_NO_MEMO | TSR_ACCESS_ALL_REASONS));
    result->count = result->level = result->remembered = result->whys = result->steps = 0;
    if (!is_launchable(launch))
        return;
    if (scratch_bytes < used + TSR_RANGES_SCRATCH) {
        fail(result, TSR_WHY_BUDGET);
        return;
    }
    uint32_t room = (uint32_t)((scratch_bytes - used) / sizeof(struct tsr_access_range));
    if (may_remember && tsr_memo_find(&access->memo, launch, key, room < result->capacity ? room : result->capacity, &found)) {
        result->remembered = 1;
        if (found.whys && found.room) /* the memo keeps the first */
            found.every[0] = found.why;
    } else {
        tsr_ranges_find(&access->inputs, launch, (char *)scratch + used, scratch_bytes - used, &found, seen);
        result->steps = found.steps;
        if (may_remember)
            tsr_memo_add(&access->memo, launch, key, seen, &found);
    }
    hand_over(access, launch, &found, (struct tsr_access_range *)((char *)scratch + used), result);
}
