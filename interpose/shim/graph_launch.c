/* See graph_launch.h. */
#include "shim/graph_launch.h"

#include <stddef.h>

#include "driver/current.h"
#include "driver/engaged.h"
#include "driver/real.h"
#include "driver/stream_handle.h"
#include "graph/instance.h"
#include "graph/parts.h"
#include "lane/lane_client.h"
#include "lane/streams.h"
#include "launch/captured_calls.h"
#include "launch/launch.h"
#include "object/capture.h"
#include "object/session.h"
#include "memory/memory.h"
#include "memory/tickets.h"
#include "order/order.h"
#include "schedule/automatic.h"
#include "schedule/decide.h"
#include "shim/redirect.h"
#include "shim/skipped_wait.h"

/* What a graph launch asks of memory. */
static struct tsr_copies_use use_of(struct tsr_launch *launch, const struct tsr_instance *instance,
                                    struct tsr_lane_client *lane, struct tsr_copies_proof *proof)
{
    return (struct tsr_copies_use){.touches = instance->touches.data,
                                   .count = (uint32_t)instance->touches.count,
                                   .everything = !instance->known,
                                   .tracked = instance->known,
                                   .stream = launch->stream,
                                   .lane = lane,
                                   .proof = proof,
                                   .stages = tsr_automatic_stages(launch->automatic),
                                   .ticket = &launch->ticket,
                                   .reason = &launch->reason};
}

static bool is_in_stream_of_last(const struct tsr_instance *instance, const struct tsr_launch *launch)
{
    const struct tsr_stream *stream = instance->stream;
    return stream && stream == launch->place.stream &&
           __atomic_load_n(&stream->generation, __ATOMIC_ACQUIRE) == instance->generation;
}

/* Whoever is placed one by one has a ticket of his own each time; so has one whose stream changes. */
static bool may_repeat(const struct tsr_launch *launch, const struct tsr_instance *instance, const struct tsr_lane_client *lane)
{
    struct tsr_instance_stamp now = tsr_instance_stamp_now(instance);
    return !launch->automatic && instance->known && instance->proof.queue && instance->proved_on == lane &&
           is_in_stream_of_last(instance, launch) && tsr_instance_same_stamp(&instance->proved, &now);
}

/* A proof that is about to be made; what was proved before ends with it. */
static struct tsr_copies_proof begin_proof(struct tsr_instance *instance)
{
    instance->proof.queue = NULL;
    if (!instance->more)
        instance->more = malloc(TSR_INSTANCE_EXTENTS * sizeof *instance->more);
    return (struct tsr_copies_proof){.more = instance->more, .more_room = instance->more ? TSR_INSTANCE_EXTENTS : 0};
}

/* NULL: the driver does not say. The stream is not captured. */
static CUcontext context_of(CUstream stream, const struct tsr_stream *record)
{
    CUcontext context = NULL;
    if (record)
        return record->context;
    CUresult result =
        tsr_stream_is_default(stream) ? tsr_real.cuCtxGetCurrent(&context) : tsr_real.cuStreamGetCtx(stream, &context);
    return result == CUDA_SUCCESS ? context : NULL;
}

static void note_stream(const struct tsr_launch *launch, struct tsr_instance *instance)
{
    instance->handle = launch->stream;
    instance->stream = launch->place.stream;
    instance->context = context_of(launch->stream, instance->stream);
    instance->generation = instance->stream ? __atomic_load_n(&instance->stream->generation, __ATOMIC_ACQUIRE) : 0;
    instance->ended = false;
}

/* It has been launched, or is about to be with its stream held. */
static void note(struct tsr_launch *launch, struct tsr_instance *instance, const struct tsr_lane_client *lane,
                 const struct tsr_copies_proof *proof)
{
    note_stream(launch, instance);
    if (!proof)
        return;
    instance->proof = *proof;
    instance->proved_on = lane;
    instance->proved = tsr_instance_stamp_now(instance);
}

/* ---- elsewhere ---- */

static CUresult post(struct tsr_launch *launch, struct tsr_instance *instance, struct tsr_lane_client *lane,
                     struct tsr_lane_record *record)
{
    CUresult result;
    if (may_repeat(launch, instance, lane) && tsr_redirect_again(launch, lane, record, &instance->proof, &result))
        return result;
    struct tsr_copies_proof proof = begin_proof(instance);
    struct tsr_copies_use use = use_of(launch, instance, lane, launch->automatic ? NULL : &proof);
    result = tsr_redirect_post(launch, record, &use);
    if (result == CUDA_SUCCESS)
        note(launch, instance, lane, &proof);
    return result;
}

