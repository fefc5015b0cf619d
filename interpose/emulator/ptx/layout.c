/*
 * What depends on several functions: aliases, direct calls, places in shared memory, depth of local memory.
 *
 * Shared variables that some .func uses have one offset in the whole module, so that a function called by several kernels is decoded once.
 * Those of a kernel alone begin after the ones that its callees use. Dynamic shared memory begins after everything of the kernel.
 */
#include <string.h>

#include "decode.h"

#define DYNAMIC_DEPTH_BYTES 16384u /* for calls whose depth is not known */
#define SHARED_BYTES_MAX (1u << 24)

static uint32_t follow_alias(const struct tsr_load *load, uint32_t index)
{
    return load->functions.data[index].alias ? load->functions.data[index].alias_of : index;
}

/* A declaration that the call was decoded with may differ from the definition. */
static bool same_sizes(const struct tsr_call_arg *args, uint32_t count, const struct tsr_formal *formals, uint32_t formal_count)
{
    if (count != formal_count)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (args[i].bytes != formals[i].param.bytes)
            return false;
    return true;
}

static void complete_call(struct tsr_load *load, const struct tsr_call_line *line)
{
    uint32_t index = follow_alias(load, line->call->function);
    const struct tsr_function *function = load->functions.data[index].out;
    if (!function)
        tsr_load_fail(load, CUDA_ERROR_INVALID_PTX, line->line, line->column, "call: unresolved extern function '%s'",
                      load->functions.data[index].name->text);
    const struct tsr_signature *signature = &load->functions.data[index].signature;
    if (!same_sizes(line->call->args, line->call->arg_count, signature->params, signature->param_count) ||
        !same_sizes(line->call->results, line->call->result_count, signature->results, signature->result_count))
        tsr_load_fail(load, CUDA_ERROR_INVALID_PTX, line->line, line->column,
                      "call: '%s' was declared with other parameters than it is defined with", function->name);
    line->call->function = index;
    for (uint32_t i = 0; i < line->call->arg_count; i++)
        ((struct tsr_call_arg *)line->call->args)[i].callee_offset += function->params_area;
    for (uint32_t i = 0; i < line->call->result_count; i++)
        ((struct tsr_call_arg *)line->call->results)[i].callee_offset += function->results_area;
}

/* ---- shared memory ---- */

static uint64_t place_shared(struct tsr_load *load, struct tsr_shared *shared, uint64_t top)
{
    shared->offset = (top + shared->align - 1) & ~(shared->align - 1);
    if (shared->offset + shared->bytes > SHARED_BYTES_MAX)
        tsr_load_fail(load, CUDA_ERROR_INVALID_PTX, 1, 1, "more than 16 MiB of shared memory");
    return shared->offset + shared->bytes;
}

static void place_common_shared(struct tsr_load *load)
{
    uint64_t top = 0;
    for (size_t f = 0; f < load->functions.count; f++) {
        const struct tsr_function_load *function = &load->functions.data[f];
        for (size_t i = 0; !function->entry && i < function->shared.count; i++) {
            struct tsr_shared *shared = &load->shared.data[function->shared.data[i]];
            if (shared->in_function)
                continue;
            shared->in_function = true;
            if (!shared->dynamic)
                top = place_shared(load, shared, top);
        }
    }
}

/* Calls visit for the function and everything it may call. An indirect call may reach any function whose address is taken. */
struct walk {
    uint32_t *stack, count, mark;
    bool indirect_done;
};

static void push_function(struct tsr_load *load, struct walk *walk, uint32_t index)
{
    struct tsr_function_load *function = &load->functions.data[follow_alias(load, index)];
    if (function->state == walk->mark)
        return;
    function->state = walk->mark;
    walk->stack[walk->count++] = follow_alias(load, index);
}

static void push_callees(struct tsr_load *load, struct walk *walk, const struct tsr_function_load *function)
{
    for (size_t i = 0; i < function->callees.count; i++)
        push_function(load, walk, function->callees.data[i]);
    if (!function->calls_indirect || walk->indirect_done)
        return;
    walk->indirect_done = true;
    for (uint32_t i = 0; i < load->functions.count; i++)
        if (load->functions.data[i].address_taken)
            push_function(load, walk, i);
}

struct shared_total {
    uint64_t top, dynamic_align;
};

