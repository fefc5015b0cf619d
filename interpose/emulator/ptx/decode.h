/*
 * The decoder: statements to instructions, one function at a time.
 *
 * decode_operand.c turns operands into registers.
 *
 * An opcode is looked at once per module (struct tsr_opcode): which family decodes it, its modifiers, its operation. Families:
 *
 *   decode_lane.c     operations of the semantics table, and mov
 *   decode_memory.c   ld, st, atom, red, cp.async, cvta, mbarrier and relatives
 *   decode_control.c  branches, barriers, votes, shuffles and other warp operations
 *   decode_call.c     call and its parameters
 *   decode_matrix.c   mma, wmma, ldmatrix
 *
 * Widths: registers may be wider than the instruction's type; the helpers here insert the conversions.
 */
#ifndef TSR_PTX_DECODE_H
#define TSR_PTX_DECODE_H

#include "draft.h"
#include "scope.h"

#define TSR_OPCODE_PARTS 24u

struct tsr_opcode;
typedef void tsr_decode_fn(struct tsr_load *load, struct tsr_opcode *opcode, const struct tsr_statement *statement);

struct tsr_opcode {
    const struct tsr_ptx_name *name;
    tsr_decode_fn *decode;
    struct tsr_word part[TSR_OPCODE_PARTS]; /* part[0]: the mnemonic; `shared::cta` is one part */
    uint32_t part_count;
    uint8_t types[4]; /* the parts that are types, in order */
    uint32_t type_count;
    uint8_t vector;                          /* .v2 .v4 .v8 */
    uint8_t space;                           /* enum tsr_space_kind; GENERIC when none is given */
    bool strong;                             /* volatile, relaxed, acquire, release, mmio */
    bool reads_carry, writes_carry, is_lop3; /* decode_lane.c */
    const struct tsr_op *op, *op2;           /* once the family has found them */
};

/* Directives of a function that only matter to whoever launches it. */
struct tsr_tuning {
    uint32_t max_threads[3], required_threads[3], cluster[3];
    uint32_t min_blocks, max_registers;
    bool explicit_cluster;
};

/* The function whose statements have just been read. Fills tsr_code's function, except for what depends on other functions. */
void tsr_decode_function(struct tsr_load *load, const struct tsr_tuning *tuning);

/* Errors: name the statement's place and opcode. */
_Noreturn void tsr_decode_unsupported(struct tsr_load *load, const struct tsr_statement *statement);
_Noreturn void tsr_decode_fail(struct tsr_load *load, const struct tsr_statement *statement, const struct tsr_operand *operand,
                               const char *what);

bool tsr_opcode_has(const struct tsr_opcode *opcode, const char *part);
/* The operation of this key; fails the load when there is none. */
const struct tsr_op *tsr_decode_op(struct tsr_load *load, const struct tsr_statement *statement, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void tsr_decode_count(struct tsr_load *load, const struct tsr_statement *statement, uint32_t least, uint32_t most);

/* A register of exactly the type's width that holds the operand's value. */
uint32_t tsr_decode_source(struct tsr_load *load, const struct tsr_operand *operand, uint8_t type);
/* The same for a predicate; *inverted is set instead of making a new one when inverted is not NULL. */
uint32_t tsr_decode_predicate(struct tsr_load *load, const struct tsr_operand *operand, bool *inverted);

/* Destinations: emit the instruction with `reg`, then call tsr_decode_finish, which converts when the register is wider. */
struct tsr_target {
    uint32_t reg;  /* to be written by the instruction */
    uint32_t wide; /* register of the program, or TSR_NO_REG when reg is that already */
    uint8_t type;
};
struct tsr_target tsr_decode_target(struct tsr_load *load, const struct tsr_operand *operand, uint8_t type);
/* `_` gives TSR_NO_REG instead of a register that nobody reads. */
struct tsr_target tsr_decode_target_or_none(struct tsr_load *load, const struct tsr_operand *operand, uint8_t type);
void tsr_decode_finish(struct tsr_load *load, const struct tsr_target *target);
/* Copies between registers of different width; type says how to extend. */
void tsr_decode_convert(struct tsr_load *load, uint32_t to, uint32_t from, uint8_t type);
uint32_t tsr_decode_narrow(struct tsr_load *load, uint32_t reg, uint32_t bytes);

static inline bool tsr_type_is_signed(uint8_t type)
{
    return type == TSR_T_S8 || type == TSR_T_S16 || type == TSR_T_S32 || type == TSR_T_S64;
}
static inline bool tsr_type_is_float(uint8_t type)
{
    return type == TSR_T_F16 || type == TSR_T_BF16 || type == TSR_T_F32 || type == TSR_T_F64;
}
/* Width of a register that holds the type: 2, 4, 8, or 0 for a predicate. */
static inline uint32_t tsr_type_register_bytes(uint8_t type)
{
    return tsr_type_bytes[type] == 1 ? 2 : tsr_type_bytes[type] == 16 ? 8 : tsr_type_bytes[type];
}

/* Special registers: dst may be TSR_NO_REG for a fresh one. Returns the register written. */
uint32_t tsr_decode_special(struct tsr_load *load, const struct tsr_operand *operand, uint32_t dst);

/* Address operands of memory operations. */
struct tsr_ptx_address {
    uint32_t reg; /* or TSR_NO_REG */
    int64_t imm;
    uint16_t flags;                    /* TSR_MEM_ADDRESS64 */
    const struct tsr_ptx_symbol *area; /* the operand names a .param of the frame; then imm is the displacement */
};
struct tsr_ptx_address tsr_decode_address(struct tsr_load *load, const struct tsr_operand *operand, enum tsr_space_kind space);
/* Address of a symbol as a value of 4 or 8 bytes, in its own space. */
uint32_t tsr_decode_symbol(struct tsr_load *load, const struct tsr_operand *operand, uint32_t bytes);

/* Families. */
tsr_decode_fn tsr_decode_lane, tsr_decode_mov;
tsr_decode_fn tsr_decode_load, tsr_decode_store, tsr_decode_atomic, tsr_decode_cvta, tsr_decode_isspacep, tsr_decode_mapa,
    tsr_decode_cp, tsr_decode_mbarrier, tsr_decode_createpolicy;
tsr_decode_fn tsr_decode_branch, tsr_decode_branch_table, tsr_decode_plain, tsr_decode_bar, tsr_decode_shfl, tsr_decode_vote,
    tsr_decode_match, tsr_decode_redux, tsr_decode_activemask, tsr_decode_elect, tsr_decode_nanosleep;
tsr_decode_fn tsr_decode_call;
/* Parameters and results declared as .reg: loaded from their areas at the beginning, stored before every ret. */
void tsr_decode_register_params(struct tsr_load *load);
void tsr_decode_register_results(struct tsr_load *load);
tsr_decode_fn tsr_decode_matrix;

/* liveness.c: gives every register that is not a constant its place from *top on; registers that are never live together share one.
   Returns the most 32-bit registers that are live at once. */
uint32_t tsr_liveness_place(struct tsr_load *load, uint32_t *offset, uint32_t *top);
/* place.c: registers and areas get their place in the frame, instructions their final form. */
void tsr_place_function(struct tsr_load *load, const struct tsr_tuning *tuning, struct tsr_function *function);
/* layout.c: after the whole module has been read: shared memory, depth of local memory, calls. */
void tsr_layout_module(struct tsr_load *load);

#endif
