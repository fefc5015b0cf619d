/* Branches, barriers and warp-wide operations. Conventions: exec/op_keys.md. */
#include <string.h>

#include "../isa/operands.h"
#include "decode.h"

static const struct tsr_op *fixed_op(struct tsr_load *load, struct tsr_opcode *opcode, const struct tsr_statement *statement,
                                     const char *key)
{
    if (!opcode->op)
        opcode->op = tsr_decode_op(load, statement, "%s", key);
    return opcode->op;
}

static struct tsr_label *find_label(struct tsr_load *load, const struct tsr_statement *statement,
                                    const struct tsr_ptx_name *name, uint32_t scope, uint32_t column)
{
    struct tsr_label *label = tsr_label_find(load, name, scope);
    if (!label)
        tsr_load_fail(load, CUDA_ERROR_INVALID_PTX, statement->line, column, "label '%s' is not defined in this scope",
                      name->text);
    return label;
}

void tsr_decode_branch(struct tsr_load *load, struct tsr_opcode *opcode, const struct tsr_statement *statement)
{
    tsr_decode_count(load, statement, 1, 1);
    const struct tsr_operand *target = &statement->operands[0];
    if (!target->name || target->component)
        tsr_decode_fail(load, statement, target, "a label");
    const struct tsr_label *label = find_label(load, statement, target->name, statement->scope, target->column);
    tsr_draft_add(load, fixed_op(load, opcode, statement, "bra"))->label = label->id;
}

void tsr_decode_branch_table(struct tsr_load *load, struct tsr_opcode *opcode, const struct tsr_statement *statement)
{
    tsr_decode_count(load, statement, 2, 2);
    const struct tsr_operand *list = &statement->operands[1];
    if (!tsr_opcode_has(opcode, "idx"))
        tsr_decode_unsupported(load, statement);
    if (list->kind != TSR_OPERAND_SYMBOL || list->symbol->kind != TSR_SYMBOL_TARGETS)
        tsr_decode_fail(load, statement, list, "the name of a .branchtargets list");
    const struct tsr_ptx_symbol *symbol = list->symbol;
    const struct tsr_label **labels = tsr_load_new(load, &load->scratch, const struct tsr_label *, symbol->count);
    for (uint32_t i = 0; i < symbol->count; i++)
        labels[i] = find_label(load, statement, symbol->targets[i], symbol->id, list->column);
    uint32_t index = tsr_decode_source(load, &statement->operands[0], TSR_T_U32);
    struct tsr_draft_insn *insn = tsr_draft_add(load, fixed_op(load, opcode, statement, "brx.idx"));
    tsr_draft_use(insn, TSR_F_A, index);
    struct tsr_branch_table *table = tsr_load_new(load, load->keep, struct tsr_branch_table, 1);
    table->count = symbol->count;
    insn = &load->draft->insns.data[load->draft->insns.count - 1];
    insn->aux = table;
    insn->table = labels;
}

/* No operands that matter: what only orders memory or hints has nothing to do here. */
void tsr_decode_plain(struct tsr_load *load, struct tsr_opcode *opcode, const struct tsr_statement *statement)
{
    static const char *const kept[] = {"ret", "exit", "trap"};
    const char *key = "nop";
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (tsr_word_is(opcode->part[0], kept[i]))
            key = kept[i];
    if (tsr_word_is(opcode->part[0], "membar") || tsr_word_is(opcode->part[0], "fence"))
        key = "fence";
    if (*key == 'r' && load->functions.data[load->function].entry)
        key = "exit";
    else if (*key == 'r')
        tsr_decode_register_results(load);
    const struct tsr_op *op =
        *key == 'r' || *key == 'e' ? tsr_decode_op(load, statement, "%s", key) : fixed_op(load, opcode, statement, key);
    tsr_draft_add(load, op);
}

/* ---- barriers ---- */

