/* Loads, stores, atomics and address conversions. Conventions: exec/op_keys.md. */
#include <string.h>

#include "../isa/operands.h"
#include "decode.h"

static const char *const space_names[] = {
    [TSR_SPACE_GLOBAL] = "global", [TSR_SPACE_CONST] = "global", [TSR_SPACE_SHARED] = "shared",
    [TSR_SPACE_LOCAL] = "local",   [TSR_SPACE_PARAM] = "param",  [TSR_SPACE_GENERIC] = "generic",
};

/* ---- addresses ---- */

static bool is_window(enum tsr_space_kind space)
{
    return space == TSR_SPACE_SHARED || space == TSR_SPACE_LOCAL;
}

static void address_of_register(struct tsr_load *load, const struct tsr_operand *base, enum tsr_space_kind space,
                                struct tsr_ptx_address *out)
{
    uint32_t bytes = tsr_register_bytes(load, base->id);
    out->reg = base->id;
    if (bytes == 8 && is_window(space)) {
        out->flags = TSR_MEM_ADDRESS64;
    } else if (bytes == 4 && !is_window(space)) {
        out->reg = tsr_draft_temp(load, 8);
        tsr_decode_convert(load, out->reg, base->id, TSR_T_B32);
    } else if (bytes != 4 && bytes != 8) {
        tsr_decode_fail(load, load->draft->statement, base, "a register of 32 or 64 bits as address");
    }
}

static void address_of_symbol(struct tsr_load *load, const struct tsr_operand *base, enum tsr_space_kind space,
                              struct tsr_ptx_address *out)
{
    struct tsr_operand symbol = *base;
    bool entry = load->functions.data[load->function].entry;
    symbol.displacement = 0;
    if (space == TSR_SPACE_PARAM && base->symbol->kind == TSR_SYMBOL_AREA) {
        out->area = base->symbol;
        return;
    }
    if (base->symbol->kind == TSR_SYMBOL_PARAM || (base->symbol->kind == TSR_SYMBOL_LOCAL && entry)) {
        out->imm += (int64_t)base->symbol->offset;
        return;
    }
    out->reg = tsr_decode_symbol(load, &symbol, is_window(space) ? 4 : 8);
}

struct tsr_ptx_address tsr_decode_address(struct tsr_load *load, const struct tsr_operand *operand, enum tsr_space_kind space)
{
    const struct tsr_statement *statement = load->draft->statement;
    struct tsr_ptx_address out = {.reg = TSR_NO_REG};
    if (operand->kind != TSR_OPERAND_ADDRESS || operand->count != 1)
        tsr_decode_fail(load, statement, operand, "an address in brackets");
    const struct tsr_operand *base = &operand->elements[0];
    out.imm = base->displacement;
    if (base->kind == TSR_OPERAND_REGISTER) {
        address_of_register(load, base, space, &out);
    } else if (base->kind == TSR_OPERAND_SYMBOL) {
        address_of_symbol(load, base, space, &out);
    } else if (base->kind == TSR_OPERAND_NUMBER) {
        out.imm = (int64_t)base->number.bits;
    } else if (base->kind == TSR_OPERAND_NAME) {
        tsr_load_fail(load, CUDA_ERROR_INVALID_PTX, statement->line, base->column, "'%s' is not declared", base->name->text);
    } else {
        tsr_decode_fail(load, statement, operand, "a register or a variable as address");
    }
    return out;
}

/* A generic access that names a variable of another space is an access to that space. */
static enum tsr_space_kind space_of(const struct tsr_opcode *opcode, const struct tsr_operand *address)
{
    if (opcode->space != TSR_SPACE_GENERIC || address->kind != TSR_OPERAND_ADDRESS || !address->count ||
        address->elements[0].kind != TSR_OPERAND_SYMBOL)
        return opcode->space;
    switch (address->elements[0].symbol->kind) {
    case TSR_SYMBOL_SHARED:
        return TSR_SPACE_SHARED;
    case TSR_SYMBOL_LOCAL:
        return TSR_SPACE_LOCAL;
    case TSR_SYMBOL_PARAM:
    case TSR_SYMBOL_AREA:
        return TSR_SPACE_PARAM;
    default:
        return TSR_SPACE_GENERIC;
    }
}

/* ---- loads and stores ---- */

struct elements {
    const struct tsr_operand *items;
    uint32_t count;
    uint32_t part_bits; /* as the key says */
    uint8_t type;       /* of one element in its register */
    bool halves;        /* .b128: each element is two registers */
};

