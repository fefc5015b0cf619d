/*
 * Calls and returns, and what belongs to a function's frame: parameter areas, its part of local memory.
 */
#include <string.h>

#include "groups.h"
#include "split.h"
#include "state.h"

typedef const struct tsr_insn insn;

/* Areas hold lane l's bytes at offset + l * stride. */
static uint32_t area_stride(uint32_t bytes)
{
    return (bytes + 15) & ~15u;
}
static uint32_t area_bytes(uint32_t bytes)
{
    return (area_stride(bytes) * TSR_WARP_LANES + 63) & ~63u;
}

static void copy_area(unsigned char *to, const unsigned char *from, uint32_t bytes, uint32_t m)
{
    uint32_t stride = area_stride(bytes);
    if (m == UINT32_MAX) {
        memcpy(to, from, (size_t)stride * TSR_WARP_LANES);
        return;
    }
    for (uint32_t rest = m; rest != 0; rest &= rest - 1) {
        size_t at = (size_t)__builtin_ctz(rest) * stride;
        memcpy(to + at, from + at, bytes);
    }
}

static bool results_fit(const struct tsr_call *call, const struct tsr_function *function)
{
    uint64_t end = function->params_area;
    for (uint32_t n = 0; n < call->arg_count; n++)
        end += area_bytes(call->args[n].bytes);
    if (end > function->frame_bytes)
        return false;
    end = function->results_area;
    for (uint32_t n = 0; n < call->result_count; n++)
        end += area_bytes(call->results[n].bytes);
    return end <= function->frame_bytes;
}

static insn *enter(struct tsr_warp *w, insn *i, uint32_t m, const struct tsr_function *function)
{
    struct tsr_warp_control *control = w->control;
    const struct tsr_call *call = i->call;
    struct tsr_frame *caller = control->frame;
    uint32_t local_base = (caller->local_base + caller->function->local_bytes + 15) & ~15u;
    if (!results_fit(call, function))
        return tsr_warp_fault(w, i, (unsigned)__builtin_ctz(m), TSR_FAULT_PC,
                              tsr_code_address(w->block->team->grid->code->window, function->index), 0, false);
    if ((size_t)(control->stack_end - control->stack_top) < sizeof *caller + function->frame_bytes ||
        local_base + function->local_bytes > w->local_stride)
        return tsr_warp_fault(w, i, (unsigned)__builtin_ctz(m), TSR_FAULT_STACK, 0, 0, true);

    struct tsr_frame *frame = (struct tsr_frame *)(void *)control->stack_top;
    *frame = (struct tsr_frame){.caller = caller,
                                .below = control->top_frame,
                                .function = function,
                                .call = call,
                                .return_to = i + 1,
                                .lanes = m,
                                .depth = caller->depth + 1,
                                .local_base = local_base};
    unsigned char *registers = (unsigned char *)(frame + 1);
    memcpy(registers + function->template_begin, function->frame_template + function->template_begin,
           function->template_end - function->template_begin);
    uint32_t area = function->params_area;
    for (uint32_t n = 0; n < call->arg_count; n++) {
        copy_area(registers + area, w->frame + call->args[n].caller_offset, call->args[n].bytes, m);
        area += area_bytes(call->args[n].bytes);
    }
    control->stack_top = registers + function->frame_bytes;
    control->top_frame = frame;
    uint32_t rest = w->active & ~m;
    if (rest != 0)
        tsr_split_add(w, caller, i + 1, rest, control->turn);
    control->frame = frame;
    w->frame = registers;
    w->active = m;
    w->latency_open = false;
    return w->others == 0 ? function->insns : tsr_split_select(w, function->insns);
}

static insn *call_direct(struct tsr_warp *w, insn *i, uint32_t m)
{
    return enter(w, i, m, &w->block->team->grid->code->functions[i->call->function]);
}

