/* See copies.h. */
#include "memory/copies.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"
#include "base/map.h"
#include "base/os.h"
#include "base/vec.h"
#include "driver/real.h"
#include "driver/stream_handle.h"
#include "lane/lane_client.h"
#include "lane/streams.h"
#include "memory/allocation.h"
#include "memory/arena.h"
#include "memory/backing.h"
#include "memory/contexts.h"
#include "memory/directory.h"
#include "memory/home.h"
#include "memory/quiet.h"
#include "memory/replicas.h"
#include "object/capture.h"
#include "object/session.h"
#include "order/gate.h"

#define PAGES (TSR_ARENA_BYTES / TSR_ARENA_PAGE)
#define MOST_WAITS 64u                   /* different streams that one use comes after; beyond that, it begins again */
#define MOST_TRIES 1000u                 /* to be faster than other threads */
#define MOST_DUE 4096u
#define DRAIN_NS 500000000ull /* until whoever was giving a GPU work when the first work elsewhere begins has done so */
#define QUIET_NS 5000000ull   /* until nothing runs */
#define LOOSE_LOOK_NS 20000ull           /* between looks whether a call has come back that holds nothing, */
#define LOOSE_LOOKS 100000u              /* and how many */
#define LONGEST_TOUCH (64ull << 30)      /* bytes; more is everything */
#define CELLS_PER_TOUCH 2u               /* that it may add */
#define MOST_WORKERS 4096u               /* then, at a quiet moment, all are forgotten */
#define OWN_IDS 0x10000u                 /* of threads' own streams: from here on */
#define WORKER_SHIFT 48                  /* a ticket: the worker above it, its number below */

struct tsr_copies {
    CUdeviceptr address;
    uint64_t bytes;
    size_t place; /* among all */
    bool fixed;   /* lock; only home uses it */
    bool full;    /* lock; the directory has no room for the use that is being made: it gathers */
    struct tsr_replicas replicas;
    struct tsr_directory directory; /* lock */
};

/* A stream that work is in; per-thread default streams count as the legacy one, which waits for them. */
struct worker {
    CUstream handle;
    CUcontext context; /* its own */
    uint64_t last;     /* number of its last ticket */
    CUevent event; /* after its work up to `recorded`, from before a capture during which it must not be asked; NULL: none */
    uint64_t recorded;
    uint32_t loose; /* calls that hold nothing and have not come back */
    bool gone;      /* destroyed: whoever comes after it waits for `graveyard` */
    bool dead;      /* with its context: all its work is complete */
};

uint32_t tsr_copies_away;
__thread uint32_t tsr_copies_loose_worker; /* 1 + its place */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all that follows */
static pthread_rwlock_t ends =
    PTHREAD_RWLOCK_INITIALIZER;   /* before `lock`; held to write where a stream ends, to read by who asks it */
static struct tsr_copies **pages; /* by page of the arena; NULL: none yet */
static TSR_VEC(struct tsr_copies *) all;
static TSR_VEC(struct worker) workers;
static struct tsr_map places;   /* of workers that are not gone: 1 + place, by handle, or by the context of a default stream */
static uint64_t before_all;     /* atomic; ticket of all work from before uses were noted; 0: no work elsewhere has begun */
static struct tsr_map after;    /* by pair of workers (comes after, came before): the number up to which it is known to */
static uint64_t numbers;        /* of tickets so far, */
static uint64_t complete;       /* and up to which all are complete */
static CUresult failed;         /* a pull was noted and could not be enqueued: sticky */
static struct worker graveyard; /* a stream that comes after those that are gone; handle NULL: none is */
static CUstream ferry;          /* pulls for streams of other devices; NULL: none has come yet */
static CUcontext ferry_context;
static uint64_t cells;

bool tsr_copies_are_on(void)
{
    const struct tsr_session *session = tsr_session();
    return session && session->lane_count && session->policy->memory_place == TSR_POLICY_COPIES;
}

static uint64_t page_of(CUdeviceptr address)
{
    return (address - TSR_ARENA_ADDRESS) / TSR_ARENA_PAGE;
}

static void count(uint64_t *counter, uint64_t more)
{
    __atomic_fetch_add(counter, more, __ATOMIC_RELAXED);
}

/* Extents: */

static bool is_wanted(uint32_t gpu, uint32_t peers)
{
    return tsr_copies_are_on() && gpu == tsr_session()->policy->home && !peers && tsr_replicas_open();
}

static void count_copies(const struct tsr_copies *copies, bool more)
{
    struct tsr_session *session = tsr_session();
    for (uint32_t i = 0; i < session->lane_count; i++)
        if (copies->replicas.own >> (i + 1) & 1)
            count(&session->policy->copies_bytes[session->lane_device[i] % 16], more ? copies->bytes : -copies->bytes);
}

