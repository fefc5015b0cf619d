/* From a draft to the final function: where registers and areas lie in the frame, and the instructions that name those places. */
#include <string.h>

#include "../isa/operands.h"
#include "decode.h"

struct frame {
    uint32_t *offset; /* by virtual register */
    uint32_t top;
};

static uint32_t slot_bytes(const struct tsr_load *load, uint32_t reg)
{
    uint32_t bytes = tsr_register_bytes(load, reg);
    return bytes ? bytes * 32 : 4;
}

static void align_frame(struct tsr_load *load, struct frame *frame)
{
    frame->top = (frame->top + 63) & ~63u;
    if (frame->top > 1u << 28)
        tsr_load_fail(load, CUDA_ERROR_INVALID_PTX, load->functions.data[load->function].line, 1,
                      "function needs more than 256 MiB of registers for one warp");
}

static void place_consts(struct tsr_load *load, struct frame *frame, struct tsr_function *function)
{
    const struct tsr_draft *draft = load->draft;
    struct tsr_const_reg *consts = tsr_load_new(load, load->keep, struct tsr_const_reg, draft->consts.count);
    static const uint32_t sizes[] = {8, 4, 2, 0};
    function->template_begin = frame->top;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (size_t i = 0; i < draft->consts.count; i++) {
            const struct tsr_draft_const *constant = &draft->consts.data[i];
            if (constant->bytes != sizes[s])
                continue;
            frame->offset[constant->reg] = frame->top;
            consts[i] = (struct tsr_const_reg){frame->top, constant->bytes, constant->value, constant->variable};
            frame->top += slot_bytes(load, constant->reg);
            if (constant->shared) {
                struct tsr_function_load *owner = &load->functions.data[load->function];
                tsr_load_push(load, &owner->shared, constant->shared - 1);
                tsr_load_push(load, &owner->shared_uses, (struct tsr_shared_use){(uint32_t)i, constant->shared - 1});
            }
        }
    align_frame(load, frame);
    function->template_end = frame->top;
    function->consts = consts;
    function->const_count = (uint32_t)draft->consts.count;
}

/* A copy whose two registers share a place, as most address conversions do, is nothing to execute. */
static bool is_idle_copy(const struct frame *frame, const struct tsr_draft_insn *insn)
{
    return insn->op->op_class == TSR_C_MOVE && (insn->op->flags & TSR_OP_LANE) && memcmp(insn->op->key, "mov.", 4) == 0 &&
           frame->offset[insn->field[TSR_F_DST]] == frame->offset[insn->field[TSR_F_A]];
}

static void finish_call(struct tsr_call *call, uint32_t areas)
{
    for (uint32_t i = 0; i < call->arg_count; i++)
        ((struct tsr_call_arg *)call->args)[i].caller_offset += areas;
    for (uint32_t i = 0; i < call->result_count; i++)
        ((struct tsr_call_arg *)call->results)[i].caller_offset += areas;
}

static void finish_insn(struct tsr_load *load, const struct frame *frame, const struct tsr_draft_insn *from,
                        struct tsr_insn *insns, uint32_t i, const uint32_t *index_of, uint32_t areas)
{
    uint32_t field[TSR_F_COUNT];
    for (unsigned f = 0; f < TSR_F_COUNT; f++) {
        unsigned bit = 1u << f;
        field[f] = (from->defs | from->uses) & bit ? frame->offset[from->field[f]]
                   : from->areas & bit             ? from->field[f] + areas
                                                   : from->field[f];
    }
    struct tsr_insn *to = &insns[i];
    *to = (struct tsr_insn){
        .run = from->op->run,
        .guard = from->guard == TSR_NO_REG ? TSR_NO_REG : frame->offset[from->guard],
        .flags = from->flags,
        .cycles = tsr_op_cycles(from->op, load->device),
        .dst = field[TSR_F_DST],
        .dst2 = field[TSR_F_DST2],
        .a = field[TSR_F_A],
        .b = field[TSR_F_B],
        .c = field[TSR_F_C],
        .d = field[TSR_F_D],
        .imm = from->imm,
        .op = from->op->number,
        .line = from->line,
    };
    if (from->table) {
        struct tsr_branch_table *table = from->aux;
        const struct tsr_insn **targets = tsr_load_new(load, load->keep, const struct tsr_insn *, table->count);
        for (uint32_t k = 0; k < table->count; k++)
            targets[k] = &insns[index_of[load->draft->label_insns[from->table[k]->id]]];
        table->targets = targets;
        to->aux = table;
    } else if (from->list) {
        uint32_t *list = tsr_load_new(load, load->keep, uint32_t, from->list_count);
        for (uint32_t k = 0; k < from->list_count; k++)
            list[k] = from->list[k] == TSR_NO_REG ? TSR_NO_REG : frame->offset[from->list[k]];
        to->list = list;
    } else if (from->label != TSR_NO_REG) {
        to->target = &insns[index_of[load->draft->label_insns[from->label]]];
    } else {
        to->aux = from->aux;
        if (from->is_call)
            finish_call(from->aux, areas);
    }
}

