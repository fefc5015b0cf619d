/* Memory of all kinds: how it is made and freed, and what else can be done with it. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "program.h"

#define PAGE ((size_t)2 << 20)
#define SYSTEM_PAGE 4096u

struct kind {
    const char *name;
    enum feature feature;
    uint32_t weight;
    uint32_t use;      /* enum use */
    size_t more_bytes; /* than the window and its guards, at most */
    bool waits;        /* the CPU waits for its users before it is freed */
    bool (*make)(struct worker *worker, struct slot *slot, uint32_t stream, struct draw *draw);
    void (*drop)(struct worker *worker, struct slot *slot, uint32_t stream);
};

static bool make_plain(struct worker *worker, struct slot *slot, uint32_t stream, struct draw *from)
{
    (void)stream, (void)from;
    return CU(cuMemAlloc(&slot->base, slot->bytes));
}

static void drop_plain(struct worker *worker, struct slot *slot, uint32_t stream)
{
    (void)stream;
    CU(cuMemFree(slot->base));
}

static bool make_pitched(struct worker *worker, struct slot *slot, uint32_t stream, struct draw *from)
{
    size_t pitch = 0, rows = slot->bytes / 260 + 1;
    (void)stream, (void)from;
    bool made = CU(cuMemAllocPitch(&slot->base, &pitch, 260, rows, 4));
    slot->bytes = pitch * rows;
    return made;
}

static bool make_async(struct worker *worker, struct slot *slot, uint32_t stream, struct draw *from)
{
    (void)from;
    return CU(cuMemAllocAsync(&slot->base, slot->bytes, stream_of(worker, stream)));
}

static void drop_async(struct worker *worker, struct slot *slot, uint32_t stream)
{
    CU(cuMemFreeAsync(slot->base, stream_of(worker, stream)));
}

static bool make_pooled(struct worker *worker, struct slot *slot, uint32_t stream, struct draw *from)
{
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    cuuint64_t threshold = one_in(from, 2) ? 4 * PAGE : 0;
    return CU(cuMemPoolCreate(&slot->pool, &properties)) &&
           CU(cuMemPoolSetAttribute(slot->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold)) &&
           CU(cuMemAllocFromPoolAsync(&slot->base, slot->bytes, slot->pool, stream_of(worker, stream)));
}

static void drop_pooled(struct worker *worker, struct slot *slot, uint32_t stream)
{
    drop_async(worker, slot, stream);
    CU(cuMemPoolDestroy(slot->pool));
}

static bool map_page(struct worker *worker, struct slot *slot, uint32_t page)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemAccessDesc access = {.location = properties.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr at = slot->base + page * PAGE;
    return CU(cuMemCreate(&slot->physical[page], PAGE, &properties, 0)) && CU(cuMemMap(at, PAGE, 0, slot->physical[page], 0)) &&
           CU(cuMemSetAccess(at, PAGE, &access, 1));
}

static void unmap_page(struct worker *worker, struct slot *slot, uint32_t page)
{
    CU(cuMemUnmap(slot->base + page * PAGE, PAGE));
    CU(cuMemRelease(slot->physical[page]));
}

static bool make_mapped(struct worker *worker, struct slot *slot, uint32_t stream, struct draw *from)
{
    (void)stream, (void)from;
    slot->bytes = PAGE;
    slot->reserved = 3 * PAGE;
    slot->pages = 1;
    return CU(cuMemAddressReserve(&slot->base, slot->reserved, 0, 0, 0)) && map_page(worker, slot, 0);
}

static void drop_mapped(struct worker *worker, struct slot *slot, uint32_t stream)
{
    (void)stream;
    for (uint32_t page = slot->pages; page-- > 0;)
        unmap_page(worker, slot, page);
    CU(cuMemAddressFree(slot->base, slot->reserved));
}

static bool make_managed(struct worker *worker, struct slot *slot, uint32_t stream, struct draw *from)
{
    (void)stream, (void)from;
    bool made = CU(cuMemAllocManaged(&slot->base, slot->bytes, CU_MEM_ATTACH_GLOBAL));
    slot->host = (unsigned char *)(uintptr_t)slot->base;
    return made;
}

static bool make_pinned(struct worker *worker, struct slot *slot, uint32_t stream, struct draw *from)
{
    void *host = NULL;
    (void)stream, (void)from;
    bool made = CU(cuMemHostAlloc(&host, slot->bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP)) &&
                CU(cuMemHostGetDevicePointer(&slot->base, host, 0));
    slot->host = host;
    return made;
}

