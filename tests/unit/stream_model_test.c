/*
 * Random programs over streams, events, kernels, host functions, memsets and waits for events, against a naive model: the set of
 * operations that each one must come after, from the rules of streams, events and the legacy default stream. Operations log when they
 * begin and end; each must begin after all that it must come after have ended. The same program must also give the same
 * virtual times each time it is run.
 */
#include "driver_fixture.h"

#include "check.h"

#define STREAMS 5 /* 0: the legacy default stream, 1 and 2 blocking, 3 and 4 not */
#define EVENTS 4
#define OPS 120

struct op {
    struct fake_kernel kernel;
    uint32_t begun, ended; /* atomic; positions in the log */
    bool logged;
    bool before[OPS]; /* must have ended before this one begins */
};

static struct {
    struct op ops[OPS];
    unsigned count;
    bool stream_last[STREAMS][OPS]; /* what the stream's next operation comes after */
    bool event[EVENTS][OPS];
    uint32_t log; /* atomic */
    uint64_t random;
} program;

static unsigned draw(unsigned below)
{
    program.random = program.random * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(program.random >> 33) % below;
}

static bool run_kernel(struct fake_kernel *kernel, bool *progress)
{
    struct op *op = kernel->data;
    (void)progress;
    __atomic_store_n(&op->begun, __atomic_add_fetch(&program.log, 1, __ATOMIC_ACQ_REL), __ATOMIC_RELEASE);
    __atomic_store_n(&op->ended, __atomic_add_fetch(&program.log, 1, __ATOMIC_ACQ_REL), __ATOMIC_RELEASE);
    return true;
}

static void CUDA_CB run_host(void *data)
{
    bool progress;
    struct op *op = data;
    run_kernel(&op->kernel, &progress);
}

/* The model: op joins the stream behind everything the rules name. */
static void model_submit(unsigned stream, struct op *op, unsigned index)
{
    for (unsigned i = 0; i < OPS; i++) {
        bool after = program.stream_last[stream][i];
        if (stream == 0)
            after |= program.stream_last[1][i] | program.stream_last[2][i];
        else if (stream <= 2)
            after |= program.stream_last[0][i];
        op->before[i] |= after;
    }
    memcpy(program.stream_last[stream], op->before, sizeof op->before);
    program.stream_last[stream][index] = op->logged;
}

static CUstream streams[STREAMS];
static CUevent events[EVENTS];

static void step(void)
{
    unsigned index = program.count++, stream = draw(STREAMS), event = draw(EVENTS);
    struct op *op = &program.ops[index];
    op->kernel = (struct fake_kernel){.run = run_kernel, .data = op, .read_bytes = 1000u * draw(5000), .blocks = 1 + draw(100)};
    switch (draw(6)) {
    case 0:
    case 1:
    case 2:
        op->logged = true;
        model_submit(stream, op, index);
        CHECK_EQ(fixture_launch(streams[stream], &op->kernel), CUDA_SUCCESS);
        break;
    case 3:
        op->logged = true;
        model_submit(stream, op, index);
        CHECK_EQ(cuLaunchHostFunc(streams[stream], run_host, op), CUDA_SUCCESS);
        break;
    case 4:
        model_submit(stream, op, index);
        memcpy(program.event[event], op->before, sizeof op->before);
        CHECK_EQ(cuEventRecord(events[event], streams[stream]), CUDA_SUCCESS);
        break;
    default:
        memcpy(op->before, program.event[event], sizeof op->before);
        model_submit(stream, op, index);
        CHECK_EQ(cuStreamWaitEvent(streams[stream], events[event], 0), CUDA_SUCCESS);
    }
}

static void run_program(uint64_t seed)
{
    memset(&program, 0, sizeof program);
    program.random = seed;
    for (unsigned i = 0; i < STREAMS; i++)
        streams[i] = CU_STREAM_LEGACY;
    for (unsigned i = 1; i < STREAMS; i++)
        CHECK_EQ(cuStreamCreate(&streams[i], i <= 2 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    for (unsigned i = 0; i < EVENTS; i++)
        CHECK_EQ(cuEventCreate(&events[i], 0), CUDA_SUCCESS);
    for (unsigned i = 0; i < OPS; i++)
        step();
    for (unsigned i = 1; i < STREAMS; i++)
        CHECK_EQ(cuStreamDestroy_v2(streams[i]), CUDA_SUCCESS); /* with work in it */
    CHECK_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
}

static void check_order(uint64_t seed)
{
    for (unsigned i = 0; i < OPS; i++) {
        const struct op *op = &program.ops[i];
        if (!op->logged)
            continue;
        if (!CHECK(op->ended > op->begun))
            return;
        for (unsigned k = 0; k < OPS; k++)
            if (op->before[k] && program.ops[k].logged && program.ops[k].ended > op->begun) {
                check_report(__FILE__, __LINE__, "seed %llu: operation %u ran before %u ended", (unsigned long long)seed, i, k);
                return;
            }
    }
}

struct times {
    uint64_t seed;
    float *ms; /* shared with the child */
};

static int timing_part(void *argument)
{
    const struct times *times = argument;
    CUevent origin;
    fixture_start();
    cuEventCreate(&origin, 0);
    cuEventRecord(origin, CU_STREAM_LEGACY);
    run_program(times->seed);
    for (unsigned i = 0; i < EVENTS; i++)
        if (cuEventElapsedTime_v2(&times->ms[i], origin, events[i]))
            times->ms[i] = -1;
    cuEventRecord(events[0], CU_STREAM_LEGACY);
    cuCtxSynchronize();
    return cuEventElapsedTime_v2(&times->ms[EVENTS], origin, events[0]) != CUDA_SUCCESS;
}

/* In processes of their own, so that nothing is left from the run before; hence before the tests that use the driver here. */
TEST(virtual_times_repeat)
{
    enum { RUNS = 3 };
    float (*ms)[EVENTS + 1] = tsr_os_map(NULL, 4096, 3, tsr_os_memfd("times", 4096), 0);
    REQUIRE(ms);
    for (uint64_t seed = 1000; seed < 1006; seed++) {
        for (unsigned run = 0; run < RUNS; run++) {
            struct times times = {seed, ms[run]};
            REQUIRE(fixture_in_child(timing_part, &times, 60) == 0);
        }
        CHECK(ms[0][EVENTS] > 0);
        for (unsigned run = 1; run < RUNS; run++)
            if (!CHECK(memcmp(ms[0], ms[run], sizeof ms[0]) == 0))
                return;
    }
}

TEST(order)
{
    fixture_start();
    for (uint64_t seed = 1; seed <= 150; seed++) {
        run_program(seed);
        check_order(seed);
        for (unsigned i = 0; i < EVENTS; i++)
            cuEventDestroy_v2(events[i]);
    }
}
