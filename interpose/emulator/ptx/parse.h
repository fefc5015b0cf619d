/*
 * The parser: PTX text to statements and declarations (syntax.h), one pass, no backtracking. Each function's statements are handed to the
 * decoder (decode.h) when its closing brace has been read.
 *
 *   parse_expression.c   constants
 *   parse_operand.c      operands and statements
 *   parse_declaration.c  types, registers, variables, initialisers
 *   parse_function.c     headers, bodies, prototypes
 *   parse_module.c       everything outside of functions
 */
#ifndef TSR_PTX_PARSE_H
#define TSR_PTX_PARSE_H

#include "scope.h"

void tsr_parse_module(struct tsr_load *load);

/* parse_expression.c */
struct tsr_number tsr_parse_expression(struct tsr_load *load);
uint64_t tsr_parse_integer(struct tsr_load *load, const char *what); /* an expression that must be a number >= 0 */

/* parse_operand.c */
void tsr_parse_statement(struct tsr_load *load, struct tsr_word opcode, const char *begin, uint32_t guard, bool guard_not);

/* parse_declaration.c */
struct tsr_type_spec {
    uint8_t type, width; /* width: 2 or 4 for vectors, else 0 */
    uint64_t align;      /* 0: natural */
    bool pointer, managed;
};
uint8_t tsr_parse_type_name(struct tsr_word word); /* TSR_T_NONE when it is not a type */
/* .align, .attribute, .v2, .v4, the type, .ptr and what follows it, in any order, up to the first word that is not a directive. */
struct tsr_type_spec tsr_parse_type(struct tsr_load *load);
/* [n][m]... after a name. count: product, 1 when there are none; unsized: one of them is []. */
struct tsr_dimensions {
    uint64_t count;
    uint32_t rank;
    uint64_t size[8];
    bool unsized;
};
struct tsr_dimensions tsr_parse_dimensions(struct tsr_load *load);
void tsr_parse_registers(struct tsr_load *load);
struct tsr_linkage {
    bool visible, external;
};
void tsr_parse_variables(struct tsr_load *load, enum tsr_space_kind space, struct tsr_linkage linkage);

/* parse_function.c */
void tsr_parse_function(struct tsr_load *load, bool entry, struct tsr_linkage linkage);
uint32_t tsr_parse_function_index(struct tsr_load *load, struct tsr_ptx_name *name); /* creates it when unknown */

/* Helpers on the text. */
static inline char tsr_parse_peek(struct tsr_load *load)
{
    tsr_text_skip(&load->text);
    return *load->text.at;
}
static inline bool tsr_parse_take(struct tsr_load *load, char c)
{
    if (tsr_parse_peek(load) != c)
        return false;
    load->text.at++;
    return true;
}
void tsr_parse_require(struct tsr_load *load, char c);
struct tsr_ptx_name *tsr_parse_name(struct tsr_load *load, const char *what);
/* After a '.': the directive's word. Empty when there is no '.'. */
struct tsr_word tsr_parse_directive(struct tsr_load *load);
/* Directives that mean nothing here: .loc .file .section .pragma. False when it is another one. */
bool tsr_parse_ignored(struct tsr_load *load, struct tsr_word directive);

#endif
