/* Operands and instructions. What an opcode does with its operands is not known here, except that only `call` has lists in parentheses. */
#include <string.h>

#include "parse.h"

#define OPERANDS_MAX 2048u /* of one instruction, elements of vectors included */

static void parse_operand(struct tsr_load *load, struct tsr_operand *out, unsigned nesting);

/* Comma-separated operands up to `close`; the opening character has been read. */
static void parse_elements(struct tsr_load *load, struct tsr_operand *out, char close, unsigned nesting)
{
    uint32_t capacity = 4, count = 0;
    struct tsr_operand *elements = tsr_load_new(load, &load->scratch, struct tsr_operand, capacity);
    if (tsr_parse_peek(load) != close)
        do {
            if (count == OPERANDS_MAX)
                tsr_load_expected(load, "at most 2048 operands");
            if (count == capacity) {
                struct tsr_operand *more = tsr_load_new(load, &load->scratch, struct tsr_operand, capacity * 2);
                memcpy(more, elements, sizeof *elements * count);
                elements = more;
                capacity *= 2;
            }
            parse_operand(load, &elements[count++], nesting + 1);
        } while (tsr_parse_take(load, ','));
    tsr_parse_require(load, close);
    out->elements = elements;
    out->count = count;
}

static void expand_vector(struct tsr_load *load, struct tsr_operand *out, const struct tsr_ptx_symbol *symbol)
{
    out->kind = TSR_OPERAND_VECTOR;
    out->count = symbol->width;
    out->elements = tsr_load_new(load, &load->scratch, struct tsr_operand, symbol->width);
    for (uint32_t i = 0; i < symbol->width; i++)
        out->elements[i] = (struct tsr_operand){.kind = TSR_OPERAND_REGISTER, .id = symbol->ids[i], .column = out->column};
}

/* .x of a vector register or of a special one. 0 when there is no component. */
static char parse_component(struct tsr_load *load)
{
    if (*load->text.at != '.')
        return 0;
    static const char letters[] = "xyzwrgba";
    const char *found = load->text.at[1] ? strchr(letters, load->text.at[1]) : NULL;
    if (!found || tsr_char_is(load->text.at[2], TSR_CHAR_WORD)) {
        load->text.at++;
        tsr_load_expected(load, "a component .x .y .z .w");
    }
    load->text.at += 2;
    return "xyzw"[(found - letters) % 4];
}

static int64_t parse_displacement(struct tsr_load *load)
{
    char c = tsr_parse_peek(load);
    if (c != '+' && c != '-')
        return 0;
    if (c == '+')
        load->text.at++;
    tsr_text_skip(&load->text);
    struct tsr_number number = tsr_parse_expression(load);
    if (number.kind == TSR_NUMBER_F32 || number.kind == TSR_NUMBER_F64)
        tsr_load_expected(load, "an integer displacement");
    return (int64_t)number.bits;
}

static void parse_word_operand(struct tsr_load *load, struct tsr_operand *out)
{
    struct tsr_word word = tsr_text_word(&load->text);
    if (word.length == 1 && *word.text == '_') {
        out->kind = TSR_OPERAND_SINK;
        return;
    }
    struct tsr_ptx_symbol *symbol = tsr_scope_find_word(load, word, &out->name, &out->id);
    if (out->id != TSR_NO_REG) {
        out->kind = TSR_OPERAND_REGISTER;
        return;
    }
    if (!symbol) {
        if (tsr_word_is(word, "WARP_SZ")) {
            out->kind = TSR_OPERAND_NUMBER;
            out->number = (struct tsr_number){TSR_NUMBER_SIGNED, 32};
            return;
        }
        out->kind = TSR_OPERAND_NAME;
        out->component = parse_component(load);
        return;
    }
    switch (symbol->kind) {
    case TSR_SYMBOL_REGISTER:
        out->kind = TSR_OPERAND_REGISTER;
        out->id = symbol->id;
        return;
    case TSR_SYMBOL_VECTOR: {
        char component = parse_component(load);
        uint32_t index = component ? (uint32_t)(strchr("xyzw", component) - "xyzw") : 0;
        if (index >= symbol->width)
            tsr_load_expected(load, "a component that the vector register has");
        out->kind = TSR_OPERAND_REGISTER;
        out->id = symbol->ids[index];
        if (!component)
            expand_vector(load, out, symbol);
        return;
    }
    default:
        out->kind = TSR_OPERAND_SYMBOL;
        out->symbol = symbol;
        out->displacement = parse_displacement(load);
    }
}

