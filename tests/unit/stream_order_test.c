/* Streams, events, host functions, values and copies: what waits for what, errors, and the end of a process with work in flight. */
#include "driver_fixture.h"

#include "check.h"

static bool spin_until_set(struct fake_kernel *kernel, bool *progress)
{
    *progress = false;
    return __atomic_load_n((int *)kernel->data, __ATOMIC_ACQUIRE) != 0;
}

static bool set(struct fake_kernel *kernel, bool *progress)
{
    (void)progress;
    __atomic_store_n((int *)kernel->data, 1, __ATOMIC_RELEASE);
    return true;
}

static void CUDA_CB host_set(void *flag)
{
    __atomic_store_n((int *)flag, 1, __ATOMIC_RELEASE);
}

static void CUDA_CB host_wait(void *flag)
{
    while (!__atomic_load_n((int *)flag, __ATOMIC_ACQUIRE))
        sched_yield();
}

static int flight_part(void *unused)
{
    static int never;
    static struct fake_kernel spin = {.run = spin_until_set, .data = &never};
    CUstream stream;
    (void)unused;
    fixture_start();
    if (cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) || fixture_launch(stream, &spin) ||
        cuLaunchHostFunc(stream, host_set, &never))
        return 1;
    return 0;
}

TEST(process_ends_with_work_in_flight)
{
    CHECK_EQ(fixture_in_child(flight_part, NULL, 20), 0);
}

static int host_function_part(void *unused)
{
    static int never;
    (void)unused;
    fixture_start();
    return cuLaunchHostFunc(CU_STREAM_LEGACY, host_wait, &never) ? 1 : 0;
}

TEST(process_ends_inside_a_host_function)
{
    CHECK_EQ(fixture_in_child(host_function_part, NULL, 20), 0);
}

static int fork_part(void *unused)
{
    static struct fake_kernel nothing;
    (void)unused;
    fixture_start();
    if (fixture_launch(CU_STREAM_LEGACY, &nothing) || cuCtxSynchronize())
        return 1;
    pid_t child = fork();
    if (child == 0)
        exit(cuCtxSynchronize() == CUDA_SUCCESS);
    int status;
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status))
        return 2;
    return fixture_launch(CU_STREAM_LEGACY, &nothing) || cuCtxSynchronize() ? 3 : 0;
}

TEST(forked_child_has_no_driver_and_the_parent_keeps_its)
{
    CHECK_EQ(fixture_in_child(fork_part, NULL, 20), 0);
}

static int fault_part(void *unused)
{
    static struct fake_kernel bad = {.fault = true}, after;
    CUstream stream;
    (void)unused;
    fixture_start();
    if (cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) || fixture_launch(stream, &bad))
        return 1;
    if (cuStreamSynchronize(stream) != CUDA_ERROR_ILLEGAL_ADDRESS)
        return 2;
    if (fixture_launch(stream, &after) != CUDA_ERROR_ILLEGAL_ADDRESS || cuCtxSynchronize() != CUDA_ERROR_ILLEGAL_ADDRESS)
        return 3;
    return 0;
}

TEST(a_fault_stays)
{
    CHECK_EQ(fixture_in_child(fault_part, NULL, 20), 0);
}

