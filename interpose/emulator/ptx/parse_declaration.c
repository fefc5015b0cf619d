/* Types, registers, variables and their initialisers. */
#include <string.h>

#include "parse.h"

#define VARIABLE_BYTES_MAX (1ull << 36)
#define INITIALISER_BYTES_MAX (1ull << 30)
#define RANGE_MAX 100000000u

static const struct {
    char text[8];
    uint8_t type;
} type_names[] = {
    {"pred", TSR_T_PRED}, {"b8", TSR_T_B8},   {"u8", TSR_T_U8},   {"s8", TSR_T_S8},       {"b16", TSR_T_B16},
    {"u16", TSR_T_U16},   {"s16", TSR_T_S16}, {"f16", TSR_T_F16}, {"bf16", TSR_T_BF16},   {"b32", TSR_T_B32},
    {"u32", TSR_T_U32},   {"s32", TSR_T_S32}, {"f32", TSR_T_F32}, {"f16x2", TSR_T_F16X2}, {"bf16x2", TSR_T_BF16X2},
    {"b64", TSR_T_B64},   {"u64", TSR_T_U64}, {"s64", TSR_T_S64}, {"f64", TSR_T_F64},     {"b128", TSR_T_B128},
};

uint8_t tsr_parse_type_name(struct tsr_word word)
{
    for (size_t i = 0; i < sizeof type_names / sizeof *type_names; i++)
        if (tsr_word_is(word, type_names[i].text))
            return type_names[i].type;
    return TSR_T_NONE;
}

static bool is_space_name(struct tsr_word word)
{
    return tsr_word_is(word, "global") || tsr_word_is(word, "const") || tsr_word_is(word, "shared") ||
           tsr_word_is(word, "local") || tsr_word_is(word, "generic");
}

static uint64_t parse_align(struct tsr_load *load)
{
    uint64_t align = tsr_parse_integer(load, "an alignment");
    if (align == 0 || align & (align - 1) || align > 1u << 20)
        tsr_load_expected(load, "a power of two as alignment");
    return align;
}

static void parse_attribute(struct tsr_load *load, struct tsr_type_spec *spec)
{
    tsr_parse_require(load, '(');
    do {
        struct tsr_word word = tsr_parse_directive(load);
        if (tsr_word_is(word, "managed")) {
            spec->managed = true;
        } else if (tsr_word_is(word, "unified")) {
            tsr_parse_require(load, '(');
            do
                tsr_parse_integer(load, "a number");
            while (tsr_parse_take(load, ','));
            tsr_parse_require(load, ')');
        } else {
            tsr_load_expected(load, ".managed or .unified");
        }
    } while (tsr_parse_take(load, ','));
    tsr_parse_require(load, ')');
}

struct tsr_type_spec tsr_parse_type(struct tsr_load *load)
{
    struct tsr_type_spec spec = {0};
    bool in_pointer = false;
    while (tsr_parse_peek(load) == '.') {
        struct tsr_word word = tsr_parse_directive(load);
        uint8_t type = tsr_parse_type_name(word);
        if (type != TSR_T_NONE)
            spec.type = type;
        else if (tsr_word_is(word, "align") && in_pointer)
            parse_align(load); /* of what is pointed to */
        else if (tsr_word_is(word, "align"))
            spec.align = parse_align(load);
        else if (tsr_word_is(word, "v2") || tsr_word_is(word, "v4"))
            spec.width = (uint8_t)(word.text[1] - '0');
        else if (tsr_word_is(word, "ptr"))
            spec.pointer = in_pointer = true;
        else if (tsr_word_is(word, "attribute"))
            parse_attribute(load, &spec);
        else if (!in_pointer || !is_space_name(word))
            tsr_load_expected(load, "a type");
    }
    if (spec.type == TSR_T_NONE)
        tsr_load_expected(load, "a type");
    return spec;
}

struct tsr_dimensions tsr_parse_dimensions(struct tsr_load *load)
{
    struct tsr_dimensions dimensions = {.count = 1};
    while (tsr_parse_take(load, '[')) {
        uint64_t size = 0;
        if (dimensions.rank == 8)
            tsr_load_expected(load, "at most 8 dimensions");
        if (tsr_parse_peek(load) == ']')
            dimensions.unsized = true;
        else
            size = tsr_parse_integer(load, "an array size");
        if (__builtin_mul_overflow(dimensions.count, dimensions.unsized && !size ? 1 : size, &dimensions.count) ||
            dimensions.count > VARIABLE_BYTES_MAX)
            tsr_load_expected(load, "a smaller array");
        dimensions.size[dimensions.rank++] = size;
        tsr_parse_require(load, ']');
    }
    return dimensions;
}

