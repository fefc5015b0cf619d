/* Operations of the semantics table: destination and sources are registers; and mov, whose operands may also be vectors and addresses. */
#include "decode.h"

/* The condition code is a predicate of the function. */
static uint32_t carry_register(struct tsr_load *load)
{
    if (load->carry == TSR_NO_REG)
        load->carry = tsr_draft_temp(load, 0);
    return load->carry;
}

/* f32x2: a pair of .f32 in a 64-bit register; done half by half. */
static void decode_pair(struct tsr_load *load, struct tsr_opcode *opcode, const struct tsr_statement *statement)
{
    const struct tsr_operand *operands = statement->operands;
    const struct tsr_op *op = opcode->op2, *pack = tsr_decode_op(load, statement, "tsr.pack.b64.b32x2");
    if (!op)
        op = opcode->op2 = tsr_decode_op(load, statement, "%.*s", (int)opcode->name->length - 2, opcode->name->text);
    tsr_decode_count(load, statement, op->sources + 1u, op->sources + 1u);
    uint32_t sources[4], halves[2];
    for (uint32_t i = 0; i < op->sources && i < 4; i++)
        sources[i] = tsr_decode_source(load, &operands[i + 1], TSR_T_B64);
    for (uint32_t half = 0; half < 2; half++) {
        uint32_t parts[4];
        for (uint32_t i = 0; i < op->sources && i < 4; i++) {
            parts[i] = tsr_draft_temp(load, 4);
            struct tsr_draft_insn *insn = tsr_draft_add(load, tsr_decode_op(load, statement, "tsr.unpack.b64.b32.%u", half));
            tsr_draft_def(insn, TSR_F_DST, parts[i]);
            tsr_draft_use(insn, TSR_F_A, sources[i]);
        }
        halves[half] = tsr_draft_temp(load, 4);
        struct tsr_draft_insn *insn = tsr_draft_add(load, op);
        tsr_draft_def(insn, TSR_F_DST, halves[half]);
        for (uint32_t i = 0; i < op->sources && i < 4; i++)
            tsr_draft_use(insn, TSR_F_A + i, parts[i]);
    }
    struct tsr_target target = tsr_decode_target(load, &operands[0], TSR_T_B64);
    struct tsr_draft_insn *insn = tsr_draft_add(load, pack);
    tsr_draft_def(insn, TSR_F_DST, target.reg);
    tsr_draft_use(insn, TSR_F_A, halves[0]);
    tsr_draft_use(insn, TSR_F_B, halves[1]);
}

/* add, sub, fma with .f32.f16 or .f32.bf16: what is multiplied or comes first is converted, which is exact. */
static bool is_mixed(const struct tsr_opcode *opcode)
{
    static const char *const mnemonics[] = {"add", "sub", "fma"};
    bool types = opcode->type_count == 2 && opcode->types[0] == TSR_T_F32 &&
                 (opcode->types[1] == TSR_T_F16 || opcode->types[1] == TSR_T_BF16);
    for (size_t i = 0; types && i < sizeof mnemonics / sizeof *mnemonics; i++)
        if (tsr_word_is(opcode->part[0], mnemonics[i]))
            return true;
    return false;
}

static void decode_mixed(struct tsr_load *load, struct tsr_opcode *opcode, const struct tsr_statement *statement)
{
    struct tsr_word last = opcode->part[opcode->part_count - 1];
    const struct tsr_op *convert = tsr_decode_op(load, statement, "cvt.f32.%.*s", (int)last.length, last.text);
    if (!opcode->op2)
        opcode->op2 = tsr_decode_op(load, statement, "%.*s", (int)(opcode->name->length - last.length - 1), opcode->name->text);
    const struct tsr_op *op = opcode->op2;
    tsr_decode_count(load, statement, op->sources + 1u, op->sources + 1u);
    uint32_t sources[4];
    for (uint32_t i = 0; i + 1 < op->sources; i++) {
        uint32_t narrow = tsr_decode_source(load, &statement->operands[i + 1], opcode->types[1]);
        sources[i] = tsr_draft_temp(load, 4);
        struct tsr_draft_insn *insn = tsr_draft_add(load, convert);
        tsr_draft_def(insn, TSR_F_DST, sources[i]);
        tsr_draft_use(insn, TSR_F_A, narrow);
    }
    sources[op->sources - 1] = tsr_decode_source(load, &statement->operands[op->sources], TSR_T_F32);
    struct tsr_target target = tsr_decode_target(load, &statement->operands[0], TSR_T_F32);
    struct tsr_draft_insn *insn = tsr_draft_add(load, op);
    tsr_draft_def(insn, TSR_F_DST, target.reg);
    for (uint32_t i = 0; i < op->sources; i++)
        tsr_draft_use(insn, TSR_F_A + i, sources[i]);
    tsr_decode_finish(load, &target);
}

static bool is_pair(const struct tsr_opcode *opcode)
{
    return opcode->part_count > 1 && tsr_word_is(opcode->part[opcode->part_count - 1], "f32x2");
}

