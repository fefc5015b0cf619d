/* Reads mangled names, as the Itanium C++ ABI, 5.1, has them. What is not understood makes the whole name unknown. */
#include <string.h>

#include "base/demangle_tree.h"

#define ANONYMOUS "(anonymous namespace)"

struct reader {
    struct tsr_name_tree *tree;
    const char *at;
    int depth;
    bool in_lambda;
    struct tsr_name_scope *scope; /* of the encoding that is being read */
};

static const struct tsr_name *read_type(struct reader *reader);
static const struct tsr_name *read_encoding(struct reader *reader);
static const struct tsr_name *read_name(struct reader *reader, bool *is_template, const char **qualifiers);
static const struct tsr_name *read_arguments(struct reader *reader);

static bool accept(struct reader *reader, const char *text)
{
    size_t length = strlen(text);
    if (strncmp(reader->at, text, length) != 0)
        return false;
    reader->at += length;
    return true;
}

/* NULL when a part is NULL that the kind has, so that callers need not look. */
static struct tsr_name *node(struct reader *reader, enum tsr_name_kind kind, const struct tsr_name *a)
{
    bool has_part = kind != TSR_NAME_TEXT && kind != TSR_NAME_UNNAMED && kind != TSR_NAME_AUTO && kind != TSR_NAME_PARAMETER &&
                    kind != TSR_NAME_PACK && kind != TSR_NAME_FUNCTION_TYPE;
    if ((has_part && !a) || reader->tree->node_count == TSR_NAME_NODES)
        return NULL;
    struct tsr_name *made = &reader->tree->nodes[reader->tree->node_count++];
    *made = (struct tsr_name){.kind = kind, .a = a, .text = "", .scope = reader->scope};
    return made;
}

static const struct tsr_name *text_node(struct reader *reader, const char *text, size_t length)
{
    struct tsr_name *made = node(reader, TSR_NAME_TEXT, NULL);
    if (made) {
        made->text = text;
        made->length = length;
    }
    return made;
}

static const struct tsr_name *word(struct reader *reader, const char *text)
{
    return text_node(reader, text, strlen(text));
}

static const struct tsr_name *pair(struct reader *reader, enum tsr_name_kind kind, const struct tsr_name *a,
                                   const struct tsr_name *b)
{
    struct tsr_name *made = b ? node(reader, kind, a) : NULL;
    if (made)
        made->b = b;
    return made;
}

/* A parameter of a lambda that is a template, or a pointer to one: no name refers back to it. */
static bool is_auto(const struct tsr_name *type)
{
    while (type->kind >= TSR_NAME_POINTER && type->kind <= TSR_NAME_QUALIFIED)
        type = type->a;
    return type->kind == TSR_NAME_AUTO;
}

static const struct tsr_name *remember(struct reader *reader, const struct tsr_name *found)
{
    if (found && is_auto(found))
        return found;
    if (!found || reader->tree->substitution_count == TSR_NAME_SUBSTITUTIONS)
        return NULL;
    reader->tree->substitutions[reader->tree->substitution_count++] = found;
    return found;
}

static bool read_number(struct reader *reader, uint32_t *number)
{
    const char *begin = reader->at;
    for (*number = 0; *reader->at >= '0' && *reader->at <= '9' && *number < 1u << 24; reader->at++)
        *number = 10 * *number + (uint32_t)(*reader->at - '0');
    return reader->at != begin;
}

/* "_" is 0, "0_" is 1, and so on, in this base. */
static bool read_sequence(struct reader *reader, uint32_t base, uint32_t *number)
{
    *number = 0;
    if (accept(reader, "_"))
        return true;
    for (; *reader->at != '_' && *number < 1u << 20; reader->at++) {
        char c = *reader->at;
        uint32_t digit = c >= '0' && c <= '9' ? (uint32_t)(c - '0') : c >= 'A' && c <= 'Z' ? (uint32_t)(c - 'A') + 10 : base;
        if (digit >= base)
            return false;
        *number = *number * base + digit;
    }
    ++*number;
    return accept(reader, "_");
}