static struct elements read_elements(struct tsr_load *load, const struct tsr_opcode *opcode,
                                     const struct tsr_statement *statement, const struct tsr_operand *data)
{
    if (opcode->type_count < 1)
        tsr_decode_unsupported(load, statement);
    struct elements out = {.items = data, .count = 1, .type = opcode->types[opcode->type_count - 1]};
    if (out.type == TSR_T_PRED)
        tsr_decode_unsupported(load, statement);
    if (data->kind == TSR_OPERAND_VECTOR) {
        out.items = data->elements;
        out.count = data->count;
    }
    if (out.count != (opcode->vector ? opcode->vector : 1))
        tsr_decode_fail(load, statement, data, "as many elements as the vector has");
    out.halves = out.type == TSR_T_B128;
    if (out.halves) {
        out.count *= 2;
        out.type = TSR_T_B64;
    }
    out.part_bits = tsr_type_bytes[out.type] * 8u;
    if (out.count != 1 && out.count != 2 && out.count != 4 && out.count != 8)
        tsr_decode_unsupported(load, statement);
    return out;
}

/* `.vK` of a key, or nothing. */
static const char *vector_name(uint32_t count)
{
    return count == 2 ? ".v2" : count == 4 ? ".v4" : count == 8 ? ".v8" : "";
}

static const enum tsr_field load_fields[] = {TSR_F_DST, TSR_F_DST2, TSR_F_C, TSR_F_D};
static const enum tsr_field store_fields[] = {TSR_F_B, TSR_F_C, TSR_F_D, TSR_F_DST};

static struct tsr_target element_target(struct tsr_load *load, const struct elements *elements, uint32_t i)
{
    if (!elements->halves)
        return tsr_decode_target_or_none(load, &elements->items[i], elements->type);
    const struct tsr_operand *operand = &elements->items[i / 2];
    if (operand->kind != TSR_OPERAND_REGISTER || load->register_types.data[operand->id] != TSR_T_B128)
        tsr_decode_fail(load, load->draft->statement, operand, "a .b128 register");
    return (struct tsr_target){operand->id + i % 2, TSR_NO_REG, TSR_T_B64};
}

static uint32_t element_source(struct tsr_load *load, const struct elements *elements, uint32_t i)
{
    return elements->halves ? element_target(load, elements, i).reg
                            : tsr_decode_source(load, &elements->items[i], elements->type);
}

static void put_area(struct tsr_load *load, struct tsr_draft_insn *insn, const struct tsr_ptx_address *address,
                     enum tsr_field stride)
{
    const struct tsr_area *area = &load->areas.data[address->area->id];
    tsr_draft_area(insn, TSR_F_A, area->offset);
    insn->field[stride] = TSR_AREA_STRIDE(area->bytes);
    insn->imm = address->imm;
}

static void check_area(struct tsr_load *load, const struct tsr_statement *statement, const struct tsr_operand *operand,
                       const struct tsr_ptx_address *address, const struct elements *elements)
{
    uint64_t bytes = (uint64_t)elements->count * elements->part_bits / 8;
    if (address->imm < 0 || (uint64_t)address->imm + bytes > address->area->bytes)
        tsr_decode_fail(load, statement, operand, "an access inside of the parameter");
}

static void put_address(struct tsr_draft_insn *insn, const struct tsr_ptx_address *address, bool strong)
{
    tsr_draft_use(insn, TSR_F_A, address->reg);
    insn->imm = address->imm;
    insn->flags |= address->flags | (strong ? TSR_MEM_STRONG : 0);
}

/* The space word of the key; a parameter of a .func that is reached through a register lies in local memory. */
static const char *key_space(const struct tsr_load *load, enum tsr_space_kind space)
{
    bool entry = load->functions.data[load->function].entry;
    return space == TSR_SPACE_PARAM && !entry ? "generic" : space_names[space];
}

/* Operands after the usual ones are cache policies. */
static void check_policy(struct tsr_load *load, const struct tsr_opcode *opcode, const struct tsr_statement *statement,
                         uint32_t usual)
{
    tsr_decode_count(load, statement, usual, usual + (tsr_opcode_has(opcode, "L2::cache_hint") ? 1 : 0));
}

