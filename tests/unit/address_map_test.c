/* The address map: against a list of ranges, one change after another; and readers beside writers, who see no half of a change. */
#include "memory/address_map.c"

#include <time.h>

#include "memory/home_only.c"

#include "check.h"

#define BASE 0x200000000000ull
#define SECONDS 0.2

static uint64_t random_state = 88172645463325252ull;

static uint64_t draw(uint64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % below;
}

struct ends {
    uint64_t begin, end;
};

/* ---- against a list ---- */

enum { SLOTS = 64, PAGES = 96 };

static bool finds(uint64_t address, struct ends expected)
{
    uint64_t begin = 0, end = 0;
    bool found = tsr_address_find_range(address, &begin, &end);
    return found ? begin == expected.begin && end == expected.end : expected.end == 0;
}

static struct ends in_list(const struct ends *list, unsigned count, uint64_t address)
{
    for (unsigned i = 0; i < count; i++)
        if (address >= list[i].begin && address < list[i].end)
            return list[i];
    return (struct ends){0, 0};
}

TEST(allocations_are_found_as_in_a_list)
{
    static struct ends list[SLOTS];
    for (unsigned step = 0; step < 20000; step++) {
        unsigned slot = (unsigned)draw(SLOTS);
        uint64_t room = BASE + slot * 5 * PAGE_BYTES / 2; /* some share a page with the next */
        room -= room % UNIT_BYTES;
        if (list[slot].end) {
            tsr_address_remove(list[slot].begin, true);
            list[slot] = (struct ends){0, 0};
        } else {
            uint64_t begin = room + draw(8) * UNIT_BYTES,
                     bytes = 1 + draw(draw(2) ? 5 * PAGE_BYTES / 2 - 16 * UNIT_BYTES : 4096);
            list[slot] = (struct ends){begin, begin + bytes};
            tsr_address_add(begin, bytes, true);
        }
        for (unsigned i = 0; i < 8; i++) {
            uint64_t address = BASE + draw(SLOTS * 5 * PAGE_BYTES / 2);
            if (!CHECK(finds(address, in_list(list, SLOTS, address))))
                return;
        }
        if (list[slot].end && !CHECK(finds(list[slot].begin, list[slot]) && finds(list[slot].end - 1, list[slot])))
            return;
    }
    for (unsigned slot = 0; slot < SLOTS; slot++)
        if (list[slot].end)
            tsr_address_remove(list[slot].begin, true);
}

static unsigned tables(void)
{
    unsigned count = 0;
    for (uint32_t number = lowest_leaf; number <= highest_leaf; number++)
        for (uint32_t i = 0; tsr_address_leaves[number] && i < TSR_ADDRESS_LEAF_PAGES; i++)
            count += tsr_address_leaves[number][i].units != NULL;
    for (const struct tsr_address_units *units = unused_units; units; units = units->free)
        count++;
    return count;
}

/* Each slot has an allocation at a time, that lies in two pages with others at the most, anywhere in 256 pages of the slot. */
TEST(tables_are_as_many_as_what_is_allocated_needs)
{
    static uint64_t begins[SLOTS];
    tsr_address_forget();
    for (unsigned step = 0; step < 300000; step++) {
        unsigned slot = (unsigned)draw(SLOTS);
        if (begins[slot])
            tsr_address_remove(begins[slot], true);
        uint64_t bytes = 1 + draw(step % 64 ? 8 * UNIT_BYTES : 3 * PAGE_BYTES);
        begins[slot] = BASE + (slot * 256 + draw(252)) * PAGE_BYTES + draw(PAGE_UNITS) * UNIT_BYTES;
        tsr_address_add(begins[slot], bytes, true);
    }
    for (unsigned slot = 0; slot < SLOTS; slot++) {
        CHECK(tsr_address_find_range(begins[slot], &(uint64_t){0}, &(uint64_t){0}));
        tsr_address_remove(begins[slot], true);
    }
    CHECK(tables() <= 2 * SLOTS);
    tsr_address_forget();
    CHECK_EQ(tables(), 0);
}

static struct ends run_of(const bool *mapped, uint64_t page)
{
    uint64_t begin = page, end = page;
    if (!mapped[page])
        return (struct ends){0, 0};
    while (begin && mapped[begin - 1])
        begin--;
    while (end < PAGES && mapped[end])
        end++;
    return (struct ends){BASE + begin * PAGE_BYTES, BASE + end * PAGE_BYTES};
}

