/* See decode.h: opcodes, and the walk over a function's statements. */
#include "decode.h"

#include <stdarg.h>
#include <string.h>

#include "base/format.h"
#include "../isa/operands.h"
#include "parse.h"

static const struct {
    const char *mnemonic;
    tsr_decode_fn *decode;
} families[] = {
    {"ld", tsr_decode_load},
    {"ldu", tsr_decode_load},
    {"st", tsr_decode_store},
    {"mov", tsr_decode_mov},
    {"atom", tsr_decode_atomic},
    {"red", tsr_decode_atomic},
    {"cvta", tsr_decode_cvta},
    {"isspacep", tsr_decode_isspacep},
    {"mapa", tsr_decode_mapa},
    {"getctarank", tsr_decode_mapa},
    {"cp", tsr_decode_cp},
    {"mbarrier", tsr_decode_mbarrier},
    {"createpolicy", tsr_decode_createpolicy},
    {"bra", tsr_decode_branch},
    {"brx", tsr_decode_branch_table},
    {"ret", tsr_decode_plain},
    {"exit", tsr_decode_plain},
    {"trap", tsr_decode_plain},
    {"membar", tsr_decode_plain},
    {"fence", tsr_decode_plain},
    {"brkpt", tsr_decode_plain},
    {"pmevent", tsr_decode_plain},
    {"prefetch", tsr_decode_plain},
    {"prefetchu", tsr_decode_plain},
    {"applypriority", tsr_decode_plain},
    {"discard", tsr_decode_plain},
    {"griddepcontrol", tsr_decode_plain},
    {"setmaxnreg", tsr_decode_plain},
    {"bar", tsr_decode_bar},
    {"barrier", tsr_decode_bar},
    {"shfl", tsr_decode_shfl},
    {"vote", tsr_decode_vote},
    {"match", tsr_decode_match},
    {"redux", tsr_decode_redux},
    {"activemask", tsr_decode_activemask},
    {"elect", tsr_decode_elect},
    {"nanosleep", tsr_decode_nanosleep},
    {"call", tsr_decode_call},
    {"mma", tsr_decode_matrix},
    {"wmma", tsr_decode_matrix},
    {"ldmatrix", tsr_decode_matrix},
    {"stmatrix", tsr_decode_matrix},
    {"movmatrix", tsr_decode_matrix},
};

void tsr_decode_unsupported(struct tsr_load *load, const struct tsr_statement *statement)
{
    tsr_load_fail(load, CUDA_ERROR_INVALID_PTX, statement->line, statement->column, "unsupported instruction %s",
                  statement->opcode->text);
}

void tsr_decode_fail(struct tsr_load *load, const struct tsr_statement *statement, const struct tsr_operand *operand,
                     const char *what)
{
    tsr_load_fail(load, CUDA_ERROR_INVALID_PTX, statement->line, operand ? operand->column : statement->column,
                  "%s: expected %s", statement->opcode->text, what);
}

bool tsr_opcode_has(const struct tsr_opcode *opcode, const char *part)
{
    for (uint32_t i = 1; i < opcode->part_count; i++)
        if (tsr_word_is(opcode->part[i], part))
            return true;
    return false;
}

const struct tsr_op *tsr_decode_op(struct tsr_load *load, const struct tsr_statement *statement, const char *format, ...)
{
    char key[160];
    va_list values;
    va_start(values, format);
    size_t length = tsr_format_list(key, sizeof key, format, values);
    va_end(values);
    const struct tsr_op *op = tsr_op_find(key, length);
    if (!op)
        tsr_decode_unsupported(load, statement);
    return op;
}

void tsr_decode_count(struct tsr_load *load, const struct tsr_statement *statement, uint32_t least, uint32_t most)
{
    if (statement->operand_count < least || statement->operand_count > most) {
        char what[64];
        tsr_format(what, sizeof what, least == most ? "%u operands" : "%u to %u operands", least, most);
        tsr_decode_fail(load, statement, NULL, what);
    }
}

/* ---- opcodes ---- */

static void split_opcode(struct tsr_opcode *opcode)
{
    const char *at = opcode->name->text, *end = at + opcode->name->length;
    while (at < end && opcode->part_count < TSR_OPCODE_PARTS) {
        const char *dot = memchr(at, '.', (size_t)(end - at));
        const char *stop = dot ? dot : end;
        opcode->part[opcode->part_count++] = (struct tsr_word){at, (uint32_t)(stop - at)};
        at = stop + 1;
    }
}

static void read_parts(struct tsr_opcode *opcode)
{
    static const struct {
        const char *word;
        uint8_t space;
    } spaces[] = {{"global", TSR_SPACE_GLOBAL}, {"const", TSR_SPACE_CONST}, {"local", TSR_SPACE_LOCAL}};
    static const char *const strong[] = {"volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"};
    opcode->space = TSR_SPACE_GENERIC;
    for (uint32_t i = 1; i < opcode->part_count; i++) {
        struct tsr_word part = opcode->part[i];
        if (part.length == 0)
            continue;
        uint8_t type = tsr_parse_type_name(part);
        if (type != TSR_T_NONE && opcode->type_count < 4)
            opcode->types[opcode->type_count++] = type;
        if (part.length == 2 && part.text[0] == 'v' && tsr_char_is(part.text[1], TSR_CHAR_DIGIT))
            opcode->vector = (uint8_t)(part.text[1] - '0');
        for (size_t k = 0; k < sizeof spaces / sizeof *spaces; k++)
            if (tsr_word_is(part, spaces[k].word))
                opcode->space = spaces[k].space;
        if (part.length >= 6 && memcmp(part.text, "shared", 6) == 0)
            opcode->space = TSR_SPACE_SHARED;
        if (part.length >= 5 && memcmp(part.text, "param", 5) == 0)
            opcode->space = TSR_SPACE_PARAM;
        for (size_t k = 0; k < sizeof strong / sizeof *strong; k++)
            opcode->strong |= tsr_word_is(part, strong[k]);
    }
}