static const struct tsr_name *read_identifier(struct reader *reader)
{
    uint32_t length;
    if (!read_number(reader, &length) || strnlen(reader->at, length) < length || length == 0)
        return NULL;
    const char *text = reader->at;
    reader->at += length;
    if (length >= 10 && strncmp(text, "_GLOBAL_", 8) == 0 && strchr("_.$", text[8]) && text[9] == 'N')
        return word(reader, ANONYMOUS);
    return text_node(reader, text, length);
}

static const struct tsr_name *read_types(struct reader *reader, const char *end)
{
    const struct tsr_name *first = NULL;
    struct tsr_name *last = NULL;
    while (!accept(reader, end)) {
        struct tsr_name *item = node(reader, TSR_NAME_LIST, read_type(reader));
        if (!item)
            return NULL;
        *(last ? &last->b : &first) = item;
        last = item;
    }
    return first;
}

static const struct tsr_name *read_lambda(struct reader *reader)
{
    bool before = reader->in_lambda;
    reader->in_lambda = true;
    struct tsr_name *made = node(reader, TSR_NAME_LAMBDA, read_types(reader, "E"));
    reader->in_lambda = before;
    return made && read_sequence(reader, 10, &made->number) ? made : NULL;
}

static const char *const operators[][2] = {
    {"cl", "operator()"}, {"ix", "operator[]"}, {"pl", "operator+"},  {"mi", "operator-"},  {"ml", "operator*"},
    {"dv", "operator/"},  {"rm", "operator%"},  {"eq", "operator=="}, {"ne", "operator!="}, {"lt", "operator<"},
    {"gt", "operator>"},  {"le", "operator<="}, {"ge", "operator>="}, {"aS", "operator="},  {"pL", "operator+="},
    {"mI", "operator-="}, {"mL", "operator*="}, {"dV", "operator/="}, {"ls", "operator<<"}, {"rs", "operator>>"},
    {"an", "operator&"},  {"or", "operator|"},  {"eo", "operator^"},  {"aa", "operator&&"}, {"oo", "operator||"},
    {"nt", "operator!"},  {"pp", "operator++"}, {"mm", "operator--"}, {"pt", "operator->"}, {"de", "operator*"},
};

static const struct tsr_name *read_operator(struct reader *reader)
{
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++)
        if (accept(reader, operators[i][0]))
            return word(reader, operators[i][1]);
    return NULL;
}

static const struct tsr_name *with_tags(struct reader *reader, const struct tsr_name *found)
{
    while (found && accept(reader, "B")) {
        const struct tsr_name *tag = read_identifier(reader);
        struct tsr_name *made = tag ? node(reader, TSR_NAME_TAGGED, found) : NULL;
        if (made) {
            made->text = tag->text;
            made->length = tag->length;
        }
        found = made;
    }
    return found;
}

static const struct tsr_name *read_unqualified(struct reader *reader)
{
    accept(reader, "L"); /* internal linkage */
    if (*reader->at >= '0' && *reader->at <= '9')
        return with_tags(reader, read_identifier(reader));
    if (accept(reader, "Ul"))
        return read_lambda(reader);
    if (accept(reader, "Ut")) {
        struct tsr_name *made = node(reader, TSR_NAME_UNNAMED, NULL);
        return made && read_sequence(reader, 10, &made->number) ? made : NULL;
    }
    return with_tags(reader, read_operator(reader));
}

static const char *const abbreviations[][2] = {
    {"Sa", "std::allocator"}, {"Sb", "std::basic_string"}, {"Ss", "std::string"},
    {"Si", "std::istream"},   {"So", "std::ostream"},      {"Sd", "std::iostream"},
};

/* What stands for something that came before. */
static const struct tsr_name *read_substitution(struct reader *reader)
{
    for (size_t i = 0; i < sizeof abbreviations / sizeof abbreviations[0]; i++)
        if (accept(reader, abbreviations[i][0]))
            return word(reader, abbreviations[i][1]);
    uint32_t number;
    if (!accept(reader, "S") || !read_sequence(reader, 36, &number) || number >= reader->tree->substitution_count)
        return NULL;
    const struct tsr_name *found = reader->tree->substitutions[number];
    if (found->kind != TSR_NAME_PARAMETER || found->scope == reader->scope)
        return found;
    struct tsr_name *here = node(reader, TSR_NAME_PARAMETER, NULL); /* "T_" of another template is the one of this, too */
    if (here)
        here->number = found->number;
    return here;
}

