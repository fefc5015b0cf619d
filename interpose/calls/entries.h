/* Indices of the entry points, and how a call's operands are found and what is remembered of it. */
#ifndef TSR_CALLS_ENTRIES_H
#define TSR_CALLS_ENTRIES_H

#include <tessera/library_calls.h>

#include "calls/operands.h"

enum tsr_call_index {
#define TSR_CALL_INDEX(family, name) TSR_CALL_##name,
    TSR_LIBRARY_CALLS(TSR_CALL_INDEX) TSR_LAUNCHING_CALLS,
    TSR_CALLS_BEFORE_NOTES = TSR_LAUNCHING_CALLS - 1,
    TSR_LIBRARY_NOTES(TSR_CALL_INDEX) TSR_ALL_CALLS
#undef TSR_CALL_INDEX
};

enum tsr_call_family {
    TSR_FAMILY_cublas,
    TSR_FAMILY_cublasLt,
    TSR_FAMILY_cudnn,
    TSR_FAMILY_cufft,
    TSR_FAMILY_cusparse,
    TSR_FAMILY_curand,
    TSR_FAMILY_nccl
};
#define TSR_FAMILIES 7

/* Of a launching call, before it: adds its operands. What it cannot know makes them unknown. */
void tsr_blas_operands(const struct tsr_arguments *arguments, struct tsr_operands *operands);
void tsr_blas_lt_operands(const struct tsr_arguments *arguments, struct tsr_operands *operands);
void tsr_dnn_operands(const struct tsr_arguments *arguments, struct tsr_operands *operands);
void tsr_fft_operands(const struct tsr_arguments *arguments, struct tsr_operands *operands);
void tsr_sparse_operands(const struct tsr_arguments *arguments, struct tsr_operands *operands);
void tsr_nccl_operands(const struct tsr_arguments *arguments, struct tsr_operands *operands);

/* Of a call that was successful, after it: what later calls need to know. */
void tsr_blas_note(const struct tsr_arguments *arguments);
void tsr_dnn_note(const struct tsr_arguments *arguments);
void tsr_fft_note(const struct tsr_arguments *arguments);
void tsr_sparse_note(const struct tsr_arguments *arguments);
void tsr_nccl_note(const struct tsr_arguments *arguments);

/*
 * Memory that a library allocated inside its own calls: any of its launches may use it, or those of one handle. `maker`: names the thread if it is in a
 * call that makes a handle; then tsr_memory_has_handle says which (0: none came out).
 */
void tsr_memory_add_operands(enum tsr_call_family family, uint64_t handle, struct tsr_operands *operands);
void tsr_memory_made(enum tsr_call_family family, uint64_t address, uint64_t bytes, const void *maker);
void tsr_memory_has_handle(const void *maker, uint64_t handle);
void tsr_memory_gone(uint64_t address);

#endif