static const struct tsr_op *find_op(struct tsr_load *load, struct tsr_opcode *opcode, const struct tsr_statement *statement)
{
    const char *text = opcode->name->text;
    const struct tsr_op *op = tsr_op_find(text, opcode->name->length);
    if (!op || !(op->flags & TSR_OP_LANE))
        tsr_decode_unsupported(load, statement);
    return op;
}

/* min and max of three operands have keys of their own. */
static bool has_three_sources(const struct tsr_opcode *opcode, const struct tsr_statement *statement)
{
    return statement->operand_count == 4 && (tsr_word_is(opcode->part[0], "min") || tsr_word_is(opcode->part[0], "max"));
}

static void decode_with(struct tsr_load *load, const struct tsr_op *op, const struct tsr_statement *statement, bool reads_carry,
                        bool writes_carry)
{
    uint32_t sources[4], written = op->sources - (reads_carry ? 1u : 0u);
    const struct tsr_operand *operands = statement->operands;
    tsr_decode_count(load, statement, written + 1, written + 1);
    for (uint32_t i = 0; i < written && i < 4; i++)
        sources[i] = tsr_decode_source(load, &operands[i + 1], op->src_type[i]);
    if (reads_carry)
        sources[written] = carry_register(load);
    if (operands[0].second && (!(op->flags & TSR_OP_DST2) || writes_carry))
        tsr_decode_fail(load, statement, operands[0].second, "one destination");
    struct tsr_target target = tsr_decode_target(load, &operands[0], op->dst_type);
    struct tsr_target second = {TSR_NO_REG, TSR_NO_REG, op->dst_type};
    if (operands[0].second)
        second = tsr_decode_target_or_none(load, operands[0].second, op->dst_type);
    if (writes_carry)
        second.reg = carry_register(load);
    struct tsr_draft_insn *insn = tsr_draft_add(load, op);
    tsr_draft_def(insn, TSR_F_DST, target.reg);
    tsr_draft_def(insn, TSR_F_DST2, second.reg);
    for (uint32_t i = 0; i < op->sources && i < 4; i++)
        tsr_draft_use(insn, TSR_F_A + i, sources[i]);
    tsr_decode_finish(load, &target);
    tsr_decode_finish(load, &second);
}

/* lop3.{or,and}.b32 d|p, a, b, c, table, q: the table is no register here. */
static void decode_lop3(struct tsr_load *load, const struct tsr_op *op, const struct tsr_statement *statement)
{
    tsr_decode_count(load, statement, 6, 6);
    const struct tsr_operand *operands = statement->operands;
    if (!operands[0].second || operands[4].kind != TSR_OPERAND_NUMBER)
        tsr_decode_fail(load, statement, &operands[0], "d|p, a, b, c, table, q");
    uint32_t sources[4];
    for (uint32_t i = 0; i < 3; i++)
        sources[i] = tsr_decode_source(load, &operands[i + 1], TSR_T_B32);
    sources[3] = tsr_decode_predicate(load, &operands[5], NULL);
    struct tsr_target target = tsr_decode_target_or_none(load, &operands[0], TSR_T_B32);
    struct tsr_target second = tsr_decode_target(load, operands[0].second, TSR_T_PRED);
    struct tsr_draft_insn *insn = tsr_draft_add(load, op);
    tsr_draft_def(insn, TSR_F_DST, target.reg);
    tsr_draft_def(insn, TSR_F_DST2, second.reg);
    for (uint32_t i = 0; i < 4; i++)
        tsr_draft_use(insn, TSR_F_A + i, sources[i]);
    insn->imm = (int64_t)(operands[4].number.bits & 0xff);
    tsr_decode_finish(load, &target);
}

void tsr_decode_lane(struct tsr_load *load, struct tsr_opcode *opcode, const struct tsr_statement *statement)
{
    if (has_three_sources(opcode, statement)) {
        const struct tsr_op *op =
            opcode->op2 ? opcode->op2
                        : tsr_decode_op(load, statement, "tsr.%.3s3%s", opcode->name->text, opcode->name->text + 3);
        opcode->op2 = op;
        decode_with(load, op, statement, false, false);
        return;
    }
    if (is_pair(opcode) || is_mixed(opcode)) {
        (is_pair(opcode) ? decode_pair : decode_mixed)(load, opcode, statement);
        return;
    }
    if (!opcode->op) {
        opcode->op = find_op(load, opcode, statement);
        opcode->writes_carry = tsr_opcode_has(opcode, "cc");
        opcode->reads_carry = tsr_word_is(opcode->part[0], "addc") || tsr_word_is(opcode->part[0], "subc") ||
                              tsr_word_is(opcode->part[0], "madc");
        opcode->is_lop3 = tsr_word_is(opcode->part[0], "lop3") && opcode->part_count > 2;
    }
    if (opcode->is_lop3)
        decode_lop3(load, opcode->op, statement);
    else
        decode_with(load, opcode->op, statement, opcode->reads_carry, opcode->writes_carry);
}

static uint8_t part_type(uint32_t bytes)
{
    return bytes == 1 ? TSR_T_B8 : bytes == 2 ? TSR_T_B16 : bytes == 4 ? TSR_T_B32 : TSR_T_B64;
}