static bool note_locked(struct tsr_copies *copies)
{
    if (!pages)
        pages = tsr_os_map(NULL, PAGES * sizeof pages[0], PROT_READ | PROT_WRITE, -1, 0);
    copies->place = all.count;
    if (!pages || !tsr_vec_push(&all, copies))
        return false;
    for (uint64_t at = 0; at < copies->bytes; at += TSR_ARENA_PAGE)
        pages[page_of(copies->address + at)] = copies;
    return true;
}

static CUresult begin(struct tsr_extent *extent, uint32_t gpu, uint32_t peers)
{
    if (!is_wanted(gpu, peers))
        return CUDA_ERROR_NOT_SUPPORTED;
    struct tsr_copies *copies = calloc(1, sizeof *copies);
    CUresult result = copies ? tsr_replicas_make(extent, &copies->replicas) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result != CUDA_SUCCESS) {
        free(copies);
        return result;
    }
    copies->address = extent->address;
    copies->bytes = extent->bytes;
    pthread_mutex_lock(&lock);
    uint16_t holders = tsr_copies_away ? copies->replicas.own : 1;
    bool noted = tsr_directory_start(&copies->directory, copies->bytes, holders) && note_locked(copies);
    pthread_mutex_unlock(&lock);
    if (!noted) {
        tsr_directory_fini(&copies->directory);
        tsr_replicas_drop(extent, &copies->replicas);
        free(copies);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    extent->copies = copies;
    count_copies(copies, true);
    tsr_arena_mark(extent->address, extent->bytes, true);
    return CUDA_SUCCESS;
}

static void drop(struct tsr_extent *extent)
{
    struct tsr_copies *copies = extent->copies;
    tsr_arena_mark(extent->address, extent->bytes, false);
    if (tsr_copies_matter()) { /* what was brought home with all else may still be on its way */
        tsr_order_join_all();
        if (!tsr_is_any_capture())
            tsr_real.cuCtxSynchronize();
    }
    pthread_mutex_lock(&lock);
    for (uint64_t at = 0; at < copies->bytes; at += TSR_ARENA_PAGE)
        pages[page_of(copies->address + at)] = NULL;
    tsr_vec_remove_swap(&all, copies->place);
    if (copies->place < all.count)
        all.data[copies->place]->place = copies->place;
    pthread_mutex_unlock(&lock);
    count_copies(copies, false);
    tsr_replicas_drop(extent, &copies->replicas);
    tsr_directory_fini(&copies->directory);
    free(copies);
    extent->copies = NULL;
}

void tsr_copies_forget(void)
{
    pthread_mutex_init(&lock, NULL);
    pthread_rwlock_init(&ends, NULL);
    all.count = workers.count = 0;
    after = places = (struct tsr_map){0};
    numbers = complete = before_all = 0;
    failed = CUDA_SUCCESS;
    graveyard = (struct worker){0};
    ferry = NULL;
    ferry_context = NULL;
    __atomic_store_n(&tsr_copies_away, 0, __ATOMIC_RELEASE);
    tsr_copies_loose_worker = 0;
    if (pages)
        memset(pages, 0, PAGES * sizeof pages[0]);
    tsr_replicas_forget();
}

/* Workers and tickets: */

static CUcontext current_context(void)
{
    CUcontext context = NULL;
    tsr_real.cuCtxGetCurrent(&context);
    return context;
}

/* The worker of a stream (never NULL). Its place; UINT32_MAX: no memory. */
static uint32_t worker_locked(CUstream named)
{
    bool is_default = tsr_stream_is_default(named);
    CUstream handle = is_default ? CU_STREAM_LEGACY : named;
    CUcontext context = is_default ? current_context() : NULL;
    if (!is_default)
        tsr_real.cuStreamGetCtx(named, &context);
    uint64_t key = is_default ? (uintptr_t)context : (uintptr_t)handle;
    uint32_t place = (uint32_t)(uintptr_t)tsr_map_find(&places, key);
    if (place)
        return place - 1;
    if (workers.count >= 1u << (64 - WORKER_SHIFT) ||
        !tsr_vec_push(&workers, (struct worker){.handle = handle, .context = context}))
        return UINT32_MAX;
    if (!tsr_map_set(&places, key, (void *)workers.count)) {
        workers.count--;
        return UINT32_MAX;
    }
    return (uint32_t)workers.count - 1;
}

static uint64_t pair_of(uint32_t later, uint32_t earlier)
{
    return (later + 1ull) << 32 | (earlier + 1ull);
}

/* Whose work a use comes after by itself; a thread's own default stream after nobody's. */
struct self {
    uint32_t worker;
    bool own;    /* a thread's own default stream: others that count as the same worker are not */
    uint32_t id; /* among those who come after others */
};

static bool is_met_locked(struct self self, uint64_t ticket)
{
    uint32_t worker = (uint32_t)(ticket >> WORKER_SHIFT);
    uint64_t number = ticket & ((1ull << WORKER_SHIFT) - 1);
    if (number <= complete || (worker == self.worker && !self.own) || workers.data[worker].dead)
        return true;
    return (uint64_t)(uintptr_t)tsr_map_find(&after, pair_of(self.id, worker)) >= number;
}

