/* Times of classes of launches: samples, estimates, bounds. */
#include "schedule/classes.c"

#include <pthread.h>

#include "check.h"

static struct tsr_classes classes; /* large */
static const uint32_t block[3] = {256, 1, 1};

static struct tsr_class_of of(uint64_t function, uint32_t blocks)
{
    return tsr_class_find(&classes, function, (uint32_t[]){blocks, 1, 1}, block, 0, 0);
}

static double ns_on(const struct tsr_classes *of_all, const struct tsr_class_of *one, uint32_t gpu, uint64_t bytes)
{
    double ns[TSR_GPUS];
    tsr_class_times(of_all, one, TSR_GPUS, bytes, 1, ns);
    return ns[gpu];
}

static bool is_about(double value, double expected)
{
    return value > 0.99 * expected && value < 1.01 * expected;
}

static void start(void)
{
    memset(&classes, 0, sizeof classes);
}

TEST(samples_are_frequent_at_first_and_rare_later)
{
    unsigned first = 0, all = 0;
    start();
    struct tsr_class_of some = of(1, 10);
    for (unsigned i = 0; i < 100000; i++) {
        bool due = tsr_class_is_due(&classes, &some, 0, 1024);
        first += due && i < 5;
        all += due;
    }
    CHECK_EQ(first, 4);
    CHECK(all >= 100 && all <= 110); /* 97 of 1,024 each, and the powers of two before */
    tsr_class_is_due(&classes, &some, 1, 1024);
    CHECK(tsr_class_is_due(&classes, &some, 1, 1024)); /* each GPU has its own */
}

/* The driver loads the code of a function before its first launch, and between the events of a sample. */
TEST(a_function_s_first_launch_on_a_gpu_is_no_sample)
{
    start();
    struct tsr_class_of some = of(1, 10), other = of(1, 20);
    for (uint32_t gpu = 0; gpu < 2; gpu++) {
        CHECK(!tsr_class_is_due(&classes, &some, gpu, 1024));
        CHECK(tsr_class_is_due(&classes, &other, gpu, 1024));
        CHECK(tsr_class_is_due(&classes, &some, gpu, 1024));
    }
}

/* A program is ahead of its GPU by a thousand launches, of which only some can be measured at a time. */
TEST(samples_for_which_there_was_no_room_are_made_later)
{
    start();
    struct tsr_class_of some = of(1, 10);
    for (unsigned i = 0; i < 1000; i++)
        if (tsr_class_is_due(&classes, &some, 0, 1024))
            tsr_class_owe(&some, 0);
    for (unsigned i = 0; i < 4; i++)
        CHECK(tsr_class_is_due(&classes, &some, 0, 1024));
    CHECK(!tsr_class_is_due(&classes, &some, 0, 1024));
}

TEST(shapes_of_a_function_have_times_of_their_own)
{
    start();
    struct tsr_class_of small = of(1, 10), large = of(1, 1000), other = of(2, 10);
    tsr_class_report(&classes, &small, 0, 5e3);
    tsr_class_report(&classes, &large, 0, 80e3);
    CHECK(is_about(ns_on(&classes, &small, 0, 0), 5e3));
    CHECK(is_about(ns_on(&classes, &large, 0, 0), 80e3));
    CHECK(is_about(ns_on(&classes, &other, 0, 10000000), 12e3)); /* by its bytes */
    CHECK(of(1, 10).shape == small.shape && of(1, 10).function == large.function);
}

TEST(a_new_shape_is_estimated_by_its_threads_and_another_gpu_by_how_it_compares)
{
    start();
    struct tsr_class_of known = of(1, 100), larger = of(1, 200), elsewhere = of(3, 7);
    for (unsigned i = 0; i < 3; i++) {
        tsr_class_report(&classes, &known, 0, 100e3);
        tsr_class_report(&classes, &known, 1, 200e3);
    }
    CHECK(is_about(ns_on(&classes, &larger, 0, 0), 200e3));
    CHECK(is_about(ns_on(&classes, &larger, 1, 0), 400e3));
    tsr_class_report(&classes, &elsewhere, 0, 500e3);
    CHECK(is_about(ns_on(&classes, &elsewhere, 1, 0), 1000e3));
}

TEST(what_interrupts_a_sample_does_not_count_for_long)
{
    start();
    struct tsr_class_of some = of(1, 100);
    tsr_class_report(&classes, &some, 0, 900e3); /* the first one may load code */
    for (unsigned i = 0; i < 10; i++)
        tsr_class_report(&classes, &some, 0, 10e3);
    tsr_class_report(&classes, &some, 0, 5e9);
    CHECK(ns_on(&classes, &some, 0, 0) < 18e3);
    for (unsigned i = 0; i < 20; i++)
        tsr_class_report(&classes, &some, 0, 10e3);
    CHECK(is_about(ns_on(&classes, &some, 0, 0), 10e3));
}

