/* base/handle: validity, kinds, generations, holders, and look-ups that race with removals. */
#include "check.h"

#include "base/handle.h"
#include "base/os.h"

#include <stdlib.h>

enum { STREAM = 1, EVENT = 2 };

static struct tsr_handles table;
static int destroyed;

static void count_destroyed(void *object)
{
    (void)object;
    destroyed++;
}

TEST(a_handle_is_valid_for_its_kind_until_removed)
{
    int object;
    void *handle = tsr_handle_create(&table, STREAM, &object, count_destroyed);
    REQUIRE(handle);
    CHECK((uintptr_t)handle < 1ull << 47 && (uintptr_t)handle > 1 << 20 && (uintptr_t)handle % 16 == 0);
    CHECK(tsr_handle_find(&table, STREAM, handle) == &object);
    CHECK(!tsr_handle_find(&table, EVENT, handle));
    CHECK_EQ(tsr_handle_kind(&table, handle), STREAM);
    destroyed = 0;
    CHECK(!tsr_handle_remove(&table, EVENT, handle));
    CHECK(tsr_handle_remove(&table, STREAM, handle));
    CHECK_EQ(destroyed, 1);
    CHECK(!tsr_handle_remove(&table, STREAM, handle));
    CHECK(!tsr_handle_find(&table, STREAM, handle));
    CHECK_EQ(tsr_handle_kind(&table, handle), 0);
    CHECK_EQ(destroyed, 1);
}

TEST(values_that_are_no_handles_are_refused)
{
    int object;
    void *handle = tsr_handle_create(&table, EVENT, &object, NULL);
    uintptr_t value = (uintptr_t)handle;
    for (int bit = 0; bit < 64; bit++) {
        void *changed = (void *)(value ^ 1ull << bit);
        CHECK(!tsr_handle_find(&table, EVENT, changed));
        CHECK(!tsr_handle_get(&table, EVENT, changed));
        CHECK(!tsr_handle_remove(&table, EVENT, changed));
        CHECK_EQ(tsr_handle_kind(&table, changed), 0);
    }
    uint64_t random = 88172645463325252ull;
    for (int i = 0; i < 100000; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        if (random != value)
            CHECK(!tsr_handle_get(&table, EVENT, (void *)random));
    }
    CHECK(!tsr_handle_create(&table, 0, &object, NULL));
    CHECK(!tsr_handle_create(&table, TSR_HANDLE_KINDS, &object, NULL));
    CHECK(tsr_handle_remove(&table, EVENT, handle));
}

TEST(a_slot_used_again_gives_another_handle)
{
    int object;
    void *first = tsr_handle_create(&table, STREAM, &object, NULL);
    void *last = first;
    CHECK(tsr_handle_remove(&table, STREAM, first));
    for (int i = 0; i < 1000; i++) {
        void *next = tsr_handle_create(&table, STREAM, &object, NULL);
        CHECK(next != last && next != first);
        CHECK(!tsr_handle_find(&table, STREAM, last));
        CHECK(tsr_handle_remove(&table, STREAM, next));
        last = next;
    }
}

TEST(a_held_object_outlives_removal)
{
    int object;
    void *handle = tsr_handle_create(&table, STREAM, &object, count_destroyed);
    destroyed = 0;
    CHECK(tsr_handle_get(&table, STREAM, handle) == &object);
    CHECK(tsr_handle_get(&table, STREAM, handle) == &object);
    CHECK(tsr_handle_remove(&table, STREAM, handle));
    CHECK(!tsr_handle_get(&table, STREAM, handle));
    CHECK(!tsr_handle_find(&table, STREAM, handle));
    tsr_handle_put(&table, handle);
    CHECK_EQ(destroyed, 0);
    tsr_handle_put(&table, handle);
    CHECK_EQ(destroyed, 1);
}

static bool visit_sum(void *handle, void *object, void *argument)
{
    *(int *)argument += *(int *)object;
    return tsr_handle_remove(&table, EVENT, handle);
}

TEST(each_visits_a_kind_and_may_remove)
{
    int values[3] = {1, 10, 100}, other = 1000, sum = 0;
    for (int i = 0; i < 3; i++)
        tsr_handle_create(&table, EVENT, &values[i], NULL);
    void *stream = tsr_handle_create(&table, STREAM, &other, NULL);
    tsr_handle_each(&table, EVENT, visit_sum, &sum);
    CHECK_EQ(sum, 111);
    sum = 0;
    tsr_handle_each(&table, EVENT, visit_sum, &sum);
    CHECK_EQ(sum, 0);
    CHECK(tsr_handle_remove(&table, STREAM, stream));
}

TEST(many_handles_are_distinct)
{
    enum { COUNT = 5000 };
    static void *handles[COUNT];
    static int objects[COUNT];
    for (int i = 0; i < COUNT; i++)
        REQUIRE(handles[i] = tsr_handle_create(&table, EVENT, &objects[i], NULL));
    for (int i = 0; i < COUNT; i++)
        CHECK(tsr_handle_find(&table, EVENT, handles[i]) == &objects[i]);
    for (int i = 0; i < COUNT; i++)
        CHECK(tsr_handle_remove(&table, EVENT, handles[i]));
}

/* Each thread replaces the shared handles and holds what it finds; a held object must be alive. */
enum { SHARED = 4, ROUNDS = 20000, THREADS = 4 };

struct life {
    uint32_t alive; /* atomic */
};

static void *shared_handles[SHARED];
static uint32_t dead_found;

static void life_destroy(void *object)
{
    __atomic_store_n(&((struct life *)object)->alive, 0, __ATOMIC_RELEASE);
    free(object);
}

static void *replace_and_hold(void *argument)
{
    uint32_t random = (uint32_t)(uintptr_t)argument * 2654435761u + 1;
    for (int i = 0; i < ROUNDS; i++) {
        random ^= random << 13, random ^= random >> 17, random ^= random << 5;
        void **place = &shared_handles[random % SHARED];
        void *handle = __atomic_load_n(place, __ATOMIC_ACQUIRE);
        struct life *life = tsr_handle_get(&table, EVENT, handle);
        if (life) {
            if (!__atomic_load_n(&life->alive, __ATOMIC_ACQUIRE))
                __atomic_fetch_add(&dead_found, 1, __ATOMIC_RELAXED);
            tsr_handle_put(&table, handle);
        }
        if (random & 0x100) {
            struct life *fresh = malloc(sizeof *fresh);
            fresh->alive = 1;
            void *next = tsr_handle_create(&table, EVENT, fresh, life_destroy);
            void *old = __atomic_exchange_n(place, next, __ATOMIC_ACQ_REL);
            if (old)
                tsr_handle_remove(&table, EVENT, old);
        }
    }
    return NULL;
}

TEST(holding_races_with_removal)
{
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        REQUIRE(tsr_os_thread_start(&threads[i], "tsr-test", replace_and_hold, (void *)(i + 1)));
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ(dead_found, 0);
    for (int i = 0; i < SHARED; i++)
        tsr_handle_remove(&table, EVENT, shared_handles[i]);
    tsr_handles_fini(&table);
}
