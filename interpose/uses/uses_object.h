/* A module's uses as the scans see them: they fill it in, uses.c closes it over calls and answers. */
#ifndef TSR_USES_OBJECT_H
#define TSR_USES_OBJECT_H

#include "base/map.h"
#include "base/vec.h"
#include "uses/uses.h"
#include "image/parts.h"

#define TSR_USES_SHARED_BIT 60u /* of all variables after the 60th that is used */
#define TSR_USES_VARIABLES ((2ull << TSR_USES_SHARED_BIT) - 1)

#define TSR_USES_ALL (TSR_USES_STATE | TSR_USES_PRINTF | TSR_USES_HEAP | TSR_USES_CODE | TSR_USES_ADDRESS | TSR_USES_LEFT)
#define TSR_USES_FOLLOWS (1u << 31) /* beside enum tsr_use_flag: it follows pointers that it finds in memory */

struct tsr_uses_name {
    enum { TSR_NAME_VARIABLE, TSR_NAME_FUNCTION, TSR_NAME_DECLARED } kind; /* DECLARED: a function that is defined elsewhere */
    bool managed;
    int bit;           /* VARIABLE; -1: not used yet */
    uint64_t known_by; /* VARIABLE: tsr_variable_bit() */
    size_t number;     /* FUNCTION */
};

struct tsr_uses_pointer { /* a variable whose initial value has the address of another one, or of a function */
    const struct tsr_uses_name *from, *to;
};

struct tsr_uses_function_use {
    struct tsr_use own; /* variables by the module's own bits; with what it calls, once closed */
    bool indirect;      /* calls through pointers, or makes some */
    bool callable;      /* is not a kernel */
    TSR_VEC(size_t) calls;
};

struct tsr_uses {
    struct tsr_map names; /* tsr_uses_key: struct tsr_uses_name */
    TSR_VEC(struct tsr_uses_function_use) functions;
    uint32_t bits;         /* given to variables so far */
    uint64_t known_by[64]; /* a bit's variables, by tsr_variable_bit() */
    uint64_t state;        /* variables that a function may write, or whose address it lets out of sight */
    TSR_VEC(struct tsr_uses_pointer) pointers;
    bool leaves;        /* a function may leave the address of a variable, or of the heap, in memory */
    uint32_t every;     /* flags of every function */
    uint64_t every_one; /* variables of every function */
    bool failed;        /* out of memory */
};

/* Uses name variables by bits that are given out as they are met, so that few share one. */
uint64_t tsr_uses_key(const char *name, size_t length);
struct tsr_uses_name *tsr_uses_find(const struct tsr_uses *uses, const char *name, size_t length);
/* Found or made; NULL: out of memory, noted. */
struct tsr_uses_name *tsr_uses_add(struct tsr_uses *uses, const char *name, size_t length, int kind);
/* The function's uses, new if it has none; NULL as above. */
struct tsr_uses_function_use *tsr_uses_define(struct tsr_uses *uses, const char *name, size_t length);
uint64_t tsr_uses_bit(struct tsr_uses *uses, struct tsr_uses_name *variable);
/* What calling a function that the module does not define means. */
uint32_t tsr_uses_extern(const char *name, size_t length);

void tsr_uses_scan_ptx(struct tsr_uses *uses, struct tsr_span text);
void tsr_uses_scan_elf(struct tsr_uses *uses, struct tsr_span file);

#endif
