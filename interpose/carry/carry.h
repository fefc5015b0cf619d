/*
 * Carrying out records of a lane: making the driver calls that they ask for. Both the executor does this, and the shim in the place of an executor that
 * is lost; each passes its own table of driver functions.
 */
#ifndef TESSERA_CARRY_CARRY_H
#define TESSERA_CARRY_CARRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>
#include <tessera/lane.h>

struct tsr_carry_driver {
    CUresult (*launch)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **,
                       void **);
    CUresult (*launch_ex)(const CUlaunchConfig *, CUfunction, void **, void **);
    CUresult (*copy)(CUdeviceptr, CUdeviceptr, size_t, CUstream);
    CUresult (*copy_rows)(const CUDA_MEMCPY2D *, CUstream);
    CUresult (*write)(CUdeviceptr, const void *, size_t, CUstream); /* does not need the source when it has returned */
    CUresult (*set8)(CUdeviceptr, unsigned char, size_t, CUstream);
    CUresult (*set16)(CUdeviceptr, unsigned short, size_t, CUstream);
    CUresult (*set32)(CUdeviceptr, unsigned, size_t, CUstream);
    CUresult (*set_rows8)(CUdeviceptr, size_t, unsigned char, size_t, size_t, CUstream);
    CUresult (*set_rows16)(CUdeviceptr, size_t, unsigned short, size_t, size_t, CUstream);
    CUresult (*set_rows32)(CUdeviceptr, size_t, unsigned, size_t, size_t, CUstream);
};

#define TSR_CARRY_PARAMETERS 512u /* of a function whose layout is kept */

struct tsr_carry_function {
    CUfunction function;
    size_t bytes; /* of its parameter block; 0: it has no parameters, or their layout is not known */
    uint32_t count;
    const size_t *offsets;
};

/* Whether the record changes memory: a launch, a copy, a memset, bytes of the host, the launch of a graph. */
static inline bool tsr_carry_is_work(const struct tsr_lane_record *record)
{
    return record->kind == TSR_LANE_LAUNCH || (record->kind >= TSR_LANE_COPY && record->kind <= TSR_LANE_GRAPH);
}

/* Parameters of a launch as the driver takes them; the pointers are into this, and into the block. */
struct tsr_carry_parameters {
    void **values, **extra;
    size_t bytes; /* of the block */
    void *listed[TSR_CARRY_PARAMETERS];
    void *packed[5];
};

/* data: what stands behind the record, with the block first. As a list of pointers, which every driver accepts, if the function's layout is known. */
void tsr_carry_describe(const struct tsr_carry_function *of, const struct tsr_lane_record *record, const void *data,
                        struct tsr_carry_parameters *out);

/* The rows as the driver's calls describe them. */
CUDA_MEMCPY2D tsr_carry_rows(const struct tsr_lane_copy *what);

/* Enqueues the work of a record that is no graph's launch. function: for launches. Errors: the driver's; INVALID_VALUE: the record is not such work. */
CUresult tsr_carry_out(const struct tsr_carry_driver *driver, const struct tsr_lane_record *record,
                       const struct tsr_carry_function *function, CUstream stream);

#endif