/* Why it cannot leave, as far as is known without sending it anywhere. */
static bool stays(const struct tsr_launch *launch, const struct tsr_instance *instance)
{
    struct tsr_instance_stamp now = tsr_instance_stamp_now(instance);
    bool stays = instance->reason != TSR_REASON_NONE;
    for (uint32_t i = 0; i < launch->session->lane_count && !stays; i++)
        stays = instance->mirrors[i].refused ||
                (instance->mirrors[i].reason && tsr_instance_same_stamp(&instance->mirrors[i].examined, &now));
    return stays;
}

static void fetch(const struct tsr_launch *launch, const struct tsr_automatic_launch *automatic)
{
    struct tsr_lane_client *lane;
    struct tsr_touch *constants = malloc(automatic->count * sizeof *constants + 1);
    uint32_t count = constants ? tsr_automatic_fetches(automatic, constants, &lane) : 0;
    if (count)
        tsr_redirect_fetch(launch, constants, count, lane);
    free(constants);
}

/* Where no rule holds. */
static void place(struct tsr_launch *launch, const struct tsr_instance *instance, struct tsr_decision *decision)
{
    uint32_t grid[3] = {(uint32_t)instance->nodes.all.count, 1, 1}, block[3] = {1, 1, 1};
    struct tsr_automatic_launch automatic = {
        .function = &instance->as_function, .grid = grid, .block = block, .stream = launch->stream};
    if (!tsr_automatic_is_on || tsr_automatic_sleeps())
        return;
    launch->automatic = true;
    tsr_automatic_in(&automatic, launch->place.stream);
    if (instance->known) {
        automatic.touches = instance->touches.data;
        automatic.count = (uint32_t)instance->touches.count;
        automatic.parts = instance->kernels.data;
        automatic.part_count = (uint32_t)instance->kernels.count;
        automatic.stays = stays(launch, instance);
    }
    decision->lane = tsr_automatic_choose(&automatic);
    if (!decision->lane) {
        fetch(launch, &automatic);
        return;
    }
    decision->lane_number = tsr_lane_number(decision->lane);
    decision->device = launch->session->lane_device[decision->lane_number];
    decision->leaves = true;
}

static struct tsr_decision decide(struct tsr_launch *launch, struct tsr_instance *instance)
{
    struct tsr_decide_launch asked = {
        .grid = launch->grid, .block = launch->block, .stream = launch->stream, .record = launch->place.stream, .graph = true};
    launch->decided = true;
    return tsr_decide(launch->session, &instance->as_function, &asked);
}

/* Before an executor is sent nodes: drivers refuse those whose memory the GPU does not have yet. */
static CUresult prepare(struct tsr_launch *launch, const struct tsr_instance *instance, struct tsr_lane_client *lane)
{
    struct tsr_copies_use use = use_of(launch, instance, lane, NULL);
    bool sent = instance->mirrors[tsr_lane_number(lane)].version == instance->version;
    CUresult result = sent || !instance->known ? CUDA_SUCCESS : tsr_copies_prepare(&use);
    return result == CUDA_ERROR_NOT_SUPPORTED || result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result;
}

static CUresult take(struct tsr_launch *launch, struct tsr_instance *instance, struct tsr_decision decision)
{
    if (decision.automatic)
        place(launch, instance, &decision);
    if (!decision.lane)
        return CUDA_SUCCESS;
    if (decision.verify) /* a graph is not run twice */
        __atomic_add_fetch(&launch->session->policy->not_verified, 1, __ATOMIC_RELAXED);
    struct tsr_lane_record record = {.kind = TSR_LANE_GRAPH, .function = (uint32_t)instance->id};
    CUresult result = prepare(launch, instance, decision.lane);
    if (result == CUDA_SUCCESS)
        result = tsr_instance_mirror_locked(instance, decision.lane, &launch->reason);
    if (launch->reason)
        return CUDA_SUCCESS;
    if (launch->automatic)
        record.time = tsr_automatic_sample(decision.lane);
    if (result == CUDA_SUCCESS)
        result = tsr_order_state();
    if (result == CUDA_SUCCESS)
        result = post(launch, instance, decision.lane, &record);
    if (result == CUDA_ERROR_NOT_SUPPORTED) {
        if (!launch->reason)
            launch->reason = TSR_REASON_EXECUTOR;
        return CUDA_SUCCESS;
    }
    launch->taken = true;
    launch->gpu = decision.device;
    if (launch->automatic)
        tsr_automatic_went(decision.lane, launch->ticket);
    return result;
}

