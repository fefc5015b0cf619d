/* See demangle.h. demangle_parse.c makes a tree of the name, which is written here, inside out where C++ wants it. */
#include "base/demangle.h"

#include <stdlib.h>
#include <string.h>

#include "base/demangle_tree.h"
#include "base/format.h"

#define MOST_STEPS 200000 /* nodes that are visited: substitutions share trees, so that a short name may stand for a huge text */

struct writer {
    struct tsr_demangled *to;
    size_t at;
    int pack; /* element of packs that is being written; -1: outside of an expansion */
    int depth;
    uint32_t steps;
    bool failed;
    bool ended_empty; /* the list that was written last, with an empty pack */
};

static void left_of(struct writer *writer, const struct tsr_name *node);
static void right_of(struct writer *writer, const struct tsr_name *node);

static void put(struct writer *writer, const char *text, size_t length)
{
    if (writer->at + length >= sizeof writer->to->text)
        writer->failed = true;
    if (writer->failed)
        return;
    memcpy(writer->to->text + writer->at, text, length);
    writer->at += length;
}

static void say(struct writer *writer, const char *text)
{
    put(writer, text, strlen(text));
}

static bool enter(struct writer *writer)
{
    if (++writer->steps > MOST_STEPS || writer->depth >= TSR_NAME_DEPTH)
        writer->failed = true;
    if (writer->failed)
        return false;
    writer->depth++;
    return true;
}

static void whole(struct writer *writer, const struct tsr_name *node)
{
    left_of(writer, node);
    right_of(writer, node);
}

/* The argument that a template parameter stands for; NULL: none. */
static const struct tsr_name *argument_of(const struct tsr_name *parameter)
{
    const struct tsr_name *list = parameter->scope ? parameter->scope->arguments : NULL;
    for (uint32_t i = 0; list && i < parameter->number; i++)
        list = list->b;
    return list ? list->a : NULL;
}

static const struct tsr_name *element(const struct tsr_name *pack, int number)
{
    const struct tsr_name *list = pack->a;
    for (int i = 0; list && i < number; i++)
        list = list->b;
    return list ? list->a : NULL;
}

/* What a parameter stands for, here; other nodes are themselves. */
static const struct tsr_name *resolved(struct writer *writer, const struct tsr_name *node)
{
    for (int i = 0; node && i < TSR_NAME_DEPTH; i++) {
        if (node->kind == TSR_NAME_PARAMETER)
            node = argument_of(node);
        else if (node->kind == TSR_NAME_PACK && writer->pack >= 0)
            node = element(node, writer->pack);
        else
            return node;
    }
    writer->failed = true;
    return NULL;
}

/* Elements of the first pack that is named below the node; -1: none is. */
static int pack_length(struct writer *writer, const struct tsr_name *node)
{
    if (!node || !enter(writer))
        return -1;
    const struct tsr_name *pack = node->kind == TSR_NAME_PARAMETER ? argument_of(node) : NULL;
    int length = -1;
    if (pack && pack->kind == TSR_NAME_PACK) {
        length = 0;
        for (const struct tsr_name *list = pack->a; list; list = list->b)
            length++;
    }
    if (length < 0 && node->kind != TSR_NAME_PARAMETER)
        length = pack_length(writer, node->a);
    if (length < 0 && node->kind != TSR_NAME_PARAMETER)
        length = pack_length(writer, node->b);
    writer->depth--;
    return length;
}

static void list_of(struct writer *writer, const struct tsr_name *list);

static void expansion(struct writer *writer, const struct tsr_name *node)
{
    int length = pack_length(writer, node->a), before = writer->pack;
    if (length < 0) {
        whole(writer, node->a);
        say(writer, "...");
    }
    size_t begin = writer->at;
    for (int i = 0; i < length && !writer->failed; i++) {
        if (writer->at != begin)
            say(writer, ", ");
        writer->pack = i;
        whole(writer, node->a);
    }
    writer->pack = before;
}

