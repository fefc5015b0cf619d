/*
 * Recording what the application calls, for wrappers. See tessera/records.h for what the fields mean.
 *
 *     static __attribute__((noinline)) CUresult engaged_free(CUdeviceptr dptr)
 *     {
 *         uint64_t start = tsr_record_start();
 *         CUresult result = ...;                          // what the wrapper is for
 *         struct tsr_record *record = tsr_record_begin(start, TSR_ROW_cuMemFree_v2, TSR_RECORD_FREE, result);
 *         if (record) {                                   // NULL: nothing is recorded, or there is no room
 *             record->u.memory.address = dptr;
 *             tsr_record_commit(record);
 *         }
 *         return result;
 *     }
 *
 * A function with a stream argument uses tsr_record_begin_on; one without a record kind of its own ends with tsr_record_failure(row, result).
 * Fields that are not set are zero. Between begin and commit, do nothing but fill in the record.
 */
#ifndef TSR_RECORD_RECORDER_H
#define TSR_RECORD_RECORDER_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

#include <tessera/records.h>

#include "driver/engaged.h"
#include "driver/rows.h"
#include "record/ticks.h"
#include "driver/stream_handle.h"

struct tsr_thread;

/* Around the real cuInit: the time before it; after it, starts recording if the control plane wants records. */
struct tsr_anchor tsr_recorder_before_init(void);
void tsr_recorder_start(struct tsr_anchor before_init);

extern bool tsr_record_parameters __attribute__((
    visibility("hidden"))); /* launches are recorded with their parameters and operands; constant from the start on */

/* 0: nothing is recorded. */
static inline uint64_t tsr_record_start(void)
{
    return tsr_has_role(TSR_RECORDING) ? tsr_ticks() : 0;
}

struct tsr_record *tsr_record_begin_current(uint64_t start, uint32_t row, uint32_t kind, CUresult result);
struct tsr_record *tsr_record_begin_stream(uint64_t start, uint32_t row, uint32_t kind, CUresult result, CUstream stream);

static inline struct tsr_record *tsr_record_begin(uint64_t start, enum tsr_row row, enum tsr_record_kind kind, CUresult result)
{
    return start ? tsr_record_begin_current(start, row, kind, result) : NULL;
}

/* per_thread: NULL means the per-thread default stream. Sets the flag CAPTURED. */
static inline struct tsr_record *tsr_record_begin_on(uint64_t start, enum tsr_row row, enum tsr_record_kind kind,
                                                     CUresult result, CUstream stream, bool per_thread)
{
    return start ? tsr_record_begin_stream(start, row, kind, result, tsr_stream_named(stream, per_thread)) : NULL;
}

void tsr_record_commit(struct tsr_record *record);

/* For functions that are recorded only if they fail: the time is that of the failure, because the clock was not read before. */
void tsr_record_failed(uint32_t row, CUresult result);

/* Results that polling or exiting processes get all the time are not failures. */
static inline void tsr_record_failure(enum tsr_row row, CUresult result)
{
    if (__builtin_expect(result != CUDA_SUCCESS, 0) && result != CUDA_ERROR_NOT_READY && result != CUDA_ERROR_DEINITIALIZED)
        tsr_record_failed(row, result);
}

/* An allocation or its end. */
static inline void tsr_record_memory(uint64_t start, enum tsr_row row, enum tsr_record_kind kind, CUresult result,
                                     uint64_t address, uint64_t bytes)
{
    struct tsr_record *record = tsr_record_begin(start, row, kind, result);
    if (!record)
        return;
    record->u.memory.address = address;
    record->u.memory.bytes = bytes;
    tsr_record_commit(record);
}

/* Ticks from start to now as a record has them. */
static inline uint32_t tsr_record_ticks(uint64_t start)
{
    uint64_t ticks = tsr_ticks() - start;
    return ticks < UINT32_MAX ? (uint32_t)ticks : UINT32_MAX;
}

/* A launch that was recorded on the GPU ran at home instead. */
void tsr_record_came_back(uint32_t gpu, uint32_t home);

/* The stream has been destroyed; its handle may be reused. */
void tsr_stream_gone(CUstream stream);

/* Number of the stream's context; of the current one for a default stream, and for NULL. 0: unknown. */
uint16_t tsr_record_context(struct tsr_thread *thread, CUstream stream);

#endif