/* ---- at home ---- */

static bool enter_again(struct tsr_launch *launch, const struct tsr_instance *instance)
{
    if (!may_repeat(launch, instance, NULL) || !tsr_order_enter_found(&launch->place, true, &launch->hold))
        return false;
    bool is_valid = tsr_copies_repeat(&instance->proof, &launch->hold);
    if (!is_valid)
        tsr_order_leave(&launch->hold);
    return is_valid;
}

static CUresult enter_known(struct tsr_launch *launch, struct tsr_instance *instance)
{
    bool proves = !launch->automatic && instance->known;
    if (enter_again(launch, instance))
        return CUDA_SUCCESS;
    struct tsr_copies_proof proof = begin_proof(instance);
    struct tsr_copies_use use = use_of(launch, instance, NULL, proves ? &proof : NULL);
    CUresult result = tsr_copies_enter(&use, &launch->hold);
    if (result != CUDA_SUCCESS)
        return result;
    if (proves)
        tsr_copies_prove(&proof, &launch->hold);
    note(launch, instance, NULL, &proof);
    return CUDA_SUCCESS;
}

static CUresult enter(struct tsr_launch *launch, struct tsr_instance *instance)
{
    if (!tsr_copies_matter()) {
        CUresult result = tsr_order_enter(launch->stream, false, &launch->hold);
        if (result != CUDA_SUCCESS || !tsr_copies_matter()) { /* who begins to note waits for us from here on */
            note(launch, instance, NULL, NULL);
            return result;
        }
        tsr_order_leave(&launch->hold);
    }
    return enter_known(launch, instance);
}

static CUresult redirect_decided(struct tsr_launch *launch, struct tsr_instance *instance, struct tsr_decision decision)
{
    CUresult result = take(launch, instance, decision);
    if (launch->taken)
        return result;
    if (result == CUDA_SUCCESS)
        result = tsr_redirect_fork_early(launch);
    if (result == CUDA_SUCCESS)
        result = enter(launch, instance);
    if (launch->automatic && result == CUDA_SUCCESS) {
        tsr_automatic_went(NULL, launch->ticket);
        tsr_automatic_begins(launch->stream);
    }
    return result;
}

/* ---- in parts ---- */

static void count(const struct tsr_launch *launch)
{
    if (!launch->captured && launch->gpu < TSR_GPUS)
        tsr_session_count(&tsr_session_counts(launch->session)->graphs[launch->gpu], 1);
}

static CUresult launch_part(struct tsr_launch *launch, struct tsr_instance *part, const struct tsr_decision *decision)
{
    tsr_stream_place(launch->stream, &launch->place); /* coming after others may have moved it */
    tsr_instance_examine_locked(part, launch->stream, &launch->place);
    CUresult result = redirect_decided(launch, part, *decision);
    if (launch->taken)
        return result;
    if (result == CUDA_SUCCESS)
        result = tsr_real.cuGraphLaunch(part->at_home, launch->stream);
    if (result == CUDA_SUCCESS)
        tsr_graph_launched(launch);
    tsr_order_leave(&launch->hold);
    return result;
}

static CUresult act_at_home(CUstream stream, const struct tsr_node_action *action, const void *data)
{
    switch (action->kind) {
    case TSR_NODE_WAITS:
        return tsr_real.cuStreamWaitEvent(stream, action->event, 0);
    case TSR_NODE_CALLS:
        return tsr_real.cuLaunchHostFunc(stream, action->host.fn, action->host.userData);
    default:
        return tsr_real.cuStreamBatchMemOp_v2(stream, action->count, (CUstreamBatchMemOpParams *)data, 0);
    }
}