TEST(mappings_side_by_side_are_one_range)
{
    static bool mapped[PAGES + 1];
    for (unsigned step = 0; step < 20000; step++) {
        uint64_t first = draw(PAGES), last = first, address = BASE + first * PAGE_BYTES;
        bool was = mapped[first];
        for (uint64_t wanted = draw(4); wanted && last + 1 < PAGES && mapped[last + 1] == was; wanted--)
            last++;
        for (uint64_t page = first; page <= last; page++)
            mapped[page] = !was;
        if (was)
            tsr_address_cut(address, (last + 1 - first) * PAGE_BYTES);
        else
            tsr_address_join(address, (last + 1 - first) * PAGE_BYTES, first && mapped[first - 1], mapped[last + 1]);
        for (uint64_t page = 0; page < PAGES; page++)
            if (!CHECK(finds(BASE + page * PAGE_BYTES + draw(PAGE_BYTES), run_of(mapped, page))))
                return;
    }
    for (uint64_t page = 0; page < PAGES; page++)
        if (mapped[page])
            tsr_address_cut(BASE + page * PAGE_BYTES, PAGE_BYTES);
}

TEST(flags_are_of_pages)
{
    CHECK_EQ(tsr_address_flags(BASE), 0);
    CHECK_EQ(tsr_address_flags(UINT64_MAX), 0);
    CHECK(tsr_address_set_flag(BASE + PAGE_BYTES + 5, PAGE_BYTES, TSR_ADDRESS_HOME_ONLY));
    CHECK_EQ(tsr_address_flags(BASE + PAGE_BYTES - 1), 0);
    CHECK_EQ(tsr_address_flags(BASE + PAGE_BYTES), TSR_ADDRESS_HOME_ONLY);
    CHECK_EQ(tsr_address_flags(BASE + 3 * PAGE_BYTES - 1), TSR_ADDRESS_HOME_ONLY);
    CHECK(tsr_address_set_flag(BASE + PAGE_BYTES, PAGE_BYTES, TSR_ADDRESS_EVERYWHERE));
    tsr_address_clear_flag(BASE + PAGE_BYTES, 2 * PAGE_BYTES, TSR_ADDRESS_HOME_ONLY);
    CHECK_EQ(tsr_address_flags(BASE + PAGE_BYTES), TSR_ADDRESS_EVERYWHERE);
    CHECK_EQ(tsr_address_flags(BASE + 2 * PAGE_BYTES), 0);
    CHECK(!tsr_address_set_flag(1ull << 50, 1, TSR_ADDRESS_EVERYWHERE));
    tsr_address_clear_flag(BASE + PAGE_BYTES, PAGE_BYTES, TSR_ADDRESS_EVERYWHERE);
}

/* ---- beside changes ---- */

static uint32_t stop; /* atomic */

static double now_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static const char *run_beside(void *(*reader)(void *), void (*change)(unsigned step))
{
    pthread_t threads[2];
    void *wrong[2];
    __atomic_store_n(&stop, 0, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, reader, NULL);
    double end = now_s() + SECONDS;
    for (unsigned step = 0; now_s() < end;)
        for (unsigned i = 0; i < 100; i++)
            change(step++);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(threads[i], &wrong[i]);
    return wrong[0] ? wrong[0] : wrong[1];
}

/* Place n has a range of one of two forms, or none; ranges given back are taken for another place. */
static uint64_t place_of(unsigned n)
{
    return BASE + n * PAGE_BYTES;
}

static void allocate_and_free(unsigned step)
{
    static unsigned forms[4];
    unsigned n = step % 3, form = forms[n];
    if (form)
        tsr_address_remove(place_of(n) + (form - 1) * 8 * UNIT_BYTES, true);
    forms[n] = form == 2 ? 0 : form + 1;
    if (forms[n])
        tsr_address_add(place_of(n) + (forms[n] - 1) * 8 * UNIT_BYTES, forms[n] * 64 * UNIT_BYTES, true);
}

static void *look_for_allocations(void *unused_argument)
{
    (void)unused_argument;
    for (unsigned i = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); i++) {
        uint64_t begin, end, place = place_of(i % 3);
        if (tsr_address_find_range(place + 20 * UNIT_BYTES, &begin, &end) &&
            !(begin == place && end == place + 64 * UNIT_BYTES) &&
            !(begin == place + 8 * UNIT_BYTES && end == begin + 128 * UNIT_BYTES))
            return "an allocation was seen that never was";
    }
    return NULL;
}

