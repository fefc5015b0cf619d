/* Function headers and bodies, prototypes, target lists. */
#include <string.h>

#include "decode.h"
#include "parse.h"

#define FORMALS_MAX 4096u
#define PARAM_BYTES_MAX (1u << 16)

static bool same_text(struct tsr_word word, const char *text)
{
    return tsr_word_is(word, text);
}

static void parse_formal(struct tsr_load *load, struct tsr_formal *formal)
{
    struct tsr_word word = tsr_parse_directive(load);
    formal->is_register = same_text(word, "reg");
    if (!formal->is_register && !same_text(word, "param"))
        tsr_load_expected(load, ".param");
    struct tsr_type_spec spec = tsr_parse_type(load);
    struct tsr_ptx_name *name = tsr_parse_name(load, "a parameter name");
    struct tsr_dimensions dimensions = tsr_parse_dimensions(load);
    uint64_t element = tsr_type_bytes[spec.type] ? tsr_type_bytes[spec.type] : 1;
    uint64_t bytes = dimensions.unsized ? 0 : dimensions.count * element * (spec.width ? spec.width : 1);
    if (bytes > PARAM_BYTES_MAX)
        tsr_load_expected(load, "a parameter of at most 64 KiB");
    formal->name = name->length == 1 && *name->text == '_' ? NULL : name;
    formal->type = spec.type;
    formal->param.bytes = (uint32_t)bytes;
    formal->param.align = (uint32_t)(spec.align ? spec.align : element * (spec.width ? spec.width : 1));
    formal->param.pointer = spec.pointer;
}

static void parse_formals(struct tsr_load *load, struct tsr_formal **out, uint32_t *out_count)
{
    uint32_t capacity = 0, count = 0;
    struct tsr_formal *items = NULL;
    tsr_parse_require(load, '(');
    if (tsr_parse_peek(load) != ')')
        do {
            if (count == FORMALS_MAX)
                tsr_load_expected(load, "at most 4096 parameters");
            if (count == capacity) {
                capacity = capacity ? capacity * 2 : 8;
                struct tsr_formal *more = tsr_load_new(load, &load->module, struct tsr_formal, capacity);
                if (count)
                    memcpy(more, items, sizeof *items * count);
                items = more;
            }
            if (memcmp(load->text.at, "...", 3) == 0) {
                load->text.at += 3;
                break;
            }
            parse_formal(load, &items[count++]);
        } while (tsr_parse_take(load, ','));
    tsr_parse_require(load, ')');
    *out = items;
    *out_count = count;
}

static void lay_out_params(struct tsr_load *load, struct tsr_signature *signature)
{
    uint64_t offset = 0;
    for (uint32_t i = 0; i < signature->param_count; i++) {
        struct tsr_param *param = &signature->params[i].param;
        offset = (offset + param->align - 1) & ~(uint64_t)(param->align - 1);
        param->offset = (uint32_t)offset;
        offset += param->bytes;
        if (offset > PARAM_BYTES_MAX)
            tsr_load_expected(load, "at most 64 KiB of parameters");
    }
    signature->param_bytes = (uint32_t)offset;
}

uint32_t tsr_parse_function_index(struct tsr_load *load, struct tsr_ptx_name *name)
{
    struct tsr_ptx_symbol *symbol = name->symbol;
    while (symbol && symbol->depth)
        symbol = symbol->shadowed;
    if (symbol && symbol->kind != TSR_SYMBOL_FUNCTION)
        tsr_load_fail(load, CUDA_ERROR_INVALID_PTX, load->text.line, 1, "'%s' is already declared as something else",
                      name->text);
    if (symbol)
        return symbol->id;
    symbol = tsr_scope_declare(load, name, TSR_SYMBOL_FUNCTION);
    symbol->id = (uint32_t)load->functions.count;
    struct tsr_function_load function = {.name = name, .line = load->text.line};
    tsr_load_push(load, &load->functions, function);
    return symbol->id;
}

static void parse_triple(struct tsr_load *load, uint32_t out[3])
{
    uint32_t count = 0;
    out[0] = out[1] = out[2] = 1;
    do {
        uint64_t value = tsr_parse_integer(load, "a number of threads or blocks");
        if (count == 3 || value > UINT32_MAX)
            tsr_load_expected(load, "at most three numbers of 32 bits");
        out[count++] = (uint32_t)value;
    } while (tsr_parse_take(load, ','));
}

