/* Blocks against a naive list: no overlap, alignment, lowest fit, one block per gap, and the bound on fragmentation. */
#include "base/blocks.h"

#include <stdlib.h>

#include "check.h"

#define UNIT 512ull
#define CHUNK (2048 * UNIT) /* bytes */
#define CHUNKS 64
#define SLOTS 400
#define STREAMS 3

enum { UNITS = CHUNKS * CHUNK / UNIT };

static uint8_t owners[UNITS]; /* naive: set of each unit; 255: in use */
static uint64_t base = 1ull << 45;

static uint32_t seed;
static uint32_t pick(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)(seed >> 8) * below >> 24);
}

static uint32_t unit_of(const struct tsr_block *block)
{
    return (uint32_t)((tsr_block_address(block) - base) / UNIT);
}

static void paint(uint32_t unit, uint64_t bytes, uint8_t value)
{
    for (uint32_t i = 0; i < bytes / UNIT; i++)
        owners[unit + i] = value;
}

/* The lowest run of the set's units in one chunk, as tsr_blocks_take must find it; UNITS: none. */
static uint32_t naive_fit(uint8_t set, uint32_t chunks, uint32_t units)
{
    uint32_t run = 0, per_chunk = CHUNK / UNIT;
    for (uint32_t i = 0; i < chunks * per_chunk; i++) {
        run = owners[i] == set ? (i % per_chunk ? run + 1 : 1) : 0;
        if (run == units)
            return i + 1 - units;
    }
    return UNITS;
}

/* The list of blocks says what the naive one says, and nowhere are two that should be one. */
static void compare(const struct tsr_blocks *blocks, uint32_t chunks)
{
    uint64_t at = base;
    for (const struct tsr_block *block = blocks->lowest; block; block = block->next) {
        CHECK_EQ(tsr_block_address(block), at);
        CHECK(tsr_blocks_find(blocks, at + tsr_block_bytes(block) - 1) == block);
        uint8_t expected = block->set == TSR_BLOCKS_USED ? 255 : (uint8_t)block->set;
        for (uint64_t i = 0; i < tsr_block_bytes(block) / UNIT; i++)
            if (owners[unit_of(block) + i] != expected)
                CHECK_EQ(owners[unit_of(block) + i], expected);
        if (block->next && !block->next->first && block->set != TSR_BLOCKS_USED)
            CHECK(block->next->set != block->set);
        CHECK_EQ(block->first, (at - base) % CHUNK == 0);
        at += tsr_block_bytes(block);
    }
    CHECK_EQ(at, base + chunks * CHUNK);
}

TEST(random_use_agrees_with_a_naive_list)
{
    for (uint32_t round = 0; round < 20; round++) {
        struct tsr_blocks blocks = {0};
        struct tsr_block *held[SLOTS] = {0};
        uint32_t chunks = 0;
        seed = round + 1;
        memset(owners, 0, sizeof owners);
        for (uint64_t set = 2; set < 2 + STREAMS; set++)
            REQUIRE(tsr_blocks_set(&blocks, set));
        for (uint32_t step = 0, last = check_steps(3000); step < last; step++) {
            uint32_t slot = pick(SLOTS);
            if (pick(100) == 0) {
                uint64_t set = 2 + pick(STREAMS);
                tsr_blocks_release(&blocks, set);
                for (uint32_t i = 0; i < UNITS; i++)
                    owners[i] = owners[i] == set ? (uint8_t)TSR_BLOCKS_FREE : owners[i];
                REQUIRE(tsr_blocks_set(&blocks, set));
            } else if (held[slot]) {
                uint8_t set = (uint8_t)(1 + pick(1 + STREAMS));
                paint(unit_of(held[slot]), tsr_block_bytes(held[slot]), set);
                tsr_blocks_give(&blocks, held[slot], set);
                held[slot] = NULL;
            } else {
                uint32_t units = 1 + pick(pick(4) ? 16 : 700);
                uint8_t set = (uint8_t)(1 + pick(1 + STREAMS));
                uint32_t expected = naive_fit(set, chunks, units);
                struct tsr_block *block = tsr_blocks_take(&blocks, set, units * UNIT, UNIT);
                CHECK_EQ(block ? unit_of(block) : (uint32_t)UNITS, expected);
                if (!block && chunks < CHUNKS && pick(2)) {
                    REQUIRE(tsr_blocks_add(&blocks, base + chunks * CHUNK, CHUNK));
                    paint((uint32_t)(chunks++ * CHUNK / UNIT), CHUNK, (uint8_t)TSR_BLOCKS_FREE);
                }
                if (block) {
                    CHECK_EQ(tsr_block_bytes(block), units * UNIT);
                    paint(unit_of(block), units * UNIT, 255);
                    held[slot] = block;
                }
            }
            if (step % 100 == 0)
                compare(&blocks, chunks);
        }
        compare(&blocks, chunks);
        tsr_blocks_fini(&blocks);
    }
}