/* What writes nothing (an empty pack) has no comma either. */
static void list_of(struct writer *writer, const struct tsr_name *list)
{
    size_t begin = writer->at;
    bool ends_empty = false;
    for (; list && !writer->failed; list = list->b) {
        size_t before = writer->at;
        if (before != begin)
            say(writer, ", ");
        size_t item = writer->at;
        whole(writer, list->a);
        ends_empty = writer->at == item && item != before;
        if (ends_empty)
            writer->at = before;
    }
    writer->ended_empty = ends_empty;
}

static bool ends_with(const struct writer *writer, char c)
{
    return writer->at && writer->to->text[writer->at - 1] == c;
}

/* Within "(*" of a pointer that is written inside out. */
static bool is_inside(const struct writer *writer)
{
    return ends_with(writer, '(') ||
           (writer->at > 1 && writer->to->text[writer->at - 2] == '(' && strchr("*&", writer->to->text[writer->at - 1]));
}

static void arguments_of(struct writer *writer, const struct tsr_name *list)
{
    say(writer, ends_with(writer, '<') ? " <" : "<");
    list_of(writer, list);
    say(writer, ends_with(writer, '>') && !writer->ended_empty ? " >" : ">"); /* as the library does, empty packs, too */
}

static bool is_void_only(const struct tsr_name *list)
{
    return list && !list->b && list->a->kind == TSR_NAME_TEXT && list->a->length == 4 && memcmp(list->a->text, "void", 4) == 0;
}

static void parameters_of(struct writer *writer, const struct tsr_name *list)
{
    say(writer, "(");
    if (!is_void_only(list))
        list_of(writer, list);
    say(writer, ")");
}

/* A function: its name (a), its parameters (b), the type of its result. */
static void function_of(struct writer *writer, const struct tsr_name *node, bool with_result)
{
    if (with_result && node->result) {
        left_of(writer, node->result);
        if (!is_inside(writer))
            say(writer, " ");
    }
    whole(writer, node->a);
    if (node->has_parameters)
        parameters_of(writer, node->b);
    if (with_result && node->result)
        right_of(writer, node->result);
    put(writer, node->text, node->length); /* const, & */
}

static bool is_plain_name(const struct tsr_name *node)
{
    return node->kind == TSR_NAME_FUNCTION && node->a->kind == TSR_NAME_NESTED;
}

static void address_of(struct writer *writer, const struct tsr_name *node)
{
    say(writer, "&");
    if (is_plain_name(node->a)) {
        whole(writer, node->a->a);
        return;
    }
    say(writer, "(");
    function_of(writer, node->a, true);
    say(writer, ")");
}

/* The number of a lambda or a type without name. */
static void number_of(struct writer *writer, uint32_t number)
{
    char digits[12];
    size_t at = sizeof digits;
    do
        digits[--at] = (char)('0' + number % 10);
    while ((number /= 10) != 0);
    put(writer, digits + at, sizeof digits - at);
}

static void lambda(struct writer *writer, const struct tsr_name *node)
{
    say(writer, "{lambda");
    parameters_of(writer, node->a);
    say(writer, "#");
    number_of(writer, node->number + 1);
    say(writer, "}");
}

static const struct {
    char type, suffix[4];
} suffixes[] = {{'i', ""}, {'j', "u"}, {'l', "l"}, {'m', "ul"}, {'x', "ll"}, {'y', "ull"}};

