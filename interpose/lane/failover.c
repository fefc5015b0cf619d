/* See failover.h. */
#include "lane/failover.h"

#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "api/driver.h"
#include "base/log.h"
#include "base/os.h"
#include "carry/carry.h"
#include "carry/record.h"
#include "driver/real.h"
#include "object/registry.h"
#include "object/session.h"
#include "lane/lane_client.h"
#include "lane/lane_object.h"
#include "lane/streams.h"

#define BUSY_POLL_NS 100000ull
#define IDLE_POLL_NS 20000000ull
#define BEGIN_NS 200000000ull /* longer than a GPU takes to begin work that waits for nothing, */
#define BEGIN_POLLS 1000u     /* and so many polls, because on a busy machine time alone says little */
#define AWAIT_POLL_MS 1
#define DECIDE_POLLS 1000u

struct item {
    struct item *next;
    struct tsr_lane_record record; /* followed by its parameters */
};

/* Records of one stream. */
struct queue {
    struct item *first, **end;
    uint64_t follows; /* the home fence that the first one waits for: tsr_lane_follow() */
    CUstream stream;  /* of work that has been enqueued; NULL: none */
    CUevent begun;
    uint64_t since_ns; /* when it was enqueued; 0: it has begun */
    uint32_t polls;    /* since then */
    uint32_t records;  /* under way */
};

struct failover {
    struct tsr_lane_client *client;
    struct tsr_carry_driver driver;
    uint32_t launches; /* that were carried out */
    struct queue queues[TSR_LANE_STREAMS];
    struct tsr_record_copy copy; /* the record that is being collected */
};

/* In this order: if the wait that follows a signal is known, the stream is also known not to be complete until that signal. */
static bool is_settled(struct failover *self)
{
    const struct tsr_lane *lane = self->client->lane;
    for (uint32_t i = 0; i < TSR_LANE_STREAMS; i++)
        self->queues[i].follows = __atomic_load_n(&lane->follows[i], __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < TSR_LANE_STREAMS; i++)
        if (__atomic_load_n(&lane->away[i], __ATOMIC_ACQUIRE) < __atomic_load_n(&lane->settles[i], __ATOMIC_ACQUIRE))
            return false;
    return true;
}

static void pop(struct failover *self, struct queue *queue)
{
    struct item *item = queue->first;
    queue->first = item->next;
    if (!queue->first)
        queue->end = &queue->first;
    self->launches += item->record.kind == TSR_LANE_LAUNCH;
    free(item);
}

static void finish(struct failover *self, uint32_t records)
{
    __atomic_fetch_sub(&self->client->pending, records, __ATOMIC_RELEASE);
}

static CUresult collect_from(struct failover *self, uint32_t number)
{
    struct tsr_lane_ring *ring = &self->client->lane->rings[number];
    uint64_t *position = &self->client->positions[number];
    while (tsr_lane_is_ready(ring, *position)) {
        const struct tsr_lane_record *record = &self->copy.record;
        if (!tsr_record_take(ring, *position, &self->copy))
            return CUDA_ERROR_INVALID_VALUE;
        uint64_t end = *position + record->bytes;
        if (record->kind != TSR_LANE_SKIP) {
            struct item *item = malloc(offsetof(struct item, record) + record->bytes);
            if (!item)
                return CUDA_ERROR_OUT_OF_MEMORY;
            struct queue *queue = &self->queues[record->stream];
            item->next = NULL;
            memcpy(&item->record, record, record->bytes);
            *queue->end = item;
            queue->end = &item->next;
            __atomic_fetch_add(&self->client->pending, 1, __ATOMIC_RELEASE);
        }
        tsr_lane_give_back(ring, *position, end);
        __atomic_store_n(position, end, __ATOMIC_RELEASE);
    }
    return CUDA_SUCCESS;
}

/* Moves the records in the rings to queues, so that one stream does not wait for another: the order of fences does not matter here, where
   no waits are enqueued. */
static CUresult collect(struct failover *self)
{
    CUresult result = CUDA_SUCCESS;
    for (uint32_t i = 0; i < TSR_LANE_RINGS && result == CUDA_SUCCESS; i++)
        result = collect_from(self, i);
    return result;
}

static tsr_came_back_listener *listener; /* constant while there are lanes */

void tsr_failover_listen(tsr_came_back_listener *heard)
{
    listener = heard;
}

