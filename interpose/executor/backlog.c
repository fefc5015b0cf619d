/* See backlog.h. How far a stream has got is seen by events that stand in it after each so many operations. */
#include "executor/backlog.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"

#define MARKS 4u      /* events that a stream has not passed; drivers accept about 1,024 operations, */
#define BETWEEN 64u /* and several streams may share a queue */

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
    uint32_t waiting;        /* atomic; records */
    struct tsr_map launches; /* how many, by what is launched: key_of() */
    uint32_t turn;           /* the slot to look at first */
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
    if (backlog)
        tsr_map_fini(&backlog->launches);
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

/* Functions and graphs have numbers of their own. */
static uint64_t key_of(uint16_t kind, uint32_t id)
{
    return (uint64_t)kind << 32 | id;
}

bool tsr_backlog_launches(const struct tsr_backlog *backlog, uint16_t kind, uint32_t id)
{
    return tsr_map_find(&backlog->launches, key_of(kind, id)) != NULL;
}

/* One launch more or less. False: no memory; never for one less. */
static bool count_launch(struct tsr_backlog *backlog, const struct tsr_lane_record *record, int by)
{
    if (record->kind != TSR_LANE_LAUNCH && record->kind != TSR_LANE_GRAPH)
        return true;
    uint64_t key = key_of(record->kind, record->function);
    uintptr_t now = (uintptr_t)tsr_map_find(&backlog->launches, key) + (uintptr_t)by;
    if (now)
        return tsr_map_set(&backlog->launches, key, (void *)now);
    tsr_map_remove(&backlog->launches, key);
    return true;
}

bool tsr_backlog_add(struct tsr_backlog *backlog, const struct tsr_lane_record *record)
{
    struct flow *flow = &backlog->flows[record->stream];
    struct waiting *waiting = malloc(offsetof(struct waiting, record) + record->bytes);
    if (!waiting || !count_launch(backlog, record, 1)) {
        free(waiting);
        return false;
    }
    waiting->next = NULL;
    memcpy(&waiting->record, record, record->bytes);
    *flow->end = waiting;
    flow->end = &waiting->next;
    __atomic_fetch_add(&backlog->waiting, 1, __ATOMIC_RELEASE);
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
    count_launch(backlog, &waiting->record, -1);
    __atomic_fetch_sub(&backlog->waiting, 1, __ATOMIC_RELEASE);
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