/* Uses: */

struct hearing {
    struct self self;
    uint32_t unmet[MOST_WAITS]; /* workers */
    uint32_t unmet_count;
    const struct tsr_copies_use *use;
    const struct tsr_copies *copies;
    uint32_t slot;
    uint64_t pulls, bytes;
    CUresult result;
};

static void hear_wait(void *context, uint64_t ticket)
{
    struct hearing *hearing = context;
    if (ticket != before_all && before_all)
        hear_wait(context, before_all);
    uint32_t worker = (uint32_t)(ticket >> WORKER_SHIFT);
    if (is_met_locked(hearing->self, ticket))
        return;
    for (uint32_t i = 0; i < hearing->unmet_count; i++)
        if (hearing->unmet[i] == worker)
            return;
    if (hearing->unmet_count < MOST_WAITS)
        hearing->unmet[hearing->unmet_count++] = worker;
}

static void hear_no_wait(void *context, uint64_t ticket)
{
    (void)context;
    (void)ticket;
}

static void hear_no_pull(void *context, const struct tsr_pull *pull)
{
    (void)context;
    (void)pull;
}

static void hear_pull(void *context, const struct tsr_pull *pull)
{
    struct hearing *hearing = context;
    const struct tsr_copies_use *use = hearing->use;
    uint64_t bytes = pull->end - pull->first;
    CUdeviceptr at = hearing->copies->address + pull->first;
    CUdeviceptr to = tsr_window_at(pull->to, at), from = tsr_window_at(pull->from, at);
    CUresult result = CUDA_SUCCESS;
    if (use->lane) {
        struct tsr_lane_copy what = {.to = to, .from = from, .width = bytes, .height = 1};
        struct tsr_lane_record record = {.kind = TSR_LANE_COPY, .stream = hearing->slot, .param_bytes = sizeof what};
        result = tsr_lane_post(use->lane, &record, &what);
    } else {
        result = tsr_real.cuMemcpyDtoDAsync_v2(to, from, bytes, tsr_stream_named(use->stream, use->per_thread));
    }
    if (hearing->result == CUDA_SUCCESS)
        hearing->result = result;
    hearing->pulls++;
    hearing->bytes += bytes;
}

static const struct tsr_copies *at_locked(uint64_t address)
{
    return pages && address - TSR_ARENA_ADDRESS < TSR_ARENA_BYTES ? pages[page_of(address)] : NULL;
}

static uint8_t copy_of(const struct tsr_copies *copies, const struct tsr_copies_use *use)
{
    return use->lane ? copies->replicas.used_by[tsr_lane_number(use->lane) + 1] : 0;
}

typedef void visit_locked(struct tsr_copies *copies, const struct tsr_use *use, struct hearing *hearing);

/* Each extent's part of a touch. */
static void split_locked(const struct tsr_touch *touch, struct hearing *hearing, uint64_t ticket, visit_locked *visit)
{
    for (uint64_t at = touch->first; at < touch->end && at - TSR_ARENA_ADDRESS < TSR_ARENA_BYTES;) {
        struct tsr_copies *copies = (struct tsr_copies *)at_locked(at);
        uint64_t end = copies ? copies->address + copies->bytes : at / TSR_ARENA_PAGE * TSR_ARENA_PAGE + TSR_ARENA_PAGE;
        if (copies) {
            struct tsr_use part = {.first = at - copies->address,
                                   .end = (end < touch->end ? end : touch->end) - copies->address,
                                   .ticket = ticket,
                                   .copy = copy_of(copies, hearing->use),
                                   .pulls = touch->pulls || (touch->stride && (at != touch->first || end < touch->end)),
                                   .writes = touch->writes,
                                   .stride = touch->stride,
                                   .width = touch->width};
            visit(copies, &part, hearing);
        }
        at = end;
    }
}

static void ask_locked(struct tsr_copies *copies, const struct tsr_use *use, struct hearing *hearing)
{
    struct tsr_directory_listener waits = {.pull = hear_no_pull, .wait = hear_wait, .context = hearing};
    if (copies->fixed && hearing->use->lane)
        hearing->result = CUDA_ERROR_NOT_SUPPORTED;
    if (hearing->use->lane && before_all)
        hear_wait(hearing, before_all);
    copies->full = !tsr_directory_has_room(&copies->directory, CELLS_PER_TOUCH * (hearing->use->count + 1));
    if (!copies->full)
        tsr_directory_ask(&copies->directory, use, &waits);
    else
        tsr_directory_ask_all(&copies->directory, use->copy, &waits);
}

static void apply_locked(struct tsr_copies *copies, const struct tsr_use *use, struct hearing *hearing)
{
    struct tsr_directory_listener pulls = {.pull = hear_pull, .wait = hear_no_wait, .context = hearing};
    hearing->copies = copies;
    cells -= copies->directory.cells.count;
    if (copies->full)
        tsr_directory_gather(&copies->directory, use->copy, use->ticket, &pulls);
    copies->full = false;
    tsr_directory_apply(&copies->directory, use, &pulls);
    cells += copies->directory.cells.count;
}