TEST(a_chunk_goes_when_all_of_it_is_free)
{
    struct tsr_blocks blocks = {0};
    REQUIRE(tsr_blocks_add(&blocks, base, CHUNK));
    REQUIRE(tsr_blocks_add(&blocks, base + CHUNK, CHUNK));
    struct tsr_block *a = tsr_blocks_take(&blocks, TSR_BLOCKS_FREE, CHUNK / 2, UNIT);
    struct tsr_block *b = tsr_blocks_take(&blocks, TSR_BLOCKS_FREE, CHUNK, UNIT);
    REQUIRE(a && b);
    CHECK_EQ(tsr_block_address(b), base + CHUNK); /* blocks do not span chunks */
    CHECK(!tsr_blocks_idle(a));
    a = tsr_blocks_give(&blocks, a, TSR_BLOCKS_FREE);
    CHECK(tsr_blocks_idle(a) == a);
    tsr_blocks_remove(&blocks, a);
    CHECK(!tsr_blocks_find(&blocks, base));
    CHECK(tsr_blocks_from(&blocks, base) == b);
    CHECK(tsr_blocks_from(&blocks, base + CHUNK + 1) == b);
    CHECK(!tsr_blocks_from(&blocks, base + 2 * CHUNK));
    CHECK_EQ(tsr_blocks_bytes(&blocks, TSR_BLOCKS_FREE), 0);
    tsr_blocks_fini(&blocks);
}

TEST(exact_places_and_alignment)
{
    struct tsr_blocks blocks = {0};
    REQUIRE(tsr_blocks_add(&blocks, base, CHUNK));
    struct tsr_block *middle = tsr_blocks_take_at(&blocks, base + 10 * UNIT, 5 * UNIT);
    REQUIRE(middle);
    CHECK_EQ(tsr_block_address(middle), base + 10 * UNIT);
    CHECK(!tsr_blocks_take_at(&blocks, base + 14 * UNIT, UNIT));
    CHECK(!tsr_blocks_take_at(&blocks, base + 9 * UNIT, 2 * UNIT));
    CHECK(!tsr_blocks_take_at(&blocks, base + CHUNK - UNIT, 2 * UNIT));
    struct tsr_block *aligned = tsr_blocks_take(&blocks, TSR_BLOCKS_FREE, 20 * UNIT, 64 * UNIT);
    REQUIRE(aligned);
    CHECK_EQ(tsr_block_address(aligned), base + 64 * UNIT);
    CHECK(!tsr_blocks_take(&blocks, TSR_BLOCKS_FREE, CHUNK, UNIT));
    tsr_blocks_give(&blocks, middle, TSR_BLOCKS_FREE);
    struct tsr_block *whole = tsr_blocks_give(&blocks, aligned, TSR_BLOCKS_FREE);
    CHECK(tsr_blocks_idle(whole) == whole);
    tsr_blocks_fini(&blocks);
}

static uint32_t log2_of(uint64_t value)
{
    return 63u - (uint32_t)__builtin_clzll(value);
}

/* Churn that changes its sizes, the enemy of first fit: what is mapped stays below the bound of blocks.h. */
TEST(fragmentation_is_bounded)
{
    enum { MANY = 4096 };
    static struct tsr_block *held[MANY];
    uint64_t largest = CHUNK / 2, in_use = 0, peak = 0, added = 0;
    struct tsr_blocks blocks = {0};
    seed = 7;
    for (uint32_t phase = 0; phase <= log2_of(largest / UNIT); phase++) {
        for (uint32_t i = 0; i < MANY; i++)
            if (held[i] && pick(4)) {
                in_use -= tsr_block_bytes(held[i]);
                tsr_blocks_give(&blocks, held[i], TSR_BLOCKS_FREE);
                held[i] = NULL;
            }
        for (uint32_t i = 0; i < MANY && in_use < 32 * CHUNK; i++) {
            if (held[i])
                continue;
            uint64_t bytes = UNIT << phase;
            held[i] = tsr_blocks_take(&blocks, TSR_BLOCKS_FREE, bytes, UNIT);
            if (!held[i]) {
                REQUIRE(tsr_blocks_add(&blocks, base + added, CHUNK));
                added += CHUNK;
                held[i] = tsr_blocks_take(&blocks, TSR_BLOCKS_FREE, bytes, UNIT);
            }
            REQUIRE(held[i]);
            in_use += bytes;
            peak = in_use > peak ? in_use : peak;
            CHECK(added <= peak * (1 + log2_of(largest / UNIT)) * CHUNK / (CHUNK - largest) + CHUNK);
        }
    }
    CHECK(added <= 2 * peak);
    tsr_blocks_fini(&blocks);
}