static void parse_address(struct tsr_load *load, struct tsr_operand *out, unsigned nesting)
{
    parse_elements(load, out, ']', nesting);
    if (out->count == 0)
        tsr_load_expected(load, "an address between [ and ]");
    out->kind = TSR_OPERAND_ADDRESS;
}

static void parse_operand(struct tsr_load *load, struct tsr_operand *out, unsigned nesting)
{
    char c = tsr_parse_peek(load);
    if (nesting > 4)
        tsr_load_expected(load, "operands of at most 4 levels");
    out->column = tsr_text_column(&load->text, load->text.at);
    if (c == '{' || c == '[' || c == '(') {
        load->text.at++;
        if (c == '[') {
            parse_address(load, out, nesting);
        } else {
            out->kind = c == '{' ? TSR_OPERAND_VECTOR : TSR_OPERAND_LIST;
            parse_elements(load, out, c == '{' ? '}' : ')', nesting);
        }
        return;
    }
    if (c == '!') {
        struct tsr_ptx_text before = load->text;
        load->text.at++;
        if (tsr_char_is(tsr_parse_peek(load), TSR_CHAR_START)) {
            out->inverted = true;
            parse_word_operand(load, out);
            return;
        }
        load->text = before;
    }
    if (!tsr_char_is(c, TSR_CHAR_START)) {
        out->kind = TSR_OPERAND_NUMBER;
        out->number = tsr_parse_expression(load);
        return;
    }
    parse_word_operand(load, out);
    if (nesting && out->kind == TSR_OPERAND_REGISTER)
        out->displacement = parse_displacement(load);
    if (tsr_parse_take(load, '|')) {
        out->second = tsr_load_new(load, &load->scratch, struct tsr_operand, 1);
        parse_operand(load, out->second, nesting + 1);
    }
}

/* A parenthesis in anything but a call begins an expression. */
static void parse_top_operand(struct tsr_load *load, struct tsr_operand *out, bool call)
{
    if (call || tsr_parse_peek(load) != '(') {
        parse_operand(load, out, 0);
        return;
    }
    out->column = tsr_text_column(&load->text, load->text.at);
    out->kind = TSR_OPERAND_NUMBER;
    out->number = tsr_parse_expression(load);
}

void tsr_parse_statement(struct tsr_load *load, struct tsr_word opcode, const char *begin, uint32_t guard, bool guard_not)
{
    struct tsr_operand operands[OPERANDS_MAX / 128];
    uint32_t count = 0;
    struct tsr_statement statement = {.guard = guard,
                                      .guard_not = guard_not,
                                      .line = load->text.line,
                                      .column = tsr_text_column(&load->text, begin),
                                      .scope = load->scopes[load->depth].id};
    statement.opcode = tsr_names_intern(&load->opcodes, opcode);
    if (!statement.opcode)
        tsr_load_memory(load);
    bool call = opcode.length >= 4 && memcmp(opcode.text, "call", 4) == 0;
    if (tsr_parse_peek(load) != ';')
        do {
            if (count == sizeof operands / sizeof *operands)
                tsr_load_expected(load, "at most 16 operands");
            memset(&operands[count], 0, sizeof *operands);
            parse_top_operand(load, &operands[count++], call);
        } while (tsr_parse_take(load, ','));
    tsr_parse_require(load, ';');
    statement.operand_count = count;
    statement.operands = tsr_load_new(load, &load->scratch, struct tsr_operand, count);
    memcpy(statement.operands, operands, sizeof *operands * count);
    tsr_load_push(load, &load->statements, statement);
}