/* What is only overwritten comes last: the launch may also read it. */
static void each_locked(struct hearing *hearing, uint64_t ticket, visit_locked *visit)
{
    const struct tsr_copies_use *use = hearing->use;
    for (int pulling = 1; pulling >= 0; pulling--)
        for (uint32_t i = 0; i < use->count; i++)
            if (use->touches[i].pulls == pulling)
                split_locked(&use->touches[i], hearing, ticket, visit);
}

static void ask_everything_locked(struct hearing *hearing)
{
    struct tsr_directory_listener waits = {.pull = hear_no_pull, .wait = hear_wait, .context = hearing};
    for (size_t i = 0; i < all.count; i++)
        tsr_directory_ask_all(&all.data[i]->directory, 0, &waits);
}

static void apply_everything_locked(struct hearing *hearing, uint64_t ticket)
{
    struct tsr_directory_listener pulls = {.pull = hear_pull, .wait = hear_no_wait, .context = hearing};
    for (size_t i = 0; i < all.count; i++) {
        hearing->copies = all.data[i];
        cells -= all.data[i]->directory.cells.count;
        tsr_directory_gather(&all.data[i]->directory, 0, ticket, &pulls);
        cells += 1;
    }
}

/* Who is asking; false: no memory to know it. */
static bool begin_locked(struct hearing *hearing, const struct tsr_copies_use *use, uint32_t slot)
{
    CUstream named = tsr_stream_named(use->stream, use->per_thread);
    bool own = named == CU_STREAM_PER_THREAD;
    uint32_t worker = worker_locked(named), id = own ? OWN_IDS + (uint32_t)tsr_stream_thread() : worker;
    *hearing = (struct hearing){.self = {worker, own, id}, .use = use, .slot = slot, .result = failed};
    return hearing->self.worker != UINT32_MAX;
}

static void find_waits_locked(struct hearing *hearing)
{
    if (hearing->use->everything)
        ask_everything_locked(hearing);
    else
        each_locked(hearing, 0, ask_locked);
}

/* What the directory says is not so: nothing that uses copies can go on. */
static void fail_locked(CUresult error, const char *what)
{
    if (failed == CUDA_SUCCESS)
        tsr_error("copies of memory: %s (error %d)", what, (int)error);
    failed = error;
}

static void report_locked(const struct hearing *hearing)
{
    struct tsr_session *session = tsr_session();
    struct tsr_policy *policy = session->policy;
    const struct tsr_copies_use *use = hearing->use;
    uint32_t gpu = use->lane ? session->lane_device[tsr_lane_number(use->lane)] : policy->home;
    if (!hearing->pulls)
        return;
    count(&policy->pulls[gpu % 16], hearing->pulls);
    count(&policy->pulled_bytes[gpu % 16], hearing->bytes);
    if (use->everything) {
        count(&policy->brought_home, 1);
        count(&policy->brought_home_bytes, hearing->bytes);
    }
    __atomic_store_n(&policy->directory_cells, cells, __ATOMIC_RELAXED);
}

static CUresult pull_locked(struct hearing *hearing)
{
    if (hearing->result != CUDA_SUCCESS)
        return hearing->result;
    find_waits_locked(hearing);
    if (hearing->result != CUDA_SUCCESS || hearing->unmet_count)
        return hearing->result != CUDA_SUCCESS ? hearing->result : CUDA_ERROR_NOT_READY;
    uint64_t number = ++numbers, ticket = (uint64_t)hearing->self.worker << WORKER_SHIFT | number;
    workers.data[hearing->self.worker].last = number;
    if (hearing->use->everything)
        apply_everything_locked(hearing, ticket);
    else
        each_locked(hearing, ticket, apply_locked);
    report_locked(hearing);
    if (hearing->result != CUDA_SUCCESS)
        fail_locked(hearing->result, "bytes could not be pulled");
    return hearing->result;
}

CUresult tsr_copies_pull(const struct tsr_copies_use *use, uint32_t slot)
{
    struct hearing hearing;
    pthread_mutex_lock(&lock);
    CUresult result = begin_locked(&hearing, use, slot) ? pull_locked(&hearing) : CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_unlock(&lock);
    return result;
}

/* Coming after others: */

static bool is_loose(uint32_t place)
{
    pthread_mutex_lock(&lock);
    bool loose = place < workers.count && workers.data[place].loose != 0;
    pthread_mutex_unlock(&lock);
    return loose;
}

/* A call of another thread that holds nothing enqueues soon; until then nobody can come after it. */
static CUresult await_loose(uint32_t place)
{
    static const uint32_t never;
    for (unsigned i = 0; is_loose(place); i++) {
        if (i == LOOSE_LOOKS)
            return CUDA_ERROR_NOT_READY;
        tsr_os_futex_wait(&never, 0, LOOSE_LOOK_NS, false);
    }
    return CUDA_SUCCESS;
}