static uint32_t parse_count(struct tsr_load *load)
{
    uint64_t value = tsr_parse_integer(load, "a number");
    return value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

/* Directives between header and body. */
static void parse_tuning(struct tsr_load *load, struct tsr_tuning *tuning, struct tsr_signature *signature)
{
    while (tsr_parse_peek(load) == '.') {
        struct tsr_word word = tsr_parse_directive(load);
        uint32_t ignored[3];
        if (same_text(word, "maxntid"))
            parse_triple(load, tuning->max_threads);
        else if (same_text(word, "reqntid"))
            parse_triple(load, tuning->required_threads);
        else if (same_text(word, "reqnctapercluster"))
            parse_triple(load, tuning->cluster);
        else if (same_text(word, "minnctapersm") || same_text(word, "maxnctapersm"))
            tuning->min_blocks = parse_count(load);
        else if (same_text(word, "maxnreg"))
            tuning->max_registers = parse_count(load);
        else if (same_text(word, "explicitcluster"))
            tuning->explicit_cluster = true;
        else if (same_text(word, "noreturn"))
            signature->noreturn = true;
        else if (same_text(word, "maxclusterrank") || same_text(word, "abi_preserve") ||
                 same_text(word, "abi_preserve_control"))
            parse_count(load);
        else if (same_text(word, "blocksareclusters"))
            tuning->explicit_cluster = true;
        else if (same_text(word, "local_maxnreg"))
            parse_triple(load, ignored);
        else if (!tsr_parse_ignored(load, word))
            tsr_load_expected(load, "a function's body or a performance directive");
    }
}

/* name: .callprototype (...) _ (...), .branchtargets a, b; .calltargets f, g; */
static void parse_named_list(struct tsr_load *load, struct tsr_ptx_name *name, struct tsr_word directive)
{
    if (same_text(directive, "callprototype")) {
        struct tsr_signature *signature = tsr_load_new(load, &load->module, struct tsr_signature, 1);
        if (tsr_parse_peek(load) == '(')
            parse_formals(load, &signature->results, &signature->result_count);
        tsr_parse_name(load, "'_'");
        if (tsr_parse_peek(load) == '(')
            parse_formals(load, &signature->params, &signature->param_count);
        struct tsr_tuning unused = {0};
        parse_tuning(load, &unused, signature);
        tsr_scope_declare(load, name, TSR_SYMBOL_PROTOTYPE)->signature = signature;
    } else {
        bool branch = same_text(directive, "branchtargets");
        if (!branch && !same_text(directive, "calltargets"))
            tsr_load_expected(load, ".callprototype, .branchtargets or .calltargets");
        uint32_t capacity = 16, count = 0;
        struct tsr_ptx_name **targets = tsr_load_new(load, &load->scratch, struct tsr_ptx_name *, capacity);
        do {
            if (count == capacity) {
                struct tsr_ptx_name **more = tsr_load_new(load, &load->scratch, struct tsr_ptx_name *, capacity * 2);
                memcpy(more, targets, sizeof *more * count);
                targets = more;
                capacity *= 2;
            }
            targets[count++] = tsr_parse_name(load, "a label or function");
        } while (tsr_parse_take(load, ','));
        struct tsr_ptx_symbol *symbol = tsr_scope_declare(load, name, TSR_SYMBOL_TARGETS);
        symbol->count = count;
        symbol->targets = targets;
        symbol->id = load->scopes[load->depth].id;
    }
    tsr_parse_require(load, ';');
}

static void parse_body_directive(struct tsr_load *load)
{
    static const struct {
        const char *word;
        enum tsr_space_kind space;
    } spaces[] = {{"shared", TSR_SPACE_SHARED},
                  {"local", TSR_SPACE_LOCAL},
                  {"param", TSR_SPACE_PARAM},
                  {"global", TSR_SPACE_GLOBAL},
                  {"const", TSR_SPACE_CONST}};
    struct tsr_linkage linkage = {0};
    struct tsr_word word = tsr_parse_directive(load);
    if (same_text(word, "extern")) {
        linkage.external = true;
        word = tsr_parse_directive(load);
    }
    if (same_text(word, "reg")) {
        tsr_parse_registers(load);
        return;
    }
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
        if (same_text(word, spaces[i].word)) {
            tsr_parse_variables(load, spaces[i].space, linkage);
            return;
        }
    if (!tsr_parse_ignored(load, word))
        tsr_load_fail(load, CUDA_ERROR_INVALID_PTX, load->text.line, tsr_text_column(&load->text, word.text),
                      "unsupported directive .%.*s in a function", (int)word.length, word.text);
}

static uint32_t parse_guard(struct tsr_load *load, bool *negated)
{
    *negated = tsr_parse_take(load, '!');
    struct tsr_ptx_name *name = tsr_parse_name(load, "a predicate");
    const struct tsr_ptx_symbol *symbol = tsr_scope_find(load, name);
    if (!symbol || symbol->kind != TSR_SYMBOL_REGISTER || symbol->type != TSR_T_PRED)
        tsr_load_fail(load, CUDA_ERROR_INVALID_PTX, load->text.line, tsr_text_column(&load->text, load->text.at) - name->length,
                      "'%s' is not a predicate register", name->text);
    return symbol->id;
}

static void parse_instruction_or_label(struct tsr_load *load)
{
    const char *begin = load->text.at;
    uint32_t guard = TSR_NO_REG;
    bool guard_not = false;
    if (*begin == '@') {
        load->text.at++;
        guard = parse_guard(load, &guard_not);
        tsr_text_skip(&load->text);
    }
    struct tsr_word word = tsr_text_word(&load->text);
    if (!word.length)
        tsr_load_expected(load, "an instruction");
    const char *at = load->text.at;
    if (*at != '.') {
        tsr_text_skip(&load->text);
        if (guard == TSR_NO_REG && load->text.at[0] == ':' && load->text.at[1] != ':') {
            load->text.at++;
            struct tsr_ptx_name *name = tsr_load_intern(load, word);
            struct tsr_ptx_text after = load->text;
            struct tsr_word directive = {0};
            if (tsr_parse_peek(load) == '.')
                directive = tsr_parse_directive(load);
            if (same_text(directive, "callprototype") || same_text(directive, "branchtargets") ||
                same_text(directive, "calltargets")) {
                parse_named_list(load, name, directive);
                return;
            }
            load->text = after;
            tsr_label_define(load, name);
            return;
        }
    }
    while (tsr_char_is(*at, TSR_CHAR_OPCODE) || (at[0] == ':' && at[1] == ':' && tsr_char_is(at[2], TSR_CHAR_OPCODE)))
        at += *at == ':' ? 2 : 1;
    if (at > load->text.at)
        load->text.at = at;
    word.length = (uint32_t)(at - word.text);
    tsr_parse_statement(load, word, begin, guard, guard_not);
}

static void parse_body(struct tsr_load *load)
{
    uint32_t outer = load->depth;
    for (;;) {
        char c = tsr_parse_peek(load);
        if (c == '.') {
            parse_body_directive(load);
        } else if (c == '{') {
            load->text.at++;
            tsr_scope_open(load);
        } else if (c == '}') {
            load->text.at++;
            if (load->depth == outer)
                return;
            tsr_scope_close(load);
        } else if (c == ';') {
            load->text.at++;
        } else if (c == '@' && load->text.at[1] == '@') {
            tsr_text_skip_line(&load->text); /* @@DWARF of old compilers */
        } else {
            parse_instruction_or_label(load);
        }
    }
}

static void declare_formals(struct tsr_load *load, struct tsr_formal *formals, uint32_t count, bool entry)
{
    for (uint32_t i = 0; i < count; i++) {
        struct tsr_formal *formal = &formals[i];
        if (formal->is_register) {
            if (entry || formal->type == TSR_T_PRED || formal->type == TSR_T_B128)
                tsr_load_expected(load, "parameters in .param space");
            struct tsr_ptx_symbol *symbol = tsr_scope_declare(load, formal->name, TSR_SYMBOL_REGISTER);
            symbol->type = formal->type;
            symbol->id = formal->reg = tsr_register_new(load, formal->type);
            tsr_area_new(load, formal->param.bytes);
            continue;
        }
        struct tsr_ptx_symbol *symbol = tsr_scope_declare(load, formal->name, entry ? TSR_SYMBOL_PARAM : TSR_SYMBOL_AREA);
        symbol->bytes = formal->param.bytes;
        symbol->offset = formal->param.offset;
        if (!entry)
            symbol->id = tsr_area_new(load, formal->param.bytes);
    }
}

static void begin_function(struct tsr_load *load, uint32_t index)
{
    tsr_arena_clear(&load->scratch);
    tsr_vec_clear(&load->statements);
    tsr_vec_clear(&load->labels);
    tsr_vec_clear(&load->scope_parents);
    tsr_vec_clear(&load->areas);
    tsr_vec_clear(&load->register_types);
    load->local_bytes = 0;
    load->member_bytes = 0;
    load->area_bytes = 0;
    load->scopes[0].area_top = 0;
    load->function = index;
    load->function_number++;
    load->generation++;
    tsr_scope_open(load);
}

void tsr_parse_function(struct tsr_load *load, bool entry, struct tsr_linkage linkage)
{
    struct tsr_signature signature = {0};
    struct tsr_tuning tuning = {0};
    parse_tuning(load, &tuning, &signature);
    uint32_t line = load->text.line;
    if (tsr_parse_peek(load) == '(')
        parse_formals(load, &signature.results, &signature.result_count);
    struct tsr_ptx_name *name = tsr_parse_name(load, "a function name");
    if (tsr_parse_peek(load) == '(')
        parse_formals(load, &signature.params, &signature.param_count);
    lay_out_params(load, &signature);
    parse_tuning(load, &tuning, &signature);
    uint32_t index = tsr_parse_function_index(load, name);
    struct tsr_function_load *function = &load->functions.data[index];
    bool body = tsr_parse_peek(load) == '{';
    if (body && function->defined)
        tsr_load_fail(load, CUDA_ERROR_INVALID_PTX, line, 1, "function '%s' is already defined in line %u", name->text,
                      function->line);
    if (!function->defined) {
        function->signature = signature;
        function->entry = entry;
    }
    function->visible |= linkage.visible;
    if (!body) {
        tsr_parse_require(load, ';');
        return;
    }
    function->defined = true;
    function->line = line;
    load->text.at++;
    begin_function(load, index);
    declare_formals(load, signature.params, signature.param_count, entry);
    declare_formals(load, signature.results, signature.result_count, entry);
    parse_body(load);
    tsr_decode_function(load, &tuning);
    tsr_scope_close(load);
}