/* The policy's count of launches by GPU says where they ran. */
static void count_moved(const struct failover *self)
{
    const struct tsr_session *session = tsr_session();
    uint32_t gpu = session->lane_device[self->client->number];
    if (gpu < TSR_GPUS)
        tsr_session_count(&tsr_session_counts(session)->launches[gpu], UINT64_MAX);
    if (session->policy->home < TSR_GPUS)
        tsr_session_count(&tsr_session_counts(session)->launches[session->policy->home], 1);
    if (listener)
        listener(gpu);
}

static CUresult enqueue(const struct failover *self, const struct tsr_lane_record *record, CUstream stream)
{
    if (tsr_session()->policy->memory_place == TSR_POLICY_COPIES) /* the bytes that it uses may be on the other GPU only */
        return CUDA_ERROR_LAUNCH_FAILED;
    if (record->kind != TSR_LANE_LAUNCH)
        return tsr_carry_out(&self->driver, record, NULL, stream);
    const struct tsr_function_record *known = tsr_function_with_id(record->function);
    if (!known)
        return CUDA_ERROR_INVALID_HANDLE;
    size_t offsets[TSR_CARRY_PARAMETERS];
    const struct tsr_parameters *parameters = &known->parameters;
    bool listed = parameters->all && parameters->count <= TSR_CARRY_PARAMETERS;
    for (uint32_t i = 0; listed && i < parameters->count; i++)
        offsets[i] = parameters->all[i].offset;
    struct tsr_carry_function function = {.function = (CUfunction)known->handle,
                                          .bytes = listed ? parameters->bytes : 0,
                                          .count = parameters->count,
                                          .offsets = offsets};
    count_moved(self);
    return tsr_carry_out(&self->driver, record, &function, stream);
}

/* Enqueues all work of the stream before its next fence. */
static CUresult begin(struct failover *self, uint32_t slot)
{
    struct queue *queue = &self->queues[slot];
    int least, greatest;
    CUresult result = tsr_real.cuCtxSetCurrent(tsr_slot_context(slot));
    if (result == CUDA_SUCCESS)
        result = tsr_real.cuCtxGetStreamPriorityRange(&least, &greatest);
    if (result == CUDA_SUCCESS)
        result = tsr_real.cuEventCreate(&queue->begun, CU_EVENT_DISABLE_TIMING);
    if (result == CUDA_SUCCESS) /* few programs use this priority, and only streams of the same priority share queues */
        result = tsr_real.cuStreamCreateWithPriority(&queue->stream, CU_STREAM_NON_BLOCKING, greatest);
    if (result == CUDA_SUCCESS)
        result = tsr_real.cuEventRecord(queue->begun, queue->stream);
    queue->since_ns = tsr_os_monotonic_ns();
    queue->polls = 0;
    for (; result == CUDA_SUCCESS && queue->first && tsr_carry_is_work(&queue->first->record); queue->records++) {
        result = enqueue(self, &queue->first->record, queue->stream);
        pop(self, queue);
    }
    return result;
}

/* NOT_READY: it has been enqueued. */
static CUresult poll_queue(struct queue *queue)
{
    CUresult begun = queue->since_ns ? tsr_real.cuEventQuery(queue->begun) : CUDA_SUCCESS;
    if (begun == CUDA_SUCCESS)
        queue->since_ns = 0;
    else if (begun == CUDA_ERROR_NOT_READY && queue->polls++ > BEGIN_POLLS &&
             tsr_os_monotonic_ns() - queue->since_ns > BEGIN_NS)
        return CUDA_ERROR_LAUNCH_FAILED;
    return tsr_real.cuStreamQuery(queue->stream);
}

static void close_stream(struct queue *queue)
{
    if (queue->stream)
        tsr_real.cuStreamDestroy_v2(queue->stream);
    if (queue->begun)
        tsr_real.cuEventDestroy_v2(queue->begun);
    queue->stream = NULL;
    queue->begun = NULL;
}

static bool is_passed(const struct tsr_lane *lane, uint32_t slot, uint64_t follows)
{
    uint64_t of = follows >> TSR_LANE_FOLLOW_SHIFT, value = follows & ((1ull << TSR_LANE_FOLLOW_SLOT_SHIFT) - 1);
    uint64_t other = (follows & ((1ull << TSR_LANE_FOLLOW_SHIFT) - 1)) >> TSR_LANE_FOLLOW_SLOT_SHIFT;
    if (other && other <= TSR_LANE_STREAMS)
        slot = (uint32_t)other - 1;
    const uint64_t *fence = of == TSR_LANE_OWN                      ? &lane->away[slot]
                            : of && of <= tsr_session()->lane_count ? &tsr_session()->lanes[of - 1]->lane->away[slot]
                                                                    : &lane->home[slot];
    return __atomic_load_n(fence, __ATOMIC_ACQUIRE) >= value;
}