static insn *call_indirect(struct tsr_warp *w, insn *i, uint32_t m)
{
    const struct tsr_ptx_code *code = w->block->team->grid->code;
    const uint64_t *address = (const void *)(w->frame + i->a);
    unsigned lane = (unsigned)__builtin_ctz(m);
    uint64_t index = (address[lane] - code->window) / 16;
    if (address[lane] % 16 != 0 || index >= code->function_count || code->functions[index].entry ||
        code->functions[index].insn_count == 0)
        return tsr_warp_fault(w, i, lane, TSR_FAULT_PC, address[lane], 0, false);
    uint32_t same = 0;
    for (uint32_t l = lane; l < TSR_WARP_LANES; l++)
        if (m >> l & 1 && address[l] == address[lane])
            same |= 1u << l;
    uint32_t other = m & ~same;
    if (other != 0) {
        tsr_split_add(w, w->control->frame, i, other, w->control->turn);
        w->active &= ~other;
    }
    return enter(w, i, same, &code->functions[index]);
}

static insn *ret(struct tsr_warp *w, insn *i, uint32_t m)
{
    struct tsr_warp_control *control = w->control;
    struct tsr_frame *frame = control->frame, *caller = frame->caller;
    if (caller == NULL)
        return tsr_split_exit(w, i, m);
    const struct tsr_call *call = frame->call;
    uint32_t area = frame->function->results_area;
    for (uint32_t n = 0; n < call->result_count; n++) {
        copy_area((unsigned char *)(caller + 1) + call->results[n].caller_offset, w->frame + area, call->results[n].bytes, m);
        area += area_bytes(call->results[n].bytes);
    }
    insn *back = frame->return_to;
    uint32_t rest = w->active & ~m;
    w->latency_open = false;
    tsr_frames_leave(w, frame, m);
    if (rest != 0) {
        tsr_split_add(w, caller, back, m, control->turn);
        w->active = rest;
        return tsr_split_select(w, i + 1);
    }
    control->frame = caller;
    w->frame = (unsigned char *)(caller + 1);
    return w->others == 0 ? back : tsr_split_select(w, back);
}

static insn *local_address32(struct tsr_warp *w, insn *i, uint32_t m)
{
    uint32_t *d = (void *)(w->frame + i->dst), value = w->control->frame->local_base + (uint32_t)i->imm;
    for (unsigned l = 0; l < TSR_WARP_LANES; l++)
        d[l] = m >> l & 1 ? value : d[l];
    return i + 1;
}

static insn *local_address64(struct tsr_warp *w, insn *i, uint32_t m)
{
    uint64_t *d = (void *)(w->frame + i->dst), value = w->control->frame->local_base + (uint64_t)i->imm;
    for (unsigned l = 0; l < TSR_WARP_LANES; l++)
        d[l] = m >> l & 1 ? value : d[l];
    return i + 1;
}

static insn *param_address(struct tsr_warp *w, insn *i, uint32_t m)
{
    uint64_t *d = (void *)(w->frame + i->dst), offset = w->control->frame->local_base + (uint64_t)i->imm;
    if (offset > w->local_stride || w->local_stride - offset < i->b)
        return tsr_warp_fault(w, i, (unsigned)__builtin_ctz(m), TSR_FAULT_STACK, offset, i->b, true);
    for (uint32_t rest = m; rest != 0; rest &= rest - 1) {
        size_t l = (size_t)__builtin_ctz(rest);
        memcpy(w->local + l * w->local_stride + offset, w->frame + i->a + l * i->c, i->b);
        d[l] = TSR_LOCAL_WINDOW + offset;
    }
    return i + 1;
}

static const struct tsr_op ops[] = {
    TSR_OP_ROW("call", call_direct, TSR_C_CONTROL),
    TSR_OP_ROW("call.indirect", call_indirect, TSR_C_CONTROL),
    TSR_OP_ROW("ret", ret, TSR_C_CONTROL),
    TSR_OP_ROW("tsr.local_address.b32", local_address32, TSR_C_MOVE),
    TSR_OP_ROW("tsr.local_address.b64", local_address64, TSR_C_MOVE),
    TSR_OP_ROW("tsr.param_address", param_address, TSR_C_MOVE),
};
TSR_OP_GROUP(tsr_call_ops, ops);