TEST(a_gpu_that_has_become_slower_is_believed_after_three_samples)
{
    start();
    struct tsr_class_of some = of(1, 100);
    for (unsigned i = 0; i < 10; i++)
        tsr_class_report(&classes, &some, 0, 10e3);
    for (unsigned i = 0; i < 5000; i++)
        tsr_class_is_due(&classes, &some, 0, 1024);
    CHECK(!tsr_class_is_due(&classes, &some, 0, 1024));
    tsr_class_report(&classes, &some, 0, 20e3);
    CHECK(tsr_class_is_due(&classes, &some, 0, 1024)); /* until it is clear */
    tsr_class_report(&classes, &some, 0, 30e3);
    CHECK(ns_on(&classes, &some, 0, 0) < 18e3);
    tsr_class_report(&classes, &some, 0, 21e3);
    CHECK(is_about(ns_on(&classes, &some, 0, 0), 20e3));
    CHECK(!tsr_class_is_due(&classes, &some, 0, 1024));
    tsr_class_report(&classes, &some, 0, 40e3);
    tsr_class_bound(&classes, &some, 0, 40e3); /* beside other work: nothing is clear */
    CHECK(!tsr_class_is_due(&classes, &some, 0, 1024));
}

TEST(what_was_measured_nowhere_else_is_guessed_by_the_gpus)
{
    start();
    classes.guess[1] = 2;
    struct tsr_class_of some = of(1, 100);
    for (unsigned i = 0; i < 3; i++)
        tsr_class_report(&classes, &some, 0, 100e3);
    CHECK(is_about(ns_on(&classes, &some, 1, 0), 200e3));
    CHECK(is_about(ns_on(&classes, &some, 2, 0), 100e3));
    for (unsigned i = 0; i < 3; i++)
        tsr_class_report(&classes, &some, 1, 300e3);
    struct tsr_class_of other = of(2, 100);
    tsr_class_report(&classes, &other, 0, 100e3);
    CHECK(is_about(ns_on(&classes, &other, 1, 0), 300e3));
}

TEST(short_launches_say_little_of_a_gpu)
{
    start();
    struct tsr_class_of some = of(1, 100), other = of(2, 100);
    for (unsigned i = 0; i < 3; i++) {
        tsr_class_report(&classes, &some, 0, 10e3); /* 6 us of it are the host's */
        tsr_class_report(&classes, &some, 1, 4e3);
    }
    tsr_class_report(&classes, &other, 0, 500e3);
    CHECK(is_about(ns_on(&classes, &other, 1, 0), 500e3));
}

TEST(launches_take_as_long_on_gpus_that_are_alike)
{
    start();
    struct tsr_class_of some = of(1, 100), little = of(2, 100), other = of(3, 100), depends = of(4, 100), slower = of(5, 100);
    for (unsigned i = 0; i < 3; i++) {
        tsr_class_report(&classes, &some, 0, 190e3); /* as the program began */
        tsr_class_report(&classes, &some, 1, 160e3);
    }
    CHECK(is_about(ns_on(&classes, &some, 0, 0), 160e3) && is_about(ns_on(&classes, &some, 1, 0), 160e3));
    tsr_class_report(&classes, &other, 0, 500e3);
    CHECK(is_about(ns_on(&classes, &other, 1, 0), 500e3));
    tsr_class_report(&classes, &little, 0, 10e3);
    tsr_class_report(&classes, &little, 1, 4e3);
    CHECK(is_about(ns_on(&classes, &little, 0, 0), 4e3));
    tsr_class_report(&classes, &depends, 0, 300e3);
    tsr_class_report(&classes, &depends, 1, 200e3); /* that is no interruption */
    CHECK(is_about(ns_on(&classes, &depends, 0, 0), 300e3));
    for (unsigned i = 0; i < 30; i++) {
        tsr_class_report(&classes, &slower, 0, 100e3);
        tsr_class_report(&classes, &slower, 1, 200e3);
    }
    CHECK(is_about(ns_on(&classes, &some, 0, 0), 190e3)); /* they are not alike */
}

