/*
 * Access templates as flat bytes, and their evaluation. A template has everything that determines which bytes a launch of a kernel touches. It is made once
 * per kernel (ptxtools.access, written by ptxtools/access/flat.py), kept in files and shared memory, and evaluated for each launch in the application's process.
 *
 * The bytes are a tsr_access_template and its sections, in the order of its counts, each at the next multiple of 8; numbers are
 * little-endian, references are indices. They are not trusted: tsr_access_create checks every index, once, and keeps a copy.
 *
 * The part between the marks is read by Python through cffi as well. Bump TSR_ACCESS_VERSION on any change of it; a template of another
 * version is refused.
 */
#ifndef TESSERA_ACCESS_H
#define TESSERA_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TSR_ACCESS_MAGIC 0x4343415f52535454ull
#define TSR_ACCESS_VERSION 5u
#define TSR_ACCESS_IN_MEMORY UINT32_MAX /* offset of a tensor map that lies in memory */
#define TSR_ACCESS_NEVER UINT32_MAX     /* instead of a condition: none is known */
#define TSR_ACCESS_TENSOR_RANGES 16u /* at most, for one tensor */

/* cffi: begin */
enum tsr_access_kind { TSR_ACCESS_READ, TSR_ACCESS_WRITE, TSR_ACCESS_ATOMIC };

enum tsr_access_tier { TSR_ACCESS_PTX, TSR_ACCESS_MACHINE_CODE };

enum tsr_access_op { /* in the order of ptxtools.access.template.Op, which says what they mean */
                     TSR_OP_NUMBER,
                     TSR_OP_PARAMETER,
                     TSR_OP_SPECIAL,
                     TSR_OP_SYMBOL,
                     TSR_OP_LOADED,
                     TSR_OP_OPAQUE,
                     TSR_OP_ADD,
                     TSR_OP_SUB,
                     TSR_OP_MUL,
                     TSR_OP_MUL_WIDE,
                     TSR_OP_MUL_HIGH,
                     TSR_OP_SHL,
                     TSR_OP_SHR,
                     TSR_OP_AND,
                     TSR_OP_OR,
                     TSR_OP_XOR,
                     TSR_OP_NOT,
                     TSR_OP_NEG,
                     TSR_OP_ABS,
                     TSR_OP_MIN,
                     TSR_OP_MAX,
                     TSR_OP_DIV,
                     TSR_OP_REM,
                     TSR_OP_CONVERT,
                     TSR_OP_EXTRACT,
                     TSR_OP_PACK,
                     TSR_OP_SELECT,
                     TSR_OP_PHI,
                     TSR_OP_ELEMENT,
                     TSR_OP_LOOP,
                     TSR_OP_HAVOC,
                     TSR_OP_INDUCTION,
                     TSR_OP_COMPARE,
                     TSR_OP_BOTH,
                     TSR_OP_EITHER,
                     TSR_OP_OPPOSITE,
                     TSR_OP_UNKNOWN,
                     TSR_OPS
};

enum tsr_access_special { /* code of TSR_OP_SPECIAL; the first twelve: 3 * register + axis */
                          TSR_SPECIAL_TID = 0,
                          TSR_SPECIAL_NTID = 3,
                          TSR_SPECIAL_CTAID = 6,
                          TSR_SPECIAL_NCTAID = 9,
                          TSR_SPECIAL_LANE = 12,
                          TSR_SPECIAL_OTHER = 13
};

enum tsr_access_compare { /* code of TSR_OP_COMPARE */
                          TSR_COMPARE_LT,
                          TSR_COMPARE_LE,
                          TSR_COMPARE_GT,
                          TSR_COMPARE_GE,
                          TSR_COMPARE_EQ,
                          TSR_COMPARE_NE,
                          TSR_COMPARE_OTHER
};

enum tsr_access_flag {
    TSR_NODE_SIGNED = 1,
    TSR_NODE_LOADED = 2,    /* of TSR_OP_HAVOC: its value may be a pointer that was loaded from memory */
    TSR_NODE_UNSIGNED64 = 4 /* `number` is to be read without a sign */
};

enum tsr_access_place {
    TSR_ACCESS_GENERIC = 1,   /* the address may lie in private memory */
    TSR_ACCESS_LOOKS_BACK = 2 /* of a read: between where its pointer points and the last byte written through the same one */
};

struct tsr_access_template {
    uint64_t magic;
    uint32_t version;
    uint32_t bytes;      /* of everything */
    uint32_t tier;       /* enum tsr_access_tier */
    uint32_t name;       /* in the text */
    uint32_t parameters; /* counts of the sections' entries */
    uint32_t nodes;
    uint32_t operands;
    uint32_t conditions;
    uint32_t loops;
    uint32_t blocks;
    uint32_t accesses;
    uint32_t tensors;
    uint32_t unknowns;
    uint32_t symbols;
    uint32_t text_bytes;
    uint32_t reserved;
};