static uint32_t require_parts(struct tsr_load *load, const struct tsr_statement *statement, const struct tsr_operand *vector,
                              uint32_t bytes)
{
    if ((vector->count != 2 && vector->count != 4) || bytes / vector->count == 0 || bytes % vector->count)
        tsr_decode_fail(load, statement, vector, "a vector of 2 or 4 elements that together have the type's size");
    return bytes / vector->count;
}

/* .b128: two registers side by side. */
static void move_halves(struct tsr_load *load, const struct tsr_statement *statement, const uint32_t to[2],
                        const uint32_t from[2])
{
    const struct tsr_op *op = tsr_decode_op(load, statement, "mov.b64");
    for (unsigned i = 0; i < 2; i++) {
        struct tsr_draft_insn *insn = tsr_draft_add(load, op);
        tsr_draft_def(insn, TSR_F_DST, to[i]);
        tsr_draft_use(insn, TSR_F_A, from[i]);
    }
}

static void read_halves(struct tsr_load *load, const struct tsr_statement *statement, const struct tsr_operand *operand,
                        bool written, uint32_t out[2])
{
    if (operand->kind == TSR_OPERAND_REGISTER && load->register_types.data[operand->id] == TSR_T_B128) {
        out[0] = operand->id;
        out[1] = operand->id + 1;
        return;
    }
    if (operand->kind != TSR_OPERAND_VECTOR || operand->count != 2)
        tsr_decode_fail(load, statement, operand, "a .b128 register or a vector of two .b64");
    for (unsigned i = 0; i < 2; i++)
        out[i] = written ? tsr_decode_target(load, &operand->elements[i], TSR_T_B64).reg
                         : tsr_decode_source(load, &operand->elements[i], TSR_T_B64);
}

static void pack(struct tsr_load *load, const struct tsr_statement *statement, uint32_t bytes)
{
    const struct tsr_operand *vector = &statement->operands[1];
    uint32_t part = require_parts(load, statement, vector, bytes), sources[4];
    const struct tsr_op *op = tsr_decode_op(load, statement, "tsr.pack.b%u.b%ux%u", bytes * 8, part * 8, vector->count);
    for (uint32_t i = 0; i < vector->count; i++)
        sources[i] = tsr_decode_source(load, &vector->elements[i], part_type(part));
    struct tsr_target target = tsr_decode_target(load, &statement->operands[0], part_type(bytes));
    struct tsr_draft_insn *insn = tsr_draft_add(load, op);
    tsr_draft_def(insn, TSR_F_DST, target.reg);
    for (uint32_t i = 0; i < vector->count; i++)
        tsr_draft_use(insn, TSR_F_A + i, sources[i]);
    tsr_decode_finish(load, &target);
}

static void unpack(struct tsr_load *load, const struct tsr_statement *statement, uint32_t bytes)
{
    const struct tsr_operand *vector = &statement->operands[0];
    uint32_t part = require_parts(load, statement, vector, bytes);
    uint32_t source = tsr_decode_source(load, &statement->operands[1], part_type(bytes));
    for (uint32_t i = 0; i < vector->count; i++) {
        struct tsr_target target = tsr_decode_target_or_none(load, &vector->elements[i], part_type(part));
        if (target.reg == TSR_NO_REG)
            continue;
        const struct tsr_op *op = tsr_decode_op(load, statement, "tsr.unpack.b%u.b%u.%u", bytes * 8, part * 8, i);
        struct tsr_draft_insn *insn = tsr_draft_add(load, op);
        tsr_draft_def(insn, TSR_F_DST, target.reg);
        tsr_draft_use(insn, TSR_F_A, source);
        tsr_decode_finish(load, &target);
    }
}

void tsr_decode_mov(struct tsr_load *load, struct tsr_opcode *opcode, const struct tsr_statement *statement)
{
    tsr_decode_count(load, statement, 2, 2);
    if (opcode->type_count != 1)
        tsr_decode_unsupported(load, statement);
    const struct tsr_operand *operands = statement->operands;
    uint8_t type = opcode->types[0];
    uint32_t bytes = tsr_type_bytes[type];
    if (bytes == 16) {
        uint32_t to[2], from[2];
        read_halves(load, statement, &operands[1], false, from);
        read_halves(load, statement, &operands[0], true, to);
        move_halves(load, statement, to, from);
    } else if (operands[1].kind == TSR_OPERAND_VECTOR) {
        pack(load, statement, bytes);
    } else if (operands[0].kind == TSR_OPERAND_VECTOR) {
        unpack(load, statement, bytes);
    } else if (operands[1].kind == TSR_OPERAND_NAME && operands[0].kind == TSR_OPERAND_REGISTER) {
        uint32_t reg = tsr_decode_special(load, &operands[1], operands[0].id);
        if (reg != operands[0].id)
            tsr_decode_convert(load, operands[0].id, reg, TSR_T_B32);
    } else {
        tsr_decode_lane(load, opcode, statement);
    }
}