void tsr_decode_load(struct tsr_load *load, struct tsr_opcode *opcode, const struct tsr_statement *statement)
{
    check_policy(load, opcode, statement, 2);
    const struct tsr_operand *operands = statement->operands;
    enum tsr_space_kind space = space_of(opcode, &operands[1]);
    struct elements elements = read_elements(load, opcode, statement, &operands[0]);
    struct tsr_ptx_address address = tsr_decode_address(load, &operands[1], space);
    const char *vector = vector_name(elements.count);
    char sign = elements.type == TSR_T_S8 ? 's' : 'b';
    const struct tsr_op *op = opcode->op;
    if (address.area) {
        check_area(load, statement, &operands[1], &address, &elements);
        op = opcode->op2 ? opcode->op2 : tsr_decode_op(load, statement, "ldp%s.%c%u", vector, sign, elements.part_bits);
        opcode->op2 = op;
    } else if (!op || space != opcode->space) {
        op = tsr_decode_op(load, statement, "ld.%s%s.%c%u", key_space(load, space), vector, sign, elements.part_bits);
        if (space == opcode->space && space != TSR_SPACE_PARAM)
            opcode->op = op;
    }
    struct tsr_target targets[8];
    for (uint32_t i = 0; i < elements.count; i++)
        targets[i] = element_target(load, &elements, i);
    struct tsr_draft_insn *insn = tsr_draft_add(load, op);
    if (address.area)
        put_area(load, insn, &address, TSR_F_B);
    else
        put_address(insn, &address, opcode->strong);
    if (elements.count == 8) {
        insn->list = tsr_load_new(load, &load->scratch, uint32_t, 8);
        insn->list_count = insn->list_defs = 8;
    }
    for (uint32_t i = 0; i < elements.count; i++)
        if (elements.count == 8)
            insn->list[i] = targets[i].reg;
        else
            tsr_draft_def(insn, load_fields[i], targets[i].reg);
    for (uint32_t i = 0; i < elements.count; i++)
        tsr_decode_finish(load, &targets[i]);
}

void tsr_decode_store(struct tsr_load *load, struct tsr_opcode *opcode, const struct tsr_statement *statement)
{
    if (tsr_opcode_has(opcode, "async") || tsr_opcode_has(opcode, "bulk"))
        tsr_decode_unsupported(load, statement);
    check_policy(load, opcode, statement, 2);
    const struct tsr_operand *operands = statement->operands;
    enum tsr_space_kind space = space_of(opcode, &operands[0]);
    struct elements elements = read_elements(load, opcode, statement, &operands[1]);
    struct tsr_ptx_address address = tsr_decode_address(load, &operands[0], space);
    const char *vector = vector_name(elements.count);
    const struct tsr_op *op = opcode->op;
    if (address.area) {
        check_area(load, statement, &operands[0], &address, &elements);
        op = opcode->op2 ? opcode->op2 : tsr_decode_op(load, statement, "stp%s.b%u", vector, elements.part_bits);
        opcode->op2 = op;
    } else if (!op || space != opcode->space) {
        op = tsr_decode_op(load, statement, "st.%s%s.b%u", key_space(load, space), vector, elements.part_bits);
        if (space == opcode->space && space != TSR_SPACE_PARAM)
            opcode->op = op;
    }
    uint32_t sources[8];
    for (uint32_t i = 0; i < elements.count; i++)
        sources[i] = element_source(load, &elements, i);
    struct tsr_draft_insn *insn = tsr_draft_add(load, op);
    if (address.area)
        put_area(load, insn, &address, TSR_F_DST2);
    else
        put_address(insn, &address, opcode->strong);
    if (elements.count == 8) {
        insn->list = tsr_load_new(load, &load->scratch, uint32_t, 8);
        insn->list_count = 8;
    }
    for (uint32_t i = 0; i < elements.count; i++)
        if (elements.count == 8)
            insn->list[i] = sources[i];
        else
            tsr_draft_use(insn, store_fields[i], sources[i]);
}

/* ---- address conversions ---- */