static void literal(struct writer *writer, const struct tsr_name *node)
{
    bool negative = node->length && node->text[0] == 'n';
    const char *digits = node->text + negative, *suffix = NULL;
    size_t length = node->length - negative;
    char type = (char)node->number;
    if (type == 'b' && length == 1 && (digits[0] == '0' || digits[0] == '1')) {
        say(writer, digits[0] == '1' ? "true" : "false");
        return;
    }
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++)
        if (suffixes[i].type == type)
            suffix = suffixes[i].suffix;
    bool is_floating = type == 'f' || type == 'd';
    if (!suffix) {
        say(writer, "(");
        whole(writer, node->a);
        say(writer, ")");
    }
    say(writer, negative ? "-" : "");
    say(writer, is_floating ? "[" : "");
    put(writer, digits, length);
    say(writer, is_floating ? "]" : "");
    say(writer, suffix ? suffix : "");
}

/* References to references are one. */
static const char *reference(struct writer *writer, const struct tsr_name *node, const struct tsr_name **to)
{
    bool is_lvalue = node->kind == TSR_NAME_LVALUE;
    const struct tsr_name *inner = resolved(writer, node->a);
    for (int i = 0; inner && (inner->kind == TSR_NAME_LVALUE || inner->kind == TSR_NAME_RVALUE) && i < TSR_NAME_DEPTH; i++) {
        is_lvalue |= inner->kind == TSR_NAME_LVALUE;
        inner = resolved(writer, inner->a);
    }
    *to = inner;
    return is_lvalue ? "&" : "&&";
}

static bool is_inside_out(const struct tsr_name *node)
{
    return node && (node->kind == TSR_NAME_ARRAY || node->kind == TSR_NAME_FUNCTION_TYPE);
}

/* Through qualifiers, which arrays hand on to their elements. */
static const struct tsr_name *unqualified(struct writer *writer, const struct tsr_name *node)
{
    node = resolved(writer, node);
    while (node && node->kind == TSR_NAME_QUALIFIED)
        node = resolved(writer, node->a);
    return node;
}

static void pointer_left(struct writer *writer, const struct tsr_name *to, const char *sign)
{
    left_of(writer, to);
    const struct tsr_name *plain = unqualified(writer, to);
    if (is_inside_out(plain))
        say(writer, plain->kind == TSR_NAME_ARRAY ? " (" : "(");
    say(writer, sign);
}

static void pointer_right(struct writer *writer, const struct tsr_name *to)
{
    if (is_inside_out(unqualified(writer, to)))
        say(writer, ")");
    right_of(writer, to);
}

static void write_left(struct writer *writer, const struct tsr_name *node)
{
    const struct tsr_name *to;
    switch (node->kind) {
    case TSR_NAME_TEXT:
        put(writer, node->text, node->length);
        break;
    case TSR_NAME_NESTED:
        if (node->a->kind == TSR_NAME_FUNCTION) /* a local name */
            function_of(writer, node->a, false);
        else
            whole(writer, node->a);
        say(writer, "::");
        whole(writer, node->b);
        break;
    case TSR_NAME_TEMPLATE:
        whole(writer, node->a);
        arguments_of(writer, node->b);
        break;
    case TSR_NAME_FUNCTION:
        function_of(writer, node, true);
        break;
    case TSR_NAME_LAMBDA:
        lambda(writer, node);
        break;
    case TSR_NAME_UNNAMED:
        say(writer, "{unnamed type#");
        number_of(writer, node->number + 1);
        say(writer, "}");
        break;
    case TSR_NAME_TAGGED:
        whole(writer, node->a);
        say(writer, "[abi:");
        put(writer, node->text, node->length);
        say(writer, "]");
        break;
    case TSR_NAME_AUTO:
        say(writer, "auto:");
        number_of(writer, node->number + 1);
        break;
    case TSR_NAME_PARAMETER:
        to = resolved(writer, node);
        if (to)
            left_of(writer, to);
        else
            writer->failed = true;
        break;
    case TSR_NAME_PACK:
        list_of(writer, node->a);
        break;
    case TSR_NAME_EXPANSION:
        expansion(writer, node);
        break;
    case TSR_NAME_LITERAL:
        literal(writer, node);
        break;
    case TSR_NAME_ADDRESS:
        address_of(writer, node);
        break;
    case TSR_NAME_POINTER:
        pointer_left(writer, node->a, "*");
        break;
    case TSR_NAME_LVALUE:
    case TSR_NAME_RVALUE: {
        const char *sign = reference(writer, node, &to);
        if (to)
            pointer_left(writer, to, sign);
        break;
    }
    case TSR_NAME_QUALIFIED:
        left_of(writer, node->a);
        put(writer, node->text, node->length);
        break;
    case TSR_NAME_ARRAY:
        left_of(writer, node->a);
        break;
    case TSR_NAME_FUNCTION_TYPE:
        left_of(writer, node->result);
        if (!is_inside(writer))
            say(writer, " ");
        break;
    case TSR_NAME_LIST:
        writer->failed = true;
        break;
    }
}

