/* Contexts: counting, stacks of threads, slots, sticky errors, and the process' start. */
#include <cuda.h>

#include "emulated.h"

#include "emulator/context/context_object.h"

#include <pthread.h>
#include <sys/wait.h>

#include "check.h"

static char order[16];

static void destroyed_first(struct tsr_context *context, void *value)
{
    (void)context;
    strcat(order, value);
}

TEST(nothing_works_before_the_start)
{
    struct tsr_context *context;
    CHECK_EQ(tsr_driver_ready(), CUDA_ERROR_NOT_INITIALIZED);
    CHECK_EQ(tsr_context_current(&context), CUDA_ERROR_NOT_INITIALIZED);
    CHECK(tsr_machine_instance() == NULL);
    CHECK_EQ(tsr_driver_init(), CUDA_SUCCESS);
    CHECK_EQ(tsr_driver_init(), CUDA_SUCCESS);
    CHECK_EQ(emulated->processes, 1);
    CHECK_EQ(tsr_machine_instance()->device_count, 2);
    CHECK_EQ(tsr_context_current(&context), CUDA_ERROR_INVALID_CONTEXT);
}

TEST(a_forked_child_is_not_initialised)
{
    pid_t child = fork();
    if (child == 0)
        _exit(tsr_driver_ready() == CUDA_ERROR_NOT_INITIALIZED && tsr_driver_init() == CUDA_ERROR_NOT_INITIALIZED ? 3 : 4);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK_EQ(WEXITSTATUS(status), 3);
}

TEST(slots_end_in_their_order)
{
    struct tsr_context *context = NULL;
    REQUIRE(tsr_context_create(0, 0, 3020, &context) == CUDA_SUCCESS);
    CHECK(tsr_context_slot(context, TSR_SLOT_MEMORY) == NULL);
    tsr_context_slot_set(context, TSR_SLOT_MEMORY, "m", destroyed_first);
    tsr_context_slot_set(context, TSR_SLOT_STREAMS, "s", destroyed_first);
    CHECK_STR(tsr_context_slot_set(context, TSR_SLOT_STREAMS, "t", destroyed_first), "s");
    CUcontext handle = tsr_context_handle(context);
    CHECK_EQ(tsr_context_find(handle, &context), CUDA_SUCCESS);
    tsr_context_ref(context);
    CHECK_EQ(tsr_context_destroy(context), CUDA_SUCCESS);
    CHECK_STR(order, "sm");
    CHECK_EQ(tsr_context_destroy(context), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    tsr_context_unref(context);
    CHECK_EQ(tsr_context_find(handle, &context), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_EQ(tsr_context_find((CUcontext)0x1234, &context), CUDA_ERROR_INVALID_CONTEXT);
}

TEST(the_first_failure_sticks)
{
    struct tsr_context *context = NULL, *found;
    REQUIRE(tsr_context_create(1, 0, 3020, &context) == CUDA_SUCCESS);
    tsr_current_push(context);
    CHECK_EQ(tsr_context_current(&found), CUDA_SUCCESS);
    tsr_context_fail(context, CUDA_ERROR_ILLEGAL_ADDRESS);
    tsr_context_fail(context, CUDA_ERROR_LAUNCH_FAILED);
    CHECK_EQ(tsr_context_current(&found), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_EQ(tsr_context_current_any(&found), CUDA_SUCCESS);
    tsr_context_destroy(context);
    CHECK_EQ(tsr_context_current(&found), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CHECK_EQ(tsr_current_set(NULL), CUDA_SUCCESS);
    CHECK_EQ(tsr_context_current(&found), CUDA_ERROR_INVALID_CONTEXT);
}

TEST(a_primary_context_comes_back)
{
    struct tsr_context *first = NULL, *second = NULL;
    bool active;
    unsigned flags;
    REQUIRE(tsr_primary_retain(1, &first) == CUDA_SUCCESS);
    uint64_t id = tsr_context_id(first);
    tsr_context_fail(first, CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_EQ(tsr_primary_release(1), CUDA_SUCCESS);
    CHECK_EQ(tsr_primary_release(1), CUDA_ERROR_INVALID_CONTEXT);
    tsr_primary_state(1, &flags, &active);
    CHECK(!active);
    REQUIRE(tsr_primary_retain(1, &second) == CUDA_SUCCESS);
    CHECK(first == second);
    CHECK_EQ(tsr_context_sticky(second), CUDA_SUCCESS);
    CHECK(tsr_context_id(second) != id);
    CHECK_EQ(tsr_primary_release(1), CUDA_SUCCESS);
}

static void *hold_and_leave(void *context)
{
    tsr_current_push(context);
    tsr_current_push(context);
    return NULL;
}

TEST(threads_leave_nothing_behind)
{
    struct tsr_context *context = NULL;
    pthread_t thread;
    REQUIRE(tsr_context_create(0, 0, 3020, &context) == CUDA_SUCCESS);
    REQUIRE(pthread_create(&thread, NULL, hold_and_leave, context) == 0);
    pthread_join(thread, NULL);
    CHECK(tsr_current_top() == NULL);
    CHECK_EQ(tsr_context_destroy(context), CUDA_SUCCESS); /* frees it: under AddressSanitizer a lost reference is a leak */
}
