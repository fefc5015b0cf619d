/* See claims.h. */
#include "check/claims.h"

#include "driver/real.h"
#include "launch/launch.h"
#include "launch/predict.h"
#include "memory/quiet.h"

#define RUN_NS 5000000000ull
#define FILL 0xff /* not a number in each format of floating point, the largest number of each unsigned format */
#define BEFORE 0u /* numbers of snapshots */
#define AFTER 1u

struct test {
    struct tsr_snapshots *snapshots;
    const struct tsr_launch *launch;
    const struct tsr_prediction *prediction;
    struct tsr_claims_result *out;
};

static bool is_claimed(const struct tsr_access_range *range, enum tsr_check_claim claim)
{
    return range->kind != TSR_ACCESS_READ && (claim == TSR_CHECK_CLAIM_SCRATCH ? range->scratch : range->overwritten);
}

static bool is_made(const struct tsr_prediction *prediction, enum tsr_check_claim claim)
{
    for (uint32_t i = 0; i < prediction->count; i++)
        if (is_claimed(&prediction->ranges[i], claim))
            return true;
    return false;
}

bool tsr_claims_made(const struct tsr_prediction *prediction)
{
    return is_made(prediction, TSR_CHECK_CLAIM_OVERWRITTEN) || is_made(prediction, TSR_CHECK_CLAIM_SCRATCH);
}

/* It can be run again, and all that it may write can be put back. */
static bool is_repeatable(const struct test *test)
{
    for (uint32_t i = 0; i < test->prediction->count; i++) {
        const struct tsr_access_range *range = &test->prediction->ranges[i];
        struct tsr_strided_range span = tsr_predicted_span(range);
        if (range->kind != TSR_ACCESS_READ && !tsr_snapshot_holds(test->snapshots, &span))
            return false;
    }
    return !test->launch->opaque;
}

static CUresult launch_again(const struct tsr_launch *of)
{
    CUlaunchConfig config = {.gridDimX = of->grid[0],
                             .gridDimY = of->grid[1],
                             .gridDimZ = of->grid[2],
                             .blockDimX = of->block[0],
                             .blockDimY = of->block[1],
                             .blockDimZ = of->block[2],
                             .sharedMemBytes = of->shared_bytes,
                             .hStream = of->stream,
                             .attrs = (CUlaunchAttribute *)of->attributes,
                             .numAttrs = of->attribute_count};
    if (of->attribute_count)
        return tsr_real.cuLaunchKernelEx(&config, of->function, of->params, of->extra);
    if (of->cooperative)
        return tsr_real.cuLaunchCooperativeKernel(of->function, of->grid[0], of->grid[1], of->grid[2], of->block[0],
                                                  of->block[1], of->block[2], of->shared_bytes, of->stream, of->params);
    return tsr_real.cuLaunchKernel(of->function, of->grid[0], of->grid[1], of->grid[2], of->block[0], of->block[1],
                                   of->block[2], of->shared_bytes, of->stream, of->params, of->extra);
}

static CUresult run(const struct test *test)
{
    CUresult result = launch_again(test->launch);
    return result == CUDA_SUCCESS ? tsr_quiet_wait(RUN_NS) : result;
}

/* All that is claimed, but what the launch may read besides. */
static CUresult fill(const struct test *test, enum tsr_check_claim claim)
{
    CUresult result = CUDA_SUCCESS;
    for (uint32_t i = 0; i < test->prediction->count && result == CUDA_SUCCESS; i++) {
        struct tsr_strided_range span = tsr_predicted_span(&test->prediction->ranges[i]);
        if (is_claimed(&test->prediction->ranges[i], claim))
            result = tsr_snapshot_fill(test->snapshots, &span, FILL, &test->out->bytes);
    }
    for (uint32_t i = 0; i < test->prediction->count && result == CUDA_SUCCESS; i++) {
        const struct tsr_access_range *range = &test->prediction->ranges[i];
        struct tsr_strided_range span = tsr_predicted_span(range);
        if (range->kind != TSR_ACCESS_WRITE && !range->scratch)
            result = tsr_snapshot_put_back(test->snapshots, BEFORE, &span);
    }
    return result;
}