TEST(gpus_that_differ_as_they_do_not_otherwise_are_sampled_more)
{
    start();
    struct tsr_class_of some = of(1, 100), other = of(2, 100);
    for (unsigned i = 0; i < 10; i++) {
        for (uint32_t gpu = 0; gpu < 2; gpu++) {
            tsr_class_report(&classes, &other, gpu, 7e3);
            tsr_class_report(&classes, &some, gpu, 10e3);
        }
    }
    for (unsigned i = 0; i < 5000; i++)
        tsr_class_is_due(&classes, &some, 1, 1024);
    unsigned rare = 0, often = 0;
    for (unsigned i = 0; i < 512; i++)
        rare += tsr_class_is_due(&classes, &some, 1, 1024);
    for (unsigned i = 0; i < 3; i++)
        tsr_class_report(&classes, &some, 1, 5e3); /* its data are smaller now, or it was a mistake */
    for (unsigned i = 0; i < 512; i++)
        often += tsr_class_is_due(&classes, &some, 1, 1024);
    CHECK(rare <= 1);
    CHECK(often >= 512 / 16);
}

TEST(what_ran_beside_other_work_is_a_bound)
{
    start();
    struct tsr_class_of some = of(1, 100);
    tsr_class_bound(&classes, &some, 0, 90e3); /* better than nothing */
    CHECK(is_about(ns_on(&classes, &some, 0, 0), 90e3));
    tsr_class_report(&classes, &some, 0, 10e3);
    CHECK(is_about(ns_on(&classes, &some, 0, 0), 10e3));
    for (unsigned i = 0; i < 10; i++)
        tsr_class_bound(&classes, &some, 0, 400e3);
    CHECK(is_about(ns_on(&classes, &some, 0, 0), 10e3));
    tsr_class_bound(&classes, &some, 1, 400e3); /* as on the other GPU */
    CHECK(is_about(ns_on(&classes, &some, 1, 0), 10e3));
    tsr_class_bound(&classes, &some, 1, 8e3);
    CHECK(is_about(ns_on(&classes, &some, 1, 0), 8e3));
    CHECK(is_about(ns_on(&classes, &some, 0, 0), 10e3));
}

TEST(launches_of_one_grid_over_other_bytes_have_times_of_their_own)
{
    const uint32_t grid[3] = {32, 4, 1};
    start();
    struct tsr_class_of shallow = tsr_class_find(&classes, 1, grid, block, 0, 4096 * 4096 * 2);
    struct tsr_class_of deep = tsr_class_find(&classes, 1, grid, block, 0, 14336 * 4096 * 2);
    struct tsr_class_of nearly = tsr_class_find(&classes, 1, grid, block, 0, 14336 * 4096 * 2 + 4096);
    CHECK(shallow.shape != deep.shape);
    CHECK(deep.shape == nearly.shape);
    CHECK(shallow.function == deep.function);
    tsr_class_report(&classes, &shallow, 0, 118e3);
    tsr_class_report(&classes, &deep, 0, 337e3);
    CHECK(is_about(ns_on(&classes, &shallow, 1, 0), 118e3));
    CHECK(is_about(ns_on(&classes, &nearly, 0, 0), 337e3));
}

TEST(a_full_table_still_knows_functions)
{
    start();
    struct tsr_class_of first = of(1, 1), last = first;
    tsr_class_report(&classes, &first, 0, 33e3);
    for (uint32_t blocks = 2; blocks < 4 * TSR_CLASSES; blocks++)
        last = of(1, blocks);
    CHECK(classes.used <= TSR_CLASSES && classes.used > TSR_CLASSES / 2);
    CHECK(last.function == first.function);
    struct tsr_class_of none = {.function = first.function, .threads = first.threads};
    CHECK(is_about(ns_on(&classes, &none, 0, 0), 33e3));
    tsr_class_is_due(&classes, &none, 0, 1024);
    CHECK(tsr_class_is_due(&classes, &none, 0, 1024));
    CHECK(!tsr_class_is_due(&classes, &(struct tsr_class_of){0}, 0, 1024));
}

static void *look_up(void *argument)
{
    struct tsr_class_of *found = argument;
    for (uint32_t i = 0; i < 2000; i++)
        found[i] = of(i % 50 + 1, i);
    return NULL;
}

TEST(threads_find_the_same_entries)
{
    static struct tsr_class_of found[4][2000];
    pthread_t threads[4];
    start();
    for (unsigned i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, look_up, found[i]);
    for (unsigned i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (uint32_t i = 0; i < 2000; i++)
        for (unsigned other = 1; other < 4; other++)
            CHECK(found[0][i].shape == found[other][i].shape && found[0][i].function == found[other][i].function);
    CHECK_EQ(classes.used, 2050);
}
