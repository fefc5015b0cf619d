/* The evaluation of a launch: of its grid, or of parts of it one after the other, and what is tried when one of them takes too long. */
#include "access/run.h"

#include <string.h>

#define RANGES 2048u     /* while they are collected */
#define STEPS 24000u     /* half a millisecond; most kernels take a few hundred, a Triton GEMM of 128 accesses 9,371, CUB's scan 12,778 */
#define SPLIT_STEPS 16u  /* times as many for all parts of a grid */

/* Tables by node, condition and loop. */
static void take_tables(struct tsr_run *run)
{
    const struct tsr_access_template *header = run->e.template->header;
    struct tsr_evaluation *e = &run->e;
    size_t pointers = (size_t)header->nodes + header->conditions + header->loops;
    size_t bytes = pointers * sizeof(void *) + header->nodes;
    char *tables = tsr_scratch_take(e, bytes);
    memset(tables, 0, bytes);
    e->values = (const struct tsr_form **)tables;
    e->facts = (const struct tsr_facts **)(e->values + header->nodes);
    e->inductions = (const struct tsr_form **)(e->facts + header->conditions);
    e->active = (uint8_t *)(e->inductions + header->loops);
    e->facts[0] = &tsr_facts_none;
    run->has_tables = true;
}

/* Room for ranges, of all parts of the grid. */
static void take_room(struct tsr_run *run)
{
    const struct tsr_access_template *header = run->e.template->header;
    bool is_split = run->e.inputs->has_elements;
    uint32_t wanted = 4 * (header->accesses + TSR_RUN_CHOICES) + header->tensors;
    uint32_t capacity = wanted < RANGES && !is_split ? wanted : RANGES;
    run->found->ranges = tsr_scratch_take(&run->e, capacity * sizeof *run->found->ranges);
    run->capacity = capacity;
    if (is_split)
        run->overwritten = tsr_scratch_take(&run->e, TSR_RUN_OVERWRITTEN * sizeof *run->overwritten);
    run->room = run->e.next;
}

static void start(struct tsr_run *run, const struct tsr_inputs *inputs, const struct tsr_access_launch *launch, char *scratch,
                  size_t scratch_bytes, struct tsr_found *found, struct tsr_seen *seen)
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
static void start_part(struct tsr_run *run)
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
static void start_grid(struct tsr_run *run)
{
    struct tsr_grid_part *part = &run->waiting[0];
    for (int axis = 0; axis < 3; axis++) {
        part->first[axis] = 0;
        part->last[axis] = run->e.launch->grid[axis] - 1;
    }
    run->parts = 1;
    run->kept = run->overwritten_count = 0;
}

/* Of pointers, what was looked at of their symbols. */
static void note_seen(const struct tsr_run *run, const struct tsr_inputs *inputs, struct tsr_seen *seen)
{
    for (const struct tsr_named *each = run->e.named; each; each = each->next) {
        const struct tsr_symbol *symbol = tsr_symbol_at(&run->e, each->form->terms[0].symbol);
        struct tsr_seen *of = &seen[symbol->variable >= 0 ? inputs->count + (uint32_t)symbol->variable : symbol->input];
        of->bits |= symbol->seen ? UINT64_MAX : symbol->seen_bits;
        of->asked |= symbol->asked;
    }
}

/* What looks back gets its end: that of all that is written through its pointer. */
static void end_looking_back(struct tsr_run *run)
{
    struct tsr_found *found = run->found;
    for (uint32_t i = 0; i < found->count; i++) {
        struct tsr_access_range *range = &found->ranges[i];
        int64_t last = -1;
        for (uint32_t n = 0; n < found->count && range->last == TSR_LAST_WRITTEN; n++) {
            const struct tsr_access_range *each = &found->ranges[n];
            if (each->kind != TSR_ACCESS_READ && each->offset == range->offset && each->symbol == range->symbol)
                last = each->last > last ? each->last : last;
        }
        if (range->last == TSR_LAST_WRITTEN && (last < 0 || last == INT64_MAX))
            tsr_range_make_whole(range);
        else if (range->last == TSR_LAST_WRITTEN)
            range->last = last;
    }
}

static void finish_part(struct tsr_run *run)
{
    struct tsr_found *found = run->found;
    end_looking_back(run);
    if (run->e.coarse && found->level == TSR_LEVEL_FULL)
        found->level = TSR_LEVEL_INTERVALS;
    if (--run->parts == 0 || found->count > run->capacity / 2)
        found->count = tsr_ranges_merge(found->ranges, found->count);
    run->kept = found->count;
    tsr_run_overwritten(run);
}

/* After an evaluation was left: two parts instead of one, or the whole grid as one. False: that is what was tried. */
static bool try_again(struct tsr_run *run)
{
    uint32_t most = run->e.launch->steps ? run->e.launch->steps : STEPS;
    if (run->e.is_split && run->parts < TSR_RUN_PARTS && run->steps / SPLIT_STEPS <= most) {
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
static void evaluate_part(struct tsr_run *run)
{
    start_part(run);
    if (_setjmp(run->e.out) == 0) {
        if (!run->capacity)
            take_room(run);
        take_tables(run);
        tsr_run_accesses(run);
        tsr_run_tensors(run, true);
    } else if (try_again(run)) {
        return;
    } else {
        run->found->level = run->found->level > TSR_LEVEL_WHOLE ? run->found->level : TSR_LEVEL_WHOLE;
        tsr_run_rest(run);
    }
    finish_part(run);
}

void tsr_ranges_find(const struct tsr_inputs *inputs, const struct tsr_access_launch *launch, void *scratch,
                     size_t scratch_bytes, struct tsr_found *found, struct tsr_seen *seen)
{
    const struct tsr_sections *template = &inputs->template;
    struct tsr_run *run = scratch;
    start(run, inputs, launch, scratch, scratch_bytes, found, seen);
    for (uint32_t i = 0; i < template->header->unknowns && tsr_run_goes_on(run); i++)
        tsr_run_why(run, template->unknowns[i].line, TSR_WHY_TEMPLATE, template->text + template->unknowns[i].reason);
    start_grid(run);
    do {
        evaluate_part(run);
        run->steps += run->e.steps;
        note_seen(run, inputs, seen);
    } while (run->parts && tsr_run_goes_on(run));
    found->steps = run->steps;
    tsr_run_hand_over(run);
}