TEST(spinning_kernel_lets_others_run)
{
    int flag = 0;
    struct fake_kernel spin = {.run = spin_until_set, .data = &flag}, release = {.run = set, .data = &flag};
    CUstream a, b;
    fixture_start();
    REQUIRE(!cuStreamCreate(&a, CU_STREAM_NON_BLOCKING) && !cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    CHECK_EQ(fixture_launch(a, &spin), CUDA_SUCCESS);
    CHECK_EQ(fixture_launch(b, &release), CUDA_SUCCESS);
    CHECK_EQ(cuStreamSynchronize(a), CUDA_SUCCESS);
    CHECK_EQ(cuStreamDestroy_v2(a), CUDA_SUCCESS);
    CHECK_EQ(cuStreamDestroy_v2(a), CUDA_ERROR_INVALID_HANDLE);
    CHECK_EQ(cuStreamDestroy_v2(b), CUDA_SUCCESS);
}

TEST(blocked_host_function_does_not_hold_up_other_streams)
{
    int flag = 0;
    struct fake_kernel nothing = {0};
    CUstream a, b;
    fixture_start();
    REQUIRE(!cuStreamCreate(&a, CU_STREAM_NON_BLOCKING) && !cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    CHECK_EQ(cuLaunchHostFunc(a, host_wait, &flag), CUDA_SUCCESS);
    CHECK_EQ(fixture_launch(b, &nothing), CUDA_SUCCESS);
    CHECK_EQ(cuStreamSynchronize(b), CUDA_SUCCESS);
    CHECK_EQ(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
    host_set(&flag);
    CHECK_EQ(cuStreamSynchronize(a), CUDA_SUCCESS);
    cuStreamDestroy_v2(a);
    cuStreamDestroy_v2(b);
}

static CUresult refused;
static void CUDA_CB call_from_host_function(void *unused)
{
    (void)unused;
    refused = cuCtxSynchronize();
}

static CUstream seen_stream;
static void CUDA_CB callback(CUstream stream, CUresult status, void *data)
{
    seen_stream = stream;
    *(CUresult *)data = status;
}

TEST(host_functions_and_callbacks)
{
    CUresult status = CUDA_ERROR_UNKNOWN;
    CUstream stream;
    fixture_start();
    REQUIRE(!cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    CHECK_EQ(cuLaunchHostFunc(stream, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuLaunchHostFunc(stream, call_from_host_function, NULL), CUDA_SUCCESS);
    CHECK_EQ(cuStreamAddCallback(stream, callback, &status, 0), CUDA_SUCCESS);
    CHECK_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    CHECK_EQ(status, CUDA_SUCCESS);
    CHECK(seen_stream == stream);
    CHECK_EQ(refused, CUDA_ERROR_NOT_PERMITTED);
    cuStreamDestroy_v2(stream);
}

TEST(legacy_stream_waits_for_blocking_streams_only)
{
    int flag = 0, other = 0;
    struct fake_kernel spin = {.run = spin_until_set, .data = &flag}, nothing = {0}, release = {.run = set, .data = &other};
    CUstream blocking, free_running;
    fixture_start();
    REQUIRE(!cuStreamCreate(&blocking, CU_STREAM_DEFAULT) && !cuStreamCreate(&free_running, CU_STREAM_NON_BLOCKING));
    fixture_launch(free_running, &spin);
    fixture_launch(CU_STREAM_LEGACY, &nothing);
    CHECK_EQ(cuStreamSynchronize(NULL), CUDA_SUCCESS);
    fixture_launch(blocking, &release);
    fixture_launch(CU_STREAM_LEGACY, &nothing);
    CHECK_EQ(cuStreamSynchronize(NULL), CUDA_SUCCESS);
    CHECK_EQ(other, 1);
    CHECK_EQ(cuStreamQuery(free_running), CUDA_ERROR_NOT_READY);
    host_set(&flag);
    CHECK_EQ(cuStreamSynchronize(free_running), CUDA_SUCCESS);
    cuStreamDestroy_v2(blocking);
    cuStreamDestroy_v2(free_running);
}

TEST(event_states)
{
    int flag = 0;
    struct fake_kernel spin = {.run = spin_until_set, .data = &flag};
    CUstream stream;
    CUevent start, end, untimed;
    float ms;
    fixture_start();
    REQUIRE(!cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) && !cuEventCreate(&start, 0) && !cuEventCreate(&end, 0));
    REQUIRE(!cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
    CHECK_EQ(cuEventCreate(&untimed, 0x80), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuEventQuery(start), CUDA_SUCCESS);
    CHECK_EQ(cuEventSynchronize(start), CUDA_SUCCESS);
    CHECK_EQ(cuEventElapsedTime_v2(&ms, start, end), CUDA_ERROR_INVALID_HANDLE);
    CHECK_EQ(cuEventRecord(start, stream), CUDA_SUCCESS);
    fixture_launch(stream, &spin);
    CHECK_EQ(cuEventRecord(end, stream), CUDA_SUCCESS);
    CHECK_EQ(cuEventQuery(end), CUDA_ERROR_NOT_READY);
    CHECK_EQ(cuEventElapsedTime_v2(&ms, start, end), CUDA_ERROR_NOT_READY);
    host_set(&flag);
    CHECK_EQ(cuEventSynchronize(end), CUDA_SUCCESS);
    CHECK_EQ(cuEventElapsedTime_v2(&ms, start, end), CUDA_SUCCESS);
    CHECK(ms > 0.0019f && ms < 0.01f);
    CHECK_EQ(cuEventRecord(untimed, stream), CUDA_SUCCESS);
    CHECK_EQ(cuEventElapsedTime_v2(&ms, start, untimed), CUDA_ERROR_INVALID_HANDLE);
    flag = 0;
    fixture_launch(stream, &spin);
    CHECK_EQ(cuEventRecord(end, stream), CUDA_SUCCESS);
    CHECK_EQ(cuEventDestroy_v2(end), CUDA_SUCCESS);
    CHECK_EQ(cuEventQuery(end), CUDA_ERROR_INVALID_HANDLE);
    host_set(&flag);
    CHECK_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    cuEventDestroy_v2(start);
    cuEventDestroy_v2(untimed);
    cuStreamDestroy_v2(stream);
}

TEST(values)
{
    CUdeviceptr word;
    CUstream a, b;
    uint64_t found = 0;
    fixture_start();
    REQUIRE(!cuStreamCreate(&a, CU_STREAM_NON_BLOCKING) && !cuStreamCreate(&b, CU_STREAM_NON_BLOCKING) &&
            !cuMemAlloc_v2(&word, 64));
    REQUIRE(!cuMemsetD8_v2(word, 0, 64) && !cuStreamSynchronize(NULL));
    CHECK_EQ(cuStreamWaitValue32_v2(a, word + 2, 1, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuStreamWaitValue32_v2(a, 4096, 1, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuStreamWaitValue32_v2(a, word, 5, CU_STREAM_WAIT_VALUE_GEQ), CUDA_SUCCESS);
    CHECK_EQ(cuStreamWriteValue64_v2(a, word + 8, 77, 0), CUDA_SUCCESS);
    CHECK_EQ(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
    CHECK_EQ(cuStreamWriteValue32_v2(b, word, 6, 0), CUDA_SUCCESS);
    CHECK_EQ(cuStreamSynchronize(a), CUDA_SUCCESS);
    CHECK_EQ(cuMemcpyDtoH_v2(&found, word + 8, 8), CUDA_SUCCESS);
    CHECK_EQ(found, 77);
    CUstreamBatchMemOpParams ops[2] = {
        {.waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64,
                       .address = word + 8,
                       .value64 = 1,
                       .flags = CU_STREAM_WAIT_VALUE_AND}},
        {.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32, .address = word + 16, .value = 3}},
    };
    CHECK_EQ(cuStreamBatchMemOp_v2(a, 2, ops, 0), CUDA_SUCCESS);
    CHECK_EQ(cuStreamWaitValue32_v2(b, word + 16, 3, CU_STREAM_WAIT_VALUE_EQ), CUDA_SUCCESS);
    CHECK_EQ(cuStreamWaitValue32_v2(b, word + 16, 0xfffffff0u, CU_STREAM_WAIT_VALUE_NOR), CUDA_SUCCESS);
    CHECK_EQ(cuStreamSynchronize(b), CUDA_SUCCESS);
    cuStreamDestroy_v2(a);
    cuStreamDestroy_v2(b);
    cuMemFree_v2(word);
}

TEST(who_looks_late_has_waited_for_the_value_that_it_needs)
{
    enum { WRITES = 500, BYTES = 128 << 10 }; /* a copy takes 13 us, a call one */
    CUdeviceptr memory, word;
    uint32_t *seen;
    CUstream a, b;
    CUevent start, found, end;
    float until_found_ms, until_end_ms;
    fixture_start();
    REQUIRE(!cuStreamCreate(&a, CU_STREAM_NON_BLOCKING) && !cuStreamCreate(&b, CU_STREAM_NON_BLOCKING) &&
            !cuEventCreate(&start, 0) && !cuEventCreate(&found, 0) && !cuEventCreate(&end, 0) &&
            !cuMemAlloc_v2(&memory, BYTES) && !cuMemHostAlloc((void **)&seen, BYTES, CU_MEMHOSTALLOC_DEVICEMAP) &&
            !cuMemHostGetDevicePointer_v2(&word, seen, 0));
    *seen = 0;
    CHECK_EQ(cuEventRecord(start, a), CUDA_SUCCESS);
    for (uint32_t i = 1; i <= WRITES; i++) {
        CHECK_EQ(cuMemcpyHtoDAsync_v2(memory, seen, BYTES, a), CUDA_SUCCESS);
        CHECK_EQ(cuStreamWriteValue32_v2(a, word, i, 0), CUDA_SUCCESS);
    }
    CHECK_EQ(cuEventRecord(end, a), CUDA_SUCCESS);
    while (__atomic_load_n(seen, __ATOMIC_ACQUIRE) != WRITES) /* which does not move its clock */
        sched_yield();
    CHECK_EQ(cuStreamWaitValue32_v2(b, word, 1, CU_STREAM_WAIT_VALUE_GEQ), CUDA_SUCCESS);
    CHECK_EQ(cuEventRecord(found, b), CUDA_SUCCESS);
    CHECK_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    CHECK_EQ(cuEventElapsedTime_v2(&until_found_ms, start, found), CUDA_SUCCESS);
    CHECK_EQ(cuEventElapsedTime_v2(&until_end_ms, start, end), CUDA_SUCCESS);
    CHECK(until_end_ms > 5 && until_found_ms < until_end_ms / 3);
    cuStreamDestroy_v2(a);
    cuStreamDestroy_v2(b);
    cuMemFreeHost(seen);
    cuMemFree_v2(memory);
}

TEST(copies_check_their_ranges)
{
    CUdeviceptr memory;
    unsigned char bytes[64] = {1, 2, 3}, back[64] = {0};
    CUstream stream;
    fixture_start();
    REQUIRE(!cuMemAlloc_v2(&memory, 4096) && !cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK_EQ(cuMemcpyHtoD_v2(memory, bytes, 0), CUDA_SUCCESS);
    CHECK_EQ(cuMemcpyHtoD_v2(0x1000, bytes, 64), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuMemcpyHtoD_v2(memory + 4090, bytes, 64), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuMemcpyHtoD_v2(memory, bytes, 64), CUDA_SUCCESS);
    CHECK_EQ(cuMemcpyDtoH_v2(back, memory, 64), CUDA_SUCCESS);
    CHECK_EQ(memcmp(bytes, back, 64), 0);
    /* the source of an asynchronous copy of pageable memory may be reused at once */
    int flag = 0;
    struct fake_kernel spin = {.run = spin_until_set, .data = &flag};
    fixture_launch(stream, &spin);
    CHECK_EQ(cuMemcpyHtoDAsync_v2(memory + 64, bytes, 64, stream), CUDA_SUCCESS);
    memset(bytes, 9, sizeof bytes);
    host_set(&flag);
    CHECK_EQ(cuMemcpyDtoHAsync_v2(back, memory + 64, 64, stream), CUDA_SUCCESS);
    CHECK_EQ(back[1], 2);
    CHECK_EQ(cuMemsetD2D16_v2(memory, 32, 0x1234, 4, 3), CUDA_SUCCESS);
    CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = memory,
                          .srcPitch = 32,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = back,
                          .dstPitch = 8,
                          .WidthInBytes = 8,
                          .Height = 3};
    CHECK_EQ(cuMemcpy2D_v2(&copy), CUDA_SUCCESS);
    for (int i = 0; i < 12; i++)
        CHECK_EQ(((uint16_t *)(void *)back)[i], 0x1234);
    copy.srcPitch = 4;
    CHECK_EQ(cuMemcpy2D_v2(&copy), CUDA_ERROR_INVALID_VALUE);
    copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    CHECK_EQ(cuMemcpy2D_v2(&copy), CUDA_ERROR_NOT_SUPPORTED);
    CHECK_EQ(cuMemcpyHtoD_v2(memory, (void *)16, 64), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuMemcpyDtoH_v2((void *)16, memory, 64), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuMemFree_v2(memory), CUDA_SUCCESS);
    cuStreamDestroy_v2(stream);
}

/* The same physical memory at two addresses, as two processes would see it. */
static bool map_twice(CUdeviceptr *one, CUdeviceptr *two)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemAccessDesc access = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    const size_t bytes = 2u << 20;
    return !cuMemCreate(&handle, bytes, &prop, 0) && !cuMemAddressReserve(one, bytes, 0, 0, 0) &&
           !cuMemAddressReserve(two, bytes, 0, 0, 0) && !cuMemMap(*one, bytes, 0, handle, 0) &&
           !cuMemMap(*two, bytes, 0, handle, 0) && !cuMemSetAccess(*one, bytes, &access, 1) &&
           !cuMemSetAccess(*two, bytes, &access, 1);
}

TEST(a_wait_takes_over_the_time_of_the_write)
{
    struct fake_kernel slow = {.read_bytes = 500000000, .blocks = 1}; /* 500 us */
    CUdeviceptr one, two;
    CUstream a, b;
    CUevent start, end;
    float ms = 0;
    fixture_start();
    REQUIRE(map_twice(&one, &two));
    REQUIRE(!cuStreamCreate(&a, CU_STREAM_NON_BLOCKING) && !cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    REQUIRE(!cuEventCreate(&start, 0) && !cuEventCreate(&end, 0));
    CHECK_EQ(cuEventRecord(start, b), CUDA_SUCCESS);
    CHECK_EQ(cuStreamWaitValue32_v2(b, two + 64, 9, CU_STREAM_WAIT_VALUE_EQ), CUDA_SUCCESS);
    CHECK_EQ(cuEventRecord(end, b), CUDA_SUCCESS);
    fixture_launch(a, &slow);
    CHECK_EQ(cuStreamWriteValue32_v2(a, one + 64, 9, 0), CUDA_SUCCESS);
    CHECK_EQ(cuEventSynchronize(end), CUDA_SUCCESS);
    CHECK_EQ(cuEventElapsedTime_v2(&ms, start, end), CUDA_SUCCESS);
    CHECK(ms > 0.499f && ms < 0.52f);
    /* Once written, a wait needs no more than that time again. */
    CHECK_EQ(cuStreamWaitValue32_v2(b, one + 64, 9, CU_STREAM_WAIT_VALUE_EQ), CUDA_SUCCESS);
    CHECK_EQ(cuStreamSynchronize(b), CUDA_SUCCESS);
    cuEventDestroy_v2(start);
    cuEventDestroy_v2(end);
    cuStreamDestroy_v2(a);
    cuStreamDestroy_v2(b);
}

/* Streams run beside each other: who is late in real time finds later writes, too. */
TEST(a_wait_takes_the_time_of_the_write_that_it_needs)
{
    int flag = 0;
    struct fake_kernel spin = {.run = spin_until_set, .data = &flag};
    struct fake_kernel slow = {.read_bytes = 500000000, .blocks = 1}; /* 500 us */
    CUdeviceptr word;
    CUstream a, b;
    CUevent start, end;
    float ms = 0;
    fixture_start();
    REQUIRE(!cuMemAlloc_v2(&word, 64) && !cuMemsetD8_v2(word, 0, 64) && !cuStreamSynchronize(NULL));
    REQUIRE(!cuStreamCreate(&a, CU_STREAM_NON_BLOCKING) && !cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    REQUIRE(!cuEventCreate(&start, 0) && !cuEventCreate(&end, 0));
    CHECK_EQ(cuEventRecord(start, b), CUDA_SUCCESS);
    fixture_launch(b, &spin);
    CHECK_EQ(cuStreamWaitValue64_v2(b, word, 2, CU_STREAM_WAIT_VALUE_GEQ), CUDA_SUCCESS);
    CHECK_EQ(cuEventRecord(end, b), CUDA_SUCCESS);
    for (unsigned value = 1; value <= 3; value++) {
        CHECK_EQ(cuStreamWriteValue64_v2(a, word, value, 0), CUDA_SUCCESS);
        fixture_launch(a, &slow);
    }
    CHECK_EQ(cuStreamSynchronize(a), CUDA_SUCCESS);
    host_set(&flag);
    CHECK_EQ(cuEventSynchronize(end), CUDA_SUCCESS);
    CHECK_EQ(cuEventElapsedTime_v2(&ms, start, end), CUDA_SUCCESS);
    CHECK(ms > 0.499f && ms < 0.52f); /* of the second write, not of the third */
    cuEventDestroy_v2(start);
    cuEventDestroy_v2(end);
    cuStreamDestroy_v2(a);
    cuStreamDestroy_v2(b);
    cuMemFree_v2(word);
}
