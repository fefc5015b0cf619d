/* See decode.h: what operands stand for, in registers of the width that the instruction wants. */
#include <string.h>

#include "base/format.h"
#include "decode.h"

/* ---- conversions between widths ---- */

void tsr_decode_convert(struct tsr_load *load, uint32_t to, uint32_t from, uint8_t type)
{
    uint32_t wide = tsr_register_bytes(load, to) * 8, narrow = tsr_register_bytes(load, from) * 8;
    const char *extend = tsr_type_is_signed(type) ? "sext" : "zext";
    const struct tsr_statement *statement = load->draft->statement;
    const struct tsr_op *op = wide == narrow  ? tsr_decode_op(load, statement, "mov.b%u", wide)
                              : wide < narrow ? tsr_decode_op(load, statement, "tsr.low.b%u.b%u", wide, narrow)
                                              : tsr_decode_op(load, statement, "tsr.%s.b%u.b%u", extend, wide, narrow);
    struct tsr_draft_insn *insn = tsr_draft_add(load, op);
    tsr_draft_def(insn, TSR_F_DST, to);
    tsr_draft_use(insn, TSR_F_A, from);
}

uint32_t tsr_decode_narrow(struct tsr_load *load, uint32_t reg, uint32_t bytes)
{
    if (tsr_register_bytes(load, reg) == bytes)
        return reg;
    uint32_t temp = tsr_draft_temp(load, bytes);
    tsr_decode_convert(load, temp, reg, TSR_T_B32);
    return temp;
}

/* ---- sources ---- */

static uint64_t number_bits(struct tsr_load *load, const struct tsr_operand *operand, uint8_t type)
{
    struct tsr_number number = operand->number;
    bool literal_float = number.kind == TSR_NUMBER_F32 || number.kind == TSR_NUMBER_F64;
    uint32_t bytes = tsr_type_bytes[type];
    if (!literal_float && type != TSR_T_F32 && type != TSR_T_F64)
        return number.bits;
    if (literal_float && type != TSR_T_F32 && type != TSR_T_F64 && bytes != 4 && bytes != 8)
        tsr_decode_fail(load, load->draft->statement, operand, "an integer or a register");
    double value;
    float single;
    if (number.kind == TSR_NUMBER_F32) {
        uint32_t bits = (uint32_t)number.bits;
        if (bytes == 4)
            return bits;
        memcpy(&single, &bits, 4);
        value = (double)single;
    } else if (number.kind == TSR_NUMBER_F64) {
        if (bytes == 8)
            return number.bits;
        memcpy(&value, &number.bits, 8);
    } else {
        value = number.kind == TSR_NUMBER_SIGNED ? (double)(int64_t)number.bits : (double)number.bits;
    }
    uint64_t bits = 0;
    single = (float)value;
    memcpy(&bits, bytes == 4 ? (const void *)&single : (const void *)&value, bytes);
    return bits;
}

uint32_t tsr_decode_source(struct tsr_load *load, const struct tsr_operand *operand, uint8_t type)
{
    const struct tsr_statement *statement = load->draft->statement;
    uint32_t bytes = tsr_type_register_bytes(type);
    if (type == TSR_T_PRED)
        return tsr_decode_predicate(load, operand, NULL);
    if (operand->inverted)
        tsr_decode_fail(load, statement, operand, "a number, not a predicate");
    switch (operand->kind) {
    case TSR_OPERAND_REGISTER: {
        uint32_t have = tsr_register_bytes(load, operand->id);
        if (have == bytes)
            return operand->id;
        if (have < bytes || have == 0)
            tsr_decode_fail(load, statement, operand, "a register as wide as the instruction's type");
        return tsr_decode_narrow(load, operand->id, bytes);
    }
    case TSR_OPERAND_NUMBER:
        return tsr_draft_const(load, bytes, number_bits(load, operand, type));
    case TSR_OPERAND_SYMBOL:
        return tsr_decode_symbol(load, operand, bytes);
    case TSR_OPERAND_NAME: {
        uint32_t reg = tsr_decode_special(load, operand, TSR_NO_REG), temp;
        if (tsr_register_bytes(load, reg) == bytes)
            return reg;
        temp = tsr_draft_temp(load, bytes);
        tsr_decode_convert(load, temp, reg, TSR_T_B32);
        return temp;
    }
    default:
        tsr_decode_fail(load, statement, operand, "a register or a number");
    }
}

