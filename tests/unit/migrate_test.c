/* memory/migrate.c and memory/quiet.c with a clock of their own: how long other threads are kept waiting, and how often. */
#include "check.h"

#define tsr_os_monotonic_ns test_now_ns
#define tsr_os_futex_wait test_sleep
#define tsr_gate_close test_gate_close
#define tsr_gate_open test_gate_open
#define tsr_order_join_all_until test_join_all_until
#define tsr_memory_contexts_locked test_contexts
#define tsr_memory_at_home test_at_home
#define tsr_memory_relax_begin test_relax_begin
#define tsr_memory_relax_end test_relax_end
#define tsr_arena_each test_arena_each
#define tsr_arena_plan test_arena_plan
#define tsr_backing_move test_backing_move
#define tsr_session test_session
#define tsr_copies_fix test_copies_fix

#include "memory/quiet.c"
#include "memory/migrate.c"
#include "memory/residency.c"
#include "memory/heat.c"

#define CALL_NS 5000u /* of the driver */
#define MS 1000000u

struct tsr_real tsr_real;
uint32_t tsr_captures;
uint64_t tsr_owners_away_bytes;

bool tsr_owners_are_on(void)
{
    return false;
}

void tsr_copies_level(void)
{
}

static struct tsr_policy policy;
static struct tsr_session session = {.policy = &policy};
static struct tsr_residency_plan plan = {.move_uses = 1, .follows = true};
static struct tsr_extent extent = {.address = TSR_ARENA_ADDRESS, .bytes = TSR_ARENA_PAGE, .shared = true};
static uint64_t now_ns, busy_until_ns, entered_until_ns, closed_ns, longest_pause_ns;
static unsigned attempts, moved, copies_fixed;

void tsr_memory_lock(void)
{
}

void tsr_memory_unlock(void)
{
}

uint64_t test_now_ns(void)
{
    return now_ns;
}

bool test_sleep(const uint32_t *word, uint32_t expected, uint64_t timeout_ns, bool between_processes)
{
    (void)word, (void)expected, (void)between_processes;
    now_ns += timeout_ns;
    return false;
}

/* Somebody is inside until that time. */
bool test_gate_close(uint64_t timeout_ns)
{
    attempts++;
    if (entered_until_ns > now_ns + timeout_ns) {
        now_ns += timeout_ns;
        return false;
    }
    now_ns = entered_until_ns > now_ns ? entered_until_ns : now_ns;
    closed_ns = now_ns;
    return true;
}

void test_gate_open(void)
{
    longest_pause_ns = now_ns - closed_ns > longest_pause_ns ? now_ns - closed_ns : longest_pause_ns;
}

CUresult test_join_all_until(uint64_t deadline_ns)
{
    (void)deadline_ns;
    return CUDA_SUCCESS;
}

CUresult test_copies_fix(struct tsr_extent *of)
{
    (void)of;
    copies_fixed++;
    return CUDA_ERROR_OUT_OF_MEMORY;
}

bool test_contexts(CUcontext contexts[TSR_MEMORY_CONTEXTS], unsigned *count)
{
    contexts[0] = NULL;
    *count = 1;
    return true;
}

bool test_at_home(void)
{
    return true;
}

CUstreamCaptureMode test_relax_begin(void)
{
    return CU_STREAM_CAPTURE_MODE_RELAXED;
}

void test_relax_end(CUstreamCaptureMode mode)
{
    (void)mode;
}

void test_arena_each(void (*visit)(struct tsr_extent *extent, void *argument), void *argument)
{
    visit(&extent, argument);
}

struct tsr_residency_plan *test_arena_plan(void)
{
    return &plan;
}

CUresult test_backing_move(struct tsr_extent *of, uint32_t gpu)
{
    of->residency.gpu = (uint8_t)gpu;
    moved++;
    return CUDA_SUCCESS;
}

struct tsr_session *test_session(void)
{
    return &session;
}

