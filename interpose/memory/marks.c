/* See marks.h. */
#include "memory/marks.h"

#include <stddef.h>

#include "driver/real.h"
#include "times/clock.h"

#define QUEUES 8u /* that are told apart; more are not marked */
#define MARKS 32u /* of a queue, that are not complete; if there are more, the last one is set again, later */

struct mark {
    CUevent event; /* NULL: none yet */
    uint64_t use;
};

struct marked {
    bool used, wanted;
    uint32_t queue;
    CUcontext context; /* of the events */
    uint64_t complete; /* up to this use */
    uint64_t set;      /* the last one */
    uint32_t first, count;
    struct mark marks[MARKS]; /* a ring */
};

static struct marked all[QUEUES]; /* copies' lock */

static struct marked *find(uint32_t queue)
{
    for (unsigned i = 0; i < QUEUES; i++)
        if (all[i].used && all[i].queue == queue)
            return &all[i];
    return NULL;
}

static struct marked *make(uint32_t queue)
{
    CUcontext context = NULL;
    if (tsr_real.cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context)
        return NULL;
    for (unsigned i = 0; i < QUEUES; i++)
        if (!all[i].used && (!all[i].context || all[i].context == context)) {
            struct marked *made = &all[i];
            made->used = true;
            made->wanted = false;
            made->queue = queue;
            made->context = context;
            made->complete = made->set = 0;
            made->first = made->count = 0;
            return made;
        }
    return NULL;
}

bool tsr_mark_is_past(CUevent event, bool waits)
{
    static struct tsr_times_driver driver; /* copies' lock */
    if (!driver.event_query) {
        driver.event_query = tsr_real.cuEventQuery;
        tsr_times_find_emulator(&driver, tsr_real.cuGetExportTable);
    }
    return waits ? tsr_memory_event_query(event) == CUDA_SUCCESS : tsr_times_is_past(&driver, event);
}

/* Marks that are complete are no more. */
static void look(struct marked *marked, uint64_t use, bool waits)
{
    while (marked->count && marked->complete < use && tsr_mark_is_past(marked->marks[marked->first].event, waits)) {
        marked->complete = marked->marks[marked->first].use;
        marked->first = (marked->first + 1) % MARKS;
        marked->count--;
    }
}

bool tsr_marks_set_locked(CUstream named, uint32_t queue, uint64_t use)
{
    struct marked *marked = find(queue);
    if (!marked && !(marked = make(queue)))
        return false;
    if (marked->count == MARKS)
        look(marked, UINT64_MAX, false);
    if (marked->count == MARKS)
        marked->count--;
    struct mark *mark = &marked->marks[(marked->first + marked->count) % MARKS];
    if (!mark->event && tsr_real.cuEventCreate(&mark->event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
        mark->event = NULL;
        return false;
    }
    if (tsr_real.cuEventRecord(mark->event, named) != CUDA_SUCCESS) {
        marked->set = marked->count ? marked->marks[(marked->first + marked->count - 1) % MARKS].use : marked->complete;
        return false;
    }
    mark->use = marked->set = use;
    marked->wanted = false;
    marked->count++;
    return true;
}

void tsr_marks_want_locked(uint32_t queue)
{
    struct marked *marked = find(queue);
    if (!marked)
        marked = make(queue);
    if (marked)
        marked->wanted = true;
}

bool tsr_marks_are_wanted_locked(uint32_t queue)
{
    const struct marked *marked = find(queue);
    return marked && marked->wanted;
}

bool tsr_marks_are_set_locked(uint32_t queue, uint64_t use)
{
    const struct marked *marked = find(queue);
    return marked && marked->set >= use;
}

bool tsr_marks_tell_complete_locked(uint32_t queue, uint64_t use, bool waits)
{
    struct marked *marked = find(queue);
    if (marked && marked->complete < use)
        look(marked, use, waits);
    return marked && marked->complete >= use;
}

void tsr_marks_settle_locked(void)
{
    for (unsigned i = 0; i < QUEUES; i++)
        all[i].used = false;
}

void tsr_marks_context_gone_locked(CUcontext context)
{
    for (unsigned i = 0; i < QUEUES; i++)
        if (all[i].context == context)
            all[i] = (struct marked){0};
}

void tsr_marks_forget(void)
{
    for (unsigned i = 0; i < QUEUES; i++)
        all[i] = (struct marked){0};
}
