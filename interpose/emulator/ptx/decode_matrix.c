/* Matrix instructions: the key is the opcode without ::cta, fragments go to the list. Conventions: exec/matrix/op_keys.md. */
#include <string.h>

#include "base/format.h"
#include "../isa/operands.h"
#include "decode.h"

#define FRAGMENTS_MAX 128u

struct fragments {
    uint32_t list[FRAGMENTS_MAX];
    uint32_t count;
};

static const struct tsr_op *find_op(struct tsr_load *load, struct tsr_opcode *opcode, const struct tsr_statement *statement)
{
    static const char dropped[] = "::cta";
    const char *text = opcode->name->text, *found = strstr(text, dropped);
    bool store = tsr_word_is(opcode->part[0], "stmatrix");
    if (opcode->op)
        return opcode->op;
    if (store || tsr_word_is(opcode->part[0], "ldmatrix")) { /* the number of matrices is also written before the shape */
        uint32_t count = tsr_opcode_has(opcode, "x4")   ? 4
                         : tsr_opcode_has(opcode, "x2") ? 2
                         : tsr_opcode_has(opcode, "x1") ? 1
                                                        : 0;
        if (!count || !tsr_opcode_has(opcode, "m8n8") || !tsr_opcode_has(opcode, "b16"))
            tsr_decode_unsupported(load, statement);
        opcode->op =
            tsr_decode_op(load, statement, "%s.sync.aligned.m8n8.x%u%s%s.b16", store ? "stmatrix" : "ldmatrix", count,
                          tsr_opcode_has(opcode, "trans") ? ".trans" : "", opcode->space == TSR_SPACE_SHARED ? ".shared" : "");
        return opcode->op;
    }
    opcode->op = found ? tsr_decode_op(load, statement, "%.*s%s", (int)(found - text), text, found + sizeof dropped - 1)
                       : tsr_decode_op(load, statement, "%s", text);
    return opcode->op;
}

static void add_vector(struct tsr_load *load, const struct tsr_opcode *opcode, const struct tsr_operand *operand, bool written,
                       struct fragments *out)
{
    uint8_t type = tsr_opcode_has(opcode, "f64") ? TSR_T_B64 : TSR_T_B32;
    bool vector = operand->kind == TSR_OPERAND_VECTOR;
    uint32_t count = vector ? operand->count : 1;
    for (uint32_t i = 0; i < count; i++) {
        const struct tsr_operand *element = vector ? &operand->elements[i] : operand;
        if (out->count == FRAGMENTS_MAX)
            tsr_decode_fail(load, load->draft->statement, element, "at most 128 fragment registers");
        if (!written) {
            out->list[out->count++] = tsr_decode_source(load, element, type);
            continue;
        }
        struct tsr_target target = tsr_decode_target(load, element, type);
        if (target.wide != TSR_NO_REG)
            tsr_decode_fail(load, load->draft->statement, element, "a register of the fragment's width");
        out->list[out->count++] = target.reg;
    }
}

/* ---- how many registers a fragment has: the interpreter relies on it ---- */

struct shape {
    uint32_t m, n, k;
    uint32_t bits[4]; /* of D, A, B, C; of a load or store: of its only type, four times */
    bool half_ab;     /* wmma gives f16 A and B eight registers whatever their size */
};

