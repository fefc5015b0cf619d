/* record/writer: the control plane's side of the socket is played here; threads, their rings, forked children and a reader that goes. */
#define TSR_RINGS 4u
#include "driver/engaged.c"
#include "record/journal.c"
#include "record/ring.c"
#include "record/ticks.c"
#include "record/writer.c"

#include "check.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>

static char socket_name[32];
static int listener, place, peer;

struct arrived {
    struct tsr_records_message message;
    int descriptor;
};

static bool receive(struct arrived *arrived)
{
    return tsr_socket_receive(peer, &arrived->message, sizeof arrived->message, &arrived->descriptor, MSG_DONTWAIT) ==
               (ssize_t)sizeof arrived->message &&
           arrived->descriptor >= 0;
}

static void begin_to_listen(void)
{
    listener = tsr_socket_listen(4, &place);
    snprintf(socket_name, sizeof socket_name, "/proc/%d/fd/%d", (int)getpid(), place);
}

static bool start(void)
{
    if (!tsr_writer_start(socket_name, tsr_ticks_anchor(), TSR_GPU_CLOCK_HOST))
        return false;
    tsr_engage(TSR_RECORDING);
    return true;
}

static void *record_one(void *argument)
{
    struct tsr_thread *thread = tsr_thread();
    if (thread && tsr_ring_has_room(&thread->writer, 1)) {
        *tsr_ring_at(&thread->writer, 0) = (struct tsr_record){.start = (uintptr_t)argument, .kind = TSR_RECORD_CALL};
        tsr_ring_commit(&thread->writer, 1);
    }
    return thread ? (void *)(uintptr_t)(thread->writer.shared ? 100 : 1 + thread->ring) : NULL;
}

static uintptr_t on_a_thread(void *(*run)(void *), uintptr_t argument)
{
    pthread_t thread;
    void *result = NULL;
    pthread_create(&thread, NULL, run, (void *)argument);
    pthread_join(thread, &result);
    return (uintptr_t)result;
}

TEST(without_a_listener_there_is_no_recording)
{
    snprintf(socket_name, sizeof socket_name, "/proc/%d/fd/999", (int)getpid());
    CHECK(!start());
    CHECK(!tsr_writer_journal());
    CHECK(!tsr_thread());
}

TEST(a_process_says_hello_with_its_journal)
{
    struct arrived hello;
    begin_to_listen();
    tsr_ticks_choose();
    REQUIRE(start());
    CHECK(!tsr_writer_start(socket_name, tsr_ticks_anchor(), TSR_GPU_CLOCK_HOST)); /* once is enough */
    peer = accept(listener, NULL, NULL);
    REQUIRE(receive(&hello));
    CHECK_EQ(hello.message.kind, TSR_RECORDS_HELLO);
    CHECK_EQ(hello.message.pid, getpid());
    struct tsr_entry entry = {.kind = TSR_ENTRY_FUNCTION, .number = 1};
    CHECK(tsr_writer_define(&entry, "a_function"));
    const struct tsr_journal *theirs = mmap(NULL, 8192, PROT_READ, MAP_SHARED, hello.descriptor, 0);
    CHECK_EQ(theirs->magic, TSR_RECORDS_MAGIC);
    CHECK_EQ(theirs->used, (sizeof entry + sizeof "a_function" + 7) / 8 * 8);
    CHECK_STR((const char *)theirs + TSR_JOURNAL_ENTRIES_OFFSET + sizeof entry, "a_function");
    CHECK(theirs->last.monotonic_ns >= theirs->first.monotonic_ns);
    close(hello.descriptor);
}

