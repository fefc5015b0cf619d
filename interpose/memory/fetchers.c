/* See fetchers.h. */
#include "memory/fetchers.h"

#include <pthread.h>

#include "driver/real.h"
#include "memory/copies_parts.h"
#include "memory/marks.h"
#include "object/session.h"
#include "order/order.h"

/* Work waits for all that a stream has been given, so each fetches one extent after the other in turn. */
#define FETCHERS 8u

static struct {
    CUstream stream;
    CUevent event; /* after what it has been given last; NULL: nothing */
    CUcontext context;
} fetchers[FETCHERS]; /* copies' lock */
static uint32_t turn; /* memory lock */

/* The next one. False: the driver makes no more streams. */
static bool prepare(uint32_t number)
{
    CUcontext context = NULL;
    if (fetchers[number].stream)
        return true;
    CUresult result = tsr_real.cuCtxGetCurrent(&context);
    if (result == CUDA_SUCCESS)
        result = tsr_real.cuStreamCreate(&fetchers[number].stream, CU_STREAM_NON_BLOCKING);
    if (result == CUDA_SUCCESS)
        result = tsr_real.cuEventCreate(&fetchers[number].event, CU_EVENT_DISABLE_TIMING);
    if (result != CUDA_SUCCESS)
        fetchers[number].stream = NULL;
    fetchers[number].context = context;
    return result == CUDA_SUCCESS;
}

static void add_bytes(void *context, const struct tsr_pull *pull)
{
    *(uint64_t *)context += tsr_pull_bytes(pull);
}

/* Bytes that home's copy does not hold. */
static uint64_t lacking_locked(const struct tsr_copies *copies)
{
    uint64_t bytes = 0;
    struct tsr_directory_listener listener = {.pull = add_bytes, .context = &bytes};
    struct tsr_use use = {.end = copies->bytes, .pulls = true};
    tsr_directory_ask(&copies->directory, &use, &listener);
    return bytes;
}

uint64_t tsr_fetcher_fetch(struct tsr_copies *copies)
{
    uint32_t number = turn++ % FETCHERS;
    struct tsr_touch touch = {.first = copies->address, .end = copies->address + copies->bytes, .pulls = true};
    struct tsr_copies_use use = {.touches = &touch, .count = 1, .locked = true, .cause = TSR_PULL_CONSTANT};
    struct tsr_order_hold hold;
    pthread_mutex_lock(&tsr_copies_lock);
    uint64_t bytes = lacking_locked(copies);
    bool ready = prepare(number);
    use.stream = fetchers[number].stream;
    pthread_mutex_unlock(&tsr_copies_lock);
    if (!bytes || !ready || tsr_copies_enter(&use, &hold) != CUDA_SUCCESS)
        return 0;
    pthread_mutex_lock(&tsr_copies_lock);
    tsr_real.cuEventRecord(fetchers[number].event, use.stream);
    copies->spilled.arriving = true;
    copies->spilled.fetcher = number;
    pthread_mutex_unlock(&tsr_copies_lock);
    tsr_order_leave(&hold);
    return bytes;
}

bool tsr_fetcher_is_idle_locked(uint32_t number, bool waits)
{
    return !fetchers[number].stream || tsr_mark_is_past(fetchers[number].event, waits);
}

uint32_t tsr_fetchers_at_work_locked(void)
{
    uint32_t count = 0;
    for (uint32_t number = 0; number < FETCHERS; number++)
        count += !tsr_fetcher_is_idle_locked(number, false);
    return count;
}

void tsr_fetchers_context_gone_locked(CUcontext context)
{
    for (uint32_t number = 0; number < FETCHERS; number++)
        if (fetchers[number].context == context)
            fetchers[number].stream = NULL;
}

void tsr_fetchers_forget(void)
{
    for (uint32_t number = 0; number < FETCHERS; number++)
        fetchers[number].stream = NULL;
    turn = 0;
}