static struct tsr_opcode *find_opcode(struct tsr_load *load, struct tsr_ptx_name *name)
{
    if (name->opcode)
        return name->opcode;
    struct tsr_opcode *opcode = tsr_load_new(load, &load->module, struct tsr_opcode, 1);
    opcode->name = name;
    split_opcode(opcode);
    read_parts(opcode);
    opcode->decode = tsr_decode_lane;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (tsr_word_is(opcode->part[0], families[i].mnemonic))
            opcode->decode = families[i].decode;
    name->opcode = opcode;
    return opcode;
}

/* ---- the walk ---- */

static void mark_label(struct tsr_load *load, const struct tsr_statement *statement)
{
    if (statement->operand_count != 1 || statement->operands[0].kind != TSR_OPERAND_NAME)
        return;
    struct tsr_label *label = tsr_label_find(load, statement->operands[0].name, statement->scope);
    if (label)
        label->referenced = true;
}

static void mark_table(struct tsr_load *load, const struct tsr_statement *statement)
{
    const struct tsr_operand *last = statement->operand_count ? &statement->operands[statement->operand_count - 1] : NULL;
    if (!last || last->kind != TSR_OPERAND_SYMBOL || last->symbol->kind != TSR_SYMBOL_TARGETS)
        return;
    for (uint32_t i = 0; i < last->symbol->count; i++) {
        struct tsr_label *label = tsr_label_find(load, last->symbol->targets[i], last->symbol->id);
        if (label)
            label->referenced = true;
    }
}

static void emit_joins(struct tsr_load *load, uint32_t statement, size_t *next_label)
{
    struct tsr_draft *draft = load->draft;
    uint32_t at = TSR_NO_REG;
    for (; *next_label < load->labels.count && load->labels.data[*next_label]->statement == statement; ++*next_label) {
        const struct tsr_label *label = load->labels.data[*next_label];
        if (!label->referenced)
            continue;
        if (at == TSR_NO_REG) {
            at = (uint32_t)draft->insns.count;
            const struct tsr_op *join = tsr_op_find("join", 4);
            if (!join)
                tsr_load_fail(load, CUDA_ERROR_INVALID_PTX, label->line, 1, "operation join is missing");
            draft->statement = NULL;
            tsr_draft_add(load, join)->line = label->line;
        }
        draft->label_insns[label->id] = at;
    }
}

/* A body must not run past its end. */
static void emit_end(struct tsr_load *load, bool entry)
{
    load->draft->statement = NULL;
    if (!entry)
        tsr_decode_register_results(load);
    const struct tsr_op *op = entry ? tsr_op_find("exit", 4) : tsr_op_find("ret", 3);
    const struct tsr_function_load *function = &load->functions.data[load->function];
    if (!op)
        tsr_load_fail(load, CUDA_ERROR_INVALID_PTX, function->line, 1, "operation ret is missing");
    tsr_draft_add(load, op)->line = load->text.line;
}

static bool ends_flow(const struct tsr_draft *draft)
{
    if (!draft->insns.count)
        return false;
    const struct tsr_draft_insn *last = &draft->insns.data[draft->insns.count - 1];
    return last->guard == TSR_NO_REG && (strcmp(last->op->key, "ret") == 0 || strcmp(last->op->key, "exit") == 0);
}

void tsr_decode_function(struct tsr_load *load, const struct tsr_tuning *tuning)
{
    struct tsr_draft *draft = load->draft;
    bool entry = load->functions.data[load->function].entry;
    tsr_vec_clear(&draft->insns);
    tsr_vec_clear(&draft->consts);
    draft->const_slots = NULL;
    load->carry = TSR_NO_REG;
    draft->const_mask = 0;
    load->scopes[load->depth].area_top = load->area_bytes; /* closed scopes' areas are still in use by their statements */
    draft->label_insns = tsr_load_new(load, &load->scratch, uint32_t, load->labels.count + 1);
    for (size_t i = 0; i < load->statements.count; i++) {
        const struct tsr_statement *statement = &load->statements.data[i];
        tsr_decode_fn *decode = find_opcode(load, statement->opcode)->decode;
        if (decode == tsr_decode_branch)
            mark_label(load, statement);
        else if (decode == tsr_decode_branch_table)
            mark_table(load, statement);
    }
    draft->statement = NULL;
    tsr_decode_register_params(load);
    size_t next_label = 0;
    for (uint32_t i = 0; i < load->statements.count; i++) {
        const struct tsr_statement *statement = &load->statements.data[i];
        emit_joins(load, i, &next_label);
        struct tsr_opcode *opcode = statement->opcode->opcode;
        draft->statement = statement;
        opcode->decode(load, opcode, statement);
    }
    emit_joins(load, (uint32_t)load->statements.count, &next_label);
    if (!ends_flow(draft))
        emit_end(load, entry);
    struct tsr_function *function = tsr_load_new(load, load->keep, struct tsr_function, 1);
    load->functions.data[load->function].out = function;
    tsr_place_function(load, tuning, function);
}
