/* See memo.h. An entry's words: sequence number, counts, reason, key, masks, ranges. */
#include "access/memo.h"

#include <stdlib.h>

enum { SEQUENCE, COUNTS, WHY, TEXT, KEY };

#define RANGE_WORDS (sizeof(struct tsr_access_range) / sizeof(uint64_t))

bool tsr_memo_init(struct tsr_memo *memo, uint32_t entries, uint32_t inputs)
{
    size_t words = KEY + TSR_MEMO_SHAPE + 2 * (size_t)inputs + TSR_MEMO_RANGES * RANGE_WORDS;
    *memo = (struct tsr_memo){.entries = entries, .inputs = inputs, .words = words};
    if (entries == 0)
        return true;
    memo->masks = calloc(inputs + entries + entries * words, sizeof *memo->masks);
    if (!memo->masks)
        return false;
    memo->hashes = memo->masks + inputs;
    memo->store = memo->hashes + entries;
    return true;
}

void tsr_memo_fini(struct tsr_memo *memo)
{
    free(memo->masks);
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

/* Never 0. */
static uint64_t hash_of(const struct tsr_memo *memo, const uint64_t *key)
{
    uint64_t hash = 0x2545f4914f6cdd1dull;
    for (uint32_t i = 0; i < TSR_MEMO_SHAPE; i++)
        hash = mixed(hash, key[i]);
    for (uint32_t i = 0; i < memo->inputs; i++)
        hash = mixed(hash + i, key[TSR_MEMO_SHAPE + i] & load(&memo->masks[i]));
    return hash | 1;
}

static bool is_same(const struct tsr_memo *memo, const uint64_t *entry, const uint64_t *key)
{
    uint64_t difference = 0;
    const uint64_t *there = entry + KEY, *masks = there + TSR_MEMO_SHAPE + memo->inputs;
    for (uint32_t i = 0; i < TSR_MEMO_SHAPE; i++)
        difference |= load(&there[i]) ^ key[i];
    for (uint32_t i = 0; i < memo->inputs; i++)
        difference |= (load(&there[TSR_MEMO_SHAPE + i]) ^ key[TSR_MEMO_SHAPE + i]) & load(&masks[i]);
    return difference == 0;
}

static void read_entry(const struct tsr_memo *memo, const uint64_t *entry, struct tsr_found *found,
                       struct tsr_access_range *ranges)
{
    const uint64_t *from = entry + KEY + TSR_MEMO_SHAPE + 2 * (size_t)memo->inputs;
    uint64_t counts = load(&entry[COUNTS]), why = load(&entry[WHY]);
    found->count = (uint32_t)counts & 0xff;
    found->level = (enum tsr_access_level)((uint32_t)counts >> 8);
    found->whys = (uint32_t)(counts >> 32);
    found->why[0] = (struct tsr_access_why){(uint32_t)why, (uint32_t)(why >> 32), (const char *)(uintptr_t)load(&entry[TEXT])};
    found->ranges = ranges;
    for (uint32_t i = 0; i < found->count * RANGE_WORDS && i < TSR_MEMO_RANGES * RANGE_WORDS; i++) {
        uint64_t word = load(&from[i]);
        __builtin_memcpy((char *)ranges + i * sizeof word, &word, sizeof word);
    }
}

static bool try_entry(const struct tsr_memo *memo, uint32_t number, const uint64_t *key, struct tsr_found *found,
                      struct tsr_access_range *ranges)
{
    const uint64_t *entry = memo->store + number * memo->words;
    uint64_t before = load(&entry[SEQUENCE]);
    if (before & 1 || !is_same(memo, entry, key))
        return false;
    read_entry(memo, entry, found, ranges);
    return load(&entry[SEQUENCE]) == before;
}

bool tsr_memo_find(const struct tsr_memo *memo, const uint64_t *key, struct tsr_found *found, struct tsr_access_range *ranges)
{
    if (!memo->entries)
        return false;
    uint64_t hash = hash_of(memo, key);
    for (uint32_t i = 0; i < memo->entries; i++)
        if (load(&memo->hashes[i]) == hash && try_entry(memo, i, key, found, ranges))
            return true;
    return false;
}

static void write_entry(const struct tsr_memo *memo, uint64_t *entry, const uint64_t *key, const uint64_t *seen,
                        const struct tsr_found *found)
{
    uint64_t *at = entry + KEY, word;
    const char *ranges = (const char *)found->ranges;
    store(&entry[COUNTS], found->count | (uint64_t)found->level << 8 | (uint64_t)found->whys << 32);
    store(&entry[WHY], found->why[0].line | (uint64_t)found->why[0].reason << 32);
    store(&entry[TEXT], (uintptr_t)found->why[0].text);
    for (uint32_t i = 0; i < TSR_MEMO_SHAPE + memo->inputs; i++)
        store(at++, key[i]);
    for (uint32_t i = 0; i < memo->inputs; i++)
        store(at++, seen[i]);
    for (uint32_t i = 0; i < found->count * RANGE_WORDS; i++) {
        __builtin_memcpy(&word, ranges + i * sizeof word, sizeof word);
        store(at++, word);
    }
}

/* `seen`: the bits of each input that mattered. Does nothing when somebody else is at the entry. */
void tsr_memo_add(struct tsr_memo *memo, const uint64_t *key, const uint64_t *seen, const struct tsr_found *found)
{
    if (!memo->entries || found->count > TSR_MEMO_RANGES || found->whys > 1)
        return;
    for (uint32_t i = 0; i < memo->inputs; i++)
        if (seen[i] & ~load(&memo->masks[i]))
            __atomic_fetch_or(&memo->masks[i], seen[i], __ATOMIC_RELAXED);
    uint32_t number = __atomic_fetch_add(&memo->next, 1, __ATOMIC_RELAXED) % memo->entries;
    uint64_t *entry = memo->store + number * memo->words, even = load(&entry[SEQUENCE]) & ~1ull;
    if (!__atomic_compare_exchange_n(&entry[SEQUENCE], &even, even + 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return;
    write_entry(memo, entry, key, seen, found);
    store(&memo->hashes[number], hash_of(memo, key));
    store(&entry[SEQUENCE], even + 2);
}
