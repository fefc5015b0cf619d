/* What order.c and ties.c share: operations in a held stream at home, and the slot of a stream in a lane. */
#ifndef TSR_ORDER_ORDER_PARTS_H
#define TSR_ORDER_ORDER_PARTS_H

#include "api/driver.h"

#include <stdint.h>

struct tsr_lane_client;
struct tsr_stream;

static inline CUstreamBatchMemOpParams tsr_order_wait_operation(CUdeviceptr fence, uint64_t value)
{
    CUstreamBatchMemOpParams operation = {.waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64,
                                                        .address = fence,
                                                        .value64 = value,
                                                        .flags = CU_STREAM_WAIT_VALUE_GEQ}};
    return operation;
}

static inline CUstreamBatchMemOpParams tsr_order_write_operation(CUdeviceptr fence, uint64_t value)
{
    CUstreamBatchMemOpParams operation = {
        .writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64, .address = fence, .value64 = value}};
    return operation;
}

/* In the stream at home; default streams are those of the record's context. The caller holds the stream, as in what follows. */
CUresult tsr_order_operate_locked(const struct tsr_stream *stream, unsigned operations, CUstreamBatchMemOpParams *what);

/* The executor has a stream for the slot that the stream has, and the stream's context, if it has one, sees the lane's fences. Errors: NOT_SUPPORTED; the executor's. */
CUresult tsr_order_open_locked(const struct tsr_stream *stream, struct tsr_lane_client *lane);

#endif