static void left_of(struct writer *writer, const struct tsr_name *node)
{
    if (!node)
        writer->failed = true;
    if (!node || !enter(writer))
        return;
    write_left(writer, node);
    writer->depth--;
}

static void write_right(struct writer *writer, const struct tsr_name *node)
{
    const struct tsr_name *to = node;
    switch (node->kind) {
    case TSR_NAME_PARAMETER:
        right_of(writer, resolved(writer, node));
        break;
    case TSR_NAME_LVALUE:
    case TSR_NAME_RVALUE:
        reference(writer, node, &to);
        pointer_right(writer, to);
        break;
    case TSR_NAME_POINTER:
        pointer_right(writer, node->a);
        break;
    case TSR_NAME_QUALIFIED:
        right_of(writer, node->a);
        break;
    case TSR_NAME_ARRAY:
        say(writer, ends_with(writer, ']') ? "[" : " [");
        put(writer, node->text, node->length);
        say(writer, "]");
        right_of(writer, node->a);
        break;
    case TSR_NAME_FUNCTION_TYPE:
        parameters_of(writer, node->a);
        right_of(writer, node->result);
        break;
    default:
        break;
    }
}

static void right_of(struct writer *writer, const struct tsr_name *node)
{
    if (!node)
        writer->failed = true;
    if (!node || !enter(writer))
        return;
    write_right(writer, node);
    writer->depth--;
}

/* In the order of function_of, with the place of the name. */
static void write_all(struct writer *writer, const struct tsr_name *root)
{
    if (root->kind == TSR_NAME_FUNCTION && root->result) {
        left_of(writer, root->result);
        if (!is_inside(writer))
            say(writer, " ");
    }
    writer->to->name = writer->at;
    whole(writer, root->kind == TSR_NAME_FUNCTION ? root->a : root);
    writer->to->name_end = writer->at;
    if (root->kind != TSR_NAME_FUNCTION)
        return;
    if (root->has_parameters)
        parameters_of(writer, root->b);
    if (root->result)
        right_of(writer, root->result);
    put(writer, root->text, root->length);
}

bool tsr_demangle(const char *mangled, struct tsr_demangled *result)
{
    if (strncmp(mangled, "_Z", 2) != 0)
        return false;
    struct tsr_name_tree *tree = calloc(1, sizeof *tree);
    if (!tree)
        return false;
    const struct tsr_name *root = tsr_name_parse(tree, mangled + 2);
    struct writer writer = {.to = result, .pack = -1, .failed = !root};
    if (root)
        write_all(&writer, root);
    result->text[writer.failed ? 0 : writer.at] = 0;
    free(tree);
    return !writer.failed;
}

const char *tsr_kernel_name(const char *name, struct tsr_kernel_name *room)
{
    struct tsr_demangled *found = malloc(sizeof *found);
    if (found && tsr_demangle(name, found))
        tsr_format(room->text, sizeof room->text, "%.*s", (int)(found->name_end - found->name), found->text + found->name);
    else
        tsr_format(room->text, sizeof room->text, "%s", name);
    free(found);
    return room->text;
}