static CUresult advance(struct failover *self, uint32_t slot)
{
    struct queue *queue = &self->queues[slot];
    struct tsr_lane *lane = self->client->lane;
    if (queue->stream) {
        CUresult result = poll_queue(queue);
        if (result != CUDA_SUCCESS)
            return result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result;
        close_stream(queue);
        finish(self, queue->records);
        queue->records = 0;
    }
    while (queue->first) {
        const struct tsr_lane_record *record = &queue->first->record;
        if (record->kind == TSR_LANE_WAIT)
            queue->follows = tsr_lane_follow(record);
        else if (!is_passed(lane, slot, queue->follows))
            break;
        else if (record->kind == TSR_LANE_SIGNAL)
            __atomic_store_n(&lane->away[slot], record->value, __ATOMIC_RELEASE);
        else
            return begin(self, slot);
        pop(self, queue);
        finish(self, 1);
    }
    return CUDA_SUCCESS;
}

static CUresult advance_all(struct failover *self)
{
    CUresult result = collect(self);
    for (uint32_t i = 0; i < TSR_LANE_STREAMS && result == CUDA_SUCCESS; i++)
        result = advance(self, i);
    return result;
}

static bool is_pending(const struct tsr_lane_client *client)
{
    for (uint32_t i = 0; i < TSR_LANE_RINGS; i++) {
        const struct tsr_lane_ring *ring = &client->lane->rings[i];
        if (__atomic_load_n(&ring->head, __ATOMIC_ACQUIRE) != __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE))
            return true;
    }
    return __atomic_load_n(&client->pending, __ATOMIC_ACQUIRE) != 0;
}

static bool is_any_ready(const struct failover *self)
{
    for (uint32_t i = 0; i < TSR_LANE_RINGS; i++)
        if (tsr_lane_is_ready(&self->client->lane->rings[i], self->client->positions[i]))
            return true;
    return false;
}

/* No records are left, and no stream is away that could add more. */
static bool is_over(const struct tsr_lane_client *client)
{
    return !__atomic_load_n(&client->departing, __ATOMIC_SEQ_CST) && !tsr_streams_are_with(client) && !is_pending(client);
}

static void rest(const struct failover *self)
{
    struct tsr_lane *lane = self->client->lane;
    if (is_pending(self->client)) {
        tsr_os_futex_wait(&lane->never, 0, BUSY_POLL_NS, true);
        return;
    }
    __atomic_store_n(&lane->sleeping, 1, __ATOMIC_SEQ_CST);
    if (!is_any_ready(self))
        tsr_os_futex_wait(&lane->sleeping, 1, IDLE_POLL_NS, true);
    __atomic_store_n(&lane->sleeping, 0, __ATOMIC_SEQ_CST);
}

static void drop(struct failover *self)
{
    for (uint32_t i = 0; i < TSR_LANE_STREAMS; i++) {
        close_stream(&self->queues[i]);
        while (self->queues[i].first)
            pop(self, &self->queues[i]);
    }
    free(self);
}

static void *run(void *argument)
{
    struct failover *self = argument;
    struct tsr_lane_client *client = self->client;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED; /* so that the application's captures do not forbid calls here */
    CUresult result;
    tsr_real.cuThreadExchangeStreamCaptureMode(&mode);
    while ((result = advance_all(self)) == CUDA_SUCCESS && !is_over(client))
        rest(self);
    if (result == CUDA_SUCCESS)
        tsr_info("executor %u: %u launches that it had not taken ran at home", client->number, self->launches);
    else
        tsr_lane_fail(client, result, "cannot be replaced at home");
    drop(self);
    __atomic_store_n(&client->standing, 0, __ATOMIC_RELEASE);
    return NULL;
}

