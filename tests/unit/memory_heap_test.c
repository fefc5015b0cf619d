/* Device memory of a process: placement, capacity, giving back, and what a dead process held. */
#include <cuda.h>

#include "emulated.h"

#include "emulator/context/context_object.h"
#include "emulator/machine/live.h"
#include "emulator/memory/alloc.h"
#include "emulator/memory/describe.h"
#include "emulator/memory/heap.h"

#include <sys/wait.h>
#include <time.h>

#include "check.h"

#define PAGE TSR_HEAP_PAGE

static struct tsr_context *context_of(uint32_t device)
{
    struct tsr_context *context = NULL;
    CHECK_EQ(tsr_driver_init(), CUDA_SUCCESS);
    CHECK_EQ(tsr_primary_retain(device, &context), CUDA_SUCCESS);
    return context;
}

static uint64_t allocate(struct tsr_context *context, uint64_t bytes)
{
    uint64_t address = 0;
    return tsr_memory_alloc(context, bytes, TSR_RANGE_PLAIN, &address) == CUDA_SUCCESS ? address : 0;
}

TEST(allocations_are_aligned_and_apart)
{
    struct tsr_context *context = context_of(0);
    uint64_t a = allocate(context, 1), b = allocate(context, 513), c = allocate(context, PAGE);
    CHECK_EQ(a % 512, 0);
    CHECK_EQ(b % 512, 0);
    CHECK(b >= a + 1024); /* a unit lies between */
    CHECK_EQ(c % PAGE, 0);
    ((char *)(uintptr_t)a)[0] = 1;
    ((char *)(uintptr_t)c)[PAGE - 1] = 1;
    CHECK(tsr_memory_release(a, TSR_RANGE_PLAIN));
    CHECK(!tsr_memory_release(a, TSR_RANGE_PLAIN));
    CHECK(!tsr_memory_release(b, TSR_RANGE_HOST));
    CHECK(tsr_memory_release(b, TSR_RANGE_PLAIN));
    CHECK(tsr_memory_release(c, TSR_RANGE_PLAIN));
}

static uint64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Allocates so many and frees them, every second one first, so that what is free is in many pieces. The best of three. */
static uint64_t churn_ns(struct tsr_context *context, unsigned count)
{
    uint64_t *addresses = calloc(count, sizeof *addresses), best = UINT64_MAX;
    for (unsigned round = 0; round < 3; round++) {
        uint64_t start = cpu_ns(), failed = 0;
        for (unsigned i = 0; i < count; i++)
            failed += !(addresses[i] = allocate(context, 512));
        for (unsigned i = 0; i < 2 * count; i += 2)
            failed += !tsr_memory_release(addresses[i % count + (count % 2 == 0 && i >= count)], TSR_RANGE_PLAIN);
        uint64_t took = cpu_ns() - start;
        best = took < best ? took : best;
        CHECK_EQ(failed, 0);
    }
    free(addresses);
    return best;
}

TEST(the_cost_of_one_hardly_grows_with_their_number)
{
    struct tsr_context *context = context_of(0);
    uint64_t few = churn_ns(context, 4000), many = churn_ns(context, 60000);
    CHECK(many < 4 * 15 * few); /* 15 times as many; if each looked at all others, it were 225 times */
}

TEST(use_is_counted_in_pages)
{
    struct tsr_context *context = context_of(0);
    CHECK_EQ(emulated->live[0].memory_used_bytes, 0);
    uint64_t a = allocate(context, 100), b = allocate(context, 100);
    CHECK_EQ(emulated->live[0].memory_used_bytes, PAGE);
    uint64_t c = allocate(context, 2 * PAGE + 1);
    CHECK_EQ(emulated->live[0].memory_used_bytes, 4 * PAGE);
    tsr_memory_release(a, TSR_RANGE_PLAIN);
    CHECK_EQ(emulated->live[0].memory_used_bytes, 4 * PAGE);
    tsr_memory_release(b, TSR_RANGE_PLAIN);
    tsr_memory_release(c, TSR_RANGE_PLAIN);
    CHECK_EQ(emulated->live[0].memory_used_bytes, 0);
}

