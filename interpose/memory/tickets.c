/* See tickets.h. Workers and their tickets. */
#include "memory/tickets.h"

#include "driver/real.h"
#include "driver/stream_handle.h"
#include "lane/streams.h"
#include "memory/copies.h"
#include "memory/copies_parts.h"

#ifndef TSR_TICKETS_MOST_WORKERS
#define TSR_TICKETS_MOST_WORKERS 4096u
#endif
#define OWN_IDS 0x10000u /* of threads' own streams: from here on */

struct tsr_tickets tsr_tickets = {.ends = PTHREAD_RWLOCK_INITIALIZER};

CUcontext tsr_tickets_context(void)
{
    CUcontext context = NULL;
    tsr_real.cuCtxGetCurrent(&context);
    return context;
}

uint32_t tsr_worker_find_locked(CUstream named)
{
    bool is_default = tsr_stream_is_default(named);
    CUstream handle = is_default ? CU_STREAM_LEGACY : named;
    CUcontext context = is_default ? tsr_tickets_context() : NULL;
    if (!is_default)
        tsr_real.cuStreamGetCtx(named, &context);
    uint64_t key = is_default ? (uintptr_t)context : (uintptr_t)handle;
    uint32_t place = (uint32_t)(uintptr_t)tsr_map_find(&tsr_tickets.places, key);
    if (place)
        return place - 1;
    if (tsr_tickets.workers.count >= 1u << (64 - TSR_WORKER_SHIFT) ||
        !tsr_vec_push(&tsr_tickets.workers, (struct tsr_worker){.handle = handle, .context = context}))
        return TSR_NO_WORKER;
    if (!tsr_map_set(&tsr_tickets.places, key, (void *)tsr_tickets.workers.count)) {
        tsr_tickets.workers.count--;
        return TSR_NO_WORKER;
    }
    __atomic_store_n(&tsr_tickets.crowded, tsr_tickets.workers.count > TSR_TICKETS_MOST_WORKERS, __ATOMIC_RELAXED);
    return (uint32_t)tsr_tickets.workers.count - 1;
}

bool tsr_asker_init_locked(struct tsr_asker *asker, CUstream named)
{
    bool own = named == CU_STREAM_PER_THREAD;
    uint32_t worker = tsr_worker_find_locked(named);
    *asker = (struct tsr_asker){worker, own, own ? OWN_IDS + (uint32_t)tsr_stream_thread() : worker};
    return worker != TSR_NO_WORKER;
}

uint64_t tsr_ticket_take_locked(const struct tsr_asker *asker)
{
    uint64_t number = ++tsr_tickets.numbers;
    tsr_tickets.workers.data[asker->worker].last = number;
    return (uint64_t)asker->worker << TSR_WORKER_SHIFT | number;
}

uint64_t tsr_ticket_pair(uint32_t later, uint32_t earlier)
{
    return (later + 1ull) << 32 | (earlier + 1ull);
}

bool tsr_ticket_is_met_locked(const struct tsr_asker *asker, uint64_t ticket)
{
    uint32_t worker = tsr_ticket_worker(ticket);
    uint64_t number = ticket & ((1ull << TSR_WORKER_SHIFT) - 1);
    if (number <= tsr_tickets.complete || (worker == asker->worker && !asker->own) || tsr_tickets.workers.data[worker].dead)
        return true;
    return (uint64_t)(uintptr_t)tsr_map_find(&tsr_tickets.after, tsr_ticket_pair(asker->id, worker)) >= number;
}

bool tsr_tickets_are_crowded(void)
{
    return __atomic_load_n(&tsr_tickets.crowded, __ATOMIC_RELAXED);
}

void tsr_tickets_forget_workers(void)
{
    pthread_mutex_lock(&tsr_copies_lock);
    tsr_tickets.complete = tsr_tickets.numbers;
    tsr_tickets.workers.count = 0;
    __atomic_store_n(&tsr_tickets.crowded, false, __ATOMIC_RELAXED);
    tsr_map_fini(&tsr_tickets.places);
    tsr_map_fini(&tsr_tickets.after);
    tsr_tickets.after = tsr_tickets.places = (struct tsr_map){0};
    pthread_mutex_unlock(&tsr_copies_lock);
}

static bool is_of(uint64_t key, const void *value, const void *context)
{
    (void)key;
    return tsr_tickets.workers.data[(uintptr_t)value - 1].context == context;
}

void tsr_copies_context_gone(CUcontext context)
{
    pthread_mutex_lock(&tsr_copies_lock);
    struct tsr_map_entries entries = tsr_map_remove_if(&tsr_tickets.places, is_of, context);
    tsr_vec_fini(&entries);
    for (size_t i = 0; i < tsr_tickets.workers.count; i++)
        tsr_tickets.workers.data[i].dead |= tsr_tickets.workers.data[i].context == context;
    tsr_copies_ferry_gone_locked(context);
    for (size_t i = 0; context == tsr_tickets.graveyard.context && i < tsr_tickets.workers.count; i++)
        tsr_tickets.workers.data[i].dead |= tsr_tickets.workers.data[i].gone;
    if (context == tsr_tickets.graveyard.context)
        tsr_tickets.graveyard = (struct tsr_worker){0};
    pthread_mutex_unlock(&tsr_copies_lock);
}

void tsr_tickets_forget(void)
{
    pthread_rwlock_init(&tsr_tickets.ends, NULL);
    tsr_tickets.workers.count = 0;
    __atomic_store_n(&tsr_tickets.crowded, false, __ATOMIC_RELAXED);
    tsr_tickets.after = tsr_tickets.places = (struct tsr_map){0};
    tsr_tickets.numbers = tsr_tickets.complete = tsr_tickets.before_all = 0;
    tsr_tickets.graveyard = (struct tsr_worker){0};
}