static void bar_operands(struct tsr_load *load, const struct tsr_statement *statement, const struct tsr_op *op, uint32_t first,
                         uint32_t last)
{
    struct tsr_function_load *function = &load->functions.data[load->function];
    const struct tsr_operand *operands = statement->operands;
    uint32_t barrier = TSR_NO_REG, threads = TSR_NO_REG;
    int64_t number = 0;
    if (first < last && operands[first].kind == TSR_OPERAND_NUMBER)
        number = (int64_t)operands[first].number.bits;
    else if (first < last)
        barrier = tsr_decode_source(load, &operands[first], TSR_T_U32);
    if (number < 0 || number > 15)
        tsr_decode_fail(load, statement, &operands[first], "a barrier from 0 to 15");
    if (first + 1 < last)
        threads = tsr_decode_source(load, &operands[first + 1], TSR_T_U32);
    function->uses_barriers = true;
    uint32_t highest = barrier == TSR_NO_REG ? (uint32_t)number : 15;
    if (highest > function->max_barrier)
        function->max_barrier = highest;
    struct tsr_draft_insn *insn = tsr_draft_add(load, op);
    tsr_draft_use(insn, TSR_F_A, barrier);
    tsr_draft_use(insn, TSR_F_B, threads);
    insn->imm = number;
}

static void bar_reduce(struct tsr_load *load, const struct tsr_opcode *opcode, const struct tsr_statement *statement)
{
    static const char *const operations[] = {"popc", "and", "or"};
    const struct tsr_op *op = NULL;
    bool popc = tsr_opcode_has(opcode, "popc"), inverted = false;
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        if (tsr_opcode_has(opcode, operations[i]))
            op = tsr_decode_op(load, statement, "bar.red.%s", operations[i]);
    if (!op)
        tsr_decode_unsupported(load, statement);
    tsr_decode_count(load, statement, 3, 4);
    uint32_t source = tsr_decode_predicate(load, &statement->operands[statement->operand_count - 1], &inverted);
    struct tsr_target target = tsr_decode_target(load, &statement->operands[0], popc ? TSR_T_U32 : TSR_T_PRED);
    bar_operands(load, statement, op, 1, statement->operand_count - 1);
    struct tsr_draft_insn *insn = &load->draft->insns.data[load->draft->insns.count - 1];
    tsr_draft_def(insn, TSR_F_DST, target.reg);
    tsr_draft_use(insn, TSR_F_C, source);
    insn->flags |= inverted ? TSR_SOURCE_NOT : 0;
    tsr_decode_finish(load, &target);
}

void tsr_decode_bar(struct tsr_load *load, struct tsr_opcode *opcode, const struct tsr_statement *statement)
{
    if (tsr_opcode_has(opcode, "cluster")) {
        bool wait = tsr_opcode_has(opcode, "wait");
        tsr_decode_count(load, statement, 0, 0);
        tsr_draft_add(load, fixed_op(load, opcode, statement, wait ? "barrier.cluster.wait" : "barrier.cluster.arrive"));
    } else if (tsr_opcode_has(opcode, "warp")) {
        tsr_decode_count(load, statement, 1, 1);
        uint32_t mask = tsr_decode_source(load, &statement->operands[0], TSR_T_B32);
        tsr_draft_use(tsr_draft_add(load, fixed_op(load, opcode, statement, "bar.warp.sync")), TSR_F_A, mask);
    } else if (tsr_opcode_has(opcode, "red")) {
        bar_reduce(load, opcode, statement);
    } else {
        bool arrive = tsr_opcode_has(opcode, "arrive");
        if (!arrive && !tsr_opcode_has(opcode, "sync"))
            tsr_decode_unsupported(load, statement);
        tsr_decode_count(load, statement, arrive ? 2 : 0, 2);
        bar_operands(load, statement, fixed_op(load, opcode, statement, arrive ? "bar.arrive" : "bar.sync"), 0,
                     statement->operand_count);
    }
}

