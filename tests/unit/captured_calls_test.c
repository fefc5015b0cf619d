/* launch/captured_calls: the driver's capture and the marks of library calls are played here. */
#include "launch/captured_calls.c"

#include "check.h"

#define KEY 0x1000u
#define CALLS 200u

struct tsr_real tsr_real;

/* The call that the thread is in; 0: none. It reads 64 bytes of its own, and all write the same. */
static struct tsr_access_range ranges[2];
static uint32_t now;

struct tsr_library_operands tsr_library_operands_now(void)
{
    ranges[0] =
        (struct tsr_access_range){.kind = TSR_ACCESS_READ, .parameter = -1, .symbol = -1, .base = now * KEY, .last = 63};
    ranges[1] = (struct tsr_access_range){
        .kind = TSR_ACCESS_WRITE, .parameter = -1, .symbol = -1, .base = KEY / 2, .last = 63, .overwritten = 1};
    return (struct tsr_library_operands){.call = now, .count = now ? 2 : -1, .ranges = ranges};
}

bool tsr_launch_gather_now(const struct tsr_launch *launch)
{
    (void)launch;
    return false;
}

static CUgraphNode newest;
static cuuint64_t captured = 1;

static CUresult CUDAAPI inform(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                               const CUgraphNode **last, size_t *count)
{
    (void)stream, (void)graph;
    *status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    *id = captured;
    *last = &newest;
    *count = 1;
    return CUDA_SUCCESS;
}

static struct tsr_function_record function;
static struct tsr_gathered gathered;

static CUgraphNode node_at(uint32_t number)
{
    return (CUgraphNode)(uintptr_t)(0x100 + number);
}

static struct tsr_launch launch_with(uint32_t parameter)
{
    tsr_real.cuStreamGetCaptureInfo_v2 = inform;
    gathered.done = true;
    gathered.bytes = sizeof parameter;
    memcpy(gathered.values, &parameter, sizeof parameter);
    return (struct tsr_launch){.known = &function, .grid = {1, 1, 1}, .block = {32, 1, 1}, .gathered = &gathered};
}

static void capture(uint32_t call, uint32_t parameter, uint32_t node)
{
    struct tsr_launch launch = launch_with(parameter);
    now = call;
    newest = node_at(node);
    tsr_captured_call_keep(&launch);
    tsr_captured_call_keep_node(&launch);
    now = 0;
}

/* How many ranges are known of the launch, or -1; in `first` where the first one is. */
static int32_t known(uint32_t parameter, CUgraphNode node, uint64_t *first)
{
    struct tsr_launch launch = launch_with(parameter);
    struct tsr_captured_shape shape = shape_of(&launch);
    shape.node = node;
    const struct tsr_captured_call *found = tsr_captured_call_get(&shape);
    int32_t count = found ? found->operands.count : -1;
    *first = count > 0 ? found->operands.ranges[0].base : 0;
    tsr_captured_call_put(found);
    return count;
}

TEST(nodes_tell_calls_apart_whose_launches_are_the_same)
{
    uint64_t first;
    for (uint32_t i = 1; i <= CALLS; i++)
        capture(i, 7, i);
    for (uint32_t i = 1; i <= CALLS; i++) {
        CHECK_EQ(known(7, node_at(i), &first), 2);
        CHECK_EQ(first, i * KEY);
    }
}

TEST(of_a_node_that_is_not_known_all_calls_hold)
{
    uint64_t first;
    CHECK_EQ(known(7, NULL, &first), (int32_t)CALLS + 2); /* what all write, they may have read */
    CHECK_EQ(known(7, node_at(CALLS + 1), &first), (int32_t)CALLS + 2);
    CHECK_EQ(known(8, node_at(1), &first), -1); /* it has become another launch */
}

TEST(a_function_that_is_captured_alone_is_known_by_its_nodes)
{
    uint64_t first;
    capture(0, 9, CALLS + 2);
    CHECK_EQ(known(7, node_at(3), &first), 2);
    CHECK_EQ(known(7, NULL, &first), -1);
    function.captured_alone = false;
}

TEST(a_node_of_two_calls_is_of_either)
{
    uint32_t node = CALLS + 3;
    uint64_t first;
    capture(1, 10, node);
    capture(3, 11, node); /* by other threads, at the same time */
    capture(2, 10, node);
    CHECK_EQ(known(10, node_at(node), &first), 4);
    CHECK_EQ(known(11, node_at(node), &first), 2);
    captured++;
    capture(3, 10, node);
    CHECK_EQ(known(10, node_at(node), &first), 2);
    CHECK_EQ(first, 3 * KEY);
}

TEST(forgotten_nodes_are_known_by_what_they_launch)
{
    uint64_t first;
    capture(4, 12, 4);
    capture(5, 12, 5);
    tsr_captured_nodes_forget();
    CHECK_EQ(known(12, node_at(4), &first), 4);
    CHECK_EQ(known(7, node_at(3), &first), (int32_t)CALLS + 2);
}
