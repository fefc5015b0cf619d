/* See launch_record.h. */
#include "record/launch_record.h"

#include "object/capture.h"
#include "record/definitions.h"
#include "launch/launch.h"
#include "memory/tickets.h"
#include "object/place.h"
#include "record/operand_record.h"
#include "record/recorder.h"
#include "record/timing.h"
#include "record/timing_away.h"
#include "record/writer.h"

#include <errno.h>
#include <string.h>

#define MOST_ATTRIBUTES 64u
#define MEASURE_ONE_OF 16u /* a power of two */
#define PIECE_BYTES ((uint32_t)sizeof((struct tsr_record *)0)->u.parameters)

void tsr_launch_note(struct tsr_launch *launch)
{
    launch->thread = tsr_thread();
    if (!launch->thread)
        return;
    launch->captured = tsr_is_capturing(launch->stream);
    launch->context = tsr_record_context(launch->thread, launch->stream);
}

/* Whether launches may overlap, which events between them would prevent. */
static bool may_overlap(const struct tsr_launch *launch)
{
    for (uint32_t i = 0; i < launch->attribute_count; i++)
        if (launch->attributes[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION ||
            launch->attributes[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT)
            return true;
    return false;
}

static bool is_sample(const struct tsr_launch *launch, uint32_t random)
{
    if (tsr_timing_mode != TSR_TIMING_SAMPLED)
        return tsr_timing_mode == TSR_TIMING_ALL;
    if (!launch->known || __atomic_load_n(&launch->known->launches, __ATOMIC_RELAXED) < TSR_TIMING_FIRST)
        return true;
    return random % TSR_TIMING_ONE_OF == 0;
}

void tsr_launch_time_away(struct tsr_launch *launch, struct tsr_lane_client *lane)
{
    struct tsr_thread *thread = tsr_timing_mode == TSR_TIMING_OFF ? NULL : tsr_thread();
    if (!thread || !is_sample(launch, tsr_thread_random(thread)) || may_overlap(launch))
        return;
    launch->lane = lane;
    launch->time = tsr_timing_away_begin(lane);
}

static void end_time_away(const struct tsr_launch *launch, uint64_t number)
{
    if (launch->taken)
        tsr_timing_away_end(launch->lane, launch->time, launch->thread, number);
    else
        tsr_timing_away_drop(launch->lane, launch->time);
}

void tsr_launch_prepare(struct tsr_launch *launch)
{
    tsr_launch_note(launch);
    if (!launch->thread)
        return;
    uint32_t random = tsr_thread_random(launch->thread);
    if (is_sample(launch, random) && !launch->taken && !tsr_is_any_capture() && !may_overlap(launch))
        launch->pair = tsr_timing_begin(launch->thread, launch->stream, launch->context);
    if ((random >> 8) % MEASURE_ONE_OF == 0)
        launch->left = tsr_ticks();
}

static bool is_cooperative(const struct tsr_launch *launch)
{
    for (uint32_t i = 0; i < launch->attribute_count; i++)
        if (launch->attributes[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && launch->attributes[i].value.cooperative)
            return true;
    return launch->cooperative;
}

static bool is_understood(const struct tsr_launch *launch, uint8_t device)
{
    struct tsr_function_record *known = launch->known;
    return known && __atomic_load_n(&known->number, __ATOMIC_ACQUIRE) && tsr_template_find(&known->template, device);
}

static void count(const struct tsr_launch *launch, uint8_t device)
{
    const struct tsr_ring_writer *writer = &launch->thread->writer;
    if (launch->captured)
        tsr_ring_count(writer, &writer->ring->captured, 1);
    else if (device < TSR_GPUS)
        tsr_ring_count(writer, &writer->ring->launches[device], 1);
    if (launch->reason)
        tsr_ring_count(writer, &writer->ring->kept_reasons[launch->reason], 1);
}

static void write_attributes(const struct tsr_launch *launch, uint32_t count, const struct tsr_record *of)
{
    for (uint32_t i = 0; i < count; i++) {
        struct tsr_record record = {.start = of->start,
                                    .call = of->call,
                                    .kind = TSR_RECORD_ATTRIBUTE,
                                    .context = of->context,
                                    .detail = launch->attributes[i].id,
                                    .stream = of->stream};
        memcpy(record.u.attribute, &launch->attributes[i].value, sizeof record.u.attribute);
        *tsr_ring_at(&launch->thread->writer, 1 + i) = record;
    }
}

static void write_parameters(const struct tsr_launch *launch, uint32_t first, const uint8_t *block, uint32_t pieces,
                             const struct tsr_record *of)
{
    for (uint32_t i = 0; i < pieces; i++) {
        struct tsr_record record = {
            .start = of->start, .call = of->call, .kind = TSR_RECORD_PARAMETERS, .context = of->context, .stream = of->stream};
        memcpy(record.u.parameters, block + i * sizeof record.u.parameters, sizeof record.u.parameters);
        *tsr_ring_at(&launch->thread->writer, first + i) = record;
    }
}

/* Bytes of parameters that are recorded; 0: none. */
static uint32_t gather(const struct tsr_launch *launch)
{
    const struct tsr_function_record *known = launch->known;
    bool defined = known && __atomic_load_n(&known->number, __ATOMIC_ACQUIRE);
    return defined && tsr_launch_gather(launch) ? launch->gathered->bytes : 0;
}

/* Returns the record's number in the ring; UINT64_MAX: there is no room. */
static uint64_t write(const struct tsr_launch *launch, CUresult result, uint8_t device)
{
    uint32_t attributes = launch->attribute_count < MOST_ATTRIBUTES ? launch->attribute_count : MOST_ATTRIBUTES;
    struct tsr_ring_writer *writer = &launch->thread->writer;
    uint32_t bytes = tsr_record_parameters ? gather(launch) : 0;
    uint32_t pieces = (bytes + PIECE_BYTES - 1) / PIECE_BYTES;
    struct tsr_call_operands operands = {0};
    if (tsr_record_parameters)
        operands = tsr_call_operands();
    uint32_t more = attributes + pieces + (operands.call ? tsr_operand_records(&operands) : 0);
    if (tsr_record_parameters) { /* which takes many records, none of which should be lost */
        int saved_errno = errno;
        tsr_ring_wait_for_room(writer, 1 + more);
        errno = saved_errno;
    }
    if (!tsr_ring_has_room(writer, 1 + more))
        return UINT64_MAX;
    unsigned flags = (launch->captured ? TSR_RECORD_CAPTURED : 0u) | (launch->taken ? TSR_RECORD_REDIRECTED : 0u) |
                     (launch->reason ? TSR_RECORD_KEPT_HOME : 0u) | (is_cooperative(launch) ? TSR_RECORD_COOPERATIVE : 0u) |
                     (is_understood(launch, device) ? TSR_RECORD_UNDERSTOOD : 0u);
    struct tsr_record *record = tsr_ring_at(writer, 0);
    *record = (struct tsr_record){
        .start = launch->start,
        .ticks = tsr_record_ticks(launch->start),
        .call = (uint16_t)launch->row,
        .kind = TSR_RECORD_LAUNCH,
        .flags = (uint8_t)flags,
        .result = (uint16_t)result,
        .context = launch->context,
        .detail = bytes,
        .stream = (uintptr_t)launch->stream,
        .u.launch = {.function = launch->known ? __atomic_load_n(&launch->known->number, __ATOMIC_ACQUIRE) : 0,
                     .grid = {launch->grid[0], launch->grid[1], launch->grid[2]},
                     .block = {(uint16_t)launch->block[0], (uint16_t)launch->block[1], (uint16_t)launch->block[2]},
                     .device = device,
                     .attributes = (uint8_t)attributes,
                     .shared_bytes = launch->shared_bytes,
                     .reason = (uint16_t)launch->reason,
                     .ticket = launch->captured ? 0 : (uint16_t)tsr_ticket_taken}};
    tsr_ticket_taken = 0;
    if (attributes)
        write_attributes(launch, attributes, record);
    if (pieces)
        write_parameters(launch, 1 + attributes, launch->gathered->values, pieces, record);
    if (operands.call)
        tsr_operand_write(launch->thread, 1 + attributes + pieces, &operands, record);
    tsr_ring_commit(writer, 1 + more);
    return writer->tail - 1 - more;
}

static void measure_overhead(const struct tsr_launch *launch)
{
    struct tsr_journal *journal = tsr_writer_journal();
    if (!journal)
        return;
    uint64_t own = (launch->left - launch->start) + (tsr_ticks() - launch->returned);
    __atomic_fetch_add(&journal->overhead_ticks, own, __ATOMIC_RELAXED);
    __atomic_fetch_add(&journal->overhead_samples, 1, __ATOMIC_RELAXED);
}

void tsr_launch_define(struct tsr_launch *launch)
{
    if (!launch->known || !__atomic_load_n(&launch->known->number, __ATOMIC_ACQUIRE))
        launch->known = tsr_function_define(launch->function);
}

void tsr_launch_record(struct tsr_launch *launch, CUresult result)
{
    if (!launch->thread)
        return;
    if (launch->left)
        launch->returned = tsr_ticks();
    bool launched = result == CUDA_SUCCESS;
    if (launch->pair)
        tsr_timing_mark(launch->pair, launch->stream, launched);
    if (launched)
        tsr_launch_define(launch);
    if (launched && launch->known && __atomic_load_n(&launch->known->launches, __ATOMIC_RELAXED) < TSR_TIMING_FIRST)
        __atomic_fetch_add(&launch->known->launches, 1, __ATOMIC_RELAXED);
    uint8_t device = launch->taken ? (uint8_t)launch->gpu : tsr_context_device(launch->context);
    if (device == TSR_DEVICE_UNKNOWN) /* there are too many contexts */
        device = (uint8_t)tsr_place_of(launch->stream);
    if (launched)
        count(launch, device);
    uint64_t number = write(launch, result, device);
    if (launch->pair)
        tsr_timing_end(launch->pair, launch->thread, number);
    if (launch->time)
        end_time_away(launch, launched ? number : UINT64_MAX);
    if (launch->left)
        measure_overhead(launch);
}