void tsr_decode_nanosleep(struct tsr_load *load, struct tsr_opcode *opcode, const struct tsr_statement *statement)
{
    tsr_decode_count(load, statement, 1, 1);
    uint32_t time = tsr_decode_source(load, &statement->operands[0], TSR_T_U32);
    tsr_draft_use(tsr_draft_add(load, fixed_op(load, opcode, statement, "nanosleep")), TSR_F_A, time);
}

/* ---- warp-wide ---- */

static uint32_t mask_of(struct tsr_load *load, const struct tsr_opcode *opcode, const struct tsr_statement *statement,
                        uint32_t usual)
{
    bool sync = tsr_opcode_has(opcode, "sync");
    tsr_decode_count(load, statement, usual + sync, usual + sync);
    return sync ? tsr_decode_source(load, &statement->operands[usual], TSR_T_B32) : TSR_NO_REG;
}

void tsr_decode_shfl(struct tsr_load *load, struct tsr_opcode *opcode, const struct tsr_statement *statement)
{
    static const char *const modes[] = {"up", "down", "bfly", "idx"};
    for (size_t i = 0; i < sizeof modes / sizeof *modes && !opcode->op; i++)
        if (tsr_opcode_has(opcode, modes[i]))
            opcode->op = tsr_decode_op(load, statement, "shfl.%s", modes[i]);
    if (!opcode->op)
        tsr_decode_unsupported(load, statement);
    uint32_t mask = mask_of(load, opcode, statement, 4);
    const struct tsr_operand *operands = statement->operands;
    uint32_t value = tsr_decode_source(load, &operands[1], TSR_T_B32), lane = tsr_decode_source(load, &operands[2], TSR_T_B32);
    uint32_t clamp = tsr_decode_source(load, &operands[3], TSR_T_B32);
    struct tsr_target target = tsr_decode_target(load, &operands[0], TSR_T_B32);
    struct tsr_target valid = {TSR_NO_REG, TSR_NO_REG, TSR_T_PRED};
    if (operands[0].second)
        valid = tsr_decode_target_or_none(load, operands[0].second, TSR_T_PRED);
    struct tsr_draft_insn *insn = tsr_draft_add(load, opcode->op);
    tsr_draft_def(insn, TSR_F_DST, target.reg);
    tsr_draft_def(insn, TSR_F_DST2, valid.reg);
    tsr_draft_use(insn, TSR_F_A, value);
    tsr_draft_use(insn, TSR_F_B, lane);
    tsr_draft_use(insn, TSR_F_C, clamp);
    tsr_draft_use(insn, TSR_F_D, mask);
    tsr_decode_finish(load, &target);
}

void tsr_decode_vote(struct tsr_load *load, struct tsr_opcode *opcode, const struct tsr_statement *statement)
{
    static const char *const modes[] = {"all", "any", "uni", "ballot"};
    for (size_t i = 0; i < sizeof modes / sizeof *modes && !opcode->op; i++)
        if (tsr_opcode_has(opcode, modes[i]))
            opcode->op = tsr_decode_op(load, statement, "vote.%s", modes[i]);
    if (!opcode->op)
        tsr_decode_unsupported(load, statement);
    bool inverted = false;
    uint32_t mask = mask_of(load, opcode, statement, 2);
    uint32_t source = tsr_decode_predicate(load, &statement->operands[1], &inverted);
    struct tsr_target target =
        tsr_decode_target(load, &statement->operands[0], tsr_opcode_has(opcode, "ballot") ? TSR_T_B32 : TSR_T_PRED);
    struct tsr_draft_insn *insn = tsr_draft_add(load, opcode->op);
    tsr_draft_def(insn, TSR_F_DST, target.reg);
    tsr_draft_use(insn, TSR_F_A, source);
    tsr_draft_use(insn, TSR_F_D, mask);
    insn->flags |= inverted ? TSR_SOURCE_NOT : 0;
    tsr_decode_finish(load, &target);
}

