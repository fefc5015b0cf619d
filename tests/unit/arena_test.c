/* The arena over a driver that only keeps books and can fail at any call: allocations never overlap, what is mapped is bounded, a call
   that fails changes nothing, the executors have exactly what home has, and in the end nothing is left. */
#include "memory/address_map.c"
#include "memory/residency.c"
#include "memory/heat.c"
#include "memory/allocation.c"
#include "memory/arena.c"
#include "memory/backing.c"
#include "memory/bounds.c"
#include "memory/home_only.c"
#include "memory/owners.c"

#include "check.h"

enum { MOST = 4096, SLOTS = 300 };

struct mapped {
    CUdeviceptr address;
    uint64_t bytes;
};

static struct books {
    struct mapped home[MOST], away[MOST];
    unsigned home_count, away_count, physical;
    uint64_t physical_bytes, capacity_bytes;
    unsigned calls, fail_at; /* fail_at: number of the call that fails; 0: none */
    CUresult failure;
    bool refuse_away;
    bool moving; /* between the two messages about it */
    unsigned moves_back;
    uint64_t copied_bytes, home_bytes; /* home_bytes: what the home GPU says is in use */
    int created_on;                    /* GPU of the last physical memory */
} books;

struct tsr_real tsr_real;
static struct tsr_policy policy;
static struct tsr_session session = {.policy = &policy, .lane_count = 1};

CUdevice tsr_gpu_device(uint32_t gpu)
{
    return (CUdevice)gpu;
}

struct tsr_session *tsr_session(void)
{
    return &session;
}

static bool fails(void)
{
    return ++books.calls == books.fail_at;
}

static bool insert_range(struct mapped *list, unsigned *count, CUdeviceptr address, uint64_t bytes)
{
    for (unsigned i = 0; i < *count; i++)
        if (address < list[i].address + list[i].bytes && list[i].address < address + bytes)
            return CHECK(!"overlap");
    list[(*count)++] = (struct mapped){address, bytes};
    return true;
}

static bool remove_range(struct mapped *list, unsigned *count, CUdeviceptr address, uint64_t bytes)
{
    for (unsigned i = 0; i < *count; i++)
        if (list[i].address == address && list[i].bytes == bytes) {
            list[i] = list[--*count];
            return true;
        }
    return CHECK(!"unknown range");
}

static CUresult CUDAAPI reserve_range(CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr hint,
                                      unsigned long long flags)
{
    (void)bytes, (void)alignment, (void)flags;
    *out = hint ? hint : 0x7000000000000000ull; /* one at a time */
    return fails() ? books.failure : CUDA_SUCCESS;
}