/* "T_" and its like. */
static const struct tsr_name *read_parameter(struct reader *reader)
{
    struct tsr_name *made = node(reader, reader->in_lambda ? TSR_NAME_AUTO : TSR_NAME_PARAMETER, NULL);
    return made && read_sequence(reader, 10, &made->number) ? made : NULL;
}

static const struct tsr_name *read_literal(struct reader *reader)
{
    if (accept(reader, "_Z")) {
        const struct tsr_name *function = read_encoding(reader);
        return accept(reader, "E") ? function : NULL;
    }
    char letter = *reader->at;
    struct tsr_name *made = node(reader, TSR_NAME_LITERAL, read_type(reader));
    if (!made)
        return NULL;
    made->number = made->a->kind == TSR_NAME_TEXT ? (unsigned char)letter : 0;
    made->text = reader->at;
    made->length = strcspn(reader->at, "E");
    reader->at += made->length;
    return accept(reader, "E") && made->length ? made : NULL;
}

static const struct tsr_name *read_argument(struct reader *reader)
{
    if (accept(reader, "J"))
        return node(reader, TSR_NAME_PACK, *reader->at == 'E' ? (reader->at++, NULL) : read_arguments(reader));
    if (accept(reader, "L"))
        return read_literal(reader);
    if (accept(reader, "XadL_Z")) {
        const struct tsr_name *function = read_encoding(reader);
        return accept(reader, "EE") ? node(reader, TSR_NAME_ADDRESS, function) : NULL;
    }
    if (accept(reader, "XT")) {
        const struct tsr_name *parameter = read_parameter(reader);
        return accept(reader, "E") ? parameter : NULL;
    }
    return read_type(reader);
}

/* Up to the "E", which is read, too. NULL: mistaken, or none. */
static const struct tsr_name *read_arguments(struct reader *reader)
{
    const struct tsr_name *first = NULL;
    struct tsr_name *last = NULL;
    while (!accept(reader, "E")) {
        struct tsr_name *item = node(reader, TSR_NAME_LIST, read_argument(reader));
        if (!item)
            return NULL;
        *(last ? &last->b : &first) = item;
        last = item;
    }
    return first;
}

static const struct tsr_name *with_arguments(struct reader *reader, const struct tsr_name *name, const struct tsr_name **list)
{
    bool in_lambda = reader->in_lambda;
    reader->in_lambda = false;
    *list = read_arguments(reader);
    reader->in_lambda = in_lambda;
    return pair(reader, TSR_NAME_TEMPLATE, name, *list);
}

/* a::b::c<d>, after the "N". */
static const struct tsr_name *read_nested(struct reader *reader, bool *is_template, const char **qualifiers)
{
    *qualifiers = accept(reader, "K") ? " const" : "";
    if (accept(reader, "R"))
        *qualifiers = **qualifiers ? " const &" : " &";
    const struct tsr_name *found = NULL, *list = NULL;
    while (!accept(reader, "E")) {
        bool is_old = false;
        *is_template = false;
        if (accept(reader, "St")) {
            found = word(reader, "std");
            is_old = true;
        } else if (*reader->at == 'S') {
            found = found ? NULL : read_substitution(reader);
            is_old = true;
        } else if (accept(reader, "I")) {
            found = with_arguments(reader, found, &list);
            *is_template = true;
        } else if (accept(reader, "T")) {
            found = found ? NULL : read_parameter(reader);
        } else {
            const struct tsr_name *part = read_unqualified(reader);
            found = found ? pair(reader, TSR_NAME_NESTED, found, part) : part;
        }
        if (!found || (!is_old && *reader->at != 'E' && !remember(reader, found)))
            return NULL;
    }
    if (*is_template)
        reader->scope->arguments = list;
    return found;
}

/* function::name, after the "Z". */
static const struct tsr_name *read_local(struct reader *reader, bool *is_template, const char **qualifiers)
{
    const struct tsr_name *function = read_encoding(reader);
    if (!function || !accept(reader, "E") || *reader->at == 's' || *reader->at == 'd')
        return NULL;
    const struct tsr_name *name = read_name(reader, is_template, qualifiers);
    uint32_t number;
    if (accept(reader, "__")) {
        if (!read_number(reader, &number) || !accept(reader, "_"))
            return NULL;
    } else if (*reader->at == '_' && reader->at[1] >= '0' && reader->at[1] <= '9') {
        reader->at += 2;
    }
    return pair(reader, TSR_NAME_NESTED, function, name);
}