void tsr_decode_match(struct tsr_load *load, struct tsr_opcode *opcode, const struct tsr_statement *statement)
{
    uint8_t type = opcode->type_count ? opcode->types[0] : TSR_T_NONE;
    if (type != TSR_T_B32 && type != TSR_T_B64)
        tsr_decode_unsupported(load, statement);
    if (!opcode->op)
        opcode->op = tsr_decode_op(load, statement, "match.%s.b%u", tsr_opcode_has(opcode, "all") ? "all" : "any",
                                   tsr_type_bytes[type] * 8u);
    uint32_t mask = mask_of(load, opcode, statement, 2);
    uint32_t source = tsr_decode_source(load, &statement->operands[1], type);
    struct tsr_target target = tsr_decode_target(load, &statement->operands[0], TSR_T_B32);
    struct tsr_target all = {TSR_NO_REG, TSR_NO_REG, TSR_T_PRED};
    if (statement->operands[0].second)
        all = tsr_decode_target_or_none(load, statement->operands[0].second, TSR_T_PRED);
    struct tsr_draft_insn *insn = tsr_draft_add(load, opcode->op);
    tsr_draft_def(insn, TSR_F_DST, target.reg);
    tsr_draft_def(insn, TSR_F_DST2, all.reg);
    tsr_draft_use(insn, TSR_F_A, source);
    tsr_draft_use(insn, TSR_F_D, mask);
    tsr_decode_finish(load, &target);
}

void tsr_decode_redux(struct tsr_load *load, struct tsr_opcode *opcode, const struct tsr_statement *statement)
{
    if (!opcode->op) { /* the key is the opcode without .sync */
        char key[64] = "redux";
        size_t length = 5;
        for (uint32_t i = 1; i < opcode->part_count; i++) {
            struct tsr_word part = opcode->part[i];
            if (tsr_word_is(part, "sync") || length + part.length + 2 > sizeof key)
                continue;
            key[length++] = '.';
            memcpy(key + length, part.text, part.length);
            length += part.length;
        }
        opcode->op = tsr_decode_op(load, statement, "%.*s", (int)length, key);
    }
    uint8_t type = opcode->type_count ? opcode->types[0] : TSR_T_B32;
    uint32_t mask = mask_of(load, opcode, statement, 2);
    uint32_t source = tsr_decode_source(load, &statement->operands[1], type);
    struct tsr_target target = tsr_decode_target(load, &statement->operands[0], type);
    struct tsr_draft_insn *insn = tsr_draft_add(load, opcode->op);
    tsr_draft_def(insn, TSR_F_DST, target.reg);
    tsr_draft_use(insn, TSR_F_A, source);
    tsr_draft_use(insn, TSR_F_D, mask);
    tsr_decode_finish(load, &target);
}

void tsr_decode_activemask(struct tsr_load *load, struct tsr_opcode *opcode, const struct tsr_statement *statement)
{
    tsr_decode_count(load, statement, 1, 1);
    struct tsr_target target = tsr_decode_target(load, &statement->operands[0], TSR_T_B32);
    tsr_draft_def(tsr_draft_add(load, fixed_op(load, opcode, statement, "activemask")), TSR_F_DST, target.reg);
    tsr_decode_finish(load, &target);
}

void tsr_decode_elect(struct tsr_load *load, struct tsr_opcode *opcode, const struct tsr_statement *statement)
{
    uint32_t mask = mask_of(load, opcode, statement, 1);
    const struct tsr_operand *first = &statement->operands[0];
    if (!first->second)
        tsr_decode_fail(load, statement, first, "d|p as destination");
    struct tsr_target leader = tsr_decode_target_or_none(load, first, TSR_T_B32);
    struct tsr_target elected = tsr_decode_target(load, first->second, TSR_T_PRED);
    struct tsr_draft_insn *insn = tsr_draft_add(load, fixed_op(load, opcode, statement, "elect"));
    tsr_draft_def(insn, TSR_F_DST, leader.reg);
    tsr_draft_def(insn, TSR_F_DST2, elected.reg);
    tsr_draft_use(insn, TSR_F_D, mask);
    tsr_decode_finish(load, &leader);
}