static void fill_header(struct tsr_load *load, const struct tsr_tuning *tuning, struct tsr_function *function)
{
    const struct tsr_function_load *from = &load->functions.data[load->function];
    const struct tsr_signature *signature = &from->signature;
    function->name = from->name->text;
    function->index = load->function;
    function->entry = from->entry;
    function->visible = from->visible;
    function->line = from->line;
    struct tsr_param *params = tsr_load_new(load, load->keep, struct tsr_param, signature->param_count);
    for (uint32_t i = 0; i < signature->param_count; i++)
        params[i] = signature->params[i].param;
    function->params = params;
    function->param_count = signature->param_count;
    function->param_bytes = signature->param_bytes;
    function->local_bytes = (uint32_t)((load->local_bytes + 15) & ~15ull);
    memcpy(function->max_threads, tuning->max_threads, sizeof function->max_threads);
    memcpy(function->required_threads, tuning->required_threads, sizeof function->required_threads);
    memcpy(function->cluster, tuning->cluster, sizeof function->cluster);
    function->min_blocks = tuning->min_blocks;
    function->explicit_cluster = tuning->explicit_cluster;
    function->uses_barriers = from->uses_barriers;
    function->max_barrier = from->max_barrier;
    function->calls = from->callees.count || from->calls_indirect;
}

/* What the compiler of the vendor may use per thread: the directives bound it, the device has 65536 per SM. */
static uint32_t bound_registers(const struct tsr_tuning *tuning, uint32_t live)
{
    uint32_t most = tuning->max_registers ? tuning->max_registers : 255, registers = live + 8;
    const uint32_t *threads = tuning->required_threads[0] ? tuning->required_threads : tuning->max_threads;
    uint64_t block = (uint64_t)threads[0] * threads[1] * threads[2] * (tuning->min_blocks ? tuning->min_blocks : 1);
    if (block && !tuning->max_registers && 65536 / block < most)
        most = (uint32_t)(65536 / block) & ~7u;
    registers = registers < most ? registers : most;
    return registers < 16 ? 16 : registers > 255 ? 255 : registers;
}

void tsr_place_function(struct tsr_load *load, const struct tsr_tuning *tuning, struct tsr_function *function)
{
    const struct tsr_draft *draft = load->draft;
    const struct tsr_signature *signature = &load->functions.data[load->function].signature;
    struct frame frame = {.offset = tsr_load_new(load, &load->scratch, uint32_t, load->register_types.count)};
    memset(frame.offset, 0xff, sizeof *frame.offset * load->register_types.count);
    place_consts(load, &frame, function);
    function->registers = bound_registers(tuning, tsr_liveness_place(load, frame.offset, &frame.top));
    align_frame(load, &frame);
    uint32_t areas = frame.top;
    function->params_area = function->results_area = areas;
    for (uint32_t i = 0; i < signature->param_count; i++)
        function->results_area += 32 * TSR_AREA_STRIDE(signature->params[i].param.bytes);
    frame.top += load->area_bytes;
    align_frame(load, &frame);
    function->frame_bytes = frame.top;
    uint32_t *index_of = tsr_load_new(load, &load->scratch, uint32_t, draft->insns.count + 1), count = 0;
    for (uint32_t i = 0; i < draft->insns.count; i++) {
        index_of[i] = count;
        count += !is_idle_copy(&frame, &draft->insns.data[i]);
    }
    index_of[draft->insns.count] = count;
    struct tsr_insn *insns = tsr_load_alloc(load, load->keep, sizeof *insns * count, 64);
    for (uint32_t i = 0; i < draft->insns.count; i++)
        if (index_of[i + 1] != index_of[i])
            finish_insn(load, &frame, &draft->insns.data[i], insns, index_of[i], index_of, areas);
    function->insns = insns;
    function->insn_count = count;
    fill_header(load, tuning, function);
}
