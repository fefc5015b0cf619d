/* For tests of the PTX front end: loads text for a device of compute capability 9.0 and finds instructions by operation. */
#ifndef TESSERA_TESTS_PTX_LOAD_H
#define TESSERA_TESTS_PTX_LOAD_H

#include <stdlib.h>
#include <string.h>

#include "emulator/isa/op.h"
#include "emulator/ptx/code.h"
#include "tessera/machine.h"

#define PTX_HEADER ".version 8.0\n.target sm_80\n.address_size 64\n"
/* One kernel with four registers of each kind and a parameter; the text begins in line 4. */
#define PTX_KERNEL(body)                                                                                                       \
    PTX_HEADER ".visible .entry k(.param .u64 data)\n{ .reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<8>; .reg .b64 %d<4>;\n" body "\n}\n"

static struct tsr_ptx_error ptx_error;
static struct tsr_device_desc ptx_device = {.compute_major = 9};

/* NULL when it does not load; then ptx_error says why. Variables lie at 0x10000, 0x20000, ... */
__attribute__((unused)) static struct tsr_ptx_code *ptx_load(const char *text)
{
    struct tsr_ptx_code *code = NULL;
    size_t length = strlen(text);
    char *exact = malloc(length + 1); /* without a NUL: the loader must not read past the end */
    memcpy(exact, text, length);
    CUresult result = tsr_code_create(exact, length, &ptx_device, &code, &ptx_error);
    free(exact);
    if (result != CUDA_SUCCESS)
        return NULL;
    uint64_t addresses[64];
    for (uint32_t i = 0; i < 64; i++)
        addresses[i] = 0x10000ull * (i + 1);
    if (code->variable_count > 64 || tsr_code_link(code, addresses, &ptx_error) != CUDA_SUCCESS) {
        tsr_code_destroy(code);
        return NULL;
    }
    return code;
}

__attribute__((unused)) static const char *ptx_key(const struct tsr_insn *insn)
{
    return tsr_op_at(insn->op)->key;
}

/* The n-th instruction with this operation, from 0. */
__attribute__((unused)) static const struct tsr_insn *ptx_find(const struct tsr_function *function, const char *key, uint32_t n)
{
    for (uint32_t i = 0; function && i < function->insn_count; i++)
        if (strcmp(ptx_key(&function->insns[i]), key) == 0 && n-- == 0)
            return &function->insns[i];
    return NULL;
}

/* Value of the constant register at this place of the frame, or ~0. */
__attribute__((unused)) static uint64_t ptx_const(const struct tsr_function *function, uint32_t frame_offset)
{
    for (uint32_t i = 0; i < function->const_count; i++)
        if (function->consts[i].frame_offset == frame_offset)
            return function->consts[i].value;
    return ~0ull;
}

#endif
