/* See start.h. */
#include "shim/start.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "base/options.h"
#include "base/os.h"
#include "check/check.h"
#include "driver/engaged.h"
#include "driver/gpus.h"
#include "lane/lane_client.h"
#include "launch/call_ranges.h"
#include "launch/evaluators.h"
#include "memory/arena.h"
#include "memory/copies.h"
#include "memory/memory.h"
#include "object/session.h"
#include "order/gate.h"
#include "order/order.h"
#include "order/strands.h"
#include "schedule/assign.h"
#include "schedule/automatic.h"
#include "shim/deferred.h"

static struct tsr_session *current; /* lock; the last session that was made, perhaps in the parent process */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct tsr_policy *map_policy(void)
{
    const char *path = tsr_options()->policy;
    if (!*path)
        return NULL;
    int descriptor = tsr_os_open_own(path, O_RDWR);
    if (descriptor < 0) {
        tsr_error("the decision table %s cannot be opened; all launches stay home", path);
        return NULL;
    }
    struct tsr_policy *policy = mmap(NULL, sizeof *policy, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    off_t bytes = lseek(descriptor, 0, SEEK_END);
    close(descriptor);
    if (policy == MAP_FAILED)
        return NULL;
    if (bytes < (off_t)sizeof *policy || policy->magic != TSR_POLICY_MAGIC || policy->version != TSR_POLICY_VERSION ||
        policy->bytes != sizeof *policy) {
        tsr_error("the decision table %s is of another release; all launches stay home", path);
        munmap(policy, sizeof *policy);
        return NULL;
    }
    return policy;
}

/* A lane to each executor, or none at all. */
static void open_lanes(struct tsr_session *session)
{
    const struct tsr_policy *policy = session->policy;
    for (uint32_t i = 0; i < policy->executor_count && i < TSR_LANES; i++) {
        struct tsr_lane_client *lane = tsr_lane_client_create(policy->executors[i].socket, i);
        if (!lane) {
            tsr_error("the executor for GPU %u does not answer; all launches stay home", policy->executors[i].device);
            session->lane_count = 0;
            break;
        }
        session->lanes[i] = lane;
        session->lane_device[i] = policy->executors[i].device;
        session->lane_count = i + 1;
    }
    if (tsr_lane_introduce(session->lanes, session->lane_count, tsr_order_by_data) != CUDA_SUCCESS) {
        tsr_error("the executors cannot see each other's fences; all launches stay home");
        session->lane_count = 0;
    }
}

/* Whether `order: data` applies. */
static bool is_by_data(const struct tsr_policy *policy)
{
    return policy->order == TSR_POLICY_ORDER_DATA && policy->memory_place == TSR_POLICY_COPIES;
}

static void prepare(struct tsr_session *session)
{
    const struct tsr_policy *policy = session->policy;
    if (session->home < 0) {
        tsr_warn("CUDA_VISIBLE_DEVICES hides GPU %u, the policy's home, from this process: none of its launches runs elsewhere",
                 policy->home);
        return;
    }
    tsr_order_start(is_by_data(policy));
    tsr_assign_start();
    bool may_move = policy->memory_place != (int32_t)policy->home;
    session->checks = tsr_checks_start();
    if (policy->memory_place == TSR_POLICY_COPIES)
        tsr_call_ranges_start();
    tsr_gate_start(may_move || session->checks || policy->tables[policy->generation % 2].verify_every != 0);
    tsr_arena_start(policy);
    open_lanes(session);
    tsr_automatic_start(session, *tsr_options()->machine != 0);
}

static struct tsr_session *create(void)
{
    struct tsr_policy *policy = map_policy();
    struct tsr_session *session = policy ? calloc(1, sizeof *session) : NULL;
    if (!session)
        return NULL;
    tsr_memory_forget();
    session->owner = getpid();
    session->policy = policy;
    session->home = tsr_gpu_device(policy->home);
    pthread_mutex_init(&session->rules_lock, NULL);
    prepare(session);
    return session;
}

/* A policy without executors that has something to do nevertheless. */
static bool is_alone(const struct tsr_session *session)
{
    return !session->policy->executor_count && (session->checks || (session->policy->memory_host_bytes && session->home >= 0));
}

void tsr_session_start(void)
{
    pthread_mutex_lock(&lock);
    if (!current || current->owner != getpid())
        tsr_session_set(current = create());
    if (current)
        tsr_copies_start(tsr_order_by_data ? 1 + current->lane_count : 1);
    if (current && (current->checks || current->policy->memory_place == TSR_POLICY_COPIES))
        tsr_evaluators_start(current->policy->home);
    if (current && current->lane_count)
        tsr_deferred_start(current, *tsr_options()->machine != 0);
    if (current)
        tsr_engage(current->lane_count || is_alone(current) ? TSR_REDIRECTING : TSR_COUNTING);
    pthread_mutex_unlock(&lock);
}