static struct tsr_carry_driver real_driver(void)
{
    return (struct tsr_carry_driver){.launch = tsr_real.cuLaunchKernel,
                                     .launch_ex = tsr_real.cuLaunchKernelEx,
                                     .copy = tsr_real.cuMemcpyDtoDAsync_v2,
                                     .copy_rows = tsr_real.cuMemcpy2DAsync_v2,
                                     .write = tsr_real.cuMemcpyHtoDAsync_v2,
                                     .set8 = tsr_real.cuMemsetD8Async,
                                     .set16 = tsr_real.cuMemsetD16Async,
                                     .set32 = tsr_real.cuMemsetD32Async,
                                     .set_rows8 = tsr_real.cuMemsetD2D8Async,
                                     .set_rows16 = tsr_real.cuMemsetD2D16Async,
                                     .set_rows32 = tsr_real.cuMemsetD2D32Async};
}

/* Whether the position up to which the executor claims to have taken records is between its last one and the tail. */
static bool is_plausible(const struct tsr_lane_ring *ring, uint64_t taken)
{
    uint64_t head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE), tail = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
    return taken % TSR_LANE_UNIT == 0 && taken - head <= TSR_LANE_RING_BYTES && tail - taken <= TSR_LANE_RING_BYTES;
}

bool tsr_failover_close(struct tsr_lane_client *client)
{
    struct tsr_lane *lane = client->lane;
    if (client->closed) /* what an executor that runs again publishes after that counts no more */
        return true;
    __atomic_store_n(&lane->closed, 1, __ATOMIC_SEQ_CST);
    for (uint32_t i = 0; i < TSR_LANE_RINGS; i++) {
        client->positions[i] = __atomic_load_n(&lane->rings[i].taken, __ATOMIC_SEQ_CST);
        if (!is_plausible(&lane->rings[i], client->positions[i]))
            return false;
    }
    client->closed = true;
    return true;
}

/* Records that nobody has begun to carry out, on a lane that its executor takes none from any more. */
static bool has_more(const struct tsr_lane_client *client)
{
    if (!client->closed || __atomic_load_n(&client->lane->closed, __ATOMIC_SEQ_CST) == TSR_LANE_PARDONED)
        return false;
    for (uint32_t i = 0; i < TSR_LANE_RINGS; i++)
        if (__atomic_load_n(&client->lane->rings[i].tail, __ATOMIC_ACQUIRE) !=
            __atomic_load_n(&client->positions[i], __ATOMIC_ACQUIRE))
            return true;
    return false;
}

bool tsr_failover_is_due(const struct tsr_lane_client *client)
{
    return !__atomic_load_n(&client->standing, __ATOMIC_ACQUIRE) && has_more(client);
}

bool tsr_failover_start(struct tsr_lane_client *client)
{
    struct tsr_lane *lane = client->lane;
    pthread_t thread;
    if (!tsr_failover_close(client))
        return false;
    struct failover *self = calloc(1, sizeof *self);
    if (!self)
        return false;
    self->client = client;
    if (!is_settled(self))
        goto drop;
    self->driver = real_driver();
    for (uint32_t i = 0; i < TSR_LANE_STREAMS; i++)
        self->queues[i].end = &self->queues[i].first;
    for (uint32_t i = 0; i < TSR_LANE_RINGS; i++)
        tsr_lane_give_back(&lane->rings[i], __atomic_load_n(&lane->rings[i].head, __ATOMIC_ACQUIRE), client->positions[i]);
    __atomic_store_n(&client->standing, 1, __ATOMIC_RELEASE);
    if (tsr_os_thread_start(&thread, "tessera-standin", run, self)) {
        pthread_detach(thread);
        return true;
    }
    __atomic_store_n(&client->standing, 0, __ATOMIC_RELEASE);
drop:
    free(self);
    return false;
}

/* In this order: what has been begun, somebody stands in for. */
static bool is_unfinished(const struct tsr_lane_client *client)
{
    return has_more(client) || (__atomic_load_n(&client->standing, __ATOMIC_ACQUIRE) && is_pending(client));
}

/* Records that were posted late wait until watch.c's thread looks again. */
void tsr_failover_await(const struct tsr_lane_client *client)
{
    for (unsigned i = 0; tsr_lane_is_lost(client) && !__atomic_load_n(&client->decided, __ATOMIC_ACQUIRE) && i < DECIDE_POLLS;
         i++)
        poll(NULL, 0, AWAIT_POLL_MS);
    for (unsigned i = 0; tsr_lane_state(client) == CUDA_SUCCESS && is_unfinished(client) && i < DECIDE_POLLS; i++) {
        if (__atomic_load_n(&client->standing, __ATOMIC_ACQUIRE))
            i = 0;
        poll(NULL, 0, AWAIT_POLL_MS);
    }
}
