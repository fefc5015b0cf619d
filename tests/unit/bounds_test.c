/* The table of allocations: what it says of addresses is what a list of them says, and drivers that cannot use it get guards. */
#include <stdlib.h>
#include <string.h>

#include "memory/bounds.c"

#include "check.h"

enum { PAGES = 16, MOST = 2000 };

struct tsr_real tsr_real;
static bool is_emulated;
static const struct tsr_bounds *used; /* by the driver */

/* Before options are read. */
__attribute__((constructor)) static void switch_on(void)
{
    setenv("TESSERA_BOUNDS", "1", 1);
}

static void use(const struct tsr_bounds *chosen)
{
    used = chosen;
}

static CUresult CUDAAPI export_table(const void **out, const CUuuid *id)
{
    static const struct tsr_bounds_export export = {sizeof export, use};
    static const CUuuid wanted = TSR_BOUNDS_EXPORT;
    *out = is_emulated && memcmp(id, &wanted, sizeof wanted) == 0 ? &export : NULL;
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult tsr_executors_ask(const struct tsr_message *message, int descriptor, const struct tsr_message *undo)
{
    (void)undo;
    CHECK_EQ(message->kind, TSR_MESSAGE_BOUNDS);
    CHECK_EQ(message->bytes, sizeof(struct tsr_bounds));
    CHECK(descriptor >= 0);
    return CUDA_SUCCESS;
}

static void start(bool emulated)
{
    tsr_real.cuGetExportTable = export_table;
    is_emulated = emulated;
    tsr_bounds_forget();
    tsr_bounds_start();
}

static uint64_t table_kib(void)
{
    char line[256];
    uint64_t kib = UINT64_MAX;
    bool is_table = false;
    FILE *maps = fopen("/proc/self/smaps", "r");
    while (maps && kib == UINT64_MAX && fgets(line, sizeof line, maps)) {
        is_table |= strstr(line, "tessera-bounds") != NULL;
        if (is_table && sscanf(line, "Rss: %lu", &kib) != 1)
            kib = UINT64_MAX;
    }
    if (maps)
        fclose(maps);
    return kib;
}

/* Each page of the arena in turn has allocations, and then is unmapped. */
TEST(the_table_takes_no_memory_for_what_is_unmapped)
{
    start(true);
    CUdeviceptr page = TSR_ARENA_ADDRESS;
    for (unsigned turn = 0; turn < 1000; turn++, page += TSR_BOUNDS_PAGE) {
        for (unsigned i = 0; i < 4; i++)
            tsr_bounds_add(page + i * TSR_BOUNDS_PAGE / 4, 1000);
        for (unsigned i = 0; i < 4; i++)
            tsr_bounds_remove(page + i * TSR_BOUNDS_PAGE / 4);
        tsr_bounds_unmapped(page, TSR_BOUNDS_PAGE);
    }
    CHECK(table_kib() < 1200); /* a page's bits when an allocation begins there, and its name: half a KiB */
    tsr_bounds_add(page, 1000);
    struct tsr_bounds_leaving *leaving = tsr_bounds_leave_later(page);
    tsr_bounds_unmapped(page, TSR_BOUNDS_PAGE);
    CHECK(tsr_bounds_allow(page, 1000));
    tsr_bounds_leave(leaving);
    CHECK(!tsr_bounds_allow(page, 1));
}

TEST(what_a_stream_frees_serves_it_again_with_the_same_bounds)
{
    const CUdeviceptr address = TSR_ARENA_ADDRESS + 4096;
    start(true);
    tsr_bounds_add(address, 1000);
    struct tsr_bounds_leaving *first = tsr_bounds_leave_later(address);
    REQUIRE(first);
    CHECK(tsr_bounds_allow(address, 1000)); /* the stream has not come to that */
    CHECK(!tsr_bounds_reuse(address, 100));
    CHECK(!tsr_bounds_reuse(address, 2000));
    CHECK(!tsr_bounds_reuse(address - 512, 1024));
    CHECK(tsr_bounds_reuse(address + 1024, 512));
    CHECK(tsr_bounds_reuse(address, 999));
    tsr_bounds_add(address, 999);
    struct tsr_bounds_leaving *second = tsr_bounds_leave_later(address);
    REQUIRE(second);
    tsr_bounds_leave(first); /* of memory that has been used again */
    CHECK(tsr_bounds_allow(address, 999));
    tsr_bounds_leave(second);
    CHECK(!tsr_bounds_allow(address, 1));
    CHECK(tsr_bounds_reuse(address, 100)); /* it has none any more */
    tsr_bounds_forget();
}

TEST(a_driver_that_cannot_use_the_table_gets_guards)
{
    start(false);
    CHECK(tsr_bounds_are_guards());
    CHECK(!tsr_bounds_are_exact());
    CHECK_EQ(tsr_bounds_gap_bytes(), 0);
    CHECK(tsr_bounds_guard_bytes() > 0);
    tsr_bounds_add(TSR_ARENA_ADDRESS, 100);
    CHECK(tsr_bounds_allow(TSR_ARENA_ADDRESS + 4096, 1)); /* whatever is mapped */
    tsr_bounds_remove(TSR_ARENA_ADDRESS);
}

struct listed {
    uint64_t address, bytes;
};

static uint64_t granted(const struct listed *listed)
{
    return (listed->bytes + TSR_BOUNDS_UNIT - 1) / TSR_BOUNDS_UNIT * TSR_BOUNDS_UNIT;
}

static const struct listed *find(const struct listed *list, unsigned count, uint64_t address)
{
    for (unsigned i = 0; i < count; i++)
        if (address - list[i].address < granted(&list[i]))
            return &list[i];
    return NULL;
}

static bool is_free(const struct listed *list, unsigned count, const struct listed *fresh)
{
    for (unsigned i = 0; i < count; i++)
        if (fresh->address <= list[i].address + granted(&list[i]) && list[i].address <= fresh->address + granted(fresh))
            return false;
    return fresh->address + granted(fresh) <= TSR_ARENA_ADDRESS + PAGES * TSR_BOUNDS_PAGE;
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
    return *state;
}

/* Near an edge of an allocation as often as anywhere. */
static uint64_t some_address(const struct listed *list, unsigned count, uint64_t *random)
{
    uint64_t any = TSR_ARENA_ADDRESS + next_random(random) % (PAGES * TSR_BOUNDS_PAGE);
    const struct listed *near = count ? &list[next_random(random) % count] : NULL;
    uint64_t edge = near ? near->address + (next_random(random) % 2 ? granted(near) : 0) : any;
    return next_random(random) % 2 && edge > TSR_ARENA_ADDRESS ? edge - next_random(random) % 2 : any;
}

TEST(the_table_says_what_a_list_says)
{
    static struct listed list[MOST];
    unsigned count = 0;
    uint64_t random = 88172645463325252u;
    start(true);
    REQUIRE(tsr_bounds_are_exact());
    CHECK(used == table);
    for (unsigned round = 0; round < 60000; round++) {
        uint64_t most = next_random(&random) % 8 ? 5000 : 3 * TSR_BOUNDS_PAGE;
        struct listed fresh = {some_address(list, 0, &random) / TSR_BOUNDS_UNIT * TSR_BOUNDS_UNIT,
                               1 + next_random(&random) % most};
        if (next_random(&random) % 3 && count < MOST && is_free(list, count, &fresh)) {
            list[count++] = fresh;
            tsr_bounds_add(fresh.address, fresh.bytes);
        } else if (count) {
            unsigned gone = (unsigned)(next_random(&random) % count);
            tsr_bounds_remove(list[gone].address);
            list[gone] = list[--count];
        }
        uint64_t address = some_address(list, count, &random), bytes = 1 + next_random(&random) % 16;
        const struct listed *expected = find(list, count, address);
        bool fits = expected && address + bytes <= expected->address + granted(expected);
        if (!CHECK_EQ(tsr_bounds_allow(address, bytes), fits))
            return;
    }
    CHECK(tsr_bounds_allow(TSR_ARENA_ADDRESS - 1, 1)); /* not its business */
    CHECK(tsr_bounds_allow(TSR_ARENA_ADDRESS + TSR_ARENA_BYTES, 1));
    tsr_bounds_forget();
    CHECK(used == NULL);
}
