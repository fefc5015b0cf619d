/*
 * One load in progress: what parser, decoder and layout share. Lives on the stack of tsr_code_create.
 *
 * Errors leave by tsr_load_fail (longjmp to tsr_code_create), which is safe because everything that a load allocates hangs on this struct:
 * arenas, and the vectors in `work`.
 */
#ifndef TSR_PTX_LOAD_H
#define TSR_PTX_LOAD_H

#include <setjmp.h>

#include "base/vec.h"
#include "syntax.h"

#define TSR_SCOPE_MAX 64u /* nested { } */

struct tsr_draft;

struct tsr_shared_use { /* a constant register that holds an address in shared memory */
    uint32_t constant, shared;
};

/* A function as long as the module is being loaded; index = position in tsr_code.functions. */
struct tsr_function_load {
    struct tsr_ptx_name *name;
    struct tsr_signature signature;
    bool entry, visible, defined, address_taken, calls_indirect, alias;
    bool uses_barriers;
    uint32_t max_barrier, line;
    uint32_t alias_of;         /* when alias */
    TSR_VEC(uint32_t) callees; /* may repeat */
    TSR_VEC(uint32_t) shared;  /* used shared variables */
    TSR_VEC(struct tsr_shared_use) shared_uses;
    struct tsr_function *out; /* NULL until defined */
    uint32_t state, depth;    /* for the walk over the call graph */
};

struct tsr_call_line { /* a direct call, completed when all functions are known */
    struct tsr_call *call;
    uint32_t line, column;
};

struct tsr_scope {
    struct tsr_ptx_symbol *symbols; /* newest first */
    uint32_t id;                    /* number of the scope in the function */
    uint32_t area_top;              /* bytes of areas in use by this scope and its outer ones */
};

struct tsr_load {
    jmp_buf escape;
    CUresult result;
    struct tsr_ptx_error *error;
    const struct tsr_device_desc *device;
    struct tsr_ptx_code *code;
    struct tsr_arena *keep;   /* lives as long as the code */
    struct tsr_arena module;  /* until the load ends */
    struct tsr_arena scratch; /* until the function ends */
    struct tsr_ptx_text text;
    struct tsr_names names, opcodes;

    struct tsr_scope scopes[TSR_SCOPE_MAX];
    uint32_t depth;        /* 0: module scope */
    uint64_t generation;   /* of declarations; never 0 */
    uint64_t member_bytes; /* of the ranges' tables in this function */

    TSR_VEC(struct tsr_variable) variables;
    TSR_VEC(struct tsr_shared) shared;
    TSR_VEC(struct tsr_function_load) functions;
    TSR_VEC(struct tsr_call_line) call_lines;

    /* of the function being read */
    uint32_t function;        /* index */
    uint32_t function_number; /* counts bodies, from 1 */
    TSR_VEC(struct tsr_statement) statements;
    TSR_VEC(struct tsr_label *) labels;
    TSR_VEC(uint32_t) scope_parents; /* of scope ids */
    TSR_VEC(struct tsr_area) areas;
    TSR_VEC(uint8_t) register_types; /* of virtual registers */
    uint64_t local_bytes;
    uint32_t area_bytes;     /* of the frame's areas: high-water mark */
    uint32_t carry;          /* register of the condition code, or TSR_NO_REG */
    struct tsr_draft *draft; /* decoder's vectors, kept from function to function */
};

_Noreturn void tsr_load_fail(struct tsr_load *load, CUresult result, uint32_t line, uint32_t column, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
_Noreturn void tsr_load_memory(struct tsr_load *load); /* out of memory */
/* Syntax error at the reading position. */
_Noreturn void tsr_load_expected(struct tsr_load *load, const char *what);

void *tsr_load_alloc(struct tsr_load *load, struct tsr_arena *arena, size_t bytes, size_t align);
#define tsr_load_new(load, arena, type, count) ((type *)tsr_load_alloc(load, arena, sizeof(type) * (size_t)(count), _Alignof(type)))
#define tsr_load_push(load, vec, ...)                                                                                                  \
    do {                                                                                                                       \
        if (!tsr_vec_push(vec, __VA_ARGS__))                                                                                   \
            tsr_load_memory(load);                                                                                             \
    } while (0)

struct tsr_ptx_name *tsr_load_intern(struct tsr_load *load, struct tsr_word word);

#endif
