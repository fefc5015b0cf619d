/*
 * Running kernels of PTX text directly on the executor, without driver, streams and clock. For unit tests and the speed script.
 *
 *     struct run run = run_load(text);               decoded for an sm_90 device
 *     uint64_t a = run_alloc(&run, bytes, NULL);     device memory; also its host address
 *     struct run_args args = {0}; run_arg(&args, &a, 8);
 *     enum tsr_grid_state state = run_launch(&run, "kernel", (uint32_t[3]){4, 1, 1}, (uint32_t[3]){128, 1, 1}, 0, &args);
 *     run.cost, run.fault, run.text...
 *     run_free(&run);
 */
#ifndef TESSERA_TESTS_EXEC_RUN_H
#define TESSERA_TESTS_EXEC_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/exec/exec.h"
#include "emulator/space/space.h"
#include "tessera/machine.h"

#define RUN_ALLOCATIONS 64

static const struct tsr_device_desc run_device = {.name = "test",
                                                  .compute_major = 9,
                                                  .compute_minor = 0,
                                                  .sm_count = 16,
                                                  .clock_khz = 1500000,
                                                  .max_threads_per_sm = 2048,
                                                  .max_blocks_per_sm = 32,
                                                  .registers_per_sm = 65536,
                                                  .shared_per_sm_bytes = 228 * 1024,
                                                  .shared_per_block_bytes = 49152,
                                                  .shared_per_block_optin_bytes = 227 * 1024,
                                                  .memory_bytes = 1ull << 34,
                                                  .fp32_ops_per_sm_clk = 256,
                                                  .fp64_ops_per_sm_clk = 128,
                                                  .fp16_ops_per_sm_clk = 512,
                                                  .int32_ops_per_sm_clk = 64,
                                                  .special_ops_per_sm_clk = 16,
                                                  .tensor_fp16_ops_per_sm_clk = 4096,
                                                  .tensor_tf32_ops_per_sm_clk = 2048,
                                                  .tensor_int8_ops_per_sm_clk = 8192,
                                                  .tensor_fp64_ops_per_sm_clk = 256};

struct run {
    struct tsr_ptx_code *code; /* NULL: did not load, see error */
    struct tsr_ptx_error error;
    uint64_t *variables;
    void *allocations[RUN_ALLOCATIONS];
    uint32_t allocation_count;
    struct tsr_cost cost;
    struct tsr_fault fault;
    uint32_t quanta;     /* calls of tsr_grid_run that the last launch took */
    uint64_t quantum_ns; /* 0: 20 ms */
    uint32_t cluster[3]; /* 0: none */
    bool cooperative;
    uint32_t vain_limit; /* stop after so many quanta without progress; 0: 1000 */
};

struct run_args {
    unsigned char bytes[4096];
    uint32_t used;
};

/* Natural alignment, as a kernel's parameters. */
static inline void run_arg(struct run_args *args, const void *value, uint32_t bytes)
{
    args->used = (args->used + bytes - 1) / bytes * bytes;
    memcpy(args->bytes + args->used, value, bytes);
    args->used += bytes;
}

#define RUN_ARG(args, type, value) run_arg((args), &(type){value}, sizeof(type))

static inline uint64_t run_alloc(struct run *run, uint64_t bytes, const void *init)
{
    uint64_t granted = (bytes + 511) / 512 * 512;
    void *memory = aligned_alloc(4096, (granted + 4095) / 4096 * 4096);
    if (memory == NULL || run->allocation_count == RUN_ALLOCATIONS)
        return 0;
    memset(memory, 0, granted);
    if (init != NULL)
        memcpy(memory, init, bytes);
    struct tsr_range range = {
        .base = (uintptr_t)memory, .bytes = granted, .readable = 1, .writable = 1, .requested_bytes = bytes};
    if (tsr_space_add(tsr_space_instance(), &range) != CUDA_SUCCESS) {
        free(memory);
        return 0;
    }
    run->allocations[run->allocation_count++] = memory;
    return (uintptr_t)memory;
}

