/* See operand_record.h. */
#include "record/operand_record.h"

#include <string.h>

#include "calls/calls.h"
#include "launch/tensor_maps.h"
#include "record/recorder.h"
#include "record/writer.h"

#define PIECE_BYTES ((uint32_t)sizeof((struct tsr_record *)0)->u.bytes)
#define MOST_TEXT_BYTES 128u

void tsr_operand_records_start(void)
{
    if (tsr_record_parameters && tessera_library_operands_wanted)
        tessera_library_operands_wanted();
}

struct tsr_call_operands tsr_call_operands(void)
{
    struct tsr_call_operands operands = {0};
    operands.call = tessera_library_call ? tessera_library_call() : 0;
    if (!operands.call)
        return operands;
    int32_t count = tessera_library_operands(&operands.of, &operands.other_gpus, &operands.why);
    operands.ranges = count > 0 ? (uint32_t)count : 0;
    operands.text_bytes = count < 0 ? (uint32_t)strnlen(operands.why, MOST_TEXT_BYTES) : 0;
    return operands;
}

static uint32_t pieces(size_t bytes)
{
    return (uint32_t)((bytes + PIECE_BYTES - 1) / PIECE_BYTES);
}

uint32_t tsr_operand_records(const struct tsr_call_operands *operands)
{
    return 1 + operands->ranges + pieces(operands->text_bytes);
}

static void write_bytes(const struct tsr_thread *thread, uint32_t ahead, const void *bytes, size_t count,
                        const struct tsr_record *like)
{
    for (size_t done = 0; done < count; done += PIECE_BYTES) {
        struct tsr_record record = *like;
        record.kind = TSR_RECORD_BYTES;
        memset(&record.u, 0, sizeof record.u);
        memcpy(record.u.bytes, (const char *)bytes + done, count - done < PIECE_BYTES ? count - done : PIECE_BYTES);
        *tsr_ring_at(&thread->writer, ahead++) = record;
    }
}

static void write_range(struct tsr_record *record, const struct tsr_access_range *range)
{
    record->kind = TSR_RECORD_RANGE;
    record->detail = range->kind | (range->overwritten ? TSR_RECORD_RANGE_OVERWRITTEN : 0) |
                     (range->scratch ? TSR_RECORD_RANGE_SCRATCH : 0) |
                     (range->intermediate ? TSR_RECORD_RANGE_INTERMEDIATE : 0);
    record->u.range.first = range->whole ? range->base : range->base + (uint64_t)range->first;
    record->u.range.last = range->whole ? 0 : range->base + (uint64_t)range->last;
    record->u.range.stride = range->whole ? 0 : (uint64_t)range->stride;
    record->u.range.width = range->whole ? 0 : (uint64_t)range->width;
}

void tsr_operand_write(const struct tsr_thread *thread, uint32_t ahead, const struct tsr_call_operands *operands,
                       const struct tsr_record *launch)
{
    struct tsr_record record = {.start = launch->start,
                                .call = launch->call,
                                .kind = TSR_RECORD_LIBRARY,
                                .flags = operands->other_gpus ? TSR_RECORD_OTHER_GPUS : 0,
                                .context = launch->context,
                                .detail = operands->text_bytes,
                                .stream = launch->stream,
                                .u.library = {operands->call, operands->ranges}};
    *tsr_ring_at(&thread->writer, ahead++) = record;
    record.flags = 0;
    record.detail = 0;
    for (uint32_t i = 0; i < operands->ranges; i++) {
        write_range(&record, &operands->of[i]);
        *tsr_ring_at(&thread->writer, ahead++) = record;
    }
    record.detail = 0;
    write_bytes(thread, ahead, operands->why, operands->text_bytes, &record);
}

void tsr_tensor_record(uint64_t start, enum tsr_row row, const void *map, const struct tsr_box *box)
{
    struct tsr_thread *thread = start && tsr_record_parameters ? tsr_thread() : NULL;
    uint64_t axes[2 * TSR_BOX_AXES];
    uint32_t axes_bytes = box->axes * 2 * (uint32_t)sizeof axes[0];
    uint32_t count = 1 + pieces(TSR_TENSOR_MAP_BYTES) + pieces(axes_bytes);
    if (!thread || !tsr_ring_has_room(&thread->writer, count))
        return;
    for (uint32_t i = 0; i < box->axes; i++) {
        axes[2 * i] = box->extents[i];
        axes[2 * i + 1] = box->strides[i];
    }
    struct tsr_record record = {.start = start,
                                .ticks = tsr_record_ticks(start),
                                .call = (uint16_t)row,
                                .kind = TSR_RECORD_TENSOR,
                                .u.tensor = {box->address, box->element_bytes, box->axes}};
    *tsr_ring_at(&thread->writer, 0) = record;
    write_bytes(thread, 1, map, TSR_TENSOR_MAP_BYTES, &record);
    write_bytes(thread, 1 + pieces(TSR_TENSOR_MAP_BYTES), axes, axes_bytes, &record);
    tsr_ring_commit(&thread->writer, count);
}