void tsr_decode_cvta(struct tsr_load *load, struct tsr_opcode *opcode, const struct tsr_statement *statement)
{
    tsr_decode_count(load, statement, 2, 2);
    const struct tsr_operand *operands = statement->operands;
    uint8_t type = opcode->type_count ? opcode->types[0] : TSR_T_NONE;
    if (type != TSR_T_U64 && type != TSR_T_U32)
        tsr_decode_unsupported(load, statement);
    bool to = tsr_opcode_has(opcode, "to");
    uint32_t source = tsr_decode_source(load, &operands[1], type);
    struct tsr_target target = tsr_decode_target(load, &operands[0], type);
    if (opcode->space == TSR_SPACE_GLOBAL || opcode->space == TSR_SPACE_CONST ||
        (opcode->space == TSR_SPACE_PARAM && !load->functions.data[load->function].entry)) {
        tsr_decode_convert(load, target.reg, source, type);
    } else if (opcode->space == TSR_SPACE_GENERIC) {
        tsr_decode_unsupported(load, statement);
    } else {
        const struct tsr_op *op = tsr_decode_op(load, statement, to ? "cvta.to.%s" : "cvta.%s", space_names[opcode->space]);
        uint32_t wide = source, result = target.reg;
        if (type == TSR_T_U32) {
            wide = tsr_draft_temp(load, 8);
            tsr_decode_convert(load, wide, source, type);
            result = tsr_draft_temp(load, 8);
        }
        struct tsr_draft_insn *insn = tsr_draft_add(load, op);
        tsr_draft_def(insn, TSR_F_DST, result);
        tsr_draft_use(insn, TSR_F_A, wide);
        if (type == TSR_T_U32)
            tsr_decode_convert(load, target.reg, result, type);
    }
    tsr_decode_finish(load, &target);
}

void tsr_decode_isspacep(struct tsr_load *load, struct tsr_opcode *opcode, const struct tsr_statement *statement)
{
    tsr_decode_count(load, statement, 2, 2);
    if (opcode->part_count < 2)
        tsr_decode_unsupported(load, statement);
    struct tsr_word space = opcode->part[1];
    if (tsr_word_is(space, "shared::cta"))
        space.length = 6;
    if (space.length > 5 && memcmp(space.text, "param", 5) == 0)
        space.length = 5;
    const struct tsr_op *op = tsr_decode_op(load, statement, "isspacep.%.*s", (int)space.length, space.text);
    const struct tsr_operand *source = &statement->operands[1];
    uint32_t reg = source->kind == TSR_OPERAND_REGISTER && tsr_register_bytes(load, source->id) == 4 ? tsr_draft_temp(load, 8)
                                                                                                     : TSR_NO_REG;
    if (reg != TSR_NO_REG)
        tsr_decode_convert(load, reg, source->id, TSR_T_B32);
    else
        reg = tsr_decode_source(load, source, TSR_T_B64);
    struct tsr_target target = tsr_decode_target(load, &statement->operands[0], TSR_T_PRED);
    struct tsr_draft_insn *insn = tsr_draft_add(load, op);
    tsr_draft_def(insn, TSR_F_DST, target.reg);
    tsr_draft_use(insn, TSR_F_A, reg);
}

/* mapa and getctarank. */
void tsr_decode_mapa(struct tsr_load *load, struct tsr_opcode *opcode, const struct tsr_statement *statement)
{
    bool mapa = tsr_word_is(opcode->part[0], "mapa");
    tsr_decode_count(load, statement, mapa ? 3 : 2, mapa ? 3 : 2);
    uint8_t type = opcode->type_count ? opcode->types[0] : TSR_T_NONE;
    if (type != TSR_T_U64 && type != TSR_T_U32)
        tsr_decode_unsupported(load, statement);
    const struct tsr_op *op = tsr_decode_op(load, statement, "%s%s.u%u", mapa ? "mapa" : "getctarank",
                                            opcode->space == TSR_SPACE_SHARED ? ".shared" : "", tsr_type_bytes[type] * 8u);
    uint32_t address = tsr_decode_source(load, &statement->operands[1], type);
    uint32_t rank = mapa ? tsr_decode_source(load, &statement->operands[2], TSR_T_U32) : TSR_NO_REG;
    struct tsr_target target = tsr_decode_target(load, &statement->operands[0], mapa ? type : TSR_T_U32);
    struct tsr_draft_insn *insn = tsr_draft_add(load, op);
    tsr_draft_def(insn, TSR_F_DST, target.reg);
    tsr_draft_use(insn, TSR_F_A, address);
    tsr_draft_use(insn, TSR_F_B, rank);
    tsr_decode_finish(load, &target);
}

void tsr_decode_createpolicy(struct tsr_load *load, struct tsr_opcode *opcode, const struct tsr_statement *statement)
{
    (void)opcode;
    tsr_decode_count(load, statement, 1, 5);
    struct tsr_target target = tsr_decode_target(load, &statement->operands[0], TSR_T_B64);
    tsr_draft_def(tsr_draft_add(load, tsr_decode_op(load, statement, "createpolicy")), TSR_F_DST, target.reg);
}