TEST(rings_of_ended_threads_are_used_again_and_say_so)
{
    struct arrived ring;
    CHECK_EQ(on_a_thread(record_one, 11), 1);
    REQUIRE(receive(&ring));
    CHECK_EQ(ring.message.kind, TSR_RECORDS_RING);
    CHECK_EQ(ring.message.number, 0);
    struct tsr_ring *theirs = mmap(NULL, TSR_RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, ring.descriptor, 0);
    const struct tsr_record *records = (const struct tsr_record *)((char *)theirs + TSR_RING_RECORDS_OFFSET);
    close(ring.descriptor);
    CHECK_EQ(theirs->thread, 0);
    CHECK_EQ(on_a_thread(record_one, 12), 1);
    CHECK(!receive(&ring));
    REQUIRE(theirs->tail == 4);
    CHECK_EQ(records[0].kind, TSR_RECORD_THREAD);
    CHECK_EQ(records[1].start, 11);
    CHECK_EQ(records[2].kind, TSR_RECORD_THREAD);
    CHECK(records[2].u.thread.id != 0);
    CHECK_EQ(records[3].start, 12);
}

static void *nest(void *depth) /* a thread that lives while others begin */
{
    uintptr_t mine = (uintptr_t)record_one(NULL);
    uintptr_t expected = (uintptr_t)depth < 3 ? 1 + (uintptr_t)depth : 100;
    CHECK_EQ(mine, expected);
    return (void *)((uintptr_t)depth < 6 ? on_a_thread(nest, (uintptr_t)depth + 1) : mine);
}

TEST(threads_beyond_the_limit_only_count)
{
    struct arrived ring;
    CHECK_EQ(on_a_thread(nest, 0), 100);
    for (uint32_t number = 1; number < 4; number++) { /* the last is the one that counts */
        REQUIRE(receive(&ring));
        CHECK_EQ(ring.message.number, number);
        close(number < 3 ? ring.descriptor : -1);
    }
    const struct tsr_ring *overflowing = mmap(NULL, 4096, PROT_READ, MAP_SHARED, ring.descriptor, 0);
    CHECK_EQ(overflowing->lost, 4);
    close(ring.descriptor);
    CHECK(!receive(&ring));
}

static uintptr_t late; /* what a destructor after ours saw */
static pthread_key_t later_key;

static void record_late(void *argument)
{
    late = (uintptr_t)record_one(argument);
}

static void *end_with_records(void *argument)
{
    pthread_setspecific(later_key, argument);
    return record_one(argument);
}

TEST(destructors_of_threads_may_record)
{
    pthread_key_create(&later_key, record_late); /* created after the writer's, so it runs later */
    CHECK_EQ(on_a_thread(end_with_records, 21), 1);
    CHECK_EQ(late, 1);
    CHECK_EQ(__atomic_load_n(&rings[0]->thread, __ATOMIC_RELAXED), 0);
    CHECK(!taken[0]);
}

TEST(a_forked_child_has_nothing_of_its_parent)
{
    record_one((void *)31);
    struct tsr_ring *mine = tsr_thread_current->writer.ring;
    uint64_t tail = mine->tail;
    tsr_engaged_prepare();
    pid_t child = fork();
    if (child == 0) {
        bool fresh =
            !tsr_thread_current && !tsr_writer_journal() && !ring_count && tsr_idle() && !tsr_thread() && tsr_writer_is_alone();
        uintptr_t number = start() ? (uintptr_t)record_one((void *)32) : 0; /* a process of its own */
        _exit(fresh && number == 1 ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    CHECK_EQ(status, 0);
    CHECK_EQ(mine->tail, tail);
    CHECK(!tsr_writer_is_alone());
    CHECK(tsr_has_role(TSR_RECORDING));
}

TEST(a_control_plane_that_is_gone_ends_recording)
{
    close(peer);
    CHECK(tsr_writer_is_alone());
    record_one((void *)41); /* a thread that has a ring goes on */
    tsr_ring_destroy(rings[1]);
    ring_count = 1; /* so that the next thread needs a new one */
    on_a_thread(record_one, 42);
    CHECK(!tsr_has_role(TSR_RECORDING));
    CHECK(!on_a_thread(record_one, 43));
}
