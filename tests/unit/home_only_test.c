/* Ranges of the home GPU only: which parameter blocks keep a launch home. */
#include "memory/address_map.c"
#include "memory/home_only.c"

#include "check.h"

TEST(addresses_in_ranges_are_found_in_aligned_words)
{
    uint64_t words[4] = {1, 2, 3, 0x1fff};
    CHECK_EQ(tsr_home_only_count, 0);
    CHECK_EQ(tsr_home_only_scan(words, sizeof words), TSR_REASON_NONE);
    tsr_home_only_add(0x5000, 0x1000, TSR_REASON_MEMORY_IPC);
    tsr_home_only_add(0x1000, 0x1000, TSR_REASON_MEMORY_MANAGED);
    tsr_home_only_add(0x3000, 0x800, TSR_REASON_MEMORY_REGISTERED);
    CHECK_EQ(tsr_home_only_scan(words, sizeof words), TSR_REASON_MEMORY_MANAGED);
    CHECK_EQ(tsr_home_only_scan(words, sizeof words - 1), TSR_REASON_NONE); /* the last word is cut off */
    CHECK_EQ(tsr_home_only_scan(words, 24), TSR_REASON_NONE);
    words[0] = 0x37ff;
    CHECK_EQ(tsr_home_only_scan(words, 8), TSR_REASON_MEMORY_REGISTERED);
    words[0] = 0x3800;
    CHECK_EQ(tsr_home_only_scan(words, 8), TSR_REASON_NONE);
    words[0] = 0x2000;
    CHECK_EQ(tsr_home_only_scan(words, 8), TSR_REASON_NONE);
    CHECK_EQ(tsr_home_only_reason(0x5fff), TSR_REASON_MEMORY_IPC);
    CHECK_EQ(tsr_home_only_reason(0xfff), TSR_REASON_NONE);
    tsr_home_only_forget();
}

TEST(what_overlaps_is_replaced)
{
    for (uint64_t i = 1; i <= 10; i++)
        tsr_home_only_add(i << 12, 0x1000, TSR_REASON_MEMORY_VARIABLE);
    tsr_home_only_add(0x2800, 0x2000, TSR_REASON_MEMORY_MANAGED); /* cuts into 2, covers 3, cuts into 4 */
    CHECK_EQ(tsr_home_only_count, 8);
    CHECK_EQ(tsr_home_only_reason(0x2000), TSR_REASON_NONE);
    CHECK_EQ(tsr_home_only_reason(0x2800), TSR_REASON_MEMORY_MANAGED);
    CHECK_EQ(tsr_home_only_reason(0x47ff), TSR_REASON_MEMORY_MANAGED);
    CHECK_EQ(tsr_home_only_reason(0x4fff), TSR_REASON_NONE);
    CHECK_EQ(tsr_home_only_reason(0x1fff), TSR_REASON_MEMORY_VARIABLE);
    CHECK_EQ(tsr_home_only_reason(0x5000), TSR_REASON_MEMORY_VARIABLE);
    tsr_home_only_add(0x1000, 0x100000, TSR_REASON_MEMORY_IPC);
    CHECK_EQ(tsr_home_only_count, 1);
    tsr_home_only_forget();
}

TEST(ranges_are_replaced_and_removed)
{
    tsr_home_only_add(0x1000, 0x1000, TSR_REASON_MEMORY_MANAGED);
    tsr_home_only_add(0x1000, 0x10, TSR_REASON_MEMORY_GRAPH);
    CHECK_EQ(tsr_home_only_count, 1);
    CHECK_EQ(tsr_home_only_reason(0x100f), TSR_REASON_MEMORY_GRAPH);
    CHECK_EQ(tsr_home_only_reason(0x1010), TSR_REASON_NONE);
    tsr_home_only_take(0x1008);
    CHECK_EQ(tsr_home_only_count, 1);
    tsr_home_only_take(0x1000);
    CHECK_EQ(tsr_home_only_count, 0);
    for (uint64_t i = 0; i < 1000; i++)
        tsr_home_only_add((i * 7919 % 1000 + 1) << 12, 0x100, TSR_REASON_MEMORY_IPC);
    for (uint64_t i = 1; i <= 1000; i++)
        CHECK_EQ(tsr_home_only_reason((i << 12) + 0xff), TSR_REASON_MEMORY_IPC);
    for (uint64_t i = 1; i <= 1000; i += 2)
        tsr_home_only_take(i << 12);
    CHECK_EQ(tsr_home_only_count, 500);
    for (uint64_t i = 1; i <= 1000; i++)
        CHECK_EQ(tsr_home_only_reason(i << 12), i % 2 ? TSR_REASON_NONE : TSR_REASON_MEMORY_IPC);
    tsr_home_only_forget();
}

/* Beyond what pages are flagged of: very wide, or no address that a GPU has. */
TEST(ranges_are_found_at_any_address)
{
    tsr_home_only_add(1ull << 41, 1ull << 42, TSR_REASON_MEMORY_MANAGED);
    tsr_home_only_add(1ull << 52, 0x1000, TSR_REASON_MEMORY_IPC);
    CHECK_EQ(tsr_home_only_reason((1ull << 42) + 5), TSR_REASON_MEMORY_MANAGED);
    CHECK_EQ(tsr_home_only_reason((1ull << 52) + 0xfff), TSR_REASON_MEMORY_IPC);
    CHECK_EQ(tsr_home_only_reason((1ull << 52) + 0x1000), TSR_REASON_NONE);
    tsr_home_only_take(1ull << 52);
    CHECK_EQ(tsr_home_only_reason(1ull << 52), TSR_REASON_NONE);
    tsr_home_only_forget();
}

/* The first word in a range, wherever ranges begin and end by then. */
TEST(a_scan_is_that_of_each_word)
{
    enum { PLACES = 24, WORDS = 21 };
    bool is_there[PLACES] = {false};
    uint64_t state = 1;
    for (int round = 0; round < 5000; round++) {
        uint64_t words[WORDS] = {0}, place = (state = state * 6364136223846793005ull + 1442695040888963407ull) >> 40;
        bool *changed = &is_there[place % PLACES], expected = false;
        uint64_t address = 0x7f0000000000 + (place % PLACES << 21);
        if (*changed)
            tsr_home_only_take(address);
        else
            tsr_home_only_add(address, 0x1000, TSR_REASON_MEMORY_MANAGED);
        *changed = !*changed;
        for (int i = 0; i < 3; i++) {
            uint64_t other = (state = state * 6364136223846793005ull + 1442695040888963407ull) >> 40;
            words[other / PLACES % WORDS] = 0x7f0000000000 + (other % PLACES << 21) + other % 0xfff;
        }
        for (int i = 0; i < WORDS; i++)
            expected |= words[i] && is_there[(words[i] - 0x7f0000000000) >> 21];
        CHECK_EQ(tsr_home_only_scan(words, sizeof words), expected ? TSR_REASON_MEMORY_MANAGED : TSR_REASON_NONE);
    }
    tsr_home_only_forget();
}