/* Into *event, which is made if there is none. */
static CUresult record_locked(const struct worker *of, CUevent *event)
{
    CUevent made = NULL;
    CUresult result = *event ? CUDA_SUCCESS : tsr_real.cuEventCreate(&made, CU_EVENT_DISABLE_TIMING);
    if (result == CUDA_SUCCESS)
        result = tsr_real.cuEventRecord(made ? made : *event, of->handle);
    if (made && result != CUDA_SUCCESS)
        tsr_real.cuEventDestroy_v2(made);
    else if (made)
        *event = made;
    return result;
}

/* An event after all that a worker was given, joined home. */
static CUresult record(const struct worker *worker, CUevent *event)
{
    struct tsr_order_hold hold = {0};
    CUcontext popped;
    const struct worker *of = worker->gone ? &graveyard : worker;
    bool push = of->context && of->context != current_context();
    CUresult result = push ? tsr_real.cuCtxPushCurrent_v2(of->context) : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS)
        return result;
    if (!worker->gone)
        result = tsr_order_enter(of->handle, false, &hold);
    if (result == CUDA_SUCCESS)
        result = record_locked(of, event);
    if (!worker->gone && result == CUDA_SUCCESS)
        tsr_order_leave(&hold);
    if (push)
        tsr_real.cuCtxPopCurrent_v2(&popped);
    return result;
}

/* A stream that is captured must not be asked, nor a legacy one while a stream is captured that it would wait for. */
static bool is_forbidden(const struct worker *worker)
{
    return !worker->gone && (worker->handle == CU_STREAM_LEGACY ? tsr_is_any_capture() : tsr_is_capturing(worker->handle));
}

/*
 * The same, also during captures: then it is the event from before. Of threads' own default streams there is none that comes after what
 * they were given meanwhile: only those may wait for that whom the program has made to.
 */
static CUresult find_event(const struct worker *worker, CUevent *event, bool *made)
{
    tsr_captures_hold();
    *made = !is_forbidden(worker);
    *event = *made ? NULL : worker->event;
    CUresult result = *made ? record(worker, event) : CUDA_SUCCESS;
    tsr_captures_release();
    return result;
}

static CUresult wait_for(const struct tsr_copies_use *use, CUevent event)
{
    struct tsr_order_hold hold;
    CUresult result = tsr_order_enter(use->stream, use->per_thread, &hold);
    if (result != CUDA_SUCCESS)
        return result;
    result = tsr_real.cuStreamWaitEvent(tsr_stream_named(use->stream, use->per_thread), event, 0);
    tsr_order_leave(&hold);
    return result;
}

static CUresult come_after(const struct tsr_copies_use *use, uint32_t self, uint32_t place)
{
    CUevent event = NULL;
    bool made = false;
    CUresult result = await_loose(place);
    if (result != CUDA_SUCCESS)
        return result;
    pthread_rwlock_rdlock(&ends);
    pthread_mutex_lock(&lock);
    bool known = place < workers.count; /* else they have been forgotten, and their work is complete */
    struct worker earlier = known ? workers.data[place] : (struct worker){.dead = true};
    pthread_mutex_unlock(&lock);
    if (!earlier.dead)
        result = find_event(&earlier, &event, &made);
    pthread_rwlock_unlock(&ends);
    if (result == CUDA_SUCCESS && event)
        result = wait_for(use, event);
    if (made && event)
        tsr_real.cuEventDestroy_v2(event);
    if (result == CUDA_SUCCESS && !tsr_map_set(&after, pair_of(self, place), (void *)(uintptr_t)earlier.last))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    count(&tsr_session()->policy->waits, 1);
    return result;
}

static bool is_crowded(void)
{
    return __atomic_load_n(&workers.count, __ATOMIC_RELAXED) > MOST_WORKERS;
}

/* All their work is complete, and no call is under way. */
static void forget_workers(void)
{
    pthread_mutex_lock(&lock);
    complete = numbers;
    workers.count = 0;
    tsr_map_fini(&places);
    tsr_map_fini(&after);
    after = places = (struct tsr_map){0};
    pthread_mutex_unlock(&lock);
}

/* Who comes after what is gone comes after the event, too. The context is one of the home GPU. */
static CUresult bury(CUcontext context, CUevent event)
{
    CUresult result = CUDA_SUCCESS;
    CUcontext popped;
    pthread_mutex_lock(&lock);
    if (!graveyard.handle && (result = tsr_real.cuCtxPushCurrent_v2(context)) == CUDA_SUCCESS) {
        result = tsr_real.cuStreamCreate(&graveyard.handle, CU_STREAM_NON_BLOCKING);
        graveyard.context = context;
        tsr_real.cuCtxPopCurrent_v2(&popped);
    }
    if (result == CUDA_SUCCESS)
        result = tsr_real.cuStreamWaitEvent(graveyard.handle, event, 0);
    pthread_mutex_unlock(&lock);
    return result;
}