static void drop_pinned(struct worker *worker, struct slot *slot, uint32_t stream)
{
    (void)stream;
    CU(cuMemFreeHost(slot->host));
}

static bool make_registered(struct worker *worker, struct slot *slot, uint32_t stream, struct draw *from)
{
    (void)stream;
    size_t pages_bytes = (slot->bytes / SYSTEM_PAGE + 2) * SYSTEM_PAGE; /* pages can be registered once only */
    slot->registered = aligned_alloc(SYSTEM_PAGE, pages_bytes);
    slot->host = (unsigned char *)slot->registered + 64 * draw(from, 4);
    return CU(cuMemHostRegister(slot->host, slot->bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP)) &&
           CU(cuMemHostGetDevicePointer(&slot->base, slot->host, 0));
}

static void drop_registered(struct worker *worker, struct slot *slot, uint32_t stream)
{
    (void)stream;
    CU(cuMemHostUnregister(slot->host));
    free(slot->registered);
}

static bool make_paged(struct worker *worker, struct slot *slot, uint32_t stream, struct draw *from)
{
    (void)worker, (void)stream, (void)from;
    slot->host = malloc(slot->bytes);
    return slot->host != NULL;
}

static void drop_paged(struct worker *worker, struct slot *slot, uint32_t stream)
{
    (void)worker, (void)stream;
    free(slot->host);
}

static bool make_peer(struct worker *worker, struct slot *slot, uint32_t stream, struct draw *from)
{
    (void)stream, (void)from;
    enter(worker, OTHER);
    bool made = CU(cuMemAlloc(&slot->base, slot->bytes));
    enter(worker, LEGACY);
    return made;
}

static void drop_peer(struct worker *worker, struct slot *slot, uint32_t stream)
{
    (void)stream;
    enter(worker, OTHER);
    CU(cuMemFree(slot->base));
    enter(worker, LEGACY);
}

/* A part of one of the program's blocks that is free. */
static bool make_part(struct worker *worker, struct slot *slot, uint32_t stream, struct draw *from)
{
    struct program *program = worker->program;
    uint32_t first = draw(from, BLOCKS);
    bool made = false;
    (void)stream;
    pthread_mutex_lock(&program->blocks_lock);
    for (uint32_t i = 0; i < BLOCKS && !made; i++) {
        struct block *block = &program->blocks[(first + i) % BLOCKS];
        uint32_t part = (uint32_t)__builtin_ctz(~block->taken);
        if (part >= PARTS || (!block->base && !CU(cuMemAlloc(&block->base, PARTS * PART_BYTES))))
            continue;
        block->taken |= 1u << part;
        slot->base = block->base + part * PART_BYTES;
        slot->block = block;
        made = true;
    }
    pthread_mutex_unlock(&program->blocks_lock);
    return made;
}

static void drop_part(struct worker *worker, struct slot *slot, uint32_t stream)
{
    struct program *program = worker->program;
    (void)stream;
    pthread_mutex_lock(&program->blocks_lock);
    slot->block->taken &= ~(1u << (slot->base - slot->block->base) / PART_BYTES);
    pthread_mutex_unlock(&program->blocks_lock);
}

void blocks_end(struct worker *worker)
{
    for (uint32_t i = 0; i < BLOCKS; i++)
        if (worker->program->blocks[i].base)
            CU(cuMemFree(worker->program->blocks[i].base));
}

#define PLAIN FEATURE_COUNT
static const struct kind kinds[] = {
    {"plain", PLAIN, 8, FOR_KERNELS | FOR_ARENA, 6000, false, make_plain, drop_plain},
    {"large", FEATURE_large, 2, FOR_KERNELS | FOR_ARENA, 5 * PAGE / 2, false, make_plain, drop_plain},
    {"pitched", PLAIN, 1, FOR_KERNELS | FOR_ARENA, 3000, false, make_pitched, drop_plain},
    {"async", FEATURE_async, 6, FOR_KERNELS | FOR_ARENA, 20000, false, make_async, drop_async},
    {"pool", FEATURE_pools, 3, FOR_KERNELS | FOR_ARENA, 20000, false, make_pooled, drop_pooled},
    {"mapped", FEATURE_vmm, 5, FOR_KERNELS | FOR_ARENA, 20000, true, make_mapped, drop_mapped},
    {"part", FEATURE_parts, 12, FOR_KERNELS | FOR_ARENA, 1000, true, make_part, drop_part},
    {"managed", FEATURE_managed, 5, FOR_KERNELS | FOR_CPU | FOR_GPU_1, 6000, false, make_managed, drop_plain},
    {"pinned", FEATURE_pinned, 4, FOR_KERNELS | FOR_CPU | FOR_GPU_1, 3000, true, make_pinned, drop_pinned},
    {"registered", FEATURE_registered, 3, FOR_KERNELS | FOR_CPU | FOR_GPU_1, 3000, true, make_registered, drop_registered},
    {"paged", PLAIN, 2, FOR_CPU, 3000, true, make_paged, drop_paged},
    {"gpu-1", FEATURE_peer, 4, FOR_GPU_1, 6000, false, make_peer, drop_peer},
};
#define KINDS (sizeof kinds / sizeof kinds[0])