TEST(readers_beside_allocating_see_whole_ranges)
{
    const char *wrong = run_beside(look_for_allocations, allocate_and_free);
    CHECK(wrong == NULL);
    tsr_address_forget(); /* or the next test's readers may still see what is left */
}

/* One allocation that wanders from page to page, and with it the only table, and one that stays: in two forms as above. */
static void wander(unsigned step)
{
    static uint64_t address;
    if (address)
        tsr_address_remove(address, true);
    address = BASE + (1 + step % 5) * PAGE_BYTES + step % 7 * UNIT_BYTES;
    tsr_address_add(address, 64 * UNIT_BYTES, true);
}

static void *look_for_wanderer(void *unused_argument)
{
    (void)unused_argument;
    for (unsigned i = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); i++) {
        uint64_t begin, end, address = BASE + (1 + i % 5) * PAGE_BYTES + 20 * UNIT_BYTES;
        if (!tsr_address_find_range(BASE + 20 * UNIT_BYTES, &begin, &end) || begin != BASE || end != BASE + 64 * UNIT_BYTES)
            return "an allocation that stays was not found";
        if (tsr_address_find_range(address, &begin, &end) &&
            (address < begin || address >= end || end - begin != 64 * UNIT_BYTES))
            return "an allocation was seen that is another page's";
    }
    return NULL;
}

TEST(readers_beside_tables_that_change_pages_see_what_is_there)
{
    tsr_address_add(BASE, 64 * UNIT_BYTES, true);
    const char *wrong = run_beside(look_for_wanderer, wander);
    CHECK(wrong == NULL);
    tsr_address_forget();
}

/* Ten pages, the middle of which are always mapped: their neighbours come and go, one by one and from either side. */
static void grow_and_shrink(unsigned step)
{
    static bool mapped[12] = {[5] = true};
    unsigned page = 1 + step * 7 % 10;
    if (page == 5)
        return;
    mapped[page] = !mapped[page];
    if (mapped[page])
        tsr_address_join(BASE + page * PAGE_BYTES, PAGE_BYTES, mapped[page - 1], mapped[page + 1]);
    else
        tsr_address_cut(BASE + page * PAGE_BYTES, PAGE_BYTES);
}

static void *look_for_middle(void *unused_argument)
{
    (void)unused_argument;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        uint64_t begin, end;
        if (!tsr_address_find_range(BASE + 5 * PAGE_BYTES + 1, &begin, &end))
            return "what is mapped all the time was not found";
        if (begin < BASE + PAGE_BYTES || begin > BASE + 5 * PAGE_BYTES || end < BASE + 6 * PAGE_BYTES ||
            end > BASE + 11 * PAGE_BYTES || begin % PAGE_BYTES || end % PAGE_BYTES)
            return "a range was seen that never was";
    }
    return NULL;
}

TEST(readers_beside_mapping_never_miss_what_stays)
{
    tsr_address_join(BASE + 5 * PAGE_BYTES, PAGE_BYTES, false, false);
    const char *wrong = run_beside(look_for_middle, grow_and_shrink);
    CHECK(wrong == NULL);
    tsr_address_forget();
}

/* The first range stays; others before it come and go, and move it in the table. */
static void add_and_take(unsigned step)
{
    uint64_t address = BASE + PAGE_BYTES + (step / 2 * 7919 % 300) * 0x1000;
    if (step % 2)
        tsr_home_only_take(address);
    else
        tsr_home_only_add(address, 0x1000, TSR_REASON_MEMORY_IPC);
}

static void *look_for_reasons(void *unused_argument)
{
    (void)unused_argument;
    for (unsigned i = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); i++) {
        enum tsr_reason reason = tsr_home_only_reason(BASE + PAGE_BYTES + i % 300 * 0x1000 + 0xfff);
        if (tsr_home_only_reason(BASE + PAGE_BYTES + 400 * 0x1000) != TSR_REASON_MEMORY_MANAGED)
            return "a range that stays was not found";
        if (reason != TSR_REASON_NONE && reason != TSR_REASON_MEMORY_IPC)
            return "a reason was seen that is another range's";
    }
    return NULL;
}

TEST(readers_beside_home_only_ranges_see_each_with_its_reason)
{
    tsr_home_only_add(BASE + PAGE_BYTES + 400 * 0x1000, 0x1000, TSR_REASON_MEMORY_MANAGED);
    const char *wrong = run_beside(look_for_reasons, add_and_take);
    CHECK(wrong == NULL);
    tsr_home_only_forget();
}
