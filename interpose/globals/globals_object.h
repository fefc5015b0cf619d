/* A module's global references while they are collected: the scans fill them in, globals.c propagates them along calls and answers. */
#ifndef TSR_GLOBALS_OBJECT_H
#define TSR_GLOBALS_OBJECT_H

#include "base/map.h"
#include "base/vec.h"
#include "globals/globals.h"
#include "image/parts.h"

#define TSR_GLOBALS_SHARED_BIT 60u /* of all variables after the 60th that is used */
#define TSR_GLOBALS_VARIABLES ((2ull << TSR_GLOBALS_SHARED_BIT) - 1)

#define TSR_GLOBALS_ALL (TSR_GLOBALS_STATE | TSR_GLOBALS_PRINTF | TSR_GLOBALS_HEAP | TSR_GLOBALS_CODE | TSR_GLOBALS_ADDRESS | TSR_GLOBALS_STORED)
#define TSR_GLOBALS_FOLLOWS (1u << 31) /* beside enum tsr_global_flag: it follows pointers that it finds in memory */

struct tsr_globals_name {
    enum { TSR_NAME_VARIABLE, TSR_NAME_FUNCTION, TSR_NAME_DECLARED } kind; /* DECLARED: a function that is defined elsewhere */
    bool managed;
    int bit;           /* VARIABLE; -1: not used yet */
    uint64_t known_by; /* VARIABLE: tsr_variable_bit() */
    size_t number;     /* FUNCTION */
};

struct tsr_globals_pointer { /* a variable whose initial value has the address of another one, or of a function */
    const struct tsr_globals_name *from, *to;
};

struct tsr_globals_function_record {
    struct tsr_references own; /* variables by the module's own bits; with what it calls, once closed */
    bool indirect;             /* calls through pointers, or makes some */
    bool callable;             /* is not a kernel */
    TSR_VEC(size_t) calls;
};

struct tsr_globals {
    struct tsr_map names; /* tsr_globals_key: struct tsr_globals_name */
    TSR_VEC(struct tsr_globals_function_record) functions;
    uint32_t bits;         /* given to variables so far */
    uint64_t known_by[64]; /* a bit's variables, by tsr_variable_bit() */
    uint64_t state;        /* variables that a function may write, or whose address escapes */
    TSR_VEC(struct tsr_globals_pointer) pointers;
    bool stores_addresses; /* a function may leave the address of a variable, or of the heap, in memory */
    uint32_t every;        /* flags of every function */
    uint64_t every_one;    /* variables of every function */
    bool failed;           /* out of memory */
};

/* References name variables by bits that are given out as they are found, so that few share one. */
uint64_t tsr_globals_key(const char *name, size_t length);
struct tsr_globals_name *tsr_globals_find(const struct tsr_globals *globals, const char *name, size_t length);
/* Found or made; NULL: out of memory, noted. */
struct tsr_globals_name *tsr_globals_add(struct tsr_globals *globals, const char *name, size_t length, int kind);
/* The function's references, new if it has none; NULL as above. */
struct tsr_globals_function_record *tsr_globals_define(struct tsr_globals *globals, const char *name, size_t length);
uint64_t tsr_globals_bit(struct tsr_globals *globals, struct tsr_globals_name *variable);
/* What calling a function that the module does not define means. */
uint32_t tsr_globals_extern(const char *name, size_t length);

void tsr_globals_scan_ptx(struct tsr_globals *globals, struct tsr_span text);
void tsr_globals_scan_elf(struct tsr_globals *globals, struct tsr_span file);

#endif
