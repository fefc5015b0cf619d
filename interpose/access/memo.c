/* See memo.h. */
#include "access/memo.h"

#include <stdlib.h>

/* An entry's words. Key and ranges follow. */
enum { SEQUENCE, PATH, COUNTS, WHY, TEXT, KEY };

/* A path's words. Inputs and masks follow, by turns. */
enum { STATE, INPUTS, ITEMS };

enum state { EMPTY, BEING_WRITTEN, READY };

#define WAYS 4u /* entries that a key may have */
#define RANGE_WORDS (sizeof(struct tsr_access_range) / sizeof(uint64_t))

bool tsr_memo_init(struct tsr_memo *memo, uint32_t entries, const struct tsr_inputs *inputs)
{
    uint32_t width = inputs->count + inputs->template.header->symbols;
    size_t entry_words = KEY + TSR_MEMO_SHAPE + width + TSR_MEMO_RANGES * RANGE_WORDS, path_words = ITEMS + 2 * (size_t)width;
    *memo = (struct tsr_memo){
        .inputs = inputs, .entries = entries, .width = width, .entry_words = entry_words, .path_words = path_words};
    if (entries == 0)
        return true;
    memo->paths = calloc(TSR_MEMO_PATHS * path_words + entries * (1 + entry_words), sizeof *memo->paths);
    if (!memo->paths)
        return false;
    memo->hashes = memo->paths + TSR_MEMO_PATHS * path_words;
    memo->store = memo->hashes + entries;
    return true;
}

void tsr_memo_fini(struct tsr_memo *memo)
{
    free(memo->paths);
}