struct tsr_access_parameter {
    uint32_t index, offset, size; /* of the kernel's parameter, in its parameter block */
};

struct tsr_access_node {
    uint8_t op, width, flags, code; /* enum tsr_access_op; bits; enum tsr_access_flag; special register or comparison */
    uint32_t count, first;          /* its operands: nodes; those of TSR_OP_PHI are followed by as many conditions */
    uint32_t block, condition;      /* where it is made, and what holds there */
    uint32_t symbol;                /* of TSR_OP_SYMBOL */
    int64_t number;                 /* value, offset in the parameter block, loop, line, or unit of an index */
};

/* Operands: uint32_t. */

struct tsr_access_condition { /* the first one is empty; all others come after their parents */
    uint32_t parent;
    int32_t predicate; /* a node; -1: none */
    uint32_t truth;
    uint32_t certain; /* 1: where it does not hold, the launch fails */
};

struct tsr_access_loop {
    uint32_t condition;
    uint32_t entries, first_entry; /* conditions of the edges into the header, among the operands */
    uint32_t backs, first_back;    /* and of the edges back */
    uint32_t must;                 /* the condition in which it runs for certain; TSR_ACCESS_NEVER */
    uint32_t again;                /* that in which it goes on after an iteration, `must` or further down; TSR_ACCESS_NEVER */
    uint32_t reserved;
    uint64_t within; /* set of loops around it, itself included: loop n is bit min(n, 63) */
};

/* Blocks: uint64_t, the set of loops around each. */

struct tsr_access_access {
    uint32_t kind, address, size, condition; /* enum tsr_access_kind; node; bytes */
    int64_t displacement;
    int32_t pitch, length;      /* nodes; -1: none */
    uint32_t rows, line, flags; /* enum tsr_access_place */
    uint32_t bases, first_base; /* offsets in the parameter block of the pointers that the address may begin with, among the
                                   operands */
    uint32_t based;             /* 1: it begins with one of them in any case */
    uint32_t tells; /* 1: of a write that happens wherever its condition holds, these are all the pointers it may store: */
    uint32_t pointers, first_pointer; /* offsets in the parameter block, among the operands */
    uint32_t must;  /* of a write of values, the condition in which it is made for certain; TSR_ACCESS_NEVER */
    uint64_t loops; /* that it is in: loop n is bit min(n, 63). With `must` only */
};

struct
    tsr_access_tensor { /* an access to the tensor whose map (CUtensorMap, 128 bytes) is in the parameter block at `offset` */
    uint32_t kind, offset, condition, line;
    uint32_t parameters,
        first_parameter;        /* of a map in memory: it is of one of the pointers at these offsets, among the operands, */
    uint32_t loads, first_load; /* or that accesses in these lines read */
};

struct tsr_access_unknown {
    uint32_t line, reason; /* reason: in the text */
};

struct tsr_access_symbol {
    uint32_t name;    /* in the text */
    uint32_t private; /* 1: in shared, local or parameter memory; 2: where private memory begins among generic addresses */
    uint64_t size;    /* in bytes; 0: not known */
};

/* Text: names and reasons, each ended by a zero. */

enum tsr_access_reason {
    TSR_WHY_NONE,
    TSR_WHY_TEMPLATE, /* the template has the text */
    TSR_WHY_LOADED,
    TSR_WHY_NO_BASE,
    TSR_WHY_PRIVATE,
    TSR_WHY_BUDGET,
    TSR_WHY_TENSOR,
    TSR_WHY_MAP
};

enum tsr_access_level { /* how much was given up for want of time or room */
                        TSR_LEVEL_FULL,
                        TSR_LEVEL_INTERVALS, /* facts and strides */
                        TSR_LEVEL_WHOLE,     /* some ranges are whole allocations */
                        TSR_LEVEL_UNKNOWN    /* some accesses are unknown */
};

enum tsr_access_option {
    TSR_ACCESS_ALL_REASONS = 1, /* go on after the first unknown access */
    TSR_ACCESS_NO_MEMO = 2
};

struct tsr_access_range;

