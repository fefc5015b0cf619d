/* See transfer.h. */
#include "memory/transfer.h"

#include "carry/carry.h"
#include "driver/real.h"
#include "lane/lane_client.h"

struct tsr_lane_copy tsr_transfer_of(const struct tsr_pull *pull, CUdeviceptr to, CUdeviceptr from)
{
    uint64_t rows = tsr_pull_rows(pull);
    return (struct tsr_lane_copy){.to = to,
                                  .from = from,
                                  .to_pitch = pull->stride,
                                  .from_pitch = pull->stride,
                                  .width = tsr_pull_bytes(pull) / rows,
                                  .height = rows};
}

static CUresult transfer_home(CUstream stream, const struct tsr_lane_copy *what)
{
    const CUDA_MEMCPY2D rows = tsr_carry_rows(what);
    if (what->height == 1)
        return tsr_real.cuMemcpyDtoDAsync_v2(what->to, what->from, what->width, stream);
    return tsr_real.cuMemcpy2DAsync_v2(&rows, stream);
}

CUresult tsr_transfer(const struct tsr_transfer *by, const struct tsr_lane_copy *what)
{
    struct tsr_lane_record record = {.kind = TSR_LANE_COPY, .time = by->time, .stream = by->slot, .param_bytes = sizeof *what};
    return by->lane ? tsr_lane_post(by->lane, &record, what) : transfer_home(by->stream, what);
}
