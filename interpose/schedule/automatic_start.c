/* See automatic.h: how it begins. */
#include "schedule/automatic.h"

#include <stdlib.h>

#include "base/options.h"
#include "driver/gpus.h"
#include "driver/real.h"
#include "lane/lane_client.h"
#include "lane/prepared.h"
#include "memory/pairs.h"
#include "memory/staging.h"
#include "object/session.h"
#include "order/strands.h"
#include "schedule/automatic_parts.h"
#include "schedule/decisions.h"
#include "schedule/host_time.h"
#include "schedule/plan.h"

#define CREDIT_NS 500e3     /* to begin with */
#define RELAYED_PER_NS 10.0 /* of one that copies through the host */
#define PREPARE_AHEAD 1u    /* of TESSERA_PREPARE */

static struct tsr_place_link link_between(const struct tsr_session *session, uint32_t from, uint32_t to)
{
    const struct tsr_policy_pair *pair = tsr_pair_of(session, to, from);
    uint32_t proof = __atomic_load_n(&pair->proof, __ATOMIC_ACQUIRE);
    double rate = proof == TSR_PROOF_RIGHT && pair->bytes_per_s            ? (double)pair->bytes_per_s / 1e9
                  : proof == TSR_PROOF_RIGHT || proof == TSR_PROOF_PENDING ? (double)TSR_PLACE_BYTES_PER_NS
                                                                           : RELAYED_PER_NS;
    return (struct tsr_place_link){.fence_ns = TSR_PLACE_FENCE_NS, .copy_ns = TSR_PLACE_COPY_NS, .ns_per_byte = 1 / rate};
}

static void start_place(const struct tsr_session *session)
{
    const struct tsr_guard_options guard = {.window_ns = TSR_GUARD_WINDOW_NS,
                                            .rest_ns = TSR_GUARD_REST_NS,
                                            .longest_rest_ns = TSR_GUARD_LONGEST_REST_NS,
                                            .least = TSR_GUARD_LEAST_PERMILLE / 1e3,
                                            .budget_ns = TSR_GUARD_BUDGET_NS};
    struct tsr_place_options options = {.gpus = 1 + session->lane_count,
                                        .home = TSR_RANK_HOME,
                                        .strategies = (1u << TSR_PLACE_STRATEGIES) - 1,
                                        .lead_ns = (double)tsr_options()->lead,
                                        .slack_ns = TSR_PLACE_SLACK_NS,
                                        .careful = true,
                                        .queues = true};
    for (uint32_t from = 0; from < options.gpus; from++)
        for (uint32_t to = 0; to < options.gpus; to++)
            if (from != to)
                options.links[from][to] = link_between(session, from, to);
    tsr_place_init(&tsr_automatic->place, &options);
    tsr_guard_init(&tsr_automatic->guard, &guard);
    tsr_automatic->all_gpus = (1u << options.gpus) - 1;
    for (uint32_t gpu = 0; gpu < options.gpus; gpu++) /* or the first launch of what could run there stays, and all with it */
        tsr_automatic->place.credit_ns[gpu] = CREDIT_NS;
}

/* Bytes of memory per unit of time; 0: nobody knows. */
static double bandwidth(const struct tsr_session *session, uint32_t gpu)
{
    int clock = 0, bits = 0;
    CUdevice device = tsr_gpu_device(tsr_session_gpu(session, gpu));
    bool known = device >= 0 &&
                 tsr_real.cuDeviceGetAttribute(&clock, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, device) == CUDA_SUCCESS &&
                 tsr_real.cuDeviceGetAttribute(&bits, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, device) == CUDA_SUCCESS;
    return known ? (double)clock * (double)bits : 0;
}

/* Most kernels wait for memory. Where streams share a GPU, it can take long until a launch is measured alone. */
static void guess_speeds(const struct tsr_session *session)
{
    double home = bandwidth(session, TSR_RANK_HOME);
    for (uint32_t gpu = 0; gpu < tsr_automatic->place.options.gpus; gpu++) {
        double there = bandwidth(session, gpu);
        tsr_automatic->samples.classes.guess[gpu] = home > 0 && there > 0 ? (float)(home / there) : 0;
    }
}

void tsr_automatic_start(const struct tsr_session *session, bool emulated)
{
    const struct tsr_policy *policy = session->policy;
    bool asks = policy->tables[policy->generation % 2].default_device == TSR_POLICY_AUTO;
    pthread_mutex_init(&tsr_automatic_lock, NULL);
    free(tsr_automatic); /* a parent process' */
    tsr_automatic = asks && tsr_order_by_data && session->lane_count ? calloc(1, sizeof *tsr_automatic) : NULL;
    tsr_automatic_is_on = tsr_automatic != NULL;
    tsr_staging_is_wanted = tsr_options()->stage == TSR_STAGE_ALL || (tsr_options()->stage && tsr_automatic);
    if (!tsr_automatic)
        return;
    tsr_schedule_report_init();
    tsr_decisions_start();
    tsr_host_time_init(emulated);
    tsr_samples_init(&tsr_automatic->samples, emulated);
    if (tsr_options()->prepare == PREPARE_AHEAD || (tsr_options()->prepare && !emulated))
        tsr_prepared_start(session);
    start_place(session);
    guess_speeds(session);
    tsr_plan_start(session);
}
