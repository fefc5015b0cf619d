/* The tree of a mangled name: demangle_parse.c makes it, demangle.c writes it. Nodes live as long as their tree. */
#ifndef TSR_BASE_DEMANGLE_TREE_H
#define TSR_BASE_DEMANGLE_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TSR_NAME_NODES 4096
#define TSR_NAME_SUBSTITUTIONS 1024
#define TSR_NAME_SCOPES 64
#define TSR_NAME_DEPTH 192 /* of trees, and of what is being read */

enum tsr_name_kind {
    TSR_NAME_TEXT,      /* text: an identifier, a built-in type, an operator */
    TSR_NAME_NESTED,    /* a::b */
    TSR_NAME_TEMPLATE,  /* a<b>; b: a list */
    TSR_NAME_FUNCTION,  /* a(b) with result, if it has parameters; text: trailing qualifiers */
    TSR_NAME_LAMBDA,    /* a: parameters; number */
    TSR_NAME_UNNAMED,   /* number */
    TSR_NAME_TAGGED,    /* a with the ABI tag in text */
    TSR_NAME_AUTO,      /* parameter of a lambda that is a template; number */
    TSR_NAME_PARAMETER, /* of the scope's template; number */
    TSR_NAME_PACK,      /* a: list of arguments */
    TSR_NAME_EXPANSION, /* of the packs in a */
    TSR_NAME_LITERAL,   /* of type a; number: the type's letter, 0: none; text: its digits */
    TSR_NAME_ADDRESS,   /* of function a */
    TSR_NAME_POINTER,   /* to a, as the two below */
    TSR_NAME_LVALUE,
    TSR_NAME_RVALUE,
    TSR_NAME_QUALIFIED,     /* a with text: " const" */
    TSR_NAME_ARRAY,         /* of a; text: how many */
    TSR_NAME_FUNCTION_TYPE, /* a: parameters, result */
    TSR_NAME_LIST,          /* a, then those of b, which may be NULL */
};

/* Of the template whose parameters are named: known when its name has been read. */
struct tsr_name_scope {
    const struct tsr_name *arguments; /* a list */
};

struct tsr_name {
    enum tsr_name_kind kind;
    uint32_t number;
    bool has_parameters;
    const struct tsr_name *a, *b, *result;
    const struct tsr_name_scope *scope;
    const char *text; /* not terminated */
    size_t length;
};

struct tsr_name_tree {
    uint32_t node_count, substitution_count, scope_count;
    struct tsr_name nodes[TSR_NAME_NODES];
    const struct tsr_name *substitutions[TSR_NAME_SUBSTITUTIONS];
    struct tsr_name_scope scopes[TSR_NAME_SCOPES];
};

/* Reads what follows the "_Z" of a name. NULL: not understood, or no room. */
const struct tsr_name *tsr_name_parse(struct tsr_name_tree *tree, const char *text);

#endif