/* All streams of the context. */
static CUresult bury_context(CUcontext context)
{
    CUevent event;
    CUcontext popped;
    CUresult result = tsr_real.cuCtxPushCurrent_v2(context);
    if (result != CUDA_SUCCESS)
        return result;
    result = tsr_real.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
    if (result == CUDA_SUCCESS) {
        result = tsr_real.cuCtxRecordEvent(context, event);
        if (result == CUDA_SUCCESS)
            result = bury(context, event);
        tsr_real.cuEventDestroy_v2(event);
    }
    tsr_real.cuCtxPopCurrent_v2(&popped);
    return result;
}

/* What has been enqueued so far counts as one worker's, who is gone; it may have written anything. */
static CUresult bury_all(void)
{
    CUcontext contexts[TSR_MEMORY_CONTEXTS];
    unsigned found = 0;
    CUresult result = tsr_memory_contexts_locked(contexts, &found) ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
    for (unsigned i = 0; i < found && result == CUDA_SUCCESS; i++)
        result = bury_context(contexts[i]);
    pthread_mutex_lock(&lock);
    if (result == CUDA_SUCCESS && !tsr_vec_push(&workers, (struct worker){.gone = true, .last = numbers + 1}))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS)
        before_all = (uint64_t)(workers.count - 1) << WORKER_SHIFT | ++numbers;
    pthread_mutex_unlock(&lock);
    return result;
}

/* Attempts that fail make the next one rarer. */
static bool is_time(void)
{
    static uint32_t calls, due = 1; /* atomic */
    if (__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) < __atomic_load_n(&due, __ATOMIC_RELAXED))
        return false;
    __atomic_store_n(&calls, 0, __ATOMIC_RELAXED);
    uint32_t now = __atomic_load_n(&due, __ATOMIC_RELAXED);
    __atomic_store_n(&due, now < MOST_DUE ? 2 * now : now, __ATOMIC_RELAXED);
    return true;
}

/* From now on all uses are noted. What ran before was not: who comes after any of it comes after all. */
static CUresult begin_locked_memory(void)
{
    __atomic_store_n(&tsr_order_strict, true, __ATOMIC_RELEASE);
    __atomic_store_n(&tsr_copies_away, 1, __ATOMIC_SEQ_CST);
    return tsr_gate_drain(DRAIN_NS) ? bury_all() : CUDA_ERROR_NOT_READY;
}

/* There are too many workers: at a quiet moment they are forgotten. */
static CUresult tidy_locked_memory(void)
{
    CUresult result = CUDA_ERROR_NOT_READY;
    if (!tsr_gate_close(QUIET_NS))
        return result;
    if (!tsr_is_any_capture() && (result = tsr_quiet_wait(QUIET_NS)) == CUDA_SUCCESS)
        forget_workers();
    tsr_gate_open();
    return result;
}

static bool has_begun(void)
{
    return __atomic_load_n(&before_all, __ATOMIC_ACQUIRE) != 0;
}