/* What is read of an entry is read before its sequence number is looked at again, */
static uint64_t load(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* and what is written to it after the number was made odd. */
static void store(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static uint64_t mixed(uint64_t hash, uint64_t word)
{
    unsigned __int128 product = (unsigned __int128)(hash ^ word) * 0x9e3779b97f4a7c15ull;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t *path_at(const struct tsr_memo *memo, uint32_t number)
{
    return memo->paths + number * memo->path_words;
}

/* What a launch is told from others by along a path. The result is how many words that is. */
static uint32_t fill_key(const struct tsr_memo *memo, uint32_t path, const struct tsr_access_launch *launch, uint64_t *key)
{
    const uint64_t *item = path_at(memo, path);
    uint32_t count = (uint32_t)item[INPUTS];
    item += ITEMS;
    key[0] = launch->grid[0] | (uint64_t)launch->grid[1] << 32;
    key[1] = launch->grid[2] | (uint64_t)launch->block[0] << 32;
    key[2] = launch->block[1] | (uint64_t)launch->block[2] << 32;
    key[3] = launch->parameter_bytes;
    for (uint32_t i = 0; i < count; i++, item += 2)
        key[TSR_MEMO_SHAPE + i] = tsr_input_value(memo->inputs, launch, (uint32_t)item[0]) & item[1];
    return TSR_MEMO_SHAPE + count;
}

/* Never 0. */
static uint64_t hash_of(uint32_t path, const uint64_t *key, uint32_t words)
{
    uint64_t hash = 0x2545f4914f6cdd1dull + path;
    for (uint32_t i = 0; i < words; i++)
        hash = mixed(hash + i, key[i]);
    return hash | 1;
}

static uint32_t place_of(const struct tsr_memo *memo, uint64_t hash, uint32_t way)
{
    uint32_t first = (uint32_t)((hash >> 32) * memo->entries >> 32), place = first + way;
    return place < memo->entries ? place : place % memo->entries;
}

static bool is_same(const uint64_t *entry, uint32_t path, const uint64_t *key, uint32_t words)
{
    uint64_t difference = load(&entry[PATH]) ^ path;
    for (uint32_t i = 0; i < words; i++)
        difference |= load(&entry[KEY + i]) ^ key[i];
    return difference == 0;
}

static void read_entry(const uint64_t *entry, uint32_t words, struct tsr_found *found, struct tsr_access_range *ranges)
{
    const uint64_t *from = entry + KEY + words;
    uint64_t counts = load(&entry[COUNTS]), why = load(&entry[WHY]);
    found->count = (uint32_t)counts & 0xff;
    found->level = (enum tsr_access_level)((uint32_t)counts >> 8);
    found->whys = (uint32_t)(counts >> 32);
    found->why = (struct tsr_access_why){(uint32_t)why, (uint32_t)(why >> 32), (const char *)(uintptr_t)load(&entry[TEXT])};
    found->ranges = ranges;
    for (uint32_t i = 0; i < found->count * RANGE_WORDS && i < TSR_MEMO_RANGES * RANGE_WORDS; i++) {
        uint64_t word = load(&from[i]);
        __builtin_memcpy((char *)ranges + i * sizeof word, &word, sizeof word);
    }
}

static bool find_along(const struct tsr_memo *memo, uint32_t path, const uint64_t *key, uint32_t words, struct tsr_found *found,
                       struct tsr_access_range *ranges)
{
    uint64_t hash = hash_of(path, key, words);
    for (uint32_t way = 0; way < WAYS; way++) {
        uint32_t place = place_of(memo, hash, way);
        if (load(&memo->hashes[place]) != hash)
            continue;
        const uint64_t *entry = memo->store + place * memo->entry_words;
        uint64_t before = load(&entry[SEQUENCE]);
        if (before & 1 || !is_same(entry, path, key, words))
            continue;
        read_entry(entry, words, found, ranges);
        if (load(&entry[SEQUENCE]) == before)
            return true;
    }
    return false;
}

bool tsr_memo_find(const struct tsr_memo *memo, const struct tsr_access_launch *launch, uint64_t *key, struct tsr_found *found,
                   struct tsr_access_range *ranges)
{
    for (uint32_t path = 0; memo->entries && path < TSR_MEMO_PATHS && load(path_at(memo, path)) == READY; path++)
        if (find_along(memo, path, key, fill_key(memo, path, launch, key), found, ranges))
            return true;
    return false;
}

static bool is_along(const struct tsr_memo *memo, const uint64_t *path, const uint64_t *seen)
{
    const uint64_t *item = path + ITEMS, *end = item + 2 * path[INPUTS];
    for (uint32_t i = 0; i < memo->width; i++) {
        if (!seen[i])
            continue;
        if (item == end || item[0] != i || item[1] != seen[i])
            return false;
        item += 2;
    }
    return item == end;
}

static void write_path(const struct tsr_memo *memo, uint64_t *path, const uint64_t *seen)
{
    uint64_t *item = path + ITEMS;
    for (uint32_t i = 0; i < memo->width; i++)
        if (seen[i]) {
            *item++ = i;
            *item++ = seen[i];
        }
    path[INPUTS] = (uint64_t)(item - path - ITEMS) / 2;
    store(&path[STATE], READY);
}

/* The number of the path that looks at these bits; TSR_MEMO_PATHS: there is no room for it. */
static uint32_t path_of(const struct tsr_memo *memo, const uint64_t *seen)
{
    uint32_t number = 0;
    for (; number < TSR_MEMO_PATHS; number++) {
        uint64_t *path = path_at(memo, number), state = EMPTY;
        if (__atomic_compare_exchange_n(&path[STATE], &state, BEING_WRITTEN, false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
            write_path(memo, path, seen);
            break;
        }
        if (state == READY && is_along(memo, path, seen))
            break;
    }
    return number;
}

static void write_entry(uint64_t *entry, uint32_t path, const uint64_t *key, uint32_t words, const struct tsr_found *found)
{
    uint64_t *at = entry + KEY, word;
    const char *ranges = (const char *)found->ranges;
    store(&entry[PATH], path);
    store(&entry[COUNTS], found->count | (uint64_t)found->level << 8 | (uint64_t)found->whys << 32);
    store(&entry[WHY], found->why.line | (uint64_t)found->why.reason << 32);
    store(&entry[TEXT], (uintptr_t)found->why.text);
    for (uint32_t i = 0; i < words; i++)
        store(at++, key[i]);
    for (uint32_t i = 0; i < found->count * RANGE_WORDS; i++) {
        __builtin_memcpy(&word, ranges + i * sizeof word, sizeof word);
        store(at++, word);
    }
}

/* An empty place for a key, or one of its places by turns. */
static uint32_t victim(struct tsr_memo *memo, uint64_t hash)
{
    for (uint32_t way = 0; way < WAYS; way++) {
        uint32_t place = place_of(memo, hash, way);
        if (!load(&memo->hashes[place]))
            return place;
    }
    return place_of(memo, hash, __atomic_fetch_add(&memo->next, 1, __ATOMIC_RELAXED) % WAYS);
}

/* Does nothing when somebody else is at the entry. */
void tsr_memo_add(struct tsr_memo *memo, const struct tsr_access_launch *launch, uint64_t *key, const uint64_t *seen,
                  const struct tsr_found *found)
{
    if (!memo->entries || found->count > TSR_MEMO_RANGES || found->whys > 1)
        return;
    uint32_t path = path_of(memo, seen);
    if (path == TSR_MEMO_PATHS)
        return;
    uint32_t words = fill_key(memo, path, launch, key);
    uint64_t hash = hash_of(path, key, words);
    uint32_t number = victim(memo, hash);
    uint64_t *entry = memo->store + number * memo->entry_words, even = load(&entry[SEQUENCE]) & ~1ull;
    if (!__atomic_compare_exchange_n(&entry[SEQUENCE], &even, even + 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return;
    write_entry(entry, path, key, words, found);
    store(&memo->hashes[number], hash);
    store(&entry[SEQUENCE], even + 2);
}
