#include "engine.h"

#include "engine_object.h"
#include "disorder.h"
#include "stream_object.h"

struct tsr_engine tsr_engine_state = {
    .mutex = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER, .completed = PTHREAD_COND_INITIALIZER};

void tsr_engine_lock(void)
{
    pthread_mutex_lock(&tsr_engine_state.mutex);
}

void tsr_engine_unlock(void)
{
    struct tsr_item *left = tsr_engine_state.left;
    tsr_engine_state.left = NULL;
    pthread_mutex_unlock(&tsr_engine_state.mutex);
    while (left) {
        struct tsr_item *next = left->chained;
        tsr_work_release(&left->work);
        tsr_item_put(left);
        left = next;
    }
}

void tsr_engine_leave_locked(struct tsr_item *item)
{
    item->chained = tsr_engine_state.left;
    tsr_engine_state.left = item;
}

void tsr_engine_pause_locked(void)
{
    tsr_engine_state.waiters++;
    pthread_cond_wait(&tsr_engine_state.completed, &tsr_engine_state.mutex);
    tsr_engine_state.waiters--;
}

void tsr_engine_completed_locked(void)
{
    tsr_engine_state.poll_pause_ns = TSR_ENGINE_POLL_LEAST_NS;
    if (tsr_engine_state.waiters)
        pthread_cond_broadcast(&tsr_engine_state.completed);
}

void tsr_engine_push_ready_locked(struct tsr_item *item)
{
    item->state = TSR_ITEM_READY;
    item->turn = tsr_disorder_draw(item->sequence, item->sequence);
    if (!tsr_vec_push(&tsr_engine_state.ready, item)) {
        tsr_context_fail(item->streams->context, CUDA_ERROR_OUT_OF_MEMORY);
        tsr_item_complete_locked(item, item->ready_ns);
        return;
    }
    size_t index = tsr_engine_state.ready.count - 1;
    while (index && tsr_engine_state.ready.data[(index - 1) / 2]->turn > item->turn) {
        tsr_engine_state.ready.data[index] = tsr_engine_state.ready.data[(index - 1) / 2];
        index = (index - 1) / 2;
    }
    tsr_engine_state.ready.data[index] = item;
    pthread_cond_signal(&tsr_engine_state.work);
}

void tsr_engine_kick_locked(void)
{
    pthread_cond_signal(&tsr_engine_state.work);
}

bool tsr_engine_ending_locked(void)
{
    return tsr_engine_state.ending;
}

struct tsr_timeline *tsr_engine_timeline(void)
{
    return tsr_engine_state.timeline;
}