static uint32_t type_bits(struct tsr_word word)
{
    static const struct {
        const char *word;
        uint32_t bits;
    } types[] = {{"f16", 16}, {"bf16", 16}, {"tf32", 32}, {"f32", 32}, {"f64", 64}, {"s8", 8},
                 {"u8", 8},   {"s32", 32},  {"e4m3", 8},  {"e5m2", 8}, {"b16", 16}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (tsr_word_is(word, types[i].word))
            return types[i].bits;
    return 0;
}

static bool read_dimension(const char **at, const char *end, char letter, uint32_t *out)
{
    if (*at == end || **at != letter)
        return false;
    for (++*at; *at < end && tsr_char_is(**at, TSR_CHAR_DIGIT) && *out < 1000; ++*at)
        *out = *out * 10 + (uint32_t)(**at - '0');
    return *out != 0;
}

static struct shape read_shape(struct tsr_load *load, const struct tsr_opcode *opcode, const struct tsr_statement *statement)
{
    struct shape shape = {0};
    uint32_t types = 0;
    for (uint32_t i = 1; i < opcode->part_count; i++) {
        struct tsr_word part = opcode->part[i];
        const char *at = part.text, *end = at + part.length;
        if (part.length > 5 && *at == 'm' && tsr_char_is(at[1], TSR_CHAR_DIGIT) &&
            !(read_dimension(&at, end, 'm', &shape.m) && read_dimension(&at, end, 'n', &shape.n) &&
              read_dimension(&at, end, 'k', &shape.k)))
            tsr_decode_unsupported(load, statement);
        uint32_t bits = type_bits(part);
        if (bits && types < 4)
            shape.bits[types++] = bits;
    }
    bool wmma = tsr_word_is(opcode->part[0], "wmma");
    if (!shape.k || !(types == 4 || (wmma && (types == 2 || types == 1))))
        tsr_decode_unsupported(load, statement);
    if (types == 2) { /* wmma.mma on f16 names only D and C */
        shape.bits[3] = shape.bits[1];
        shape.bits[1] = shape.bits[2] = 16;
        shape.half_ab = true;
    }
    if (types == 1) {
        shape.bits[1] = shape.bits[2] = shape.bits[3] = shape.bits[0];
        shape.half_ab = tsr_opcode_has(opcode, "f16");
    }
    return shape;
}

/* which: 0 to 3 for D, A, B, C. */
static uint32_t fragment_registers(const struct shape *shape, unsigned which)
{
    uint32_t elements = which == 1   ? shape->m * shape->k
                        : which == 2 ? shape->k * shape->n
                                     : shape->m * shape->n,
             bits = shape->bits[which];
    if (shape->half_ab && (which == 1 || which == 2))
        return 8;
    return elements / 32 * bits / (bits == 64 ? 64 : 32);
}

static uint32_t transfer_registers(struct tsr_load *load, const struct tsr_opcode *opcode,
                                   const struct tsr_statement *statement)
{
    if (!tsr_word_is(opcode->part[0], "wmma"))
        return tsr_opcode_has(opcode, "x4") ? 4 : tsr_opcode_has(opcode, "x2") ? 2 : 1;
    struct shape shape = read_shape(load, opcode, statement);
    return fragment_registers(&shape, tsr_opcode_has(opcode, "a") ? 1 : tsr_opcode_has(opcode, "b") ? 2 : 3);
}

static void require_registers(struct tsr_load *load, const struct tsr_statement *statement, const struct tsr_operand *operand,
                              uint32_t wanted)
{
    uint32_t count = operand->kind == TSR_OPERAND_VECTOR ? operand->count : 1;
    char what[48];
    if (count == wanted)
        return;
    tsr_format(what, sizeof what, "a fragment of %u registers", wanted);
    tsr_decode_fail(load, statement, operand, what);
}

/* ---- instructions ---- */

static struct tsr_draft_insn *add_insn(struct tsr_load *load, const struct tsr_op *op, const struct fragments *fragments,
                                       uint32_t defs)
{
    uint32_t *list = tsr_load_new(load, &load->scratch, uint32_t, fragments->count);
    memcpy(list, fragments->list, sizeof *list * fragments->count);
    struct tsr_draft_insn *insn = tsr_draft_add(load, op);
    insn->list = list;
    insn->list_count = (uint16_t)fragments->count;
    insn->list_defs = (uint16_t)defs;
    return insn;
}

/* Loads: r, [p]{, stride}. Stores: [p], r{, stride}. */
static void decode_transfer(struct tsr_load *load, struct tsr_opcode *opcode, const struct tsr_statement *statement, bool store)
{
    const struct tsr_operand *operands = statement->operands;
    struct fragments fragments = {.count = 0};
    const struct tsr_op *op = find_op(load, opcode, statement);
    tsr_decode_count(load, statement, 2, 3);
    require_registers(load, statement, &operands[store ? 1 : 0], transfer_registers(load, opcode, statement));
    add_vector(load, opcode, &operands[store ? 1 : 0], !store, &fragments);
    struct tsr_ptx_address address = tsr_decode_address(load, &operands[store ? 0 : 1], opcode->space);
    uint32_t stride = statement->operand_count == 3 ? tsr_decode_source(load, &operands[2], TSR_T_U32) : TSR_NO_REG;
    struct tsr_draft_insn *insn = add_insn(load, op, &fragments, store ? 0 : fragments.count);
    tsr_draft_use(insn, TSR_F_A, address.reg);
    tsr_draft_use(insn, TSR_F_B, stride);
    insn->imm = address.imm;
    insn->flags |= address.flags;
}

static void decode_multiply(struct tsr_load *load, struct tsr_opcode *opcode, const struct tsr_statement *statement)
{
    struct fragments fragments = {.count = 0};
    const struct tsr_op *op = find_op(load, opcode, statement);
    struct shape shape = read_shape(load, opcode, statement);
    tsr_decode_count(load, statement, 4, 4);
    for (unsigned i = 0; i < 4; i++)
        require_registers(load, statement, &statement->operands[i], fragment_registers(&shape, i));
    add_vector(load, opcode, &statement->operands[0], true, &fragments);
    uint32_t defs = fragments.count;
    for (uint32_t i = 1; i < 4; i++)
        add_vector(load, opcode, &statement->operands[i], false, &fragments);
    add_insn(load, op, &fragments, defs);
}

void tsr_decode_matrix(struct tsr_load *load, struct tsr_opcode *opcode, const struct tsr_statement *statement)
{
    const struct tsr_word *part = opcode->part;
    if (tsr_word_is(part[0], "movmatrix")) {
        tsr_decode_count(load, statement, 2, 2);
        uint32_t source = tsr_decode_source(load, &statement->operands[1], TSR_T_B32);
        struct tsr_target target = tsr_decode_target(load, &statement->operands[0], TSR_T_B32);
        struct tsr_draft_insn *insn = tsr_draft_add(load, find_op(load, opcode, statement));
        tsr_draft_def(insn, TSR_F_DST, target.reg);
        tsr_draft_use(insn, TSR_F_A, source);
        tsr_decode_finish(load, &target);
    } else if (tsr_word_is(part[0], "stmatrix") || tsr_opcode_has(opcode, "store")) {
        decode_transfer(load, opcode, statement, true);
    } else if (tsr_word_is(part[0], "ldmatrix") || tsr_opcode_has(opcode, "load")) {
        decode_transfer(load, opcode, statement, false);
    } else {
        decode_multiply(load, opcode, statement);
    }
}