/* is_template: it ends with arguments; qualifiers: of the function that it names. */
static const struct tsr_name *read_name(struct reader *reader, bool *is_template, const char **qualifiers)
{
    *is_template = false;
    *qualifiers = "";
    if (accept(reader, "N"))
        return read_nested(reader, is_template, qualifiers);
    if (accept(reader, "Z"))
        return read_local(reader, is_template, qualifiers);
    const struct tsr_name *found, *list;
    bool is_old = *reader->at == 'S' && reader->at[1] != 't';
    if (is_old)
        found = read_substitution(reader);
    else if (accept(reader, "St"))
        found = pair(reader, TSR_NAME_NESTED, word(reader, "std"), read_unqualified(reader));
    else
        found = read_unqualified(reader);
    if (!accept(reader, "I"))
        return found;
    if (!found || (!is_old && !remember(reader, found)))
        return NULL;
    found = with_arguments(reader, found, &list);
    *is_template = true;
    reader->scope->arguments = list;
    return found;
}

/* A name alone, or a function's with its parameters and, of a template, the type of its result. */
static const struct tsr_name *read_function(struct reader *reader)
{
    bool is_template;
    const char *qualifiers;
    struct tsr_name *made = node(reader, TSR_NAME_FUNCTION, read_name(reader, &is_template, &qualifiers));
    if (!made)
        return NULL;
    if (*reader->at == 0 || *reader->at == 'E')
        return made->a;
    made->text = qualifiers;
    made->length = strlen(qualifiers);
    made->has_parameters = true;
    if (is_template && !(made->result = read_type(reader)))
        return NULL;
    struct tsr_name *last = NULL;
    do {
        struct tsr_name *item = node(reader, TSR_NAME_LIST, read_type(reader));
        if (!item)
            return NULL;
        *(last ? &last->b : &made->b) = item;
        last = item;
    } while (*reader->at != 0 && *reader->at != 'E');
    return made;
}

static const struct tsr_name *read_encoding(struct reader *reader)
{
    struct tsr_name_scope *before = reader->scope;
    bool in_lambda = reader->in_lambda;
    if (reader->tree->scope_count == TSR_NAME_SCOPES || reader->depth >= TSR_NAME_DEPTH)
        return NULL;
    reader->scope = &reader->tree->scopes[reader->tree->scope_count++];
    reader->in_lambda = false;
    reader->depth++;
    const struct tsr_name *found = read_function(reader);
    reader->depth--;
    reader->scope = before;
    reader->in_lambda = in_lambda;
    return found;
}

static const char *const builtin[26] = {
    ['v' - 'a'] = "void",        ['w' - 'a'] = "wchar_t",
    ['b' - 'a'] = "bool",        ['c' - 'a'] = "char",
    ['a' - 'a'] = "signed char", ['h' - 'a'] = "unsigned char",
    ['s' - 'a'] = "short",       ['t' - 'a'] = "unsigned short",
    ['i' - 'a'] = "int",         ['j' - 'a'] = "unsigned int",
    ['l' - 'a'] = "long",        ['m' - 'a'] = "unsigned long",
    ['x' - 'a'] = "long long",   ['y' - 'a'] = "unsigned long long",
    ['n' - 'a'] = "__int128",    ['o' - 'a'] = "unsigned __int128",
    ['f' - 'a'] = "float",       ['d' - 'a'] = "double",
    ['e' - 'a'] = "long double", ['g' - 'a'] = "__float128",
    ['z' - 'a'] = "...",
};
static const char *const builtin_two[][2] = {
    {"Di", "char32_t"}, {"Ds", "char16_t"}, {"Du", "char8_t"}, {"Dn", "decltype(nullptr)"}, {"Da", "auto"}, {"Dh", "half"},
};

static const struct tsr_name *read_function_type(struct reader *reader)
{
    accept(reader, "Y");
    const struct tsr_name *result = read_type(reader), *parameters = result ? read_types(reader, "E") : NULL;
    struct tsr_name *made = parameters ? node(reader, TSR_NAME_FUNCTION_TYPE, parameters) : NULL;
    if (made)
        made->result = result;
    return made;
}