void tsr_parse_registers(struct tsr_load *load)
{
    struct tsr_type_spec spec = tsr_parse_type(load);
    if (spec.width && spec.type == TSR_T_PRED)
        tsr_load_expected(load, "a vector of numbers");
    do {
        struct tsr_ptx_name *name = tsr_parse_name(load, "a register name");
        if (tsr_parse_take(load, '<')) {
            tsr_text_skip(&load->text);
            uint64_t count = tsr_text_number(&load->text).bits;
            if (count > RANGE_MAX)
                tsr_load_expected(load, "at most 100000000 registers");
            tsr_parse_require(load, '>');
            tsr_scope_declare_range(load, name, spec.type, spec.width, (uint32_t)count);
            continue;
        }
        struct tsr_ptx_symbol *symbol = tsr_scope_declare(load, name, spec.width ? TSR_SYMBOL_VECTOR : TSR_SYMBOL_REGISTER);
        symbol->type = spec.type;
        symbol->width = spec.width;
        symbol->id = tsr_register_new(load, spec.type);
        symbol->ids[0] = symbol->id;
        for (uint32_t i = 1; i < spec.width; i++)
            symbol->ids[i] = tsr_register_new(load, spec.type);
    } while (tsr_parse_take(load, ','));
    tsr_parse_require(load, ';');
}

/* Initialisers. */
struct initialiser {
    uint8_t *bytes;
    uint64_t size, at, element;
    uint8_t type;
    struct tsr_reloc *relocs;
    uint32_t reloc_count, reloc_capacity;
};

static void add_reloc(struct tsr_load *load, struct initialiser *init, struct tsr_reloc reloc)
{
    if (init->reloc_count == init->reloc_capacity) {
        uint32_t capacity = init->reloc_capacity ? init->reloc_capacity * 2 : 4;
        struct tsr_reloc *more = tsr_load_new(load, load->keep, struct tsr_reloc, capacity);
        if (init->reloc_count)
            memcpy(more, init->relocs, sizeof *more * init->reloc_count);
        init->relocs = more;
        init->reloc_capacity = capacity;
    }
    init->relocs[init->reloc_count++] = reloc;
}

/* name, name+8, generic(name), generic(name)+8 */
static struct tsr_reloc parse_address_of(struct tsr_load *load)
{
    struct tsr_reloc reloc = {0};
    struct tsr_ptx_name *name = tsr_parse_name(load, "a constant or a variable");
    bool generic = tsr_word_is((struct tsr_word){name->text, name->length}, "generic") && tsr_parse_take(load, '(');
    if (generic)
        name = tsr_parse_name(load, "a variable");
    const struct tsr_ptx_symbol *symbol = tsr_scope_find(load, name);
    if (generic && tsr_parse_peek(load) == '+')
        reloc.addend = (int64_t)tsr_parse_expression(load).bits;
    if (generic)
        tsr_parse_require(load, ')');
    if (!symbol || (symbol->kind != TSR_SYMBOL_VARIABLE && symbol->kind != TSR_SYMBOL_FUNCTION))
        tsr_load_fail(load, CUDA_ERROR_INVALID_PTX, load->text.line, tsr_text_column(&load->text, load->text.at),
                      "'%s' is not a variable or function of the module", name->text);
    if (tsr_parse_peek(load) == '+' || *load->text.at == '-')
        reloc.addend += (int64_t)tsr_parse_expression(load).bits;
    reloc.index = symbol->id;
    reloc.function = symbol->kind == TSR_SYMBOL_FUNCTION;
    if (reloc.function)
        load->functions.data[symbol->id].address_taken = true;
    return reloc;
}

/* 0xff(name), 0xff00(name), ...: the bytes of one address, in order. */
static void put_masked(struct tsr_load *load, struct initialiser *init, uint64_t mask)
{
    struct tsr_reloc reloc = parse_address_of(load);
    tsr_parse_require(load, ')');
    unsigned byte = mask ? (unsigned)__builtin_ctzll(mask) / 8 : 0;
    if (init->element != 1 || mask != 0xffull << byte * 8 || init->at < byte || init->at - byte + 8 > init->size)
        tsr_load_expected(load, "the eight bytes of an address, lowest first");
    reloc.offset = (uint32_t)(init->at - byte);
    const struct tsr_reloc *last = init->reloc_count ? &init->relocs[init->reloc_count - 1] : NULL;
    if (byte == 0)
        add_reloc(load, init, reloc);
    else if (!last || last->offset != reloc.offset || last->index != reloc.index || last->function != reloc.function)
        tsr_load_expected(load, "the bytes of one address in order");
}

