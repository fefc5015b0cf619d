/* See readback.h. */
#include "memory/readback.h"

#include <pthread.h>

#include "driver/current.h"
#include "driver/real.h"
#include "lane/lane_client.h"
#include "memory/copies.h"
#include "memory/copies_parts.h"
#include "memory/directory_cells.h"
#include "memory/pairs.h"
#include "memory/replicas.h"
#include "memory/tickets.h"
#include "object/capture.h"
#include "object/session.h"
#include "order/order.h"
#include "order/strands.h"

#define MOST_BYTES 65536u
#define EXPECTED 2u   /* reads in a row that were followed by a wait */
#define MOST_TRIES 4u /* to find the bytes where they were when they were waited for */

/* Of the calling thread. */
static __thread struct {
    CUstream stream; /* of its last read, or of the last bytes that it gave */
    uint64_t stamp;  /* of what the stream had been given then */
    bool early;      /* it was one of ours */
    bool gave;       /* it was no read */
    uint32_t in_a_row;
    CUstream waited;  /* the stream that it last waited for, */
    uint64_t exposed; /* with all that was exposed until then; and all streams of the context: */
    uint64_t all_exposed;
    CUcontext context; /* that was current for both */
} thread;

/* Bytes of one strand's making. */
struct place {
    uint32_t strand;
    uint64_t ticket, number;
};

static bool is_any(void *context, uint64_t ticket)
{
    (void)context;
    (void)ticket;
    return true;
}

uint64_t tsr_readback_stamp(CUstream stream)
{
    uint64_t stamp = tsr_order_exposed_now();
    pthread_mutex_lock(&tsr_copies_lock);
    uint32_t place = tsr_ticket_queue_find_locked(stream);
    for (uint32_t i = 0; place != TSR_NO_QUEUE && i < tsr_tickets.strands; i++)
        stamp += __atomic_load_n(&tsr_tickets.queues.data[place]->strands[i].last, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&tsr_copies_lock);
    return stamp;
}

/*
 * False: a second strand, or work of another stream that the stream at home is not known to come after. The program need not have put that before the
 * read: work of which nothing is known brings all bytes home, in its own stream.
 */
static bool add_writer(uint64_t writer, const struct tsr_asker *home, struct place *place)
{
    uint32_t strand = tsr_ticket_queue_of(writer) - home->queue;
    bool own = strand < tsr_tickets.strands;
    if (!own && !tsr_ticket_is_satisfied_locked(home, writer))
        return false;
    uint64_t number = own ? tsr_ticket_number_of_locked(writer) : 0;
    strand = own ? strand : 0;
    if (place->ticket && place->strand != strand)
        return false;
    if (!place->ticket || number > place->number)
        *place = (struct place){strand, writer, number};
    return true;
}

/* Whether the bytes are in the copy of the place's strand when that has done what is waited for: pulls may have brought them there. */
static bool has_arrived(uint64_t arrival, const struct tsr_asker *home, struct place *place)
{
    uint32_t strand = tsr_ticket_queue_of(arrival) - home->queue;
    if (!arrival)
        return true;
    if (strand >= tsr_tickets.strands)
        return !place->strand && tsr_ticket_is_satisfied_locked(home, arrival);
    uint64_t number = tsr_ticket_number_of_locked(arrival);
    if (strand == place->strand && number > place->number)
        place->number = number;
    return strand == place->strand;
}

static bool have_arrived_locked(CUdeviceptr from, uint64_t bytes, const struct tsr_asker *home, struct place *place)
{
    bool arrived = true;
    for (uint64_t at = from, next; at < from + bytes && arrived; at = next) {
        const struct tsr_copies *copies = tsr_copies_at_locked(at);
        if (!copies)
            return false;
        size_t index = tsr_cell_find(&copies->directory, at - copies->address);
        next = copies->address + tsr_cell_end(&copies->directory, index);
        arrived = has_arrived(copies->directory.cells.data[index].arrivals[place->strand], home, place);
    }
    return arrived;
}

