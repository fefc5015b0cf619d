/*
 * A decoded PTX module: immutable once linked, shared by all launches.
 *
 * Load: tsr_code_create parses and decodes the whole text; then the owner places every variable in memory and calls tsr_code_link, which
 * puts the addresses into the functions' constant registers and into initialisers that refer to other variables. After that nothing changes.
 */
#ifndef TSR_PTX_CODE_H
#define TSR_PTX_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

#include <tessera/machine.h>

#include "../isa/insn.h"

/* Generic addresses of the windows that are not global memory. Global device addresses never fall into them. */
#define TSR_SHARED_WINDOW 0x0000000100000000ull /* + offset in the block's shared memory; + rank << 24 for another block of the cluster */
#define TSR_LOCAL_WINDOW 0x0000000200000000ull  /* + offset in the thread's local memory */
#define TSR_PARAM_WINDOW 0x0000000300000000ull  /* + offset in the kernel's parameter block */
#define TSR_WINDOW_BYTES 0x0000000010000000ull
#define TSR_CODE_WINDOW 0x0000000400000000ull   /* function pointers: tsr_code_address() */
#define TSR_CODE_OF_GPU 0x0000000001000000ull   /* bytes of it for one GPU */

enum tsr_space_kind {
    TSR_SPACE_GLOBAL,
    TSR_SPACE_CONST,
    TSR_SPACE_SHARED,
    TSR_SPACE_LOCAL,
    TSR_SPACE_PARAM,
    TSR_SPACE_GENERIC
};

struct tsr_reloc { /* *(pointer-sized)(initialiser + offset) = address of the variable or function + addend */
    uint32_t offset;
    uint32_t index; /* into variables, or into functions when `function` */
    int64_t addend;
    bool function;
};

struct tsr_variable { /* module scope, .global or .const; shared variables are resolved into functions */
    const char *name;
    uint64_t bytes, align;
    const uint8_t *init; /* `bytes` long, or NULL: zero */
    const struct tsr_reloc *relocs;
    uint32_t reloc_count;
    enum tsr_space_kind space;
    bool visible, managed; /* .visible/.weak/.common: can be looked up by name; .attribute(.managed) */
    bool is_extern;        /* declared only; link fails with the name unless resolved (cuLink*), see tsr_code_create */
};

struct tsr_param {
    uint32_t offset, bytes, align;
    bool pointer; /* .ptr given */
};

struct tsr_const_reg { /* a register of every frame that holds one value in all lanes */
    uint32_t frame_offset;
    uint32_t bytes;    /* 2, 4, 8; 0: a predicate (value 0 or 1, all lanes) */
    uint64_t value;    /* after link: final */
    uint32_t variable; /* index + 1 of the variable whose address (plus value) it is; 0: plain number */
};

/* A call: arguments are copied from caller's to callee's param area, lane by lane for active lanes; results the other way at return. */
struct tsr_call_arg {
    uint32_t caller_offset, callee_offset, bytes; /* both frame offsets of per-lane areas, see below */
};
struct tsr_call {
    uint32_t function; /* index, or TSR_NO_REG: indirect, address in register insn.a */
    uint32_t arg_count, result_count;
    const struct tsr_call_arg *args,
        *results; /* for indirect calls callee_offset counts parameters from the prototype: see params_area */
};

/*
 * .param variables in a function's frame (arguments being built, results, the callee's own parameters) are per-lane areas: lane l's bytes lie
 * contiguous at frame + offset + l * stride, stride = size rounded up to 16. ld.param / st.param on them use operations "ldp.*"/"stp.*"
 * with displacement insn.imm; their address is never taken as generic except through "tsr.param_address" (moves the area to local memory).
 * A callee's own parameters start at params_area in declaration order (each area 64-byte aligned), its results at results_area, in order:
 * so that an indirect call needs only the prototype.
 */
struct tsr_function {
    const char *name;
    bool entry, visible;
    uint32_t index;
    const struct tsr_insn *insns; /* ends with an exit/ret operation */
    uint32_t insn_count;
    uint32_t frame_bytes;               /* multiple of 64 */
    uint32_t params_area, results_area; /* .func only */
    const struct tsr_const_reg *consts;
    uint32_t const_count;
    const uint8_t *frame_template;         /* frame_bytes of constant registers, made by link; other bytes zero */
    uint32_t template_begin, template_end; /* only this part of the frame has to be copied */
    const struct tsr_param *params;        /* entry: layout of the parameter block. func: sizes */
    uint32_t param_count, param_bytes;
    uint32_t
        shared_static_bytes; /* entry: including what its callees use; dynamic shared memory begins after it, aligned to 16 (or more when declared so) */
    uint32_t shared_dynamic_align;
    uint32_t local_bytes;       /* per thread, this function's own; a callee's follow */
    uint32_t local_depth_bytes; /* entry: bound over its call tree, or this + 16 KiB when recursive/indirect */
    uint32_t registers;         /* estimate for occupancy: 32-bit registers live per thread, 16..255 */
    uint32_t max_threads[3], required_threads[3], min_blocks, cluster[3]; /* 0 = not given */
    bool uses_barriers, uses_grid_sync, calls, explicit_cluster;
    uint32_t max_barrier;
    uint32_t line;
};

struct tsr_ptx_code {
    uint32_t ptx_version, target; /* 78 for 7.8; 90 for sm_90 */
    bool debug;
    struct tsr_variable *variables;
    uint32_t variable_count;
    struct tsr_function *functions; /* entries and .func */
    uint32_t function_count;
    const uint64_t *variable_address; /* after link */
    uint64_t text_id;                 /* names the text in access traces; 0 without */
    uint64_t window;                  /* where its function pointers begin */
};

/* As on real GPUs, the same code lies at another address on each: one that is left in memory for another GPU leads nowhere there. */
static inline uint64_t tsr_code_window(const struct tsr_device_desc *device)
{
    return TSR_CODE_WINDOW + device->pci_bus * TSR_CODE_OF_GPU;
}

static inline uint64_t tsr_code_address(uint64_t window, uint32_t function)
{
    return window + 16ull * function;
}

struct tsr_ptx_error {
    uint32_t line, column;
    char message[240]; /* names the instruction or directive and what was expected */
};

/*
 * text: PTX, need not be NUL-terminated. device: for issue costs and the target check (text's .target must be <= device's).
 * Errors: INVALID_PTX (syntax, or an unsupported instruction: error says which), UNSUPPORTED_PTX_VERSION, NO_BINARY_FOR_GPU (a target that the
 * device does not run), OUT_OF_MEMORY.
 * Never crashes or loops on any input.
 */
CUresult tsr_code_create(const char *text, size_t length, const struct tsr_device_desc *device, struct tsr_ptx_code **out,
                         struct tsr_ptx_error *error);
CUresult tsr_code_link(struct tsr_ptx_code *code, const uint64_t *variable_address,
                       struct tsr_ptx_error *error); /* array is copied */
void tsr_code_destroy(struct tsr_ptx_code *code);

const struct tsr_function *tsr_code_entry(const struct tsr_ptx_code *code, const char *name); /* entries only */
const struct tsr_variable *tsr_code_variable(const struct tsr_ptx_code *code, const char *name, uint32_t *index);

#endif
