/* See check.h. */
#include "check/check.h"

#include <string.h>

#include <tessera/access.h>
#include <tessera/checks.h>

#include "base/demangle.h"
#include "base/log.h"
#include "base/map.h"
#include "base/os.h"
#include "launch/call_ranges.h"
#include "check/check_table.h"
#include "check/claims.h"
#include "schedule/decide.h"
#include "lane/functions.h"
#include "order/gate.h"
#include "order/order.h"
#include "launch/launch.h"
#include "launch/predict.h"
#include "memory/address_map.h"
#include "driver/real.h"
#include "memory/quiet.h"
#include "check/snapshot.h"
#include "check/clone.h"
#include "check/untested.h"
#include "memory/allocation.h"
#include "memory/home.h"
#include "object/capture.h"

#define BEFORE_NS 1000000000ull
#define LAUNCH_NS 5000000000ull

struct tsr_checks *tsr_checks;

static struct tsr_map begun; /* ids of functions of which a launch has been due */

/* The launch that is being checked; the memory lock is held from the end of begin to finish. */
static struct {
    struct tsr_function_record *function;
    struct tsr_prediction prediction;
    struct tsr_snapshots *snapshots; /* NULL: its writes are not checked */
    struct tsr_clone *clone;         /* NULL: its accesses are not tested */
    struct tsr_claims_result claims; /* of its claims, if it makes any and its writes are checked */
    bool has_room;                   /* enough memory to test claims */
    CUstreamCaptureMode mode;
    uint64_t start_ns;
    struct tsr_check_block block;
} now;

/* Memory lock. Snapshots of a launch that took too long: freeing them would wait for it. */
static struct tsr_snapshots *unfreed;
static CUcontext unfreed_in;

static void count(uint64_t *counter, uint64_t by)
{
    __atomic_fetch_add(counter, by, __ATOMIC_RELAXED);
}