static inline struct run run_load(const char *text)
{
    struct run run = {0};
    if (tsr_code_create(text, strlen(text), &run_device, &run.code, &run.error) != CUDA_SUCCESS) {
        fprintf(stderr, "line %u, column %u: %s\n", run.error.line, run.error.column, run.error.message);
        run.code = NULL;
        return run;
    }
    run.variables = calloc(run.code->variable_count + 1, sizeof *run.variables);
    for (uint32_t v = 0; v < run.code->variable_count; v++)
        run.variables[v] =
            run_alloc(&run, run.code->variables[v].bytes != 0 ? run.code->variables[v].bytes : 1, run.code->variables[v].init);
    if (tsr_code_link(run.code, run.variables, &run.error) != CUDA_SUCCESS)
        fprintf(stderr, "link: %s\n", run.error.message);
    for (uint32_t v = 0; v < run.code->variable_count; v++)
        for (uint32_t r = 0; r < run.code->variables[v].reloc_count; r++) {
            const struct tsr_reloc *reloc = &run.code->variables[v].relocs[r];
            uint64_t value =
                (reloc->function ? tsr_code_address(run.code->window, reloc->index) : run.variables[reloc->index]) +
                (uint64_t)reloc->addend;
            memcpy((unsigned char *)(uintptr_t)run.variables[v] + reloc->offset, &value, 8);
        }
    return run;
}

static inline void run_free(struct run *run)
{
    for (uint32_t n = 0; n < run->allocation_count; n++) {
        tsr_space_remove(tsr_space_instance(), (uintptr_t)run->allocations[n]);
        free(run->allocations[n]);
    }
    free(run->variables);
    if (run->code != NULL)
        tsr_code_destroy(run->code);
}

static inline struct tsr_grid *run_create(struct run *run, const char *kernel, const uint32_t grid[3], const uint32_t block[3],
                                          uint32_t shared_bytes, const struct run_args *args, CUresult *result)
{
    struct tsr_grid *out = NULL;
    struct tsr_grid_desc desc = {.code = run->code,
                                 .function = tsr_code_entry(run->code, kernel),
                                 .shared_dynamic_bytes = shared_bytes,
                                 .params = args->bytes,
                                 .cooperative = run->cooperative,
                                 .device_desc = &run_device,
                                 .space = tsr_space_instance()};
    if (desc.function == NULL) {
        fprintf(stderr, "no entry %s\n", kernel);
        *result = CUDA_ERROR_NOT_FOUND;
        return NULL;
    }
    for (int axis = 0; axis < 3; axis++) {
        desc.grid[axis] = grid[axis];
        desc.block[axis] = block[axis];
        desc.cluster[axis] = run->cluster[axis] != 0 ? run->cluster[axis] : 1;
    }
    *result = tsr_grid_create(&desc, &out);
    return out;
}

static inline enum tsr_grid_state run_launch(struct run *run, const char *kernel, const uint32_t grid[3],
                                             const uint32_t block[3], uint32_t shared_bytes, const struct run_args *args)
{
    CUresult result;
    struct tsr_grid *running = run_create(run, kernel, grid, block, shared_bytes, args, &result);
    enum tsr_grid_state state = TSR_GRID_FAULT;
    uint32_t vain = 0, limit = run->vain_limit != 0 ? run->vain_limit : 1000;
    run->fault = (struct tsr_fault){.result = result};
    if (running == NULL)
        return state;
    for (run->quanta = 1;
         (state = tsr_grid_run(running, run->quantum_ns != 0 ? run->quantum_ns : 20000000)) == TSR_GRID_RUNNING;
         run->quanta++) {
        vain = tsr_grid_made_progress(running) ? 0 : vain + 1;
        if (vain == limit)
            break;
    }
    run->cost = *tsr_grid_cost(running);
    run->fault = *tsr_grid_fault(running);
    tsr_grid_destroy(running);
    return state;
}

#endif