static const struct tsr_name *read_array(struct reader *reader)
{
    const char *count = reader->at;
    uint32_t number;
    read_number(reader, &number);
    size_t length = (size_t)(reader->at - count);
    struct tsr_name *made = accept(reader, "_") ? node(reader, TSR_NAME_ARRAY, read_type(reader)) : NULL;
    if (made) {
        made->text = count;
        made->length = length;
    }
    return made;
}

static const struct tsr_name *read_qualified(struct reader *reader)
{
    bool is_restrict = accept(reader, "r"), is_volatile = accept(reader, "V"), is_const = accept(reader, "K");
    const struct tsr_name *found = read_type(reader);
    static const char *const texts[3] = {" const", " volatile", " __restrict"};
    const bool present[3] = {is_const, is_volatile, is_restrict};
    for (int i = 0; i < 3; i++)
        if (present[i]) {
            struct tsr_name *made = node(reader, TSR_NAME_QUALIFIED, found);
            if (made) {
                made->text = texts[i];
                made->length = strlen(texts[i]);
            }
            found = made;
        }
    return found;
}

/* A class or an enumeration. */
static const struct tsr_name *read_class(struct reader *reader)
{
    bool is_template;
    const char *qualifiers, *begin = reader->at;
    if (*begin == 'S' && begin[1] != 't') {
        const struct tsr_name *found = read_substitution(reader), *list;
        return found && accept(reader, "I") ? remember(reader, with_arguments(reader, found, &list)) : found;
    }
    const struct tsr_name *kept = reader->scope->arguments;
    const struct tsr_name *found = read_name(reader, &is_template, &qualifiers);
    reader->scope->arguments = kept; /* those of the name are not those of the function */
    return remember(reader, found);
}

static const struct tsr_name *read_template_parameter(struct reader *reader)
{
    const struct tsr_name *list, *found = read_parameter(reader);
    if (!remember(reader, found))
        return NULL;
    return accept(reader, "I") ? remember(reader, with_arguments(reader, found, &list)) : found;
}

static const struct tsr_name *read_compound(struct reader *reader)
{
    char c = *reader->at;
    if (c >= 'a' && c <= 'z' && c != 'r' && c != 'u' && builtin[c - 'a']) {
        reader->at++;
        return word(reader, builtin[c - 'a']);
    }
    for (size_t i = 0; i < sizeof builtin_two / sizeof builtin_two[0]; i++)
        if (accept(reader, builtin_two[i][0]))
            return word(reader, builtin_two[i][1]);
    if (accept(reader, "u"))
        return remember(reader, read_identifier(reader));
    if (accept(reader, "Dp"))
        return remember(reader, node(reader, TSR_NAME_EXPANSION, read_type(reader)));
    if (c == 'r' || c == 'V' || c == 'K')
        return remember(reader, read_qualified(reader));
    if (accept(reader, "P"))
        return remember(reader, node(reader, TSR_NAME_POINTER, read_type(reader)));
    if (accept(reader, "R"))
        return remember(reader, node(reader, TSR_NAME_LVALUE, read_type(reader)));
    if (accept(reader, "O"))
        return remember(reader, node(reader, TSR_NAME_RVALUE, read_type(reader)));
    if (accept(reader, "F"))
        return remember(reader, read_function_type(reader));
    if (accept(reader, "A"))
        return remember(reader, read_array(reader));
    if (accept(reader, "T"))
        return read_template_parameter(reader);
    return (c >= '0' && c <= '9') || c == 'N' || c == 'Z' || c == 'S' ? read_class(reader) : NULL;
}

static const struct tsr_name *read_type(struct reader *reader)
{
    if (reader->depth >= TSR_NAME_DEPTH)
        return NULL;
    reader->depth++;
    const struct tsr_name *found = read_compound(reader);
    reader->depth--;
    return found;
}

const struct tsr_name *tsr_name_parse(struct tsr_name_tree *tree, const char *text)
{
    struct reader reader = {.tree = tree, .at = text};
    const struct tsr_name *found = read_encoding(&reader);
    return found && *reader.at == 0 ? found : NULL;
}