/* As if the program had asked for it in the stream. data: of the node. */
static CUresult act(CUstream stream, const struct tsr_node_action *action, const void *data)
{
    struct tsr_order_hold hold;
    if (action->kind == TSR_NODE_RECORDS)
        return tsr_order_record(action->event, stream, false, 0);
    CUresult result =
        action->kind == TSR_NODE_WRITES ? tsr_copies_enter_all(stream, false, &hold) : tsr_order_enter(stream, false, &hold);
    if (result != CUDA_SUCCESS)
        return result;
    result = act_at_home(stream, action, data);
    tsr_order_leave(&hold);
    return result;
}

static CUresult launch_each(struct tsr_launch *launch, struct tsr_instance *whole, const struct tsr_decision *decision)
{
    CUresult result = CUDA_SUCCESS;
    bool first = true;
    for (uint32_t i = 0; i < whole->parts.count && result == CUDA_SUCCESS; i++) {
        struct tsr_instance *part = whole->parts.all[i];
        struct tsr_launch one = {.row = launch->row,
                                 .stream = launch->stream,
                                 .gathered = launch->gathered,
                                 .session = launch->session,
                                 .known = &part->as_function,
                                 .gpu = launch->session->policy->home,
                                 .decided = true};
        if (part->action.kind) {
            result = act(launch->stream, &part->action, part->nodes.all.data[0].data);
            continue;
        }
        result = launch_part(&one, part, decision);
        if (!first)
            count(launch);
        first = false;
        launch->reason = one.reason ? one.reason : launch->reason;
        launch->gpu = one.gpu;
    }
    return result;
}

/* So that nothing that other threads give the stream comes between the parts. False: it might. */
static bool begin_step(const struct tsr_launch *launch)
{
    tsr_copies_begin();
    return tsr_tickets_have_begun() && tsr_order_step_begin(launch->stream);
}

/* One after the other in the stream. What is reported of the launch in the end is what became of the last one. */
static CUresult launch_parts(struct tsr_launch *launch, struct tsr_instance *whole, const struct tsr_decision *decision)
{
    CUresult result = launch_each(launch, whole, decision);
    tsr_order_step_end();
    note_stream(launch, whole);
    launch->taken = true;
    return result;
}

/* ---- one launch after another ---- */

static void forget_end(struct tsr_instance *instance)
{
    if (instance->end)
        tsr_real.cuEventDestroy_v2(instance->end);
    instance->end = NULL;
    instance->ended = false;
}

/*
 * Launches of a graph come one after another, in whichever streams they are, and so whatever the second stream is given comes after what
 * the first one was given before: its event says when that is done. It is recorded only when another stream is to wait for it, or before that
 * becomes impossible.
 */
static CUresult mark_end(struct tsr_instance *instance)
{
    bool pushed = false;
    CUcontext context = NULL;
    CUresult result = instance->context ? tsr_current_push(instance->context, &pushed) : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS)
        result = tsr_real.cuCtxGetCurrent(&context);
    if (result == CUDA_SUCCESS && context != instance->end_context) /* an event is recorded in its own context only */
        forget_end(instance);
    if (result == CUDA_SUCCESS && !instance->end)
        result = tsr_real.cuEventCreate(&instance->end, CU_EVENT_DISABLE_TIMING);
    if (result == CUDA_SUCCESS)
        instance->end_context = context;
    if (result == CUDA_SUCCESS)
        result = tsr_order_record(instance->end, instance->handle, false, 0);
    instance->ended = result == CUDA_SUCCESS;
    tsr_current_pop(pushed);
    return result;
}

/* Its end cannot be recorded later: by another thread, or during a capture. */
static bool must_mark(const struct tsr_instance *instance)
{
    return !instance->stream || tsr_stream_is(instance->stream, TSR_STREAM_OWN) || tsr_is_any_capture();
}

static CUresult follow_last(const struct tsr_launch *launch, struct tsr_instance *instance)
{
    if (!instance->handle || is_in_stream_of_last(instance, launch))
        return CUDA_SUCCESS;
    CUresult result = instance->ended ? CUDA_SUCCESS : mark_end(instance);
    struct tsr_node_action waits = {.kind = TSR_NODE_WAITS, .event = instance->end};
    return result == CUDA_SUCCESS ? act(launch->stream, &waits, NULL) : result;
}

static void mark_end_of(struct tsr_instance *instance, void *stream)
{
    pthread_mutex_lock(&instance->lock);
    if (instance->handle && !instance->ended && (!stream || instance->handle == *(CUstream *)stream))
        instance->handle = mark_end(instance) == CUDA_SUCCESS ? instance->handle : NULL; /* nothing can wait for it any more */
    pthread_mutex_unlock(&instance->lock);
}

