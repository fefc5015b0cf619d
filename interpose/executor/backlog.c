/* See backlog.h. How far a stream has got is seen by events that stand in it after each so many operations. */
#include "executor/backlog.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define MARKS 4u      /* events that a stream has not passed; drivers accept about 1,024 operations, */
#define BETWEEN 64u   /* and several streams may share a queue */
#define FUNCTIONS 256u

struct waiting {
    struct waiting *next;
    struct tsr_lane_record record; /* followed by its parameters */
};

struct flow {
    struct waiting *first, **end;
    CUevent marks[MARKS];
    uint32_t oldest, count; /* of the events not yet found to have been passed */
    uint32_t since;         /* operations after the last event */
};

struct tsr_backlog {
    uint32_t waiting;             /* atomic; records */
    uint32_t launches[FUNCTIONS]; /* atomic; by function % FUNCTIONS */
    uint32_t turn;                /* the slot to look at first */
    struct flow flows[TSR_LANE_STREAMS];
};

struct tsr_backlog *tsr_backlog_create(void)
{
    struct tsr_backlog *backlog = calloc(1, sizeof *backlog);
    for (uint32_t i = 0; backlog && i < TSR_LANE_STREAMS; i++)
        backlog->flows[i].end = &backlog->flows[i].first;
    return backlog;
}

void tsr_backlog_destroy(struct tsr_backlog *backlog)
{
    for (uint32_t i = 0; backlog && i < TSR_LANE_STREAMS; i++) {
        while (backlog->flows[i].first)
            tsr_backlog_remove(backlog, i);
        for (unsigned mark = 0; mark < MARKS; mark++)
            if (backlog->flows[i].marks[mark])
                cuEventDestroy(backlog->flows[i].marks[mark]);
    }
    free(backlog);
}

/* If the query fails, the driver will report the error when it is given more work. */
static bool is_full(struct flow *flow)
{
    while (flow->count == MARKS && cuEventQuery(flow->marks[flow->oldest]) != CUDA_ERROR_NOT_READY) {
        flow->oldest = (flow->oldest + 1) % MARKS;
        flow->count--;
    }
    return flow->count == MARKS;
}

bool tsr_backlog_holds(const struct tsr_backlog *backlog, uint32_t slot)
{
    return backlog->flows[slot].first != NULL;
}

bool tsr_backlog_must_wait(struct tsr_backlog *backlog, uint32_t slot)
{
    return tsr_backlog_holds(backlog, slot) || is_full(&backlog->flows[slot]);
}

bool tsr_backlog_is_empty(const struct tsr_backlog *backlog)
{
    return __atomic_load_n(&backlog->waiting, __ATOMIC_ACQUIRE) == 0;
}

bool tsr_backlog_may_launch(const struct tsr_backlog *backlog, uint32_t function)
{
    return __atomic_load_n(&backlog->launches[function % FUNCTIONS], __ATOMIC_ACQUIRE) != 0;
}

/* One record more or less. */
static void count(struct tsr_backlog *backlog, const struct tsr_lane_record *record, uint32_t by)
{
    __atomic_fetch_add(&backlog->waiting, by, __ATOMIC_RELEASE);
    if (record->kind == TSR_LANE_LAUNCH || record->kind == TSR_LANE_GRAPH)
        __atomic_fetch_add(&backlog->launches[record->function % FUNCTIONS], by, __ATOMIC_RELEASE);
}

bool tsr_backlog_add(struct tsr_backlog *backlog, const struct tsr_lane_record *record)
{
    struct flow *flow = &backlog->flows[record->stream];
    struct waiting *waiting = malloc(offsetof(struct waiting, record) + record->bytes);
    if (!waiting)
        return false;
    waiting->next = NULL;
    memcpy(&waiting->record, record, record->bytes);
    *flow->end = waiting;
    flow->end = &waiting->next;
    count(backlog, record, 1);
    return true;
}

const struct tsr_lane_record *tsr_backlog_next(struct tsr_backlog *backlog)
{
    for (uint32_t i = 0; i < TSR_LANE_STREAMS && !tsr_backlog_is_empty(backlog); i++) {
        struct flow *flow = &backlog->flows[backlog->turn];
        if (flow->first && !is_full(flow))
            return &flow->first->record;
        backlog->turn = (backlog->turn + 1) % TSR_LANE_STREAMS;
    }
    return NULL;
}

void tsr_backlog_remove(struct tsr_backlog *backlog, uint32_t slot)
{
    struct flow *flow = &backlog->flows[slot];
    struct waiting *waiting = flow->first;
    flow->first = waiting->next;
    if (!flow->first)
        flow->end = &flow->first;
    count(backlog, &waiting->record, UINT32_MAX);
    free(waiting);
}

void tsr_backlog_given(struct tsr_backlog *backlog, uint32_t slot, CUstream stream, unsigned count)
{
    struct flow *flow = &backlog->flows[slot];
    flow->since += count;
    if (flow->since < BETWEEN || flow->count == MARKS)
        return;
    CUevent *mark = &flow->marks[(flow->oldest + flow->count) % MARKS];
    flow->since = 0;
    if (*mark || cuEventCreate(mark, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS)
        flow->count += cuEventRecord(*mark, stream) == CUDA_SUCCESS;
}