bool is_peer(const struct slot *slot)
{
    return slot->kind->make == make_peer;
}

bool is_mapped(const struct slot *slot)
{
    return slot->kind->make == make_mapped;
}

bool is_managed(const struct slot *slot)
{
    return slot->kind->make == make_managed;
}

bool is_part(const struct slot *slot)
{
    return slot->kind->make == make_part;
}

bool is_allocation(const struct slot *slot)
{
    return slot->kind->make == make_plain;
}

uint32_t slot_number(const struct worker *worker, const struct slot *slot)
{
    return (uint32_t)(slot - worker->program->slots);
}

static const struct kind *draw_kind(struct worker *worker, struct draw *from)
{
    uint32_t total = 0;
    for (uint32_t i = 0; i < KINDS; i++)
        total += kinds[i].feature == PLAIN || uses(worker->program, kinds[i].feature) ? kinds[i].weight : 0;
    uint32_t at = draw(from, total);
    for (uint32_t i = 0;; i++) {
        uint32_t weight = kinds[i].feature == PLAIN || uses(worker->program, kinds[i].feature) ? kinds[i].weight : 0;
        if (at < weight)
            return &kinds[i];
        at -= weight;
    }
}

static void init(struct worker *worker, struct slot *slot, uint32_t stream, struct draw *from)
{
    unsigned char byte = (unsigned char)draw(from, 256);
    if (slot->host && (!slot->base || one_in(from, 2))) {
        memset(slot->host, byte, slot->bytes);
        return;
    }
    stream = is_peer(slot) ? OTHER : stream;
    enter(worker, stream);
    order(worker, &slot->sync, stream, true, from);
    enter(worker, stream);
    CU(cuMemsetD8Async(slot->base, byte, slot->bytes, stream_of(worker, stream)));
    enter(worker, LEGACY);
}

static void make(struct worker *worker, struct slot *slot, struct draw *from)
{
    uint32_t stream = draw_stream(worker, from), generation = slot->generation + 1;
    const struct kind *kind = draw_kind(worker, from);
    struct sync sync = {.writer = NO_STREAM, .events = {slot->sync.events[0], slot->sync.events[1]}};
    *slot = (struct slot){.sync = sync, .generation = generation, .words = 64 * (1 + draw(from, one_in(from, 4) ? 16 : 3))};
    slot->offset = 4 * (GUARD_WORDS + draw(from, (uint32_t)kind->more_bytes / 8) / 4 * 4);
    slot->bytes = slot->offset + 4 * (slot->words + GUARD_WORDS) + draw(from, (uint32_t)kind->more_bytes / 2);
    slot->kind = kind;
    if (kind->make(worker, slot, stream, from)) {
        tally(kind->name);
        if (kind->make == make_async || kind->make == make_pooled)
            slot->sync.writer = (uint8_t)stream; /* it exists in this order only */
        say(worker, "slot %u: %s, %zu bytes, window of %u words at %zu, %s", slot_number(worker, slot), kind->name, slot->bytes,
            slot->words, slot->offset, stream_name(stream));
        init(worker, slot, stream, from);
    }
}

void slot_free(struct worker *worker, struct slot *slot, struct draw *from)
{
    uint32_t stream = draw_stream(worker, from);
    say(worker, "slot %u: free %s, %s", slot_number(worker, slot), slot->kind->name, stream_name(stream));
    if (slot->kind->drop == drop_async || slot->kind->drop == drop_pooled)
        order(worker, &slot->sync, stream, true, from);
    else if (slot->kind->waits || slot->sync.handed || uses(worker->program, FEATURE_peer))
        host_wait(worker, &slot->sync, true, from); /* else cuMemFree waits itself for its own GPU */
    slot->kind->drop(worker, slot, stream);
    slot->kind = NULL;
}

bool slot_fits(const struct slot *slot, uint32_t use)
{
    return slot->kind && (slot->kind->use & use) == use;
}