struct tsr_access_launch {
    uint32_t grid[3], block[3];
    uint32_t shared_bytes; /* dynamic shared memory */
    uint32_t parameter_bytes;
    const void *parameters;
    const uint64_t *symbols; /* addresses in the order of the template's symbols, 0: not known; NULL: none is */
    /* The allocation that contains an address; 0: none does. Without it, ranges are not clamped. It must not block. */
    int (*allocation)(void *context, uint64_t address, uint64_t *begin, uint64_t *end);
    void *allocation_context;
    /* The ranges of the tensor with this map: bases and ends, or a base alone and `whole`. Without it, only maps' addresses are known. */
    uint32_t (*tensor)(void *context, const void *map, struct tsr_access_range *ranges);
    void *tensor_context;
    uint32_t steps;   /* of work at most, for each part of a grid that is split, and 16 times that for all; 0: the default */
    uint32_t options; /* enum tsr_access_option */
};

/*
 * Bytes first to last, offsets from `base`; of these, `width` at every multiple of `stride` from first on (stride 0: all). Ranges of a
 * kind may overlap: what a launch may write are all its write ranges, what it overwrites are those of them that say so. The first launch
 * of a library call is said to overwrite what the call as a whole does: its later launches may write some of it, and read it.
 */
struct tsr_access_range {
    uint32_t kind;        /* enum tsr_access_kind */
    uint32_t overwritten; /* 1: of a write: every execution of the launch writes all of these bytes, whatever they held */
    uint32_t scratch;     /* 1: what these bytes hold before the launch and after it matters to nobody; in a library call, after
                             it only to the call's later launches, whose ranges read them */
    uint32_t whole; /* 1: little is known but the allocation; first and last are its ends, or 0 and -1 when it is not known */
    int32_t parameter;     /* index of the kernel parameter that holds the base; -1: none does */
    int32_t symbol;        /* the module's variable that is the base; -1: none. Without either the base is 0 */
    uint32_t offset;       /* of the base in the parameter block; of a tensor, of its map */
    uint16_t tensor;       /* 1: the base is that of a tensor */
    uint16_t intermediate; /* 1: the library call has overwritten these bytes before this launch, or they are scratch to it */
    uint64_t base;
    int64_t first, last;
    int64_t stride, width;
};

struct tsr_access_why {
    uint32_t line, reason; /* enum tsr_access_reason */
    const char *text;
};

struct tsr_access_result {
    struct tsr_access_range *ranges; /* the caller's, `capacity` of them */
    uint32_t capacity, count;
    uint32_t level;               /* enum tsr_access_level */
    uint32_t remembered;          /* 1: it came from the memo */
    uint32_t whys;                /* accesses that may be anywhere: the first, or with TSR_ACCESS_ALL_REASONS all */
    uint32_t steps;               /* of work done */
    struct tsr_access_why why;    /* the first of them */
    struct tsr_access_why *every; /* the caller's, `room` of them: as many of them as there is room for */
    uint32_t room;
};
/* cffi: end */

#define TSR_ACCESS_SCRATCH_BYTES (1024u << 10) /* enough for nearly all kernels */
#define TSR_ACCESS_MEMO_ENTRIES 64u
#define TSR_ACCESS_MASK_WORDS 8u /* for 4 KiB of parameters */

#define TSR_ACCESS_API __attribute__((visibility("default"))) /* exported by libtessera_access.so.1 only */

struct tsr_access; /* a checked template and what is remembered of its launches; any number of threads may evaluate it */

/*
 * Checks a template and copies it. NULL: it is damaged, of another version, or memory is out. `memo_entries`: launches that are
 * remembered at most.
 */
TSR_ACCESS_API struct tsr_access *tsr_access_create(const void *bytes, size_t size, uint32_t memo_entries);
TSR_ACCESS_API void tsr_access_destroy(struct tsr_access *access);

/* How many symbols the template has. names: of the first `room` of them; NULL: it is no variable of the module in global or constant memory. */
uint32_t tsr_access_symbols(const struct tsr_access *access, const char **names, uint32_t room);

/*
 * Through which pointers any launch may write, atomics included: of a pointer, or a tensor's map, at `offset` in the parameter block, bit
 * offset / 8. False: it may write through others, too. `variables`: whether it may write to variables of its module. Takes nanoseconds.
 */
TSR_ACCESS_API bool tsr_access_write_mask(const struct tsr_access *access, uint64_t mask[TSR_ACCESS_MASK_WORDS],
                                          bool *variables);

/*
 * The ranges of a launch. Bounded work, no allocation; `scratch` is the calling thread's, aligned to 16 bytes. With a level of
 * TSR_LEVEL_UNKNOWN, the launch may touch anything.
 */
TSR_ACCESS_API void tsr_access_evaluate(struct tsr_access *access, const struct tsr_access_launch *launch, void *scratch,
                                        size_t scratch_bytes, struct tsr_access_result *result);

#endif