TEST(capacity_is_the_device_s)
{
    struct tsr_context *context = context_of(1);
    uint64_t address, half = allocate(context, EMULATED_MEMORY_BYTES / 2);
    CHECK(half != 0);
    CHECK_EQ(tsr_memory_alloc(context, EMULATED_MEMORY_BYTES / 2 + 1, TSR_RANGE_PLAIN, &address), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQ(tsr_memory_alloc(context, UINT64_MAX, TSR_RANGE_PLAIN, &address), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQ(tsr_memory_alloc(context, UINT64_MAX - 600, TSR_RANGE_PLAIN, &address), CUDA_ERROR_OUT_OF_MEMORY);
    uint64_t rest = allocate(context, EMULATED_MEMORY_BYTES / 2);
    CHECK(rest != 0);
    tsr_memory_release(half, TSR_RANGE_PLAIN);
    tsr_memory_release(rest, TSR_RANGE_PLAIN);
}

TEST(freed_memory_reads_as_zero)
{
    struct tsr_context *context = context_of(0);
    uint64_t a = allocate(context, 3 * PAGE);
    memset((void *)(uintptr_t)a, 0xff, 3 * PAGE);
    tsr_memory_release(a, TSR_RANGE_PLAIN);
    uint64_t again = allocate(context, 3 * PAGE);
    CHECK_EQ(again, a);
    CHECK_EQ(*(uint64_t *)(uintptr_t)(again + PAGE), 0);
    tsr_memory_release(again, TSR_RANGE_PLAIN);
}

/* Against a list of what is allocated: nothing overlaps, and everything comes back. */
TEST(random_use_leaves_nothing)
{
    struct tsr_context *context = context_of(0);
    struct {
        uint64_t base, bytes;
    } held[64] = {{0, 0}};
    uint64_t seed = 88172645463325252ull;
    for (int step = 0; step < 20000; step++) {
        seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
        unsigned slot = seed % 64;
        if (held[slot].base) {
            CHECK(tsr_memory_release(held[slot].base, TSR_RANGE_PLAIN));
            held[slot].base = 0;
            continue;
        }
        held[slot].bytes = 1 + (seed >> 8) % (seed & 0x40 ? 5000000 : 3000);
        held[slot].base = allocate(context, held[slot].bytes);
        for (unsigned other = 0; held[slot].base && other < 64; other++)
            if (other != slot && held[other].base && held[other].base < held[slot].base + held[slot].bytes &&
                held[slot].base < held[other].base + held[other].bytes)
                REQUIRE(!"two allocations overlap");
    }
    for (unsigned slot = 0; slot < 64; slot++)
        if (held[slot].base)
            tsr_memory_release(held[slot].base, TSR_RANGE_PLAIN);
    CHECK_EQ(emulated->live[0].memory_used_bytes, 0);
}

TEST(memory_ends_with_its_context)
{
    struct tsr_context *context = context_of(0), *created = NULL;
    struct tsr_range range;
    uint64_t kept = allocate(context, 4096);
    REQUIRE(tsr_context_create(0, 0, 3020, &created) == CUDA_SUCCESS);
    uint64_t lost = allocate(created, 4096), host = 0;
    CHECK_EQ(tsr_memory_alloc_host(created, 4096, 0, &host), CUDA_SUCCESS);
    CHECK_EQ(tsr_context_destroy(created), CUDA_SUCCESS);
    CHECK(!tsr_space_lookup(tsr_space_instance(), lost, &range));
    CHECK(!tsr_space_lookup(tsr_space_instance(), host, &range));
    CHECK(tsr_space_lookup(tsr_space_instance(), kept, &range));
    tsr_memory_release(kept, TSR_RANGE_PLAIN);
}

TEST(peers_are_let_in_and_out)
{
    struct tsr_context *first = context_of(0), *second = context_of(1);
    struct tsr_range range;
    uint64_t a = allocate(second, 4096);
    CHECK_EQ(tsr_peer_enable(first, second), CUDA_SUCCESS);
    CHECK_EQ(tsr_peer_enable(first, second), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    uint64_t b = allocate(second, 4096);
    CHECK(tsr_space_lookup(tsr_space_instance(), a, &range) && range.writable == 3);
    CHECK(tsr_space_lookup(tsr_space_instance(), b, &range) && range.readable == 3);
    CHECK_EQ(tsr_peer_disable(first, second), CUDA_SUCCESS);
    CHECK_EQ(tsr_peer_disable(first, second), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    CHECK(tsr_space_lookup(tsr_space_instance(), a, &range) && range.writable == 2);
    tsr_memory_release(a, TSR_RANGE_PLAIN);
    tsr_memory_release(b, TSR_RANGE_PLAIN);
}

TEST(addresses_are_described)
{
    struct tsr_context *context = context_of(0);
    char text[200], expected[200];
    uint64_t a = allocate(context, 4096);
    tsr_address_describe(a + 4108, 0, text, sizeof text);
    snprintf(expected, sizeof expected, "12 bytes past the end of the allocation 0x%llx of 4096 bytes on device 0",
             (unsigned long long)a);
    CHECK_STR(text, expected);
    tsr_address_describe(a + 8, 1, text, sizeof text);
    CHECK(strstr(text, "which device 1 may not access") != NULL);
    tsr_address_describe(16, 0, text, sizeof text);
    CHECK_STR(text, "not near any allocation");
    tsr_memory_release(a, TSR_RANGE_PLAIN);
}

TEST(a_killed_process_gives_back)
{
    context_of(0);
    int row = -1, ends[2];
    REQUIRE(pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        row = tsr_live_attach(emulated);
        bool taken = tsr_live_memory_take(emulated, row, 0, EMULATED_MEMORY_BYTES);
        _exit(write(ends[1], &taken, 1) == 1 && taken ? 7 : 8);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK_EQ(WEXITSTATUS(status), 7);
    CHECK_EQ(emulated->live[0].memory_used_bytes, EMULATED_MEMORY_BYTES);
    CHECK(tsr_device_memory_take(0, PAGE));
    CHECK_EQ(emulated->live[0].memory_used_bytes, PAGE);
    tsr_device_memory_give(0, PAGE);
    close(ends[0]);
    close(ends[1]);
}

TEST(a_process_that_executed_another_program_gives_back)
{
    context_of(0);
    pid_t child = fork();
    if (child == 0) {
        bool held = tsr_live_memory_take(emulated, tsr_live_attach(emulated), 0, EMULATED_MEMORY_BYTES);
        int row = tsr_live_attach(emulated); /* as the program does that takes its place */
        _exit(held && tsr_live_memory_take(emulated, row, 0, EMULATED_MEMORY_BYTES) ? 7 : 8);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK_EQ(WEXITSTATUS(status), 7);
    CHECK(tsr_device_memory_take(0, PAGE));
    tsr_device_memory_give(0, PAGE);
}

TEST(kernel_rows_add_up)
{
    context_of(0);
    for (int i = 0; i < 3; i++)
        tsr_live_kernel(emulated, 1, "a_kernel", 500, 1000 * (uint64_t)i);
    tsr_live_kernel(emulated, 0, "a_kernel", 1, 1);
    int rows = 0;
    for (int i = 0; i < TSR_MACHINE_KERNELS; i++)
        if (emulated->kernels[i].state == 2 && emulated->kernels[i].device == 1) {
            CHECK_STR(emulated->kernels[i].name, "a_kernel");
            CHECK_EQ(emulated->kernels[i].launches, 3);
            CHECK_EQ(emulated->kernels[i].virtual_ns, 1500);
            rows++;
        }
    CHECK_EQ(rows, 1);
    CHECK_EQ(emulated->live[1].launches, 3);
    CHECK_EQ(emulated->live[1].last_ns, 2000);
}

TEST(more_kernels_than_rows_share_the_last)
{
    char name[32];
    context_of(0);
    for (int i = 0; i < TSR_MACHINE_KERNELS + 100; i++) {
        snprintf(name, sizeof name, "kernel_%d", i);
        tsr_live_kernel(emulated, 0, name, 1, 1);
    }
    const struct tsr_kernel_row *last = &emulated->kernels[TSR_MACHINE_KERNELS - 1];
    CHECK_STR(last->name, "(others)");
    CHECK(last->launches >= 100);
}