static uint64_t counted(const uint64_t *counter)
{
    return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

bool tsr_checks_start(void)
{
    tsr_checks = tsr_check_table_map();
    if (tsr_checks)
        tsr_call_ranges_start();
    return tsr_checks != NULL;
}

/* ---- which launches are due ---- */

static bool is_first(const struct tsr_function_record *function)
{
    return !tsr_map_find(&begun, function->id) && tsr_map_set(&begun, function->id, tsr_checks);
}

static bool is_drawn(struct tsr_function_record *function)
{
    uint64_t number = __atomic_add_fetch(&function->drawable, 1, __ATOMIC_RELAXED);
    bool enough = tsr_checks->most && counted(&tsr_checks->checked) - counted(&tsr_checks->first) >= tsr_checks->most;
    return !enough && tsr_decide_draw(tsr_checks->seed, function->name_hash, number) <= UINT64_MAX / tsr_checks->every;
}

bool tsr_check_draw(struct tsr_function_record *function, struct tsr_launch *launch)
{
    if (tsr_is_any_capture())
        return false;
    if (!function || !tsr_is_predictable(launch)) {
        count(&tsr_checks->unknown, 1);
        return false;
    }
    count(&tsr_checks->known, 1);
    bool drawn = is_drawn(function), first = is_first(function);
    launch->due = drawn ? TSR_CHECK_DUE_DRAWN : first ? TSR_CHECK_DUE_FIRST : TSR_CHECK_DUE_NONE;
    return launch->due != TSR_CHECK_DUE_NONE;
}

/* ---- before ---- */

static bool is_asked_for(enum tsr_check_what what)
{
    return tsr_checks->what & (uint32_t)what;
}

/* All memory that is checked lies between known addresses. */
static bool is_bounded(const struct tsr_prediction *prediction)
{
    bool reads = is_asked_for(TSR_CHECK_OF_ACCESSES);
    for (uint32_t i = 0; i < prediction->count; i++) {
        const struct tsr_access_range *range = &prediction->ranges[i];
        if ((reads || range->kind != TSR_ACCESS_READ) && range->whole && range->last < range->first)
            return false;
    }
    return true;
}

static int skip_of(CUresult result)
{
    return result == CUDA_ERROR_OUT_OF_MEMORY ? TSR_CHECK_MEMORY
           : result == CUDA_ERROR_NOT_READY   ? TSR_CHECK_BUSY
                                              : TSR_CHECK_DRIVER;
}

static void drop_unfreed(void)
{
    CUcontext context;
    if (unfreed && tsr_real.cuCtxGetCurrent(&context) == CUDA_SUCCESS && context == unfreed_in) {
        tsr_snapshots_destroy(unfreed);
        unfreed = NULL;
    }
}

/* With room for testing claims, if there is enough memory. */
static CUresult create_snapshots(void)
{
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    if (tsr_claims_made(&now.prediction))
        result = tsr_snapshots_create(TSR_CLAIMS_SNAPSHOTS, tsr_checks->memory_bytes, &now.snapshots);
    now.claims = (struct tsr_claims_result){.outcome = TSR_CHECK_CLAIMS_UNTESTED};
    now.has_room = result == CUDA_SUCCESS;
    return now.has_room ? result : tsr_snapshots_create(1, tsr_checks->memory_bytes, &now.snapshots);
}

/* The gate is closed. */
static CUresult copy_locked(const struct tsr_launch *launch)
{
    if (tsr_is_any_capture())
        return CUDA_ERROR_NOT_READY;
    CUresult result = tsr_quiet_wait(BEFORE_NS);
    if (result == CUDA_SUCCESS)
        drop_unfreed();
    if (result != CUDA_SUCCESS || !is_asked_for(TSR_CHECK_OF_WRITES))
        return result;
    if (unfreed)
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = create_snapshots();
    if (result != CUDA_SUCCESS)
        return result;
    result = tsr_snapshot_take(now.snapshots, 0);
    if (result == CUDA_SUCCESS && now.has_room)
        result = tsr_claims_test_locked(now.snapshots, launch, &now.prediction, &now.claims);
    if (result == CUDA_ERROR_NOT_READY && tsr_real.cuCtxGetCurrent(&unfreed_in) == CUDA_SUCCESS) {
        tsr_error("check: %s did not come to an end within five seconds with other bytes in what it is said not to need",
                  TSR_KERNEL_NAME(now.function->name));
        unfreed = now.snapshots; /* giving memory back would wait for it */
        now.snapshots = NULL;
        return result;
    }
    if (result != CUDA_SUCCESS) {
        tsr_snapshots_destroy(now.snapshots);
        now.snapshots = NULL;
    }
    return result;
}

/* The clone, armed for the launch; NULL: there is none, which is counted. */
static struct tsr_clone *clone_locked(const struct tsr_launch *launch)
{
    struct tsr_lack lack;
    if (!is_asked_for(TSR_CHECK_OF_ACCESSES))
        return NULL;
    struct tsr_clone *clone = tsr_clone_find_locked(now.function, launch->stream, &lack);
    if (!clone)
        tsr_untested_count_locked(tsr_checks, now.function, &lack);
    return clone;
}

static CUresult arm_locked(struct tsr_launch *launch)
{
    CUresult result = now.clone ? tsr_clone_arm_locked(now.clone, now.function, launch->stream, &now.prediction) : CUDA_SUCCESS;
    launch->clone = now.clone && result == CUDA_SUCCESS ? tsr_clone_function(now.clone) : NULL;
    return result;
}

#define READY (-1)    /* the gate is closed, memory copied, the clone armed */
#define NOTHING (-2) /* there is nothing to check it with */

/* Why the launch cannot be checked; or one of these. */
static int prepare_locked(struct tsr_launch *launch)
{
    now.snapshots = NULL;
    now.clone = NULL;
    tsr_predict(launch, &now.prediction);
    if (now.prediction.source == TSR_SOURCE_NONE || !is_bounded(&now.prediction))
        return TSR_CHECK_UNKNOWN;
    now.clone = clone_locked(launch);
    if (!now.clone && !is_asked_for(TSR_CHECK_OF_WRITES))
        return NOTHING;
    if (!tsr_gate_close(BEFORE_NS))
        return TSR_CHECK_BUSY;
    CUresult result = tsr_order_is_any_step() ? CUDA_ERROR_NOT_READY : copy_locked(launch);
    if (result == CUDA_SUCCESS)
        result = arm_locked(launch);
    if (result == CUDA_SUCCESS)
        return READY;
    if (now.snapshots)
        tsr_snapshots_destroy(now.snapshots);
    tsr_gate_open();
    return skip_of(result);
}

void tsr_check_begin(struct tsr_launch *launch)
{
    int skip = !tsr_launch_gather(launch) ? TSR_CHECK_PARAMETERS : tsr_memory_at_home() ? READY : TSR_CHECK_DRIVER;
    if (skip == READY) {
        uint64_t start_ns = tsr_os_monotonic_ns();
        CUstreamCaptureMode mode = tsr_memory_relax_begin();
        tsr_memory_lock();
        uint32_t bytes = launch->gathered->bytes;
        now.function = launch->known;
        now.mode = mode;
        now.start_ns = start_ns;
        now.block.bytes = bytes;
        memcpy(now.block.values, launch->gathered->values, bytes < sizeof now.block.values ? bytes : sizeof now.block.values);
        skip = prepare_locked(launch);
        if (skip == READY)
            return;
        tsr_memory_unlock();
        tsr_memory_relax_end(mode);
    }
    launch->due = TSR_CHECK_DUE_NONE;
    if (skip != NOTHING)
        count(&tsr_checks->skipped[skip], 1);
}

/* ---- after ---- */

static uint64_t bytes_of(const struct tsr_strided_range *span)
{
    uint64_t bytes = span->high - span->low;
    return span->stride ? (bytes + span->stride - 1) / span->stride * span->width : bytes;
}

struct verdict {
    struct tsr_difference all, stray; /* all bytes that changed, and those that should not have */
    uint64_t predicted_bytes;
    bool whole, outside;
    bool tested; /* its accesses were tested, with this result: */
    struct tsr_clone_result clone;
};

/* Puts the bytes that were predicted to be written into the copy. */
static CUresult adopt_predicted(struct verdict *verdict)
{
    CUresult result = CUDA_SUCCESS;
    for (uint32_t i = 0; i < now.prediction.count && result == CUDA_SUCCESS; i++) {
        const struct tsr_access_range *range = &now.prediction.ranges[i];
        struct tsr_strided_range span = tsr_predicted_span(range);
        uint64_t adopted;
        if (range->kind == TSR_ACCESS_READ)
            continue;
        result = tsr_snapshot_adopt(now.snapshots, 0, &span, &adopted);
        verdict->predicted_bytes += adopted;
        verdict->whole |= range->whole;
        verdict->outside |= adopted < bytes_of(&span);
    }
    return result;
}

static CUresult judge_writes(struct verdict *verdict)
{
    CUresult result = tsr_snapshot_compare(now.snapshots, 0, &verdict->all);
    if (result == CUDA_SUCCESS)
        result = adopt_predicted(verdict);
    if (result == CUDA_SUCCESS && verdict->all.bytes)
        result = tsr_snapshot_compare(now.snapshots, 0, &verdict->stray);
    return result;
}

static CUresult judge(struct verdict *verdict)
{
    CUresult result = tsr_quiet_wait(LAUNCH_NS);
    if (result == CUDA_SUCCESS && now.snapshots)
        result = judge_writes(verdict);
    if (result == CUDA_SUCCESS && verdict->tested)
        result = tsr_clone_read_locked(now.clone, &verdict->clone);
    return result;
}

static void count_partly(void)
{
    struct tsr_lack lack;
    tsr_lack_set(&lack, TSR_CHECK_PARTLY, "%s", tsr_clone_untested(now.clone));
    if (*lack.why)
        tsr_untested_count_locked(tsr_checks, now.function, &lack);
}

static void count_verdict(const struct verdict *verdict, bool first)
{
    count(&tsr_checks->checked, 1);
    count(&tsr_checks->checked_by_source[now.prediction.source - TSR_SOURCE_PTX], 1);
    count(&tsr_checks->first, first);
    count(&tsr_checks->whole, verdict->whole);
    count(&tsr_checks->outside, verdict->outside);
    count(&tsr_checks->idle, now.snapshots && !verdict->all.bytes);
    count(&tsr_checks->changed_bytes, verdict->all.bytes - verdict->stray.bytes);
    count(&tsr_checks->predicted_bytes, verdict->predicted_bytes);
    count(&tsr_checks->looked_at_bytes, now.snapshots ? tsr_snapshots_bytes(now.snapshots) : 0);
    if (now.snapshots && tsr_claims_made(&now.prediction))
        count(&tsr_checks->claims[now.claims.outcome], 1);
    count(&tsr_checks->filled_bytes, now.snapshots ? now.claims.bytes : 0);
    count(&tsr_checks->tested_launches, verdict->tested);
    count(&tsr_checks->tested, verdict->clone.tested);
    count(&tsr_checks->check_ns, tsr_os_monotonic_ns() - now.start_ns);
    if (verdict->tested)
        count_partly();
}

static struct tsr_check_place place_of(uint64_t address)
{
    uint64_t begin = 0, end = 0;
    tsr_address_find_range(address, &begin, &end);
    return (struct tsr_check_place){.address = address, .allocation = begin, .allocation_bytes = end - begin};
}

static void report_violation(const struct tsr_launch *launch, const struct verdict *verdict)
{
    const struct tsr_difference *stray = &verdict->stray;
    const struct tsr_clone_result *clone = &verdict->clone;
    struct tsr_check_place place = place_of(clone->outside ? clone->address : stray->address);
    struct tsr_check_finding finding = {
        launch, now.function, &now.block, &now.prediction, stray, clone->outside ? clone : NULL, TSR_CHECK_CLAIM_NONE,
        NULL,   place};
    unsigned long long offset = place.address - place.allocation, size = place.allocation_bytes, begin = place.allocation;
    tsr_check_table_report(tsr_checks, &finding);
    if (clone->outside)
        tsr_error("check: %s made %llu accesses that it was not predicted to make, one in line %u, at byte %llu of the %llu at "
                  "0x%llx; what it touches is unknown from now on",
                  TSR_KERNEL_NAME(now.function->name), (unsigned long long)clone->outside, clone->line, offset, size, begin);
    else
        tsr_error("check: %s wrote %llu bytes that it was not predicted to write, the first at byte %llu of the %llu at "
                  "0x%llx; what it touches is unknown from now on",
                  TSR_KERNEL_NAME(now.function->name), (unsigned long long)stray->bytes, offset, size, begin);
    tsr_predict_distrust(now.function, now.prediction.source);
}

static void report_claim(const struct tsr_launch *launch)
{
    const struct tsr_difference *difference = &now.claims.difference;
    const struct tsr_access_range *range = now.claims.range;
    struct tsr_check_finding finding = {launch,
                                        now.function,
                                        &now.block,
                                        &now.prediction,
                                        difference,
                                        NULL,
                                        now.claims.broken,
                                        range,
                                        place_of(difference->address)};
    tsr_check_table_report(tsr_checks, &finding);
    tsr_error(
        "check: %s needs what is in the %llu bytes at 0x%llx that it is said to %s: with others in them, %llu bytes come out "
        "otherwise; what it touches is unknown from now on",
        TSR_KERNEL_NAME(now.function->name), (unsigned long long)(range->last - range->first + 1),
        (unsigned long long)(range->base + (uint64_t)range->first),
        now.claims.broken == TSR_CHECK_CLAIM_SCRATCH ? "use as scratch" : "overwrite", (unsigned long long)difference->bytes);
    tsr_predict_distrust(now.function, now.prediction.source);
}

/* The driver refused to launch the clone. It is not tried again, unless the driver refused the function, too. */
static void count_refused(bool launched)
{
    struct tsr_lack lack;
    if (launched) {
        tsr_clone_give_up_locked(now.clone, &lack);
        tsr_untested_count_locked(tsr_checks, now.function, &lack);
    }
    now.clone = NULL;
}

void tsr_check_finish(const struct tsr_launch *launch, CUresult result)
{
    struct verdict verdict = {.tested = launch->clone};
    struct tsr_snapshots *snapshots = now.snapshots;
    CUstreamCaptureMode mode = now.mode;
    if (now.clone && !launch->clone)
        count_refused(result == CUDA_SUCCESS);
    if (result == CUDA_SUCCESS && (now.clone || now.snapshots))
        result = judge(&verdict);
    if (result != CUDA_SUCCESS)
        count(&tsr_checks->skipped[skip_of(result)], 1);
    else if (now.clone || now.snapshots)
        count_verdict(&verdict, launch->due == TSR_CHECK_DUE_FIRST);
    if (result == CUDA_SUCCESS && (verdict.stray.bytes || verdict.clone.outside))
        report_violation(launch, &verdict);
    else if (result == CUDA_SUCCESS && now.snapshots && now.claims.broken)
        report_claim(launch);
    if (snapshots && result == CUDA_ERROR_NOT_READY && tsr_real.cuCtxGetCurrent(&unfreed_in) == CUDA_SUCCESS)
        unfreed = snapshots;
    else if (snapshots)
        tsr_snapshots_destroy(snapshots);
    tsr_gate_open();
    tsr_memory_unlock();
    tsr_memory_relax_end(mode);
}