static uint64_t encode(struct tsr_load *load, struct tsr_number number, uint8_t type)
{
    bool is_float = number.kind == TSR_NUMBER_F32 || number.kind == TSR_NUMBER_F64;
    bool wants_f32 = type == TSR_T_F32 || (is_float && type == TSR_T_B32),
         wants_f64 = type == TSR_T_F64 || (is_float && type == TSR_T_B64);
    if (is_float && !wants_f32 && !wants_f64)
        tsr_load_expected(load, "an integer constant");
    double value;
    float single;
    if (number.kind == TSR_NUMBER_F32) {
        uint32_t bits = (uint32_t)number.bits;
        if (wants_f32)
            return bits;
        memcpy(&single, &bits, 4);
        value = (double)single;
    } else if (number.kind == TSR_NUMBER_F64) {
        memcpy(&value, &number.bits, 8);
    } else if (wants_f32 || wants_f64) {
        value = number.kind == TSR_NUMBER_SIGNED ? (double)(int64_t)number.bits : (double)number.bits;
    } else {
        return number.bits;
    }
    uint64_t bits = 0;
    if (wants_f32) {
        single = (float)value;
        memcpy(&bits, &single, 4);
    } else {
        memcpy(&bits, &value, 8);
    }
    return bits;
}

static void put_element(struct tsr_load *load, struct initialiser *init)
{
    if (init->at + init->element > init->size)
        tsr_load_expected(load, "no more elements than the variable has");
    if (tsr_char_is(tsr_parse_peek(load), TSR_CHAR_START)) {
        struct tsr_reloc reloc = parse_address_of(load);
        if (init->element != 8)
            tsr_load_expected(load, "a 64-bit element for an address");
        reloc.offset = (uint32_t)init->at;
        add_reloc(load, init, reloc);
    } else {
        struct tsr_number number = tsr_parse_expression(load);
        if (tsr_parse_take(load, '(')) {
            put_masked(load, init, number.bits);
        } else {
            uint64_t bits = encode(load, number, init->type);
            memcpy(init->bytes + init->at, &bits, init->element < 8 ? init->element : 8);
        }
    }
    init->at += init->element;
}

/* Rows of an array begin at multiples of the row's size, whatever was given for the row before. */
static void parse_braces(struct tsr_load *load, struct initialiser *init, const struct tsr_dimensions *dimensions,
                         unsigned vector)
{
    uint64_t row_bytes[10], row_begin[10];
    unsigned depth = 0, levels = dimensions->rank + (vector ? 1 : 0);
    uint64_t bytes = init->element * (vector ? vector : 1);
    for (unsigned level = dimensions->rank; level > 0; level--) {
        row_bytes[level] = bytes; /* of what a brace at depth `level` opens */
        bytes *= dimensions->size[level - 1] ? dimensions->size[level - 1] : 1;
    }
    row_bytes[0] = init->size;
    if (vector)
        row_bytes[dimensions->rank] = init->element * vector;
    do {
        if (tsr_parse_take(load, '{')) {
            if (depth >= (levels ? levels : 1))
                tsr_load_expected(load, "no more braces than dimensions");
            row_begin[depth++] = init->at;
            if (tsr_parse_peek(load) == '{')
                continue;
        }
        if (depth == 0) {
            put_element(load, init);
            return;
        }
        if (tsr_parse_peek(load) != '}')
            put_element(load, init);
        while (depth && tsr_parse_take(load, '}')) {
            depth--;
            init->at = row_begin[depth] + row_bytes[depth];
        }
        if (depth && *load->text.at != '{')
            tsr_parse_require(load, ',');
    } while (depth);
}

/* .type name[n] = {...}: the size of an unsized array is that of its initialiser. */
static uint64_t count_elements(struct tsr_load *load)
{
    struct tsr_ptx_text before = load->text;
    uint64_t commas = 0;
    for (unsigned parentheses = 0; load->text.at < load->text.end && *load->text.at != ';'; load->text.at++) {
        parentheses += *load->text.at == '(';
        parentheses -= *load->text.at == ')' && parentheses;
        commas += *load->text.at == ',' && !parentheses;
    }
    load->text = before;
    return commas + 1;
}

static void parse_initialiser(struct tsr_load *load, struct tsr_variable *variable, const struct tsr_type_spec *spec,
                              struct tsr_dimensions *dimensions)
{
    struct initialiser init = {.type = spec->type, .element = tsr_type_bytes[spec->type]};
    if (dimensions->unsized && dimensions->rank == 1) {
        dimensions->size[0] = dimensions->count = count_elements(load);
        variable->bytes = dimensions->count * init.element;
        dimensions->unsized = false;
    }
    if (dimensions->unsized || variable->bytes > INITIALISER_BYTES_MAX)
        tsr_load_expected(load, "a variable of known size, at most 1 GiB, to initialise");
    init.size = variable->bytes;
    init.bytes = tsr_load_alloc(load, load->keep, variable->bytes, 16);
    parse_braces(load, &init, dimensions, spec->width);
    variable->init = init.bytes;
    variable->relocs = init.relocs;
    variable->reloc_count = init.reloc_count;
}

