/* Atomics; a reduction is an atomic without destination. Conventions: exec/op_keys.md. */
#include <string.h>

#include "../isa/operands.h"
#include "decode.h"

static const char *const operations[] = {"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"};

/* How the type is spelled in keys: signedness only matters to min and max. */
static const char *type_name(uint8_t type, const char *operation)
{
    bool ordered = *operation == 'm', bits = strchr("aoxec", *operation) && strcmp(operation, "add") != 0;
    switch (type) {
    case TSR_T_S32:
        return ordered ? "s32" : bits ? "b32" : "u32";
    case TSR_T_U32:
        return bits ? "b32" : "u32";
    case TSR_T_B32:
        return "b32";
    case TSR_T_S64:
        return ordered ? "s64" : bits ? "b64" : "u64";
    case TSR_T_U64:
        return bits ? "b64" : "u64";
    case TSR_T_B64:
        return "b64";
    case TSR_T_F32:
        return bits ? "b32" : "f32";
    case TSR_T_F64:
        return bits ? "b64" : "f64";
    case TSR_T_F16:
        return "f16";
    case TSR_T_BF16:
        return "bf16";
    case TSR_T_F16X2:
        return "f16x2";
    case TSR_T_BF16X2:
        return "bf16x2";
    case TSR_T_B16:
        return "b16";
    case TSR_T_B128:
        return "b128";
    default:
        return "";
    }
}

/* `.noftz`, scopes and cache hints are dropped. */
static const struct tsr_op *find_op(struct tsr_load *load, const struct tsr_opcode *opcode,
                                    const struct tsr_statement *statement)
{
    static const char *const spaces[] = {
        [TSR_SPACE_GLOBAL] = "global", [TSR_SPACE_SHARED] = "shared", [TSR_SPACE_GENERIC] = "generic"};
    const char *operation = NULL;
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        if (tsr_opcode_has(opcode, operations[i]))
            operation = operations[i];
    if (!operation || !opcode->type_count || opcode->space == TSR_SPACE_PARAM || opcode->space == TSR_SPACE_LOCAL ||
        opcode->space == TSR_SPACE_CONST || tsr_opcode_has(opcode, "async"))
        tsr_decode_unsupported(load, statement);
    const char *type = type_name(opcode->types[0], operation);
    if (opcode->vector)
        return tsr_decode_op(load, statement, "atom.%s.%s.v%u.%s", spaces[opcode->space], operation, opcode->vector, type);
    return tsr_decode_op(load, statement, "atom.%s.%s.%s", spaces[opcode->space], operation, type);
}

static void put_address(struct tsr_draft_insn *insn, const struct tsr_ptx_address *address)
{
    tsr_draft_use(insn, TSR_F_A, address->reg);
    insn->imm = address->imm;
    insn->flags |= address->flags;
}

static uint32_t element(struct tsr_load *load, const struct tsr_operand *operand, uint32_t i, uint8_t type, bool written)
{
    const struct tsr_statement *statement = load->draft->statement;
    if (type == TSR_T_B128) {
        if (written && operand->kind == TSR_OPERAND_SINK)
            return TSR_NO_REG;
        if (operand->kind != TSR_OPERAND_REGISTER || load->register_types.data[operand->id] != TSR_T_B128)
            tsr_decode_fail(load, statement, operand, "a .b128 register");
        return operand->id + i;
    }
    if (written && operand->kind == TSR_OPERAND_SINK)
        return TSR_NO_REG;
    if (operand->kind != TSR_OPERAND_VECTOR || i >= operand->count)
        tsr_decode_fail(load, statement, operand, "a vector of the instruction's size");
    if (!written)
        return tsr_decode_source(load, &operand->elements[i], type);
    struct tsr_target target = tsr_decode_target_or_none(load, &operand->elements[i], type);
    if (target.wide != TSR_NO_REG)
        tsr_decode_fail(load, statement, operand, "registers of the instruction's type");
    return target.reg;
}

/* Vectors and .b128: everything in the list. */
static void decode_list(struct tsr_load *load, const struct tsr_opcode *opcode, const struct tsr_operand *dst,
                        const struct tsr_operand *data, uint32_t data_count)
{
    uint8_t type = opcode->types[0];
    uint32_t width = type == TSR_T_B128 ? 2 : opcode->vector, count = 0;
    uint32_t *list = tsr_load_new(load, &load->scratch, uint32_t, width *(data_count + 1));
    for (uint32_t i = 0; i < width; i++)
        list[count++] = dst ? element(load, dst, i, type, true) : TSR_NO_REG;
    for (uint32_t k = 0; k < data_count; k++)
        for (uint32_t i = 0; i < width; i++)
            list[count++] = element(load, &data[k], i, type, false);
    struct tsr_ptx_address address = tsr_decode_address(load, data - 1, opcode->space);
    struct tsr_draft_insn *insn = tsr_draft_add(load, opcode->op);
    put_address(insn, &address);
    insn->list = list;
    insn->list_count = (uint16_t)count;
    insn->list_defs = (uint16_t)width;
}

void tsr_decode_atomic(struct tsr_load *load, struct tsr_opcode *opcode, const struct tsr_statement *statement)
{
    bool atom = *opcode->part[0].text == 'a', cas = tsr_opcode_has(opcode, "cas");
    const struct tsr_operand *operands = statement->operands;
    uint32_t first = atom ? 1 : 0, data = cas ? 2 : 1, hint = tsr_opcode_has(opcode, "L2::cache_hint") ? 1 : 0;
    if (!opcode->op)
        opcode->op = find_op(load, opcode, statement);
    tsr_decode_count(load, statement, first + 1 + data, first + 1 + data + hint);
    uint8_t type = opcode->types[0];
    if (opcode->vector || type == TSR_T_B128) {
        decode_list(load, opcode, atom ? &operands[0] : NULL, &operands[first + 1], data);
        return;
    }
    struct tsr_ptx_address address = tsr_decode_address(load, &operands[first], opcode->space);
    uint32_t b = tsr_decode_source(load, &operands[first + 1], type);
    uint32_t c = cas ? tsr_decode_source(load, &operands[first + 2], type) : TSR_NO_REG;
    struct tsr_target target = {TSR_NO_REG, TSR_NO_REG, type};
    if (atom)
        target = tsr_decode_target_or_none(load, &operands[0], type);
    struct tsr_draft_insn *insn = tsr_draft_add(load, opcode->op);
    put_address(insn, &address);
    tsr_draft_use(insn, TSR_F_B, b);
    tsr_draft_use(insn, TSR_F_C, c);
    tsr_draft_def(insn, TSR_F_DST, target.reg);
    tsr_decode_finish(load, &target);
}