/* Memory after a run against what the first run left, without scratch. */
static CUresult compare(const struct test *test, struct tsr_difference *out)
{
    CUresult result = CUDA_SUCCESS;
    for (uint32_t i = 0; i < test->prediction->count && result == CUDA_SUCCESS; i++) {
        struct tsr_strided_range span = tsr_predicted_span(&test->prediction->ranges[i]);
        if (is_claimed(&test->prediction->ranges[i], TSR_CHECK_CLAIM_SCRATCH))
            result = tsr_snapshot_put_back(test->snapshots, AFTER, &span);
    }
    return result == CUDA_SUCCESS ? tsr_snapshot_compare(test->snapshots, AFTER, out) : result;
}

/* The same, without what a library call's later launches have yet to overwrite. */
static CUresult compare_again(const struct test *test, struct tsr_difference *out)
{
    CUresult result = CUDA_SUCCESS;
    for (uint32_t i = 0; i < test->prediction->count && result == CUDA_SUCCESS; i++) {
        struct tsr_strided_range span = tsr_predicted_span(&test->prediction->ranges[i]);
        if (is_claimed(&test->prediction->ranges[i], TSR_CHECK_CLAIM_OVERWRITTEN))
            result = tsr_snapshot_put_back_untouched(test->snapshots, AFTER, BEFORE, &span, FILL);
    }
    return result == CUDA_SUCCESS ? tsr_snapshot_compare(test->snapshots, AFTER, out) : result;
}

static const struct tsr_access_range *range_of(const struct test *test, enum tsr_check_claim claim, CUdeviceptr address)
{
    const struct tsr_access_range *first = NULL;
    for (uint32_t i = 0; i < test->prediction->count; i++) {
        const struct tsr_access_range *range = &test->prediction->ranges[i];
        struct tsr_strided_range span = tsr_predicted_span(range);
        if (!is_claimed(range, claim))
            continue;
        if (address >= span.low && address < span.high && (!span.stride || (address - span.low) % span.stride < span.width))
            return range;
        first = first ? first : range;
    }
    return first;
}

/* From memory as it was. */
static CUresult run_from_before(const struct test *test, enum tsr_check_claim claim, struct tsr_difference *out)
{
    CUresult result = tsr_snapshot_restore(test->snapshots, BEFORE);
    if (result == CUDA_SUCCESS && claim)
        result = fill(test, claim);
    if (result == CUDA_SUCCESS)
        result = run(test);
    if (result == CUDA_SUCCESS)
        result = compare(test, out);
    if (result == CUDA_SUCCESS && out->bytes && claim == TSR_CHECK_CLAIM_OVERWRITTEN && test->prediction->in_call)
        result = compare_again(test, out);
    return result;
}

static CUresult test_claim(const struct test *test, enum tsr_check_claim claim)
{
    struct tsr_difference with, without;
    CUresult result = run_from_before(test, claim, &with);
    if (result != CUDA_SUCCESS || !with.bytes)
        return result;
    result = run_from_before(test, TSR_CHECK_CLAIM_NONE, &without);
    if (result != CUDA_SUCCESS)
        return result;
    test->out->outcome = without.bytes ? TSR_CHECK_CLAIMS_UNSTEADY : TSR_CHECK_CLAIMS_TESTED;
    test->out->broken = without.bytes ? TSR_CHECK_CLAIM_NONE : claim;
    test->out->difference = with;
    test->out->range = range_of(test, claim, with.address);
    return CUDA_SUCCESS;
}

static CUresult test_claims(const struct test *test)
{
    CUresult result = run(test);
    if (result == CUDA_SUCCESS)
        result = tsr_snapshot_take(test->snapshots, AFTER);
    test->out->outcome = TSR_CHECK_CLAIMS_TESTED;
    for (int claim = TSR_CHECK_CLAIM_OVERWRITTEN; claim <= TSR_CHECK_CLAIM_SCRATCH && result == CUDA_SUCCESS; claim++)
        if (is_made(test->prediction, claim) && !test->out->broken && test->out->outcome == TSR_CHECK_CLAIMS_TESTED)
            result = test_claim(test, claim);
    return result;
}

CUresult tsr_claims_test_locked(struct tsr_snapshots *snapshots, const struct tsr_launch *launch,
                                const struct tsr_prediction *prediction, struct tsr_claims_result *out)
{
    const struct test test = {snapshots, launch, prediction, out};
    *out = (struct tsr_claims_result){.outcome = TSR_CHECK_CLAIMS_UNTESTED};
    if (!is_repeatable(&test))
        return CUDA_SUCCESS;
    CUresult result = test_claims(&test);
    if (result == CUDA_ERROR_NOT_READY) /* it is still writing */
        return result;
    CUresult restored = tsr_snapshot_restore(snapshots, BEFORE);
    return result == CUDA_SUCCESS ? restored : result;
}