/* Its streams have ended with it, and so has their work; and its events. */
static void forget_context_of(struct tsr_instance *instance, void *context)
{
    pthread_mutex_lock(&instance->lock);
    if (instance->end && (!context || instance->end_context == context)) {
        instance->end = NULL;
        instance->ended = false;
    }
    if (instance->handle && (!context || instance->context == context))
        instance->handle = NULL;
    pthread_mutex_unlock(&instance->lock);
}

void tsr_graph_context_ended(CUcontext context)
{
    tsr_instances_each(forget_context_of, context);
}

void tsr_graph_capture_begins(void)
{
    tsr_wait_settle(); /* during a capture nothing can be waited for; an error is the next call's */
    tsr_instances_each(mark_end_of, NULL);
}

CUresult tsr_graph_destroy_stream(CUstream stream)
{
    tsr_instances_each(mark_end_of, &stream);
    tsr_wait_settle();
    if (tsr_is_any_capture()) /* it may be its last stream */
        tsr_captured_nodes_forget();
    return tsr_order_destroy(stream);
}

static CUresult redirect_locked(struct tsr_launch *launch, struct tsr_instance *instance)
{
    tsr_instance_examine_locked(instance, launch->stream, &launch->place);
    struct tsr_decision decision = decide(launch, instance);
    bool placed = decision.automatic && tsr_automatic_is_on;
    CUresult result = follow_last(launch, instance);
    if (result != CUDA_SUCCESS)
        return result;
    bool has_parts = (placed || decision.lane) && tsr_parts_find_locked(instance, launch->stream, &launch->place, placed);
    if (has_parts && begin_step(launch))
        return launch_parts(launch, instance, &decision);
    return redirect_decided(launch, instance, decision);
}

/* Of a graph that is not known: where a rule sends it. */
static void ask_late(struct tsr_launch *launch)
{
    static struct tsr_function_record unknown = {.decide = {.noted = true}};
    struct tsr_decide_launch asked = {
        .grid = launch->grid, .block = launch->block, .stream = launch->stream, .record = launch->place.stream, .graph = true};
    if (launch->gpu == launch->session->policy->home && tsr_decide(launch->session, &unknown, &asked).leaves)
        launch->reason = TSR_REASON_GRAPH_MEMORY;
}

CUresult tsr_graph_redirect(struct tsr_launch *launch, CUgraphExec exec)
{
    bool redirecting = tsr_has_role(TSR_REDIRECTING);
    struct tsr_instance *instance = redirecting ? tsr_instance_find(exec) : NULL;
    if (redirecting)
        launch->gpu = tsr_stream_place(launch->stream, &launch->place);
    if (redirecting && launch->gpu != launch->session->policy->home)
        tsr_memory_open_for_work(launch->stream);
    launch->captured = redirecting && tsr_is_capturing(launch->stream);
    if (!redirecting || launch->captured || !instance || launch->gpu != launch->session->policy->home) {
        if (redirecting && !launch->captured)
            ask_late(launch);
        return tsr_copies_enter_all(launch->stream, false, &launch->hold);
    }
    launch->known = &instance->as_function;
    pthread_mutex_lock(&instance->lock);
    CUresult result = redirect_locked(launch, instance);
    if (result == CUDA_SUCCESS && must_mark(instance) && launch->taken)
        result = mark_end(instance);
    else if (result == CUDA_SUCCESS && must_mark(instance))
        launch->marks = instance; /* once its stream is no longer held */
    pthread_mutex_unlock(&instance->lock);
    return result;
}

void tsr_graph_launched(struct tsr_launch *launch)
{
    if (launch->automatic)
        tsr_redirect_launched(launch);
}

void tsr_graph_redirect_finish(const struct tsr_launch *launch, CUresult result)
{
    const struct tsr_session *session = launch->session;
    if (launch->marks && result == CUDA_SUCCESS) {
        pthread_mutex_lock(&launch->marks->lock);
        mark_end(launch->marks);
        pthread_mutex_unlock(&launch->marks->lock);
    }
    if (result != CUDA_SUCCESS || !session || !tsr_has_role(TSR_REDIRECTING))
        return;
    count(launch);
    if (launch->reason)
        tsr_decide_kept(launch->reason);
}