uint32_t tsr_decode_predicate(struct tsr_load *load, const struct tsr_operand *operand, bool *inverted)
{
    const struct tsr_statement *statement = load->draft->statement;
    uint32_t reg;
    if (operand->kind == TSR_OPERAND_NUMBER)
        return tsr_draft_const(load, 0, operand->number.bits);
    if (operand->kind == TSR_OPERAND_NAME)
        reg = tsr_decode_special(load, operand, TSR_NO_REG);
    else if (operand->kind == TSR_OPERAND_REGISTER)
        reg = operand->id;
    else
        tsr_decode_fail(load, statement, operand, "a predicate");
    if (tsr_register_bytes(load, reg) != 0)
        tsr_decode_fail(load, statement, operand, "a predicate");
    if (!operand->inverted)
        return reg;
    if (inverted) {
        *inverted = true;
        return reg;
    }
    uint32_t temp = tsr_draft_temp(load, 0);
    struct tsr_draft_insn *insn = tsr_draft_add(load, tsr_decode_op(load, statement, "not.pred"));
    tsr_draft_def(insn, TSR_F_DST, temp);
    tsr_draft_use(insn, TSR_F_A, reg);
    return temp;
}

static uint32_t special_bytes(const struct tsr_ptx_name *name)
{
    static const char *const wide[] = {"%clock64", "%globaltimer", "%gridid", "%current_graph_exec"};
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
        if (strcmp(name->text, wide[i]) == 0)
            return 8;
    if (strcmp(name->text, "%is_explicit_cluster") == 0)
        return 0;
    return name->length > 3 && strcmp(name->text + name->length - 3, "_64") == 0 ? 8 : 4;
}

uint32_t tsr_decode_special(struct tsr_load *load, const struct tsr_operand *operand, uint32_t dst)
{
    const struct tsr_statement *statement = load->draft->statement;
    const struct tsr_ptx_name *name = operand->name;
    if (name->text[0] != '%')
        tsr_load_fail(load, CUDA_ERROR_INVALID_PTX, statement->line, operand->column, "'%s' is not declared", name->text);
    char key[64];
    size_t length = operand->component ? tsr_format(key, sizeof key, "sreg.%s.%c", name->text + 1, operand->component)
                                       : tsr_format(key, sizeof key, "sreg.%s", name->text + 1);
    const struct tsr_op *op = tsr_op_find(key, length);
    if (!op)
        tsr_load_fail(load, CUDA_ERROR_INVALID_PTX, statement->line, operand->column,
                      "'%s' is neither declared nor a special register that is supported", name->text);
    uint32_t bytes = special_bytes(name);
    if (dst == TSR_NO_REG || tsr_register_bytes(load, dst) != bytes)
        dst = tsr_draft_temp(load, bytes);
    tsr_draft_def(tsr_draft_add(load, op), TSR_F_DST, dst);
    return dst;
}

/* reg + displacement. */
static uint32_t add_displacement(struct tsr_load *load, uint32_t reg, int64_t displacement)
{
    uint32_t bytes = tsr_register_bytes(load, reg);
    if (!displacement)
        return reg;
    uint32_t sum = tsr_draft_temp(load, bytes);
    struct tsr_draft_insn *insn = tsr_draft_add(load, tsr_decode_op(load, load->draft->statement, "add.u%u", bytes * 8));
    tsr_draft_def(insn, TSR_F_DST, sum);
    tsr_draft_use(insn, TSR_F_A, reg);
    tsr_draft_use(insn, TSR_F_B, tsr_draft_const(load, bytes, (uint64_t)displacement));
    return sum;
}

static uint32_t resize(struct tsr_load *load, uint32_t reg, uint32_t bytes)
{
    if (tsr_register_bytes(load, reg) == bytes)
        return reg;
    uint32_t other = tsr_draft_temp(load, bytes);
    tsr_decode_convert(load, other, reg, TSR_T_B32);
    return other;
}

/* In a .func it depends on the kernel where dynamic shared memory begins. */
static uint32_t shared_address(struct tsr_load *load, const struct tsr_operand *operand, uint32_t bytes)
{
    struct tsr_function_load *function = &load->functions.data[load->function];
    if (!load->shared.data[operand->symbol->id].dynamic || function->entry)
        return tsr_draft_shared(load, operand->symbol->id, operand->displacement, bytes);
    struct tsr_ptx_name name = {.text = "%dynamic_smem_offset", .length = 20};
    uint32_t base = tsr_decode_special(load, &(struct tsr_operand){.name = &name, .column = operand->column}, TSR_NO_REG);
    tsr_load_push(load, &function->shared, operand->symbol->id);
    return resize(load, add_displacement(load, base, operand->displacement), bytes);
}

