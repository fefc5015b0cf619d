/* See recorder.h. */
#include "record/recorder.h"

#include "base/options.h"
#include "object/capture.h"
#include "record/definitions.h"
#include "record/operand_record.h"
#include "driver/real.h"
#include "record/timing.h"
#include "record/writer.h"
#include "driver/stream_handle.h"

bool tsr_record_parameters TSR_HOT;

static bool wanted(void)
{
    return tsr_options()->records[0] != 0;
}

struct tsr_anchor tsr_recorder_before_init(void)
{
    if (!wanted() || tsr_has_role(TSR_DEFINING))
        return (struct tsr_anchor){0};
    tsr_ticks_choose();
    return tsr_ticks_anchor();
}

void tsr_recorder_start(struct tsr_anchor before_init)
{
    if (!wanted() || tsr_has_role(TSR_DEFINING) || !tsr_writer_start(tsr_options()->records, before_init, tsr_timing_start()))
        return;
    tsr_record_parameters = tsr_options()->parameters;
    tsr_definitions_start();
    tsr_operand_records_start();
    tsr_engage(tsr_options()->calls ? TSR_OBSERVED : TSR_DEFINING);
}

static uint16_t current_context(struct tsr_thread *thread)
{
    CUcontext handle = NULL;
    if (tsr_real.cuCtxGetCurrent(&handle) != CUDA_SUCCESS || !handle)
        return 0;
    uint32_t epoch = tsr_handles_epoch();
    if (!thread->context || thread->context_handle != (uintptr_t)handle || thread->context_epoch != epoch) {
        thread->context = tsr_context_number(handle);
        thread->context_handle = (uintptr_t)handle;
        thread->context_epoch = epoch;
    }
    return thread->context;
}

static uint16_t look_up(struct tsr_thread *thread, CUstream stream)
{
    CUcontext handle = NULL;
    if (tsr_real.cuStreamGetCtx(stream, &handle) != CUDA_SUCCESS || !handle)
        return current_context(thread);
    return tsr_context_number(handle);
}

uint16_t tsr_record_context(struct tsr_thread *thread, CUstream stream)
{
    if (tsr_stream_is_default(stream))
        return current_context(thread);
    uint64_t key = (uintptr_t)stream;
    struct tsr_stream_context *known = &thread->streams[(key * 0x9e3779b97f4a7c15ull >> 32) % TSR_STREAM_CACHE];
    uint32_t epoch = tsr_handles_epoch();
    if (!known->context || known->stream != key || known->epoch != epoch)
        *known = (struct tsr_stream_context){.stream = key, .epoch = epoch, .context = look_up(thread, stream)};
    return known->context;
}

static struct tsr_record *begin(struct tsr_thread *thread, struct tsr_record record)
{
    record.ticks = tsr_record_ticks(record.start);
    struct tsr_record *place = tsr_ring_at(&thread->writer, 0);
    *place = record;
    return place;
}

struct tsr_record *tsr_record_begin_current(uint64_t start, uint32_t row, uint32_t kind, CUresult result)
{
    struct tsr_thread *thread = tsr_thread();
    if (!thread || !tsr_ring_has_room(&thread->writer, 1))
        return NULL;
    return begin(thread, (struct tsr_record){.start = start,
                                             .call = (uint16_t)row,
                                             .kind = (uint8_t)kind,
                                             .result = (uint16_t)result,
                                             .context = current_context(thread)});
}

struct tsr_record *tsr_record_begin_stream(uint64_t start, uint32_t row, uint32_t kind, CUresult result, CUstream stream)
{
    struct tsr_thread *thread = tsr_thread();
    if (!thread || !tsr_ring_has_room(&thread->writer, 1))
        return NULL;
    return begin(thread, (struct tsr_record){.start = start,
                                             .call = (uint16_t)row,
                                             .kind = (uint8_t)kind,
                                             .flags = tsr_is_capturing(stream) ? TSR_RECORD_CAPTURED : 0,
                                             .result = (uint16_t)result,
                                             .context = tsr_record_context(thread, stream),
                                             .stream = (uintptr_t)stream});
}

void tsr_record_commit(struct tsr_record *record)
{
    (void)record;
    tsr_ring_commit(&tsr_thread_current->writer, 1);
}

void tsr_record_failed(uint32_t row, CUresult result)
{
    struct tsr_record *record = tsr_record_begin(tsr_record_start(), row, TSR_RECORD_CALL, result);
    if (record)
        tsr_record_commit(record);
}

void tsr_record_came_back(uint32_t gpu, uint32_t home)
{
    struct tsr_journal *journal = tsr_has_role(TSR_RECORDING) ? tsr_writer_journal() : NULL;
    if (!journal || gpu >= TSR_GPUS)
        return;
    __atomic_store_n(&journal->home, home, __ATOMIC_RELAXED);
    __atomic_fetch_add(&journal->came_back[gpu], 1, __ATOMIC_RELAXED);
}

void tsr_stream_gone(CUstream stream)
{
    tsr_capture_forget(stream);
    tsr_handles_changed();
}