/* False: they are of several strands' making, or nobody's. */
static bool find(CUstream stream, CUdeviceptr from, uint64_t bytes, struct place *place)
{
    struct tsr_touch touch = {.first = from, .end = from + bytes, .pulls = true};
    struct tsr_survey survey = {0};
    struct tsr_survey_of of = {.copies = UINT16_MAX, .is_fresh = is_any};
    uint64_t held = 0;
    tsr_copies_survey(&touch, 1, &of, &survey);
    *place = (struct place){0};
    pthread_mutex_lock(&tsr_copies_lock);
    struct tsr_asker home;
    bool known = tsr_asker_init_locked(&home, stream, NULL);
    for (uint32_t i = 0; i < survey.part_count && known; i++)
        known = add_writer(survey.parts[i].writer, &home, place);
    known = known && survey.part_count < TSR_PLACE_PARTS && have_arrived_locked(from, bytes, &home, place);
    pthread_mutex_unlock(&tsr_copies_lock);
    for (uint32_t i = 0; i < survey.part_count && known; i++)
        held += survey.parts[i].holders >> place->strand & 1 ? survey.parts[i].bytes : 0;
    return known && held == bytes && (!place->strand || tsr_pair_is_direct(0, place->strand));
}

static CUresult wait_at_home(struct tsr_order_hold *hold, CUstream stream, struct tsr_readback *told)
{
    CUevent event = NULL;
    bool pushed;
    CUresult result = tsr_current_push(hold->stream->context, &pushed);
    if (result == CUDA_SUCCESS)
        result = tsr_real.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
    if (result == CUDA_SUCCESS)
        result = tsr_real.cuEventRecord(event, stream);
    tsr_current_pop(pushed);
    tsr_order_leave(hold);
    if (told->waits)
        told->waits();
    if (result == CUDA_SUCCESS)
        result = tsr_real.cuEventSynchronize(event);
    if (event)
        tsr_real.cuEventDestroy_v2(event);
    return result;
}

/* Gives the stream back. */
static CUresult wait_for(struct tsr_order_hold *hold, CUstream stream, const struct place *place, struct tsr_readback *told)
{
    if (!place->strand)
        return wait_at_home(hold, stream, told);
    uint64_t value;
    uint32_t slot = hold->stream->slot;
    const struct tsr_lane_client *lane = tsr_session()->lanes[place->strand - 1];
    CUresult result = tsr_strands_reach(hold->stream, place->strand, place->number, &value);
    tsr_order_leave(hold);
    if (told->waits)
        told->waits();
    return result == CUDA_SUCCESS ? tsr_lane_await(lane, slot, value) : result;
}

static CUresult copy(void *to, CUdeviceptr from, uint64_t bytes, uint32_t rank)
{
    CUstream stream;
    CUresult result = tsr_copies_pull_stream(&stream);
    if (result == CUDA_SUCCESS)
        result = tsr_real.cuMemcpyDtoHAsync_v2(to, rank ? tsr_window_at(rank, from) : from, bytes, stream);
    return result == CUDA_SUCCESS ? tsr_real.cuStreamSynchronize(stream) : result;
}

/* NOT_READY: it is to be done in the usual way. */
static CUresult read_now(CUstream stream, void *to, CUdeviceptr from, uint64_t bytes, struct tsr_readback *told)
{
    struct place waited = {.strand = TSR_STRANDS}, place;
    CUresult result = CUDA_SUCCESS;
    for (unsigned i = 0; i < MOST_TRIES && result == CUDA_SUCCESS; i++) {
        struct tsr_order_hold hold;
        struct tsr_lane_client *last = tsr_order_lane(stream, false);
        if (tsr_order_enter_tracked(stream, false, &hold) != CUDA_SUCCESS)
            return CUDA_ERROR_NOT_READY;
        if (hold.stream) /* reading it back is no work of the stream's at home */
            __atomic_store_n(&hold.stream->lane, last, __ATOMIC_RELEASE);
        bool found = hold.stream && tsr_strands_are_apart(hold.stream) && find(stream, from, bytes, &place);
        bool ready = found && place.strand == waited.strand && place.number <= waited.number;
        if (found && !ready) {
            waited = place;
            result = wait_for(&hold, stream, &place, told);
            continue;
        }
        told->ticket = place.ticket;
        bool copied = ready && copy(to, from, bytes, place.strand) == CUDA_SUCCESS;
        tsr_order_leave(&hold);
        return copied ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
    }
    return result == CUDA_SUCCESS ? CUDA_ERROR_NOT_READY : result;
}

