/* Everything outside of functions. */
#include <string.h>

#include "parse.h"
#include "tessera/machine.h"

void tsr_parse_require(struct tsr_load *load, char c)
{
    if (!tsr_parse_take(load, c))
        tsr_load_expected(load, (char[]){'\'', c, '\'', 0});
}

struct tsr_ptx_name *tsr_parse_name(struct tsr_load *load, const char *what)
{
    tsr_text_skip(&load->text);
    struct tsr_word word = tsr_text_word(&load->text);
    if (!word.length)
        tsr_load_expected(load, what);
    return tsr_load_intern(load, word);
}

struct tsr_word tsr_parse_directive(struct tsr_load *load)
{
    if (!tsr_parse_take(load, '.'))
        return (struct tsr_word){load->text.at, 0};
    struct tsr_word word = tsr_text_word(&load->text);
    if (!word.length)
        tsr_load_expected(load, "a directive");
    return word;
}

static void skip_block(struct tsr_load *load)
{
    while (load->text.at < load->text.end && tsr_parse_peek(load) != '{')
        load->text.at++;
    while (load->text.at < load->text.end && tsr_parse_peek(load) != '}')
        load->text.at++;
    tsr_parse_require(load, '}');
}

bool tsr_parse_ignored(struct tsr_load *load, struct tsr_word directive)
{
    if (tsr_word_is(directive, "loc") || tsr_word_is(directive, "file")) {
        tsr_text_skip_line(&load->text);
    } else if (tsr_word_is(directive, "pragma")) {
        while (load->text.at < load->text.end && *load->text.at != ';' && *load->text.at != '\n')
            load->text.at++;
        tsr_parse_require(load, ';');
    } else if (tsr_word_is(directive, "section")) {
        skip_block(load);
    } else {
        return false;
    }
    return true;
}

static void parse_version(struct tsr_load *load)
{
    uint32_t parts[2] = {0, 0};
    tsr_text_skip(&load->text);
    for (unsigned part = 0; part < 2; part++) {
        if (!tsr_char_is(*load->text.at, TSR_CHAR_DIGIT))
            tsr_load_expected(load, "a version such as 7.8");
        for (; tsr_char_is(*load->text.at, TSR_CHAR_DIGIT) && parts[part] < 1000; load->text.at++)
            parts[part] = parts[part] * 10 + (uint32_t)(*load->text.at - '0');
        if (part == 0 && *load->text.at++ != '.')
            tsr_load_expected(load, "a version such as 7.8");
    }
    if (parts[0] < 1 || parts[0] > 9 || parts[1] > 9)
        tsr_load_fail(load, CUDA_ERROR_UNSUPPORTED_PTX_VERSION, load->text.line, 1,
                      "PTX version %u.%u is not supported (up to 9.9)", parts[0], parts[1]);
    load->code->ptx_version = parts[0] * 10 + parts[1];
}

/* sm_90, sm_90a, sm_120f; compute_90 in a few generators. */
static bool parse_architecture(struct tsr_word word, uint32_t *arch, char *suffix)
{
    uint32_t begin = word.length > 3 && memcmp(word.text, "sm_", 3) == 0        ? 3
                     : word.length > 8 && memcmp(word.text, "compute_", 8) == 0 ? 8
                                                                                : 0;
    if (!begin || word.length > begin + 5)
        return false;
    uint32_t i = begin;
    for (*arch = 0; i < word.length && tsr_char_is(word.text[i], TSR_CHAR_DIGIT); i++)
        *arch = *arch * 10 + (uint32_t)(word.text[i] - '0');
    *suffix = i < word.length ? word.text[i] : 0;
    return true;
}

static void parse_target(struct tsr_load *load)
{
    do {
        tsr_text_skip(&load->text);
        const char *place = load->text.at;
        struct tsr_word word = tsr_text_word(&load->text);
        uint32_t arch;
        char suffix;
        if (tsr_word_is(word, "debug"))
            load->code->debug = true;
        if (!word.length)
            tsr_load_expected(load, "a target such as sm_80");
        if (!parse_architecture(word, &arch, &suffix))
            continue;
        uint32_t device = load->device->compute_major * 10 + load->device->compute_minor;
        bool family = suffix == 'f' && arch / 10 == device / 10;
        if (arch > device || (suffix == 'a' && arch != device) || (suffix == 'f' && !family))
            tsr_load_fail(load, CUDA_ERROR_INVALID_PTX, load->text.line, tsr_text_column(&load->text, place),
                          "target %.*s does not run on this device (sm_%u)", (int)word.length, word.text, device);
        load->code->target = arch;
    } while (tsr_parse_take(load, ','));
}

static void parse_alias(struct tsr_load *load)
{
    struct tsr_ptx_name *name = tsr_parse_name(load, "a function name");
    tsr_parse_require(load, ',');
    struct tsr_ptx_name *target = tsr_parse_name(load, "a function name");
    tsr_parse_require(load, ';');
    uint32_t of = tsr_parse_function_index(load, target), index = tsr_parse_function_index(load, name);
    struct tsr_function_load *function = &load->functions.data[index];
    if (of == index || function->defined || load->functions.data[of].alias)
        tsr_load_expected(load, "an alias of another function");
    function->alias = true;
    function->alias_of = of;
}

static void parse_declaration(struct tsr_load *load, struct tsr_word word)
{
    struct tsr_linkage linkage = {0};
    for (;; word = tsr_parse_directive(load)) {
        if (tsr_word_is(word, "visible") || tsr_word_is(word, "weak") || tsr_word_is(word, "common"))
            linkage.visible = true;
        else if (tsr_word_is(word, "extern"))
            linkage.external = linkage.visible = true;
        else
            break;
    }
    if (tsr_word_is(word, "entry") || tsr_word_is(word, "func")) {
        tsr_parse_function(load, *word.text == 'e', linkage);
    } else if (tsr_word_is(word, "global")) {
        tsr_parse_variables(load, TSR_SPACE_GLOBAL, linkage);
    } else if (tsr_word_is(word, "const")) {
        tsr_parse_variables(load, TSR_SPACE_CONST, linkage);
    } else if (tsr_word_is(word, "shared")) {
        tsr_parse_variables(load, TSR_SPACE_SHARED, linkage);
    } else {
        tsr_load_fail(load, CUDA_ERROR_INVALID_PTX, load->text.line, tsr_text_column(&load->text, word.text),
                      "unsupported directive .%.*s at module scope", (int)word.length, word.text);
    }
}

void tsr_parse_module(struct tsr_load *load)
{
    for (;;) {
        char c = tsr_parse_peek(load);
        if (load->text.at >= load->text.end)
            break;
        if (c == '@' && load->text.at[1] == '@') {
            tsr_text_skip_line(&load->text);
            continue;
        }
        if (c == ';') {
            load->text.at++;
            continue;
        }
        if (c != '.')
            tsr_load_expected(load, "a directive");
        struct tsr_word word = tsr_parse_directive(load);
        if (tsr_word_is(word, "version")) {
            parse_version(load);
        } else if (tsr_word_is(word, "target")) {
            parse_target(load);
        } else if (tsr_word_is(word, "address_size")) {
            if (tsr_parse_integer(load, "64") != 64)
                tsr_load_expected(load, "64 as address size");
        } else if (tsr_word_is(word, "alias")) {
            parse_alias(load);
        } else if (!tsr_parse_ignored(load, word)) {
            parse_declaration(load, word);
        }
    }
    if (!load->code->ptx_version || !load->code->target)
        tsr_load_fail(load, CUDA_ERROR_INVALID_PTX, 1, 1, "no .version and .target: this is not a PTX module");
}