static CUresult CUDAAPI free_range(CUdeviceptr address, size_t bytes)
{
    (void)address, (void)bytes;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI create_memory(CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *properties,
                                      unsigned long long flags)
{
    CHECK(properties->requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR && !flags);
    CHECK_EQ(bytes % TSR_ARENA_PAGE, 0);
    if (fails())
        return books.failure;
    if (books.capacity_bytes - books.physical_bytes < bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    books.physical++;
    books.created_on = properties->location.id;
    books.physical_bytes += bytes;
    *out = bytes; /* enough of a handle to count it out again */
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI release_memory(CUmemGenericAllocationHandle handle)
{
    books.physical--;
    books.physical_bytes -= handle;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI map_memory(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                                   unsigned long long flags)
{
    CHECK(!offset && handle == bytes && !flags);
    if (fails())
        return books.failure;
    insert_range(books.home, &books.home_count, address, bytes);
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI unmap_memory(CUdeviceptr address, size_t bytes)
{
    remove_range(books.home, &books.home_count, address, bytes);
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI set_access(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access, size_t count)
{
    (void)address, (void)bytes, (void)access, (void)count;
    return fails() ? books.failure : CUDA_SUCCESS;
}

static CUresult CUDAAPI get_attribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    (void)attribute, (void)device;
    *value = 0;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI export_memory(void *out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                                      unsigned long long flags)
{
    (void)handle, (void)type, (void)flags;
    *(int *)out = -1;
    return fails() ? books.failure : CUDA_SUCCESS;
}

static CUresult CUDAAPI get_info(size_t *free, size_t *total)
{
    *total = books.capacity_bytes;
    *free = books.capacity_bytes - books.home_bytes;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI create_stream(CUstream *out, unsigned flags)
{
    *out = NULL;
    CHECK_EQ(flags, CU_STREAM_NON_BLOCKING);
    return fails() ? books.failure : CUDA_SUCCESS;
}

static CUresult CUDAAPI on_stream(CUstream stream)
{
    (void)stream;
    return fails() ? books.failure : CUDA_SUCCESS;
}

static CUresult CUDAAPI copy_memory(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    (void)stream;
    CHECK(to != from && bytes % TSR_ARENA_PAGE == 0);
    if (fails())
        return books.failure;
    books.copied_bytes += bytes;
    return CUDA_SUCCESS;
}

bool tsr_pairs_are_all_direct(void)
{
    return true;
}

bool tsr_pairs_may_share(void)
{
    return true;
}

CUresult tsr_executors_ask(const struct tsr_message *message, int descriptor, const struct tsr_message *undo)
{
    (void)descriptor;
    if (message->kind == TSR_MESSAGE_MOVE) {
        CHECK(undo->kind == TSR_MESSAGE_MOVED && undo->detail == 0 && !books.moving);
        if (fails())
            return CUDA_ERROR_OUT_OF_MEMORY;
        books.moving = true;
        return CUDA_SUCCESS;
    }
    CHECK(message->kind == TSR_MESSAGE_MAP && undo->kind == TSR_MESSAGE_UNMAP);
    if (fails() || books.refuse_away)
        return CUDA_ERROR_OUT_OF_MEMORY;
    insert_range(books.away, &books.away_count, message->address, message->bytes);
    return CUDA_SUCCESS;
}

void tsr_executors_tell(const struct tsr_message *message)
{
    if (message->kind == TSR_MESSAGE_MOVED) {
        CHECK(books.moving);
        books.moving = false;
        books.moves_back += message->detail == 0;
        return;
    }
    CHECK_EQ(message->kind, TSR_MESSAGE_UNMAP);
    remove_range(books.away, &books.away_count, message->address, message->bytes);
}

static void open_books(void)
{
    books = (struct books){.capacity_bytes = 1ull << 40, .failure = CUDA_ERROR_OUT_OF_MEMORY};
    tsr_real.cuMemAddressReserve = reserve_range;
    tsr_real.cuMemAddressFree = free_range;
    tsr_real.cuMemCreate = create_memory;
    tsr_real.cuMemRelease = release_memory;
    tsr_real.cuMemMap = map_memory;
    tsr_real.cuMemUnmap = unmap_memory;
    tsr_real.cuMemSetAccess = set_access;
    tsr_real.cuDeviceGetAttribute = get_attribute;
    tsr_real.cuMemExportToShareableHandle = export_memory;
    tsr_real.cuMemGetInfo_v2 = get_info;
    tsr_real.cuStreamCreate = create_stream;
    tsr_real.cuStreamSynchronize = on_stream;
    tsr_real.cuStreamDestroy_v2 = on_stream;
    tsr_real.cuMemcpyDtoDAsync_v2 = copy_memory;
    tsr_blocks_fini(&space);
    tsr_arena_forget();
    tsr_home_only_forget();
}

static uint32_t seed;
static uint32_t pick(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)(seed >> 8) * below >> 24);
}

static struct tsr_heap heap;

static struct tsr_allocation *allocate(size_t bytes)
{
    struct tsr_allocation *made = NULL;
    if (bytes > TSR_ARENA_PAGE / 2)
        return tsr_allocation_map(bytes, 0, NULL, &made) == CUDA_SUCCESS ? made : NULL;
    made = tsr_allocation_take(&heap, TSR_BLOCKS_FREE, bytes, NULL);
    if (!made && tsr_heap_grow(&heap, bytes) == CUDA_SUCCESS)
        made = tsr_allocation_take(&heap, TSR_BLOCKS_FREE, bytes, NULL);
    return made;
}

static size_t pick_bytes(void)
{
    return pick(6) ? 1 + pick(100000) : 1 + pick(20 << 20);
}

/* No two allocations share a byte, and each is found from any of its addresses, and only from those. */
static void check_apart(struct tsr_allocation *const *held)
{
    for (int i = 0; i < SLOTS; i++) {
        if (!held[i])
            continue;
        CHECK_EQ(held[i]->address % 512, 0);
        CHECK(tsr_allocation_find(held[i]->address) == held[i]);
        CHECK(tsr_allocation_find(held[i]->address + held[i]->bytes - 1) == held[i]);
        CHECK(tsr_allocation_find(held[i]->address + held[i]->bytes) != held[i]);
        CHECK(tsr_arena_holds(held[i]->address, held[i]->bytes));
        for (int j = 0; j < i; j++)
            if (held[j] && held[i]->address < held[j]->address + held[j]->bytes)
                CHECK(held[j]->address >= held[i]->address + held[i]->bytes);
    }
}

static void finish(struct tsr_allocation **held)
{
    for (int i = 0; i < SLOTS; i++)
        if (held[i])
            tsr_allocation_give(held[i], TSR_BLOCKS_FREE);
    CHECK(heap.mapped_bytes <= TSR_ARENA_PAGE); /* one spare chunk */
    tsr_heap_trim(&heap, 0);
    CHECK_EQ(books.home_count, 0);
    CHECK_EQ(books.away_count, 0);
    CHECK_EQ(books.physical, 0);
    CHECK_EQ(tsr_home_only_count, 0);
    CHECK(!tsr_arena_holds(TSR_ARENA_ADDRESS, 1));
    tsr_blocks_fini(&heap.blocks);
}

TEST(random_allocations_are_apart_and_bounded)
{
    static struct tsr_allocation *held[SLOTS];
    open_books();
    memset(held, 0, sizeof held);
    heap = (struct tsr_heap){.chunk_bytes = TSR_ARENA_PAGE};
    uint64_t small = 0, peak = 0, large = 0;
    for (uint32_t step = 0; step < 20000; step++) {
        seed = step * 2654435761u + 1;
        uint32_t slot = pick(SLOTS);
        uint64_t *sum, whole;
        bool frees = held[slot] != NULL;
        size_t bytes = frees ? held[slot]->bytes : pick_bytes();
        sum = bytes > TSR_ARENA_PAGE / 2 ? &large : &small;
        whole = round_up(bytes, bytes > TSR_ARENA_PAGE / 2 ? TSR_ARENA_PAGE : UNIT);
        if (frees)
            tsr_allocation_give(held[slot], TSR_BLOCKS_FREE);
        held[slot] = frees ? NULL : allocate(bytes);
        CHECK(frees || held[slot]);
        *sum = frees ? *sum - whole : *sum + whole;
        peak = small > peak ? small : peak;
        /* Extents of their own are no larger than they must be; the heap: blocks.h, blocks of 512 bytes to 1 MiB in chunks of 2 MiB. */
        CHECK(books.physical_bytes - heap.mapped_bytes == large);
        CHECK(heap.mapped_bytes <= 2 * peak * 12 + TSR_ARENA_PAGE);
        CHECK(heap.mapped_bytes <= 2 * peak + 2 * TSR_ARENA_PAGE); /* how it is in practice */
        CHECK_EQ(books.home_count, books.away_count);
        if (step % 1000 == 0)
            check_apart(held);
    }
    check_apart(held);
    finish(held);
}

TEST(a_failing_call_changes_nothing)
{
    static struct tsr_allocation *held[SLOTS];
    static const CUresult failures[] = {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_UNKNOWN};
    for (uint32_t nth = 1; nth <= 6; nth++)
        for (int kind = 0; kind < 2; kind++) {
            open_books();
            memset(held, 0, sizeof held);
            heap = (struct tsr_heap){.chunk_bytes = TSR_ARENA_PAGE};
            books.failure = failures[kind];
            seed = nth;
            unsigned failed = 0;
            for (uint32_t step = 0; step < 400; step++) {
                uint32_t slot = pick(SLOTS);
                struct books before = books;
                books.fail_at = books.calls + nth;
                uint64_t mapped = heap.mapped_bytes;
                if (!held[slot])
                    held[slot] = allocate(pick_bytes());
                if (!held[slot]) {
                    failed++;
                    CHECK_EQ(books.home_count, before.home_count);
                    CHECK_EQ(books.away_count, before.away_count);
                    CHECK_EQ(books.physical_bytes, before.physical_bytes);
                    CHECK_EQ(heap.mapped_bytes, mapped);
                }
                books.fail_at = 0;
            }
            CHECK(nth > 4 || failed > 0);
            finish(held);
        }
}

TEST(what_an_executor_refuses_is_home_only)
{
    static struct tsr_allocation *held[SLOTS];
    open_books();
    memset(held, 0, sizeof held);
    heap = (struct tsr_heap){.chunk_bytes = TSR_ARENA_PAGE};
    books.refuse_away = true;
    held[0] = allocate(5 << 20);
    held[1] = allocate(100);
    REQUIRE(held[0] && held[1]);
    CHECK_EQ(books.away_count, 0);
    CHECK_EQ(tsr_home_only_reason(held[0]->address + (5 << 20) - 1), TSR_REASON_MEMORY_NOT_SHARED);
    CHECK_EQ(tsr_home_only_reason(held[1]->address), TSR_REASON_MEMORY_NOT_SHARED);
    CHECK(!tsr_arena_holds(held[0]->address, 1));
    finish(held);
}

TEST(memory_is_created_where_the_policy_says_or_else_at_home)
{
    static struct tsr_allocation *held[SLOTS];
    open_books();
    memset(held, 0, sizeof held);
    heap = (struct tsr_heap){.chunk_bytes = TSR_ARENA_PAGE};
    policy.memory_place = 1;
    tsr_arena_start(&policy);
    held[0] = allocate(5 << 20);
    REQUIRE(held[0]);
    CHECK_EQ(held[0]->extent->residency.gpu, 1);
    CHECK_EQ(books.created_on, 1);
    CHECK_EQ(tsr_backing_away_bytes(), 6 << 20);
    books.fail_at = books.calls + 1; /* the GPU is full */
    held[1] = allocate(3 << 20);
    REQUIRE(held[1]);
    CHECK_EQ(held[1]->extent->residency.gpu, 0);
    books.home_bytes = books.capacity_bytes - (10 << 20); /* 6 MiB of it are spoken for by what lies elsewhere */
    CHECK(!allocate(5 << 20));
    CHECK_EQ(books.physical, 2);
    books.home_bytes = 0;
    books.refuse_away = true; /* nor at home */
    held[2] = allocate(2 << 20);
    REQUIRE(held[2]);
    CHECK_EQ(held[2]->extent->residency.gpu, 0);
    CHECK_EQ(tsr_home_only_reason(held[2]->address), TSR_REASON_MEMORY_NOT_SHARED);
    CHECK_EQ(tsr_backing_away_bytes(), 6 << 20);
    finish(held);
    CHECK_EQ(tsr_backing_away_bytes(), 0);
    policy.memory_place = 0;
}

TEST(memory_moves_as_a_whole_or_stays)
{
    static struct tsr_allocation *held[SLOTS];
    unsigned calls = 0;
    for (unsigned nth = 0; nth <= calls; nth++) { /* 0: nothing fails */
        open_books();
        memset(held, 0, sizeof held);
        heap = (struct tsr_heap){.chunk_bytes = TSR_ARENA_PAGE};
        held[0] = allocate(5 << 20);
        REQUIRE(held[0]);
        struct tsr_extent *extent = held[0]->extent;
        CHECK_EQ(tsr_backing_grant(extent, 2, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), CUDA_SUCCESS);
        unsigned before = books.calls;
        books.fail_at = nth ? before + nth : 0;
        CUresult result = tsr_backing_move(extent, 1);
        books.fail_at = 0;
        calls = nth ? calls : books.calls - before;
        CHECK_EQ(extent->residency.gpu, result == CUDA_SUCCESS ? 1 : 0);
        CHECK_EQ(tsr_backing_away_bytes(), result == CUDA_SUCCESS ? 6 << 20 : 0);
        CHECK(result == CUDA_SUCCESS ? books.copied_bytes == 6 << 20 : nth > 0);
        CHECK_EQ(extent->peers, 1u << 2);
        CHECK_EQ(books.physical, 1);
        CHECK_EQ(books.home_count, 1);
        CHECK_EQ(books.away_count, 1);
        CHECK(!books.moving && books.moves_back <= (result != CUDA_SUCCESS));
        CHECK(tsr_arena_holds(held[0]->address, 5 << 20));
        finish(held);
    }
    CHECK(calls >= 10);
}

TEST(too_much_is_refused)
{
    static struct tsr_allocation *held[SLOTS];
    open_books();
    heap = (struct tsr_heap){.chunk_bytes = 16 * TSR_ARENA_PAGE, .most_bytes = 20 * TSR_ARENA_PAGE};
    books.capacity_bytes = 40 * TSR_ARENA_PAGE;
    struct tsr_allocation *made;
    CHECK_EQ(tsr_allocation_map(SIZE_MAX, 0, NULL, &made), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQ(tsr_allocation_map(TSR_ARENA_BYTES + 1, 0, NULL, &made), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQ(tsr_allocation_map(41 * TSR_ARENA_PAGE, 0, NULL, &made), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQ(tsr_heap_grow(&heap, SIZE_MAX), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQ(tsr_heap_grow(&heap, 100), CUDA_SUCCESS);
    CHECK_EQ(heap.mapped_bytes, 16 * TSR_ARENA_PAGE);
    CHECK_EQ(tsr_heap_grow(&heap, 3 * TSR_ARENA_PAGE), CUDA_SUCCESS); /* no more than fits under the heap's limit */
    CHECK_EQ(heap.mapped_bytes, 19 * TSR_ARENA_PAGE);
    CHECK_EQ(tsr_heap_grow(&heap, 2 * TSR_ARENA_PAGE), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQ(tsr_heap_idle_bytes(&heap), 19 * TSR_ARENA_PAGE);
    tsr_heap_trim(&heap, 4 * TSR_ARENA_PAGE);
    CHECK(heap.mapped_bytes <= 4 * TSR_ARENA_PAGE);
    memset(held, 0, sizeof held);
    tsr_heap_trim(&heap, 0);
    finish(held);
}