static CUresult make_event(CUevent *event, unsigned flags)
{
    (void)flags;
    *event = NULL;
    return CUDA_SUCCESS;
}

static CUresult event_or_context(void)
{
    now_ns += CALL_NS;
    return CUDA_SUCCESS;
}

static CUresult query(CUevent event)
{
    (void)event;
    now_ns += CALL_NS;
    return now_ns < busy_until_ns ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

static void prepare(void)
{
    tsr_real.cuEventCreate = make_event;
    tsr_real.cuEventQuery = query;
    *(void **)&tsr_real.cuEventDestroy_v2 = (void *)event_or_context;
    *(void **)&tsr_real.cuCtxRecordEvent = (void *)event_or_context;
    *(void **)&tsr_real.cuCtxPushCurrent_v2 = (void *)event_or_context;
    *(void **)&tsr_real.cuCtxPopCurrent_v2 = (void *)event_or_context;
    extent.residency = (struct tsr_residency){0};
    tsr_migrate_due = LEAST_DUE;
    now_ns = 1000 * (uint64_t)MS;
    busy_until_ns = entered_until_ns = 0;
    longest_pause_ns = attempts = moved = 0;
    REQUIRE(tsr_heat_pages || tsr_heat_start(1));
    tsr_heat_counter.launches = 0;
    tsr_heat_clear(extent.address, extent.bytes);
}

static void launch(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        tsr_heat_count(&extent.address, sizeof extent.address, 1, 1);
        tsr_migrate_consider();
    }
}

TEST(while_a_server_is_busy_nobody_waits_long_nor_often)
{
    prepare();
    busy_until_ns = UINT64_MAX;
    launch(100000);
    CHECK_EQ(moved, 0);
    CHECK(attempts > 2 && attempts < 16); /* each after twice as many launches */
    CHECK(longest_pause_ns > 0 && longest_pause_ns <= MS + 8 * CALL_NS);
}

TEST(a_gate_that_is_in_use_takes_its_part_of_the_time)
{
    prepare();
    busy_until_ns = UINT64_MAX;
    entered_until_ns = now_ns + MS * 9 / 10;
    launch(LEAST_DUE);
    CHECK_EQ(attempts, 1);
    CHECK(longest_pause_ns <= MS / 10 + 8 * CALL_NS);
    prepare();
    entered_until_ns = UINT64_MAX;
    uint64_t before_ns = now_ns;
    launch(LEAST_DUE);
    CHECK_EQ(longest_pause_ns, 0);
    CHECK_EQ(now_ns - before_ns, MS);
}

TEST(work_that_ends_in_time_is_waited_for)
{
    prepare();
    busy_until_ns = now_ns + MS / 2;
    launch(LEAST_DUE);
    CHECK_EQ(attempts, 1);
    CHECK_EQ(moved, 1);
    CHECK_EQ(extent.residency.gpu, 1);
}

TEST(after_a_busy_time_memory_moves_all_the_same)
{
    prepare();
    busy_until_ns = now_ns + 3 * MS;
    launch(1000);
    CHECK(moved > 0);
    CHECK(longest_pause_ns <= MS + 8 * CALL_NS);
}

TEST(memory_whose_bytes_cannot_come_home_is_not_for_others)
{
    struct tsr_extent copied = {.shared = true, .copies = (void *)&extent};
    CHECK(tsr_migrate_fix_locked(&copied) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(tsr_migrate_fix_locked(&(struct tsr_extent){.shared = true}) == CUDA_SUCCESS);
}

TEST(memory_in_parts_is_not_for_others_and_stays_as_it_is)
{
    struct tsr_extent rest = {.shared = true};
    struct tsr_extent parts = {.shared = true, .copies = (void *)&extent, .next = &rest};
    unsigned before = copies_fixed;
    CHECK(tsr_migrate_fix_locked(&parts) == CUDA_ERROR_NOT_SUPPORTED);
    CHECK_EQ(copies_fixed, before);
    CHECK(!parts.residency.fixed && !rest.residency.fixed);
}