struct slot *pick_slot(struct worker *worker, struct draw *from, uint32_t use, const struct slot *but)
{
    struct program *program = worker->program;
    uint32_t first = draw(from, SLOTS);
    struct draw making = {scramble(from->state)};
    for (uint32_t i = 0; i < SLOTS; i++) {
        struct slot *slot = &program->slots[(first + i) % SLOTS];
        if (slot == but || !owns(worker, (first + i) % SLOTS, OWN_SLOTS))
            continue;
        if (!slot->kind)
            make(worker, slot, &making);
        if (slot_fits(slot, use))
            return slot;
    }
    return NULL;
}

uint64_t slot_digest(struct worker *worker, struct slot *slot, uint64_t digest)
{
    uint32_t words[GUARD_WORDS + 64 * 16 + GUARD_WORDS];
    size_t first = slot->offset - 4 * GUARD_WORDS, bytes = 4 * (slot->words + 2 * GUARD_WORDS);
    struct draw from = {1};
    host_wait(worker, &slot->sync, false, &from);
    if (slot->host)
        memcpy(words, slot->host + first, bytes);
    else
        CU(cuMemcpyDtoH(words, slot->base + first, bytes));
    return digest_bytes(digest, words, bytes);
}

/* Something else in the place of one. */
void op_replace(struct worker *worker, struct draw *from)
{
    struct slot *slot = pick_slot(worker, from, 0, NULL);
    if (!slot)
        return;
    slot_free(worker, slot, from);
    make(worker, slot, from);
}

/* More or fewer mapped pages behind the one in use, or another physical page for it. */
void op_grow(struct worker *worker, struct draw *from)
{
    struct slot *slot = pick_slot(worker, from, FOR_KERNELS, NULL);
    if (!slot || slot->kind->make != make_mapped)
        return;
    say(worker, "slot %u: map and unmap", slot_number(worker, slot));
    if (slot->pages > 1 && one_in(from, 2)) {
        host_wait(worker, &slot->sync, true, from); /* kernels may use all that is mapped */
        unmap_page(worker, slot, --slot->pages);
    } else if (slot->pages < 3 && !one_in(from, 3)) {
        if (map_page(worker, slot, slot->pages))
            CU(cuMemsetD8Async(slot->base + slot->pages++ * PAGE, 1, 4096, stream_of(worker, FREE_A)));
        if (!worker->program->failed)
            CU(cuStreamSynchronize(stream_of(worker, FREE_A)));
    } else {
        host_wait(worker, &slot->sync, true, from);
        unmap_page(worker, slot, 0);
        if (map_page(worker, slot, 0))
            init(worker, slot, FREE_A, from);
    }
}

void op_prefetch(struct worker *worker, struct draw *from)
{
    struct slot *slot = pick_slot(worker, from, FOR_CPU | FOR_KERNELS, NULL);
    uint32_t stream = draw_stream(worker, from);
    if (!slot || !is_managed(slot))
        return;
    CUmemLocation place = {.type = one_in(from, 2) ? CU_MEM_LOCATION_TYPE_DEVICE : CU_MEM_LOCATION_TYPE_HOST};
    say(worker, "slot %u: prefetch", slot_number(worker, slot));
    order(worker, &slot->sync, stream, true, from);
    CU(cuMemPrefetchAsync_v2(slot->base, slot->bytes, place, 0, stream_of(worker, stream)));
    if (one_in(from, 2))
        CU(cuMemAdvise_v2(slot->base, slot->bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, place));
}

void op_trim(struct worker *worker, struct draw *from)
{
    CUmemoryPool pool = NULL;
    if (!uses(worker->program, FEATURE_async))
        return;
    say(worker, "trim the default pool");
    if (CU(cuDeviceGetDefaultMemPool(&pool, 0)))
        CU(cuMemPoolTrimTo(pool, one_in(from, 2) ? 0 : 2 * PAGE));
}

/* Answers that depend on nothing but the program. */
void op_ask(struct worker *worker, struct draw *from)
{
    struct slot *slot = pick_slot(worker, from, 0, NULL);
    if (!slot || !slot->base || is_part(slot))
        return;
    CUdeviceptr base = 0;
    size_t bytes = 0;
    CUmemorytype type = 0;
    int ordinal = -1, managed = -1;
    say(worker, "slot %u: ask", slot_number(worker, slot));
    CU(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, window(slot)));
    CU(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, window(slot)));
    CU(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, window(slot)));
    if (!slot->host)
        CU(cuMemGetAddressRange(&base, &bytes, window(slot)));
    uint64_t answers[] = {type, (uint64_t)ordinal, (uint64_t)managed, slot->host ? 0 : base == slot->base, bytes};
    worker->digest = digest_bytes(worker->digest, answers, sizeof answers);
}
