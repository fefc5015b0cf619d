/*
 * What the parser makes of PTX text: types, symbols, operands, statements.
 *
 * Opcode-agnostic: an instruction is its opcode's spelling, a guard and operands; what they mean is the decoder's business. Registers
 * are resolved while parsing (PTX declares before use), labels after the function's end.
 */
#ifndef TSR_PTX_SYNTAX_H
#define TSR_PTX_SYNTAX_H

#include "../isa/op.h"
#include "code.h"
#include "names.h"

enum tsr_symbol_kind {
    TSR_SYMBOL_REGISTER,  /* id: virtual register; a .b128 is two, id and id + 1, low half first */
    TSR_SYMBOL_RANGE,     /* .reg name<count>: the registers are made when first used */
    TSR_SYMBOL_VECTOR,    /* .reg .v2/.v4: ids */
    TSR_SYMBOL_VARIABLE,  /* id: module variable */
    TSR_SYMBOL_SHARED,    /* id: struct tsr_shared */
    TSR_SYMBOL_LOCAL,     /* offset in the function's own local memory */
    TSR_SYMBOL_PARAM,     /* offset in the entry's parameter block */
    TSR_SYMBOL_AREA,      /* .param variable in a function's frame; id: area */
    TSR_SYMBOL_FUNCTION,  /* id: function */
    TSR_SYMBOL_PROTOTYPE, /* .callprototype */
    TSR_SYMBOL_TARGETS,   /* .branchtargets, .calltargets */
};

struct tsr_ptx_symbol {
    enum tsr_symbol_kind kind;
    uint8_t type;   /* enum tsr_type of one element */
    uint8_t width;  /* VECTOR: elements */
    uint32_t depth; /* of the scope it was declared in; 0: module */
    uint32_t id, count;
    uint64_t offset, bytes;
    uint32_t ids[4];                            /* VECTOR */
    uint32_t *members;                          /* RANGE: registers made, id + 1; NULL for large ranges, see scope.c */
    const struct tsr_signature *signature;      /* PROTOTYPE */
    struct tsr_ptx_name *name, *const *targets; /* TARGETS: count of them */
    struct tsr_ptx_symbol *shadowed;            /* what name->symbol or name->range was before */
    struct tsr_ptx_symbol *declared_before;     /* in the same scope */
};

/* Parameters and results of a function or prototype. */
struct tsr_formal {
    struct tsr_ptx_name *name; /* NULL for `_` */
    uint8_t type;
    bool is_register;       /* .reg instead of .param */
    uint32_t reg;           /* while the function is being decoded: that register */
    struct tsr_param param; /* offset: in the parameter block of an entry */
};
struct tsr_signature {
    struct tsr_formal *params, *results;
    uint32_t param_count, result_count, param_bytes;
    bool noreturn;
};

enum tsr_operand_kind {
    TSR_OPERAND_NONE,
    TSR_OPERAND_REGISTER, /* id */
    TSR_OPERAND_NUMBER,   /* number.kind, number.bits */
    TSR_OPERAND_SYMBOL,   /* symbol + displacement: VARIABLE, SHARED, LOCAL, PARAM, AREA, FUNCTION, PROTOTYPE, TARGETS */
    TSR_OPERAND_NAME,     /* not declared: a label, or a special register with its component */
    TSR_OPERAND_SINK,     /* _ */
    TSR_OPERAND_VECTOR,   /* { ... } */
    TSR_OPERAND_ADDRESS,  /* [ first element ... ] */
    TSR_OPERAND_LIST,     /* ( ... ), of call */
};

struct tsr_operand {
    uint8_t kind;
    bool inverted;  /* ! before a predicate */
    char component; /* NAME: x y z w or 0 */
    uint32_t column;
    uint32_t count; /* elements */
    uint32_t id;
    struct tsr_number number;
    int64_t displacement;
    struct tsr_ptx_symbol *symbol;
    struct tsr_ptx_name *name;
    struct tsr_operand *elements; /* of VECTOR, ADDRESS, LIST; ADDRESS: the base, then anything after a comma */
    struct tsr_operand *second;   /* q of p|q */
};

struct tsr_statement {
    struct tsr_ptx_name *opcode;
    uint32_t line, column;
    uint32_t guard; /* virtual register or TSR_NO_REG */
    bool guard_not;
    uint32_t scope; /* for labels */
    uint32_t operand_count;
    struct tsr_operand *operands;
};

struct tsr_label {
    struct tsr_label *older; /* same name */
    struct tsr_ptx_name *name;
    uint32_t scope;
    uint32_t statement; /* index of the statement that follows */
    uint32_t line;
    uint32_t id; /* in the function */
    bool referenced;
};

/* A `.param` variable in a function's frame, or a formal parameter of a .func. Areas of closed scopes are reused. */
#define TSR_AREA_STRIDE(bytes) (((bytes) + 15u) & ~15u)
struct tsr_area {
    uint32_t bytes;
    uint32_t offset; /* among the areas of the frame */
};

struct tsr_shared { /* a shared variable of any scope */
    uint64_t bytes, align;
    bool dynamic;     /* extern, or without size */
    bool in_function; /* used by some .func: has one offset in the whole module */
    uint64_t offset;  /* once laid out */
    uint32_t mark;    /* last function that was seen to use it */
};

#endif