/* Before the first work elsewhere. Errors: NOT_SUPPORTED, this was not the moment. */
static CUresult begin_or_tidy(void)
{
    if (!is_time() || tsr_is_any_capture() || !tsr_memory_at_home())
        return has_begun() ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
    CUstreamCaptureMode mode = tsr_memory_relax_begin();
    tsr_memory_lock();
    CUresult result = has_begun() ? tidy_locked_memory() : begin_locked_memory();
    tsr_memory_unlock();
    tsr_memory_relax_end(mode);
    if (result != CUDA_SUCCESS)
        tsr_debug("copies of memory: not the moment to begin (%d)", (int)result);
    return has_begun() ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult tsr_copies_prepare(const struct tsr_copies_use *use)
{
    struct hearing hearing;
    CUresult result = (has_begun() || !use->lane) && !is_crowded() ? CUDA_SUCCESS : begin_or_tidy();
    if (result != CUDA_SUCCESS && use->lane)
        return result;
    pthread_mutex_lock(&lock);
    if (begin_locked(&hearing, use, 0))
        find_waits_locked(&hearing);
    else
        hearing.result = CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_unlock(&lock);
    result = hearing.result;
    for (uint32_t i = 0; i < hearing.unmet_count && result == CUDA_SUCCESS; i++)
        result = come_after(use, hearing.self.id, hearing.unmet[i]);
    return result;
}

static CUresult enter_at_home(const struct tsr_copies_use *use, struct tsr_order_hold *hold)
{
    CUresult result = CUDA_ERROR_NOT_READY;
    for (unsigned i = 0; i < MOST_TRIES && result == CUDA_ERROR_NOT_READY; i++) {
        result = tsr_copies_prepare(use);
        if (result == CUDA_SUCCESS)
            result = tsr_order_enter(use->stream, use->per_thread, hold);
        if (result != CUDA_SUCCESS)
            continue;
        result = tsr_copies_pull(use, 0);
        if (result != CUDA_SUCCESS)
            tsr_order_leave(hold);
    }
    return result;
}

/* An event after what has to be pulled for the use of a stream of another device, which cannot pull itself. */
static CUresult ferry_pulls(const struct tsr_copies_use *use, CUevent *event)
{
    struct tsr_order_hold hold;
    struct tsr_copies_use ferried = *use;
    pthread_mutex_lock(&lock);
    CUresult result = ferry ? CUDA_SUCCESS : tsr_real.cuStreamCreate(&ferry, CU_STREAM_NON_BLOCKING);
    ferry_context = current_context();
    pthread_mutex_unlock(&lock);
    if (result != CUDA_SUCCESS)
        return result;
    ferried.stream = ferry;
    ferried.per_thread = false;
    result = enter_at_home(&ferried, &hold);
    if (result != CUDA_SUCCESS)
        return result;
    result = record_locked(&(struct worker){.handle = ferry}, event);
    tsr_order_leave(&hold);
    return result;
}

/* One of the home GPU. */
static CUcontext some_context(void)
{
    pthread_mutex_lock(&lock);
    CUcontext context = ferry_context;
    for (size_t i = 0; i < workers.count && !context; i++)
        context = workers.data[i].dead ? NULL : workers.data[i].context;
    pthread_mutex_unlock(&lock);
    return context;
}

static CUresult enter_elsewhere(const struct tsr_copies_use *use, struct tsr_order_hold *hold)
{
    CUevent event = NULL;
    CUcontext popped;
    CUcontext context = some_context();
    if (!context) /* nothing has been noted in any that still is: other GPUs hold nothing */
        return tsr_order_enter(use->stream, use->per_thread, hold);
    CUresult result = tsr_real.cuCtxPushCurrent_v2(context);
    if (result != CUDA_SUCCESS)
        return result;
    result = ferry_pulls(use, &event);
    tsr_real.cuCtxPopCurrent_v2(&popped);
    if (result != CUDA_SUCCESS)
        return result;
    result = tsr_real.cuStreamWaitEvent(tsr_stream_named(use->stream, use->per_thread), event, 0);
    tsr_real.cuEventDestroy_v2(event);
    return result == CUDA_SUCCESS ? tsr_order_enter(use->stream, use->per_thread, hold) : result;
}

CUresult tsr_copies_enter(const struct tsr_copies_use *use, struct tsr_order_hold *hold)
{
    struct tsr_stream_found found;
    bool is_home = tsr_stream_place(tsr_stream_named(use->stream, use->per_thread), &found) == tsr_session()->policy->home;
    return is_home ? enter_at_home(use, hold) : enter_elsewhere(use, hold);
}

CUresult tsr_copies_enter_all(CUstream stream, bool per_thread, struct tsr_order_hold *hold)
{
    struct tsr_copies_use use = {.everything = true, .stream = stream, .per_thread = per_thread};
    CUresult result = tsr_order_enter(stream, per_thread, hold);
    if (result != CUDA_SUCCESS || !tsr_copies_matter() || tsr_is_capturing(tsr_stream_named(stream, per_thread)))
        return result;
    tsr_order_leave(hold);
    return tsr_copies_enter(&use, hold);
}

CUresult tsr_copies_loose_slow(const struct tsr_copies_use *use)
{
    struct tsr_order_hold hold;
    CUstream named = tsr_stream_named(use->stream, use->per_thread);
    if (tsr_is_capturing(named)) /* the graph's launch may touch anything */
        return CUDA_SUCCESS;
    CUresult result = tsr_copies_enter(use, &hold);
    if (result != CUDA_SUCCESS)
        return result;
    pthread_mutex_lock(&lock);
    uint32_t place = hold.stream ? worker_locked(named) : UINT32_MAX; /* of another device: none */
    if (place != UINT32_MAX)
        workers.data[place].loose++;
    pthread_mutex_unlock(&lock);
    tsr_copies_loose_worker = place + 1;
    tsr_order_leave(&hold);
    return CUDA_SUCCESS;
}

void tsr_copies_loose_end_slow(void)
{
    pthread_mutex_lock(&lock);
    if (tsr_copies_loose_worker <= workers.count)
        workers.data[tsr_copies_loose_worker - 1].loose--;
    pthread_mutex_unlock(&lock);
    tsr_copies_loose_worker = 0;
}

CUresult tsr_copies_loose_all(CUstream stream, bool per_thread)
{
    struct tsr_copies_use use = {.everything = true, .stream = stream, .per_thread = per_thread};
    return tsr_copies_loose(&use);
}

CUresult tsr_copies_loose_bytes(CUstream stream, bool per_thread, uint64_t to, uint64_t from, uint64_t bytes)
{
    struct tsr_touch touches[] = {{.first = from, .end = from + bytes, .pulls = true},
                                  {.first = to, .end = to + bytes, .writes = true}};
    struct tsr_copies_use use = {.touches = touches, .count = 2, .stream = stream, .per_thread = per_thread};
    return tsr_copies_loose(&use);
}

CUresult tsr_copies_loose_rows(CUstream stream, bool per_thread, uint64_t to, uint64_t pitch, uint64_t width, uint64_t height)
{
    uint64_t bytes = height ? (height - 1) * pitch + width : 0;
    struct tsr_touch touch = {.first = to, .end = to + bytes, .pulls = height > 1, .writes = true};
    struct tsr_copies_use use = {.touches = &touch, .count = 1, .stream = stream, .per_thread = per_thread};
    return tsr_copies_loose(&use);
}

/* A capture is about to begin in the stream: whoever has to come after what it, or the legacy one, was given can still do so. */
void tsr_copies_capture_begins(CUstream stream, bool per_thread)
{
    CUstream named = tsr_stream_named(stream, per_thread);
    for (size_t i = 0; tsr_copies_matter() && i < workers.count; i++) {
        pthread_mutex_lock(&lock);
        struct worker worker = workers.data[i];
        pthread_mutex_unlock(&lock);
        bool concerned = worker.handle == named || worker.handle == CU_STREAM_LEGACY;
        CUevent event = worker.event; /* the same, so that whoever has just found it may still wait for it */
        if (!concerned || worker.gone || worker.dead || worker.recorded == worker.last || is_forbidden(&worker) ||
            record(&worker, &event) != CUDA_SUCCESS)
            continue;
        pthread_mutex_lock(&lock);
        workers.data[i].event = event;
        workers.data[i].recorded = worker.last;
        pthread_mutex_unlock(&lock);
    }
}

/* Its work goes on; who comes after it waits for a stream of ours that does. */
void tsr_copies_stream_ends(CUstream stream)
{
    CUevent event = NULL;
    bool made = false;
    if (!tsr_copies_matter() || tsr_stream_is_default(stream))
        return;
    pthread_rwlock_wrlock(&ends);
    pthread_mutex_lock(&lock);
    uint32_t place = (uint32_t)(uintptr_t)tsr_map_find(&places, (uintptr_t)stream) - 1;
    struct worker worker = place < workers.count ? workers.data[place] : (struct worker){.gone = true};
    pthread_mutex_unlock(&lock);
    CUresult result = worker.gone || worker.dead ? CUDA_SUCCESS : find_event(&worker, &event, &made);
    if (result == CUDA_SUCCESS && event)
        result = bury(worker.context, event);
    if (made && event)
        tsr_real.cuEventDestroy_v2(event);
    pthread_mutex_lock(&lock);
    if (place < workers.count) {
        workers.data[place].gone = true;
        tsr_map_remove(&places, (uintptr_t)stream);
    }
    if (result != CUDA_SUCCESS)
        fail_locked(result, "a stream that ended could not be waited for");
    pthread_mutex_unlock(&lock);
    pthread_rwlock_unlock(&ends);
}

static bool is_of(uint64_t key, const void *value, const void *context)
{
    (void)key;
    return workers.data[(uintptr_t)value - 1].context == context;
}

void tsr_copies_context_gone(CUcontext context)
{
    pthread_mutex_lock(&lock);
    struct tsr_map_entries entries = tsr_map_remove_if(&places, is_of, context);
    tsr_vec_fini(&entries);
    for (size_t i = 0; i < workers.count; i++)
        workers.data[i].dead |= workers.data[i].context == context;
    if (context == ferry_context) {
        ferry = NULL;
        ferry_context = NULL;
    }
    for (size_t i = 0; context == graveyard.context && i < workers.count; i++)
        workers.data[i].dead |= workers.data[i].gone;
    if (context == graveyard.context)
        graveyard = (struct worker){0};
    pthread_mutex_unlock(&lock);
}

/* Others: */

void tsr_copies_fix(struct tsr_extent *extent)
{
    struct tsr_copies *copies = extent->copies;
    struct tsr_touch touch = {.first = extent->address, .end = extent->address + extent->bytes, .pulls = true, .writes = true};
    struct tsr_copies_use use = {.touches = &touch, .count = 1, .stream = CU_STREAM_LEGACY};
    struct tsr_order_hold hold;
    bool matters = tsr_copies_matter() && !copies->fixed;
    pthread_mutex_lock(&lock);
    copies->fixed = true;
    pthread_mutex_unlock(&lock);
    CUresult result = matters ? tsr_copies_enter(&use, &hold) : CUDA_SUCCESS;
    if (matters && result == CUDA_SUCCESS) {
        tsr_order_leave(&hold);
        result = tsr_real.cuStreamSynchronize(CU_STREAM_LEGACY);
    }
    if (result != CUDA_SUCCESS)
        tsr_error("memory that others are to use could not be brought home (error %d)", (int)result);
}

void tsr_copies_start(void)
{
    static const struct tsr_backing_copies copies = {.begin = begin, .drop = drop, .fix = tsr_copies_fix};
    tsr_backing_have_copies(&copies);
}