static void count_shared(const struct tsr_load *load, const struct tsr_function_load *function, struct shared_total *total)
{
    for (size_t i = 0; i < function->shared.count; i++) {
        const struct tsr_shared *shared = &load->shared.data[function->shared.data[i]];
        if (shared->dynamic && shared->align > total->dynamic_align)
            total->dynamic_align = shared->align;
        if (shared->in_function && !shared->dynamic && shared->offset + shared->bytes > total->top)
            total->top = shared->offset + shared->bytes;
    }
}

static void patch_shared(struct tsr_load *load, const struct tsr_function_load *function, uint64_t dynamic)
{
    for (size_t i = 0; i < function->shared_uses.count; i++) {
        struct tsr_shared_use use = function->shared_uses.data[i];
        const struct tsr_shared *shared = &load->shared.data[use.shared];
        struct tsr_const_reg *constant = (struct tsr_const_reg *)&function->out->consts[use.constant];
        constant->value += shared->dynamic ? dynamic : shared->offset;
    }
}

static void lay_out_entry(struct tsr_load *load, struct walk *walk, uint32_t index)
{
    struct tsr_function_load *entry = &load->functions.data[index];
    struct tsr_function *out = entry->out;
    struct shared_total total = {0, 16};
    walk->mark = index + 1;
    walk->count = 0;
    walk->indirect_done = false;
    push_function(load, walk, index);
    while (walk->count) {
        const struct tsr_function_load *function = &load->functions.data[walk->stack[--walk->count]];
        count_shared(load, function, &total);
        push_callees(load, walk, function);
        if (!function->out)
            continue;
        out->uses_barriers |= function->out->uses_barriers;
        if (function->out->max_barrier > out->max_barrier)
            out->max_barrier = function->out->max_barrier;
        if (function->out->registers > out->registers)
            out->registers = function->out->registers;
    }
    for (size_t i = 0; i < entry->shared.count; i++) {
        struct tsr_shared *shared = &load->shared.data[entry->shared.data[i]];
        if (shared->in_function || shared->dynamic || shared->mark == index + 1)
            continue;
        shared->mark = index + 1;
        total.top = place_shared(load, shared, total.top);
    }
    out->shared_static_bytes = (uint32_t)total.top;
    out->shared_dynamic_align = (uint32_t)total.dynamic_align;
    patch_shared(load, entry, (total.top + total.dynamic_align - 1) & ~(total.dynamic_align - 1));
}

/* ---- local memory ---- */

enum { UNSEEN, OPEN, DONE };

/* Deepest local memory below each function, without recursion: a function is finished when all its callees are. */
static void measure_depth(struct tsr_load *load, uint32_t *stack, uint32_t root)
{
    uint32_t count = 0;
    stack[count++] = root;
    while (count) {
        struct tsr_function_load *function = &load->functions.data[stack[count - 1]];
        uint32_t deepest = function->calls_indirect ? DYNAMIC_DEPTH_BYTES : 0, pushed = count;
        if (function->state == UNSEEN)
            function->state = OPEN;
        for (size_t i = 0; i < function->callees.count; i++) {
            struct tsr_function_load *callee = &load->functions.data[follow_alias(load, function->callees.data[i])];
            if (callee->state == UNSEEN) {
                stack[count++] = (uint32_t)(callee - load->functions.data);
                break;
            }
            uint32_t depth = callee->state == OPEN ? DYNAMIC_DEPTH_BYTES : callee->depth; /* OPEN: recursive */
            deepest = depth > deepest ? depth : deepest;
        }
        if (count > pushed)
            continue;
        uint64_t total = (uint64_t)(function->out ? function->out->local_bytes : 0) + deepest;
        function->depth = total > 1u << 28 ? 1u << 28 : (uint32_t)total;
        function->state = DONE;
        if (function->out)
            function->out->local_depth_bytes = function->depth;
        count--;
    }
}

void tsr_layout_module(struct tsr_load *load)
{
    uint32_t count = (uint32_t)load->functions.count;
    for (size_t i = 0; i < load->call_lines.count; i++)
        complete_call(load, &load->call_lines.data[i]);
    uint32_t *stack = tsr_load_new(load, &load->module, uint32_t, count + 1);
    struct walk walk = {.stack = stack};
    place_common_shared(load);
    for (uint32_t i = 0; i < count; i++)
        if (load->functions.data[i].out && load->functions.data[i].entry)
            lay_out_entry(load, &walk, i);
        else if (load->functions.data[i].out)
            patch_shared(load, &load->functions.data[i], 0);
    for (uint32_t i = 0; i < count; i++)
        load->functions.data[i].state = UNSEEN;
    for (uint32_t i = 0; i < count; i++)
        if (load->functions.data[i].state == UNSEEN)
            measure_depth(load, stack, i);
}
