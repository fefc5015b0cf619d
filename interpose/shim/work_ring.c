/* See work_ring.h. */
#include "shim/work_ring.h"

#include <stdlib.h>

#include "base/os.h"

#define SPINS 2000u           /* looks, before a thread sleeps until the other one wakes it */
#define SLEEP_NS 100000000ull /* at most; then it looks again */

__thread bool tsr_work_is_mine;

static struct tsr_work_entry *entry_at(struct tsr_work_ring *ring, uint64_t position)
{
    return (struct tsr_work_entry *)(ring->memory + position % TSR_WORK_BYTES);
}

/* ---- the ring's thread ---- */

static bool is_more(struct tsr_work_ring *ring, uint64_t position)
{
    return __atomic_load_n(&ring->given, __ATOMIC_SEQ_CST) != position;
}

static void wait_for_more(struct tsr_work_ring *ring, uint64_t position)
{
    for (unsigned i = 0; i < SPINS && !is_more(ring, position); i++)
        __builtin_ia32_pause();
    while (!is_more(ring, position)) { /* who wakes it may do so late, when this is another sleep */
        __atomic_store_n(&ring->asleep, 1, __ATOMIC_SEQ_CST);
        if (!is_more(ring, position))
            tsr_os_futex_wait(&ring->asleep, 1, SLEEP_NS, false);
    }
    __atomic_store_n(&ring->asleep, 0, __ATOMIC_RELAXED);
}

static void go_on(struct tsr_work_ring *ring, uint64_t position)
{
    __atomic_store_n(&ring->done, position, __ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&ring->waiters, __ATOMIC_SEQ_CST))
        return;
    __atomic_add_fetch(&ring->steps, 1, __ATOMIC_RELEASE);
    tsr_os_futex_wake(&ring->steps, UINT32_MAX, false);
}

static void *work(void *argument)
{
    struct tsr_work_ring *ring = argument;
    tsr_work_is_mine = true;
    for (uint64_t position = 0;;) {
        wait_for_more(ring, position);
        const struct tsr_work_entry *entry = entry_at(ring, position);
        uint32_t bytes = entry->bytes;
        if (!entry->skip)
            ring->carry_out(entry);
        position += bytes;
        go_on(ring, position);
    }
    return NULL;
}

/* ---- the program's threads ---- */

void tsr_work_wait_for(struct tsr_work_ring *ring, uint64_t number)
{
    for (unsigned i = 0; i < SPINS && !tsr_work_is_done(ring, number); i++)
        __builtin_ia32_pause();
    if (tsr_work_is_done(ring, number))
        return;
    __atomic_add_fetch(&ring->waiters, 1, __ATOMIC_SEQ_CST);
    for (;;) {
        uint32_t step = __atomic_load_n(&ring->steps, __ATOMIC_ACQUIRE);
        if (tsr_work_is_done(ring, number))
            break;
        tsr_os_futex_wait(&ring->steps, step, SLEEP_NS, false);
    }
    __atomic_sub_fetch(&ring->waiters, 1, __ATOMIC_RELAXED);
}

static void wake(struct tsr_work_ring *ring)
{
    __atomic_store_n(&ring->asleep, 0, __ATOMIC_SEQ_CST);
    tsr_os_futex_wake(&ring->asleep, 1, false);
}

uint64_t tsr_work_give(struct tsr_work_ring *ring, const struct tsr_work_entry *entry)
{
    uint64_t number = ring->given + entry->bytes;
    __atomic_store_n(&ring->given, number, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&ring->asleep, __ATOMIC_SEQ_CST))
        wake(ring);
    return number;
}

/* None crosses the ring's end. */
void *tsr_work_room(struct tsr_work_ring *ring, uint32_t bytes)
{
    uint32_t left = TSR_WORK_BYTES - (uint32_t)(ring->given % TSR_WORK_BYTES), skipped = left < bytes ? left : 0;
    tsr_work_wait_for(ring, ring->given + skipped + bytes - TSR_WORK_BYTES);
    if (skipped) {
        *entry_at(ring, ring->given) = (struct tsr_work_entry){.bytes = skipped, .skip = true};
        tsr_work_give(ring, entry_at(ring, ring->given));
    }
    return entry_at(ring, ring->given);
}

bool tsr_work_start(struct tsr_work_ring *ring, void (*carry_out)(const struct tsr_work_entry *entry))
{
    pthread_t thread;
    uint8_t *memory = ring->memory ? ring->memory : aligned_alloc(TSR_WORK_LINE, TSR_WORK_BYTES);
    *ring = (struct tsr_work_ring){.memory = memory, .carry_out = carry_out};
    if (!memory || !tsr_os_thread_start(&thread, "tessera-launch", work, ring))
        return false;
    pthread_detach(thread);
    return true;
}