static bool is_expected(CUstream stream)
{
    if (thread.early && !thread.gave && thread.stream) /* nobody waited after the last one */
        thread.in_a_row = 0;
    return thread.in_a_row >= EXPECTED && stream == thread.stream;
}

/* The context that was waited for is current, and the stream is its own: default streams of others have the same handles. */
static bool is_of_waited(CUstream stream)
{
    const struct tsr_stream *record = tsr_stream_seen(stream, false);
    return thread.context && thread.context == tsr_current_context() && record && record->context == thread.context;
}

/* Also of the copy: what the stream was given before it may still use its place in the host's memory. */
static bool nobody_can_tell(CUstream stream)
{
    uint64_t now = tsr_order_exposed_now();
    return (now == thread.all_exposed || (stream == thread.waited && now == thread.exposed)) && is_of_waited(stream);
}

bool tsr_readback(CUstream stream, void *to, CUdeviceptr from, uint64_t bytes, struct tsr_readback *told, CUresult *result)
{
    if (!bytes || bytes > MOST_BYTES || !tsr_order_by_data || !tsr_copies_matter() || tsr_is_any_capture() ||
        !is_expected(stream) || !nobody_can_tell(stream))
        return false;
    *result = read_now(stream, to, from, bytes, told);
    if (*result == CUDA_ERROR_NOT_READY)
        return false;
    thread.early = true;
    thread.gave = false;
    thread.stamp = tsr_readback_stamp(stream);
    return true;
}

static void begin_anew(CUstream stream, bool gave)
{
    if (stream != thread.stream)
        thread.in_a_row = 0;
    thread.stream = stream;
    thread.early = thread.gave = gave;
    thread.stamp = tsr_readback_stamp(stream);
}

void tsr_readback_missed(CUstream stream, uint64_t bytes)
{
    if (bytes && bytes <= MOST_BYTES && tsr_order_by_data && tsr_copies_matter())
        begin_anew(stream, false);
}

void tsr_readback_gave(CUstream stream)
{
    begin_anew(stream, true);
}

bool tsr_readback_covers(CUstream stream, uint64_t *stamp)
{
    *stamp = thread.stamp;
    if (!tsr_order_by_data || !thread.stream || stream != thread.stream || thread.stamp != tsr_readback_stamp(stream))
        return false;
    if (stream == CU_STREAM_PER_THREAD) /* another stream in each thread: none could make up for this one's wait */
        return false;
    thread.in_a_row += !thread.gave && thread.in_a_row < EXPECTED;
    bool covers = thread.early && nobody_can_tell(stream);
    thread.early = false;
    thread.stamp = 0;
    return covers;
}

/* Another thread may be giving it work, or destroying it, unless its lock can be had. */
static bool is_idle(struct tsr_stream *stream)
{
    if (!tsr_lock_try(&stream->lock))
        return false;
    bool idle = !stream->live || (stream->kind != TSR_STREAM_OWN && !__atomic_load_n(&stream->away, __ATOMIC_ACQUIRE) &&
                                  tsr_real.cuStreamQuery(stream->handle) == CUDA_SUCCESS);
    tsr_lock_give(&stream->lock);
    return idle;
}

/* Of others, whose work it waits for by CUDA's rules, there is none left either. */
static bool relatives_are_done(CUstream stream)
{
    const struct tsr_stream *own = tsr_stream_seen(stream, false);
    if (own && tsr_stream_is(own, TSR_STREAM_FREE))
        return true;
    if (!own)
        return false;
    CUcontext context = __atomic_load_n(&own->context, __ATOMIC_RELAXED);
    tsr_captures_hold();
    bool done = !tsr_is_any_capture();
    for (struct tsr_stream *at = tsr_stream_first(); at && done; at = at->next)
        done = at == own || !tsr_stream_is_of(at, context) || tsr_stream_is(at, TSR_STREAM_FREE) || is_idle(at);
    tsr_captures_release();
    return done;
}

void tsr_readback_waited(CUstream stream, uint64_t exposed)
{
    if (!tsr_order_by_data)
        return;
    CUcontext context = tsr_current_context();
    if (context != thread.context)
        thread.exposed = thread.all_exposed = UINT64_MAX;
    thread.context = context;
    if (!stream) {
        thread.all_exposed = exposed;
    } else if (relatives_are_done(stream)) {
        thread.waited = stream;
        thread.exposed = exposed;
    }
}