static uint32_t local_address(struct tsr_load *load, const struct tsr_operand *operand, uint32_t bytes)
{
    int64_t offset = (int64_t)operand->symbol->offset + operand->displacement;
    if (load->functions.data[load->function].entry)
        return tsr_draft_const(load, bytes, (uint64_t)offset);
    uint32_t reg = tsr_draft_temp(load, bytes);
    struct tsr_draft_insn *insn =
        tsr_draft_add(load, tsr_decode_op(load, load->draft->statement, "tsr.local_address.b%u", bytes * 8));
    tsr_draft_def(insn, TSR_F_DST, reg);
    insn->imm = offset;
    return reg;
}

/* The area moves to local memory, where it has an address. */
static uint32_t area_address(struct tsr_load *load, const struct tsr_operand *operand, uint32_t bytes)
{
    const struct tsr_area *area = &load->areas.data[operand->symbol->id];
    uint32_t reg = tsr_draft_temp(load, 8);
    struct tsr_draft_insn *insn = tsr_draft_add(load, tsr_decode_op(load, load->draft->statement, "tsr.param_address"));
    load->local_bytes = (load->local_bytes + 15) & ~15ull;
    tsr_draft_def(insn, TSR_F_DST, reg);
    tsr_draft_area(insn, TSR_F_A, area->offset);
    insn->field[TSR_F_B] = area->bytes;
    insn->field[TSR_F_C] = TSR_AREA_STRIDE(area->bytes);
    insn->imm = (int64_t)load->local_bytes;
    load->local_bytes += area->bytes;
    return resize(load, add_displacement(load, reg, operand->displacement), bytes);
}

uint32_t tsr_decode_symbol(struct tsr_load *load, const struct tsr_operand *operand, uint32_t bytes)
{
    const struct tsr_ptx_symbol *symbol = operand->symbol;
    if (bytes != 4 && bytes != 8)
        tsr_decode_fail(load, load->draft->statement, operand, "a type of 32 or 64 bits for an address");
    switch (symbol->kind) {
    case TSR_SYMBOL_VARIABLE:
        return resize(load, tsr_draft_variable(load, symbol->id, operand->displacement), bytes);
    case TSR_SYMBOL_FUNCTION:
        load->functions.data[symbol->id].address_taken = true;
        return resize(load, tsr_draft_const(load, 8, tsr_code_address(tsr_code_window(load->device), symbol->id)), bytes);
    case TSR_SYMBOL_PARAM:
        return tsr_draft_const(load, bytes, symbol->offset + (uint64_t)operand->displacement);
    case TSR_SYMBOL_SHARED:
        return shared_address(load, operand, bytes);
    case TSR_SYMBOL_LOCAL:
        return local_address(load, operand, bytes);
    case TSR_SYMBOL_AREA:
        return area_address(load, operand, bytes);
    default:
        tsr_decode_fail(load, load->draft->statement, operand, "a variable or a function");
    }
}

/* ---- destinations ---- */

struct tsr_target tsr_decode_target_or_none(struct tsr_load *load, const struct tsr_operand *operand, uint8_t type)
{
    if (operand->kind == TSR_OPERAND_SINK)
        return (struct tsr_target){TSR_NO_REG, TSR_NO_REG, type};
    return tsr_decode_target(load, operand, type);
}

struct tsr_target tsr_decode_target(struct tsr_load *load, const struct tsr_operand *operand, uint8_t type)
{
    const struct tsr_statement *statement = load->draft->statement;
    uint32_t bytes = tsr_type_register_bytes(type);
    if (operand->kind == TSR_OPERAND_SINK)
        return (struct tsr_target){tsr_draft_temp(load, bytes), TSR_NO_REG, type};
    if (operand->kind != TSR_OPERAND_REGISTER || operand->inverted)
        tsr_decode_fail(load, statement, operand, "a register as destination");
    uint32_t have = tsr_register_bytes(load, operand->id);
    if (have == bytes)
        return (struct tsr_target){operand->id, TSR_NO_REG, type};
    if (have < bytes || bytes == 0)
        tsr_decode_fail(load, statement, operand, bytes ? "a destination as wide as the type" : "a predicate as destination");
    return (struct tsr_target){tsr_draft_temp(load, bytes), operand->id, type};
}

void tsr_decode_finish(struct tsr_load *load, const struct tsr_target *target)
{
    if (target->wide != TSR_NO_REG)
        tsr_decode_convert(load, target->wide, target->reg, target->type);
}
