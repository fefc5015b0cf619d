/* See work_ring.h. */
#include "shim/work_ring.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/os.h"

#define BYTES (4u << 20)
#define SPINS 2000u            /* looks, before a thread sleeps until the other one wakes it */
#define SLEEP_NS 100000000ull  /* at most; then it looks again */

static uint8_t *ring;
static void (*carry_out)(const struct tsr_work_entry *entry);
static pid_t process;                                          /* that the thread is in */
static uint64_t given __attribute__((aligned(TSR_WORK_LINE))); /* atomic; bytes of all entries, */
static uint64_t done __attribute__((aligned(TSR_WORK_LINE)));  /* atomic; and of those that have been carried out */
static uint32_t asleep;                                        /* atomic; the thread waits for more */
static uint32_t steps, waiters; /* atomic; others wait for it: changes when it has done something */
__thread bool tsr_work_is_mine;

static struct tsr_work_entry *entry_at(uint64_t position)
{
    return (struct tsr_work_entry *)(ring + position % BYTES);
}

/* ---- the thread that carries out ---- */

static bool is_more(uint64_t position)
{
    return __atomic_load_n(&given, __ATOMIC_SEQ_CST) != position;
}

static void wait_for_more(uint64_t position)
{
    for (unsigned i = 0; i < SPINS && !is_more(position); i++)
        __builtin_ia32_pause();
    while (!is_more(position)) { /* who wakes it may do so late, when this is another sleep */
        __atomic_store_n(&asleep, 1, __ATOMIC_SEQ_CST);
        if (!is_more(position))
            tsr_os_futex_wait(&asleep, 1, SLEEP_NS, false);
    }
    __atomic_store_n(&asleep, 0, __ATOMIC_RELAXED);
}

static void go_on(uint64_t position)
{
    __atomic_store_n(&done, position, __ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&waiters, __ATOMIC_SEQ_CST))
        return;
    __atomic_add_fetch(&steps, 1, __ATOMIC_RELEASE);
    tsr_os_futex_wake(&steps, UINT32_MAX, false);
}

static void *work(void *nothing)
{
    (void)nothing;
    tsr_work_is_mine = true;
    for (uint64_t position = 0;;) {
        wait_for_more(position);
        const struct tsr_work_entry *entry = entry_at(position);
        uint32_t bytes = entry->bytes;
        if (!entry->skip)
            carry_out(entry);
        position += bytes;
        go_on(position);
    }
    return NULL;
}

/* ---- the program's threads ---- */

static bool is_done(uint64_t position)
{
    return (int64_t)(__atomic_load_n(&done, __ATOMIC_SEQ_CST) - position) >= 0;
}

void tsr_work_wait_for(uint64_t position)
{
    for (unsigned i = 0; i < SPINS && !is_done(position); i++)
        __builtin_ia32_pause();
    if (is_done(position))
        return;
    __atomic_add_fetch(&waiters, 1, __ATOMIC_SEQ_CST);
    for (;;) {
        uint32_t step = __atomic_load_n(&steps, __ATOMIC_ACQUIRE);
        if (is_done(position))
            break;
        tsr_os_futex_wait(&steps, step, SLEEP_NS, false);
    }
    __atomic_sub_fetch(&waiters, 1, __ATOMIC_RELAXED);
}

void tsr_work_wait(void)
{
    tsr_work_wait_for(__atomic_load_n(&given, __ATOMIC_ACQUIRE));
}

bool tsr_work_is_done(void)
{
    return is_done(__atomic_load_n(&given, __ATOMIC_ACQUIRE));
}

static void wake(void)
{
    __atomic_store_n(&asleep, 0, __ATOMIC_SEQ_CST);
    tsr_os_futex_wake(&asleep, 1, false);
}

uint64_t tsr_work_give(const struct tsr_work_entry *entry)
{
    uint64_t number = given + entry->bytes;
    __atomic_store_n(&given, number, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&asleep, __ATOMIC_SEQ_CST))
        wake();
    return number;
}

/* None crosses the ring's end. */
void *tsr_work_room(uint32_t bytes)
{
    uint32_t left = BYTES - (uint32_t)(given % BYTES), skipped = left < bytes ? left : 0;
    tsr_work_wait_for(given + skipped + bytes - BYTES);
    if (skipped) {
        *entry_at(given) = (struct tsr_work_entry){.bytes = skipped, .skip = true};
        tsr_work_give(entry_at(given));
    }
    return entry_at(given);
}

/* ---- the start ---- */

static void wait_before(void)
{
    if (process == getpid())
        tsr_work_wait();
}

static void forget_parent(void)
{
    given = done = 0;
    asleep = steps = waiters = 0;
    tsr_work_is_mine = false;
}

static const struct tsr_fork_listener forks = {.before = wait_before, .in_child = forget_parent};

bool tsr_work_start(void (*carries_out)(const struct tsr_work_entry *entry))
{
    pthread_t thread;
    if (process == getpid())
        return true;
    if (!tsr_fork_listen(&forks))
        return false;
    ring = ring ? ring : aligned_alloc(TSR_WORK_LINE, BYTES);
    carry_out = carries_out;
    if (!ring || !tsr_os_thread_start(&thread, "tessera-launch", work, NULL))
        return false;
    pthread_detach(thread);
    if (!process)
        atexit(wait_before);
    process = getpid();
    return true;
}
