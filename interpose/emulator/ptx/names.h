/*
 * Interned words: one struct tsr_ptx_name per distinct spelling, so that the rest of the load compares and hashes nothing.
 *
 * What a name currently stands for (scope.h) is kept in the name itself.
 */
#ifndef TSR_PTX_NAMES_H
#define TSR_PTX_NAMES_H

#include "arena.h"
#include "text.h"

struct tsr_ptx_symbol;
struct tsr_label;
struct tsr_member;
struct tsr_opcode;

struct tsr_ptx_name {
    const char *text; /* NUL-terminated, in the table's arena */
    uint32_t length, hash;
    struct tsr_ptx_name *next;       /* in its bucket */
    struct tsr_ptx_symbol *symbol;   /* innermost declaration of exactly this name */
    struct tsr_ptx_symbol *range;    /* innermost declaration name<count> */
    struct tsr_ptx_symbol *resolved; /* what the word meant at `generation` of the scopes */
    uint64_t generation;
    bool ambiguous;             /* other declarations are this name followed by digits: see scope.c */
    uint32_t function;          /* number of the function that the next two belong to */
    struct tsr_label *labels;   /* newest first */
    struct tsr_member *members; /* registers of ranges that have this name */
    struct tsr_opcode *opcode;  /* as an opcode: its decoded form, owned by the decoder */
};

struct tsr_names {
    struct tsr_arena *arena;
    struct tsr_ptx_name **buckets;
    uint32_t count, mask;
};

/* NULL: out of memory. */
struct tsr_ptx_name *tsr_names_intern(struct tsr_names *names, struct tsr_word word);
void tsr_names_fini(struct tsr_names *names);

#endif