static void declare_module_variable(struct tsr_load *load, struct tsr_ptx_name *name, struct tsr_variable variable)
{
    struct tsr_ptx_symbol *known = load->depth ? NULL : name->symbol;
    if (known && known->kind != TSR_SYMBOL_VARIABLE)
        tsr_load_fail(load, CUDA_ERROR_INVALID_PTX, load->text.line, 1, "'%s' is already declared as something else",
                      name->text);
    if (known) { /* an extern declaration and the definition, in either order */
        struct tsr_variable *old = &load->variables.data[known->id];
        if (!old->is_extern && !variable.is_extern)
            tsr_load_fail(load, CUDA_ERROR_INVALID_PTX, load->text.line, 1, "variable '%s' is already defined", name->text);
        if (!variable.is_extern)
            *old = variable;
        return;
    }
    struct tsr_ptx_symbol *symbol = tsr_scope_declare(load, name, TSR_SYMBOL_VARIABLE);
    symbol->id = (uint32_t)load->variables.count;
    tsr_load_push(load, &load->variables, variable);
}

static void declare_in_function(struct tsr_load *load, struct tsr_ptx_name *name, enum tsr_space_kind space, uint64_t bytes,
                                uint64_t align)
{
    struct tsr_ptx_symbol *symbol;
    if (space == TSR_SPACE_LOCAL) {
        symbol = tsr_scope_declare(load, name, TSR_SYMBOL_LOCAL);
        load->local_bytes = (load->local_bytes + align - 1) & ~(align - 1);
        symbol->offset = load->local_bytes;
        load->local_bytes += bytes;
        if (load->local_bytes > 1u << 24)
            tsr_load_expected(load, "at most 16 MiB of local memory");
    } else {
        symbol = tsr_scope_declare(load, name, TSR_SYMBOL_AREA);
        if (bytes > 1u << 16)
            tsr_load_expected(load, "a parameter of at most 64 KiB");
        symbol->id = tsr_area_new(load, (uint32_t)bytes);
    }
    symbol->bytes = bytes;
}

static void declare_shared(struct tsr_load *load, struct tsr_ptx_name *name, uint64_t bytes, uint64_t align, bool dynamic)
{
    if (load->depth == 0 && name->symbol && name->symbol->kind == TSR_SYMBOL_SHARED) {
        struct tsr_shared *known = &load->shared.data[name->symbol->id];
        if (known->dynamic && !dynamic)
            *known = (struct tsr_shared){.bytes = bytes, .align = align};
        return;
    }
    if (bytes > 1u << 28)
        tsr_load_expected(load, "at most 256 MiB of shared memory");
    struct tsr_ptx_symbol *symbol = tsr_scope_declare(load, name, TSR_SYMBOL_SHARED);
    symbol->id = (uint32_t)load->shared.count;
    symbol->bytes = bytes;
    tsr_load_push(load, &load->shared, (struct tsr_shared){.bytes = bytes, .align = align, .dynamic = dynamic});
}

void tsr_parse_variables(struct tsr_load *load, enum tsr_space_kind space, struct tsr_linkage linkage)
{
    struct tsr_type_spec spec = tsr_parse_type(load);
    if (spec.type == TSR_T_PRED)
        tsr_load_expected(load, "a type that can be stored");
    do {
        struct tsr_ptx_name *name = tsr_parse_name(load, "a variable name");
        struct tsr_dimensions dimensions = tsr_parse_dimensions(load);
        uint64_t element = (uint64_t)tsr_type_bytes[spec.type] * (spec.width ? spec.width : 1);
        struct tsr_variable variable = {.name = name->text,
                                        .space = space,
                                        .visible = linkage.visible,
                                        .managed = spec.managed,
                                        .is_extern = linkage.external,
                                        .align = spec.align ? spec.align : element};
        variable.bytes = dimensions.unsized ? 0 : dimensions.count * element;
        if (variable.bytes > VARIABLE_BYTES_MAX)
            tsr_load_expected(load, "a smaller variable");
        if (tsr_parse_take(load, '=')) {
            if (space != TSR_SPACE_GLOBAL && space != TSR_SPACE_CONST)
                tsr_load_expected(load, "';' (only .global and .const variables are initialised)");
            variable.is_extern = false;
            parse_initialiser(load, &variable, &spec, &dimensions);
        }
        if (space == TSR_SPACE_GLOBAL || space == TSR_SPACE_CONST)
            declare_module_variable(load, name, variable);
        else if (space == TSR_SPACE_SHARED)
            declare_shared(load, name, variable.bytes, variable.align, linkage.external || dimensions.unsized);
        else if (load->depth)
            declare_in_function(load, name, space, variable.bytes, variable.align);
        else
            tsr_load_expected(load, "a variable in .global, .const or .shared");
    } while (tsr_parse_take(load, ','));
    tsr_parse_require(load, ';');
}
