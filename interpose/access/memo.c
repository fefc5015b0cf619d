/* See memo.h. */
#include "access/memo.h"

#include <stdlib.h>
#include <string.h>

/* An entry's words in the log. Key and ranges follow. */
enum { PATH, COUNTS, WHY, TEXT, KEY };

/* What a word of a key is. */
enum what {
    PLAIN,     /* eight bytes of the parameter block, from `at` on */
    VALUE,     /* of input `at`; where the block is shorter than eight bytes */
    ADDRESS,   /* of symbol `at` */
    NULLNESS,  /* of input `at`: 1, 0 */
    ALLOCATED, /* of input `at`, whether it points into an allocation: 1, 0 */
};

struct word {
    uint32_t at, what;
    uint64_t mask; /* bits that count */
};

struct tsr_memo_path {
    uint32_t count, plain; /* words of the key behind the shape; plain: the first ones, which are PLAIN */
    uint32_t reach;        /* bytes that a parameter block has at least */
    uint32_t number;
    struct word words[];
};

#define WAYS 4u       /* entries that a key may have */
#define POSITION_BITS 40u
#define ENTRY_WORDS 128u  /* of the log for each entry: that many are remembered when they are no longer in the mean */
#define SPLIT_ENTRIES 8u  /* times as many where tables make many ranges */
#define TOUCHED_WORDS 512u /* of the log, when it is made: else the first launches wait for the system to find memory */
#define MORE_WORDS 16u    /* of a key, than there are inputs and symbols: what is asked of some pointers */
#define FULL_PATHS 4u     /* that ask for everything; there is room for as many of them */
#define MOST_RANGES 1024u /* of an entry */
#define RANGE_WORDS (sizeof(struct tsr_access_range) / sizeof(uint64_t))
#define PATH_WORDS (sizeof(struct tsr_memo_path) / sizeof(uint64_t))
#define WORD_WORDS (sizeof(struct word) / sizeof(uint64_t))

static uint32_t width(const struct tsr_inputs *inputs)
{
    return inputs->count + inputs->template.header->symbols;
}

static uint32_t path_room(const struct tsr_inputs *inputs)
{
    return TSR_MEMO_PATHS * PATH_WORDS + FULL_PATHS * WORD_WORDS * (width(inputs) + MORE_WORDS);
}

bool tsr_memo_init(struct tsr_memo *memo, uint32_t entries, const struct tsr_inputs *inputs)
{
    size_t wanted = (size_t)entries * ENTRY_WORDS * (inputs->has_elements ? SPLIT_ENTRIES : 1);
    *memo = (struct tsr_memo){.inputs = inputs,
                              .entries = entries < WAYS ? entries : entries / WAYS * WAYS,
                              .most = TSR_MEMO_SHAPE + width(inputs) + MORE_WORDS,
                              .words = 2048,
                              .reserved = 1};
    if (entries == 0)
        return true;
    while (memo->words < wanted)
        memo->words *= 2;
    uint64_t first = memo->entries + path_room(inputs);
    memo->slots = malloc((first + memo->words) * sizeof *memo->slots);
    if (!memo->slots)
        return false;
    memo->path_store = memo->slots + memo->entries;
    memo->log = memo->slots + first;
    memset(memo->slots, 0, (first + TOUCHED_WORDS) * sizeof *memo->slots);
    return true;
}

void tsr_memo_fini(struct tsr_memo *memo)
{
    free(memo->slots);
}

/* What is read of an entry is read before `reserved` is looked at, */
static uint64_t load(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* and what is written to it after that was moved. */
static void store(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/* ---- keys ---- */

static bool is_allocated(const struct tsr_access_launch *launch, uint64_t address)
{
    uint64_t begin, end;
    return launch->allocation && launch->allocation(launch->allocation_context, address, &begin, &end);
}

static uint64_t answer(const struct tsr_inputs *inputs, const struct tsr_access_launch *launch, const struct word *word)
{
    uint64_t value = tsr_input_value(inputs, launch, word->at + (word->what == ADDRESS ? inputs->count : 0));
    if (word->what == NULLNESS)
        return value == 0;
    return word->what == ALLOCATED ? is_allocated(launch, value) : value & word->mask;
}

/* What a launch is told from others by along a path. False: it does not lead there. */
static bool fill_key(const struct tsr_memo *memo, const struct tsr_memo_path *path, const struct tsr_access_launch *launch,
                     uint64_t *key)
{
    const struct word *word = path->words, *plain = word + path->plain, *end = word + path->count;
    if (launch->parameter_bytes < path->reach)
        return false;
    key[0] = launch->grid[0] | (uint64_t)launch->grid[1] << 32;
    key[1] = launch->grid[2] | (uint64_t)launch->block[0] << 32;
    key[2] = launch->block[1] | (uint64_t)launch->block[2] << 32;
    key[3] = launch->parameter_bytes;
    for (key += TSR_MEMO_SHAPE; word < plain; word++, key++) {
        uint64_t value;
        memcpy(&value, (const char *)launch->parameters + word->at, sizeof value);
        *key = value & word->mask;
    }
    for (; word < end; word++)
        *key++ = answer(memo->inputs, launch, word);
    return true;
}

static uint64_t mixed(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Pairs of words, each mixed with numbers of its own, so that none waits for another. */
static uint64_t hash_of(const struct tsr_memo_path *path, const uint64_t *key)
{
    uint32_t words = TSR_MEMO_SHAPE + path->count;
    uint64_t salt = 0x2545f4914f6cdd1dull, hash = path->number;
    for (uint32_t i = 0; i + 1 < words; i += 2, salt += 0x9e3779b97f4a7c15ull)
        hash += mixed(key[i] ^ salt, key[i + 1] ^ ~salt);
    if (words % 2)
        hash += mixed(key[words - 1] ^ salt, ~salt);
    return mixed(hash, 0x9e3779b97f4a7c15ull);
}

/* ---- looking ---- */

static uint64_t *slots_of(const struct tsr_memo *memo, uint64_t hash, uint32_t *ways)
{
    *ways = memo->entries < WAYS ? memo->entries : WAYS;
    return memo->slots + (((uint32_t)hash * (uint64_t)(memo->entries / *ways)) >> 32) * *ways;
}

static uint64_t slot_of(uint64_t hash, uint64_t position)
{
    return hash >> POSITION_BITS << POSITION_BITS | position;
}

static uint64_t position_of(uint64_t slot)
{
    return slot & ((1ull << POSITION_BITS) - 1);
}

/* Whether the entry at a position is still in the log. */
static bool is_kept(const struct tsr_memo *memo, uint64_t position)
{
    return position && position + memo->words >= load(&memo->reserved);
}

static bool is_same(const uint64_t *entry, const struct tsr_memo_path *path, const uint64_t *key)
{
    uint64_t difference = load(&entry[PATH]) ^ path->number;
    for (uint32_t i = 0; i < TSR_MEMO_SHAPE + path->count; i++)
        difference |= load(&entry[KEY + i]) ^ key[i];
    return difference == 0;
}

/* `left`: words of the log from the entry on. False: there is no room for its ranges. */
static bool read_entry(const uint64_t *entry, uint64_t left, uint32_t key_words, uint32_t capacity, struct tsr_found *found)
{
    const uint64_t *from = entry + KEY + key_words;
    uint64_t counts = load(&entry[COUNTS]), why = load(&entry[WHY]);
    uint32_t count = (uint32_t)counts & 0xffff;
    if (count > capacity || KEY + key_words + count * RANGE_WORDS > left)
        return false;
    found->count = count;
    found->level = (enum tsr_access_level)((uint32_t)counts >> 16);
    found->whys = (uint32_t)(counts >> 32);
    found->why = (struct tsr_access_why){(uint32_t)why, (uint32_t)(why >> 32), (const char *)(uintptr_t)load(&entry[TEXT])};
    for (uint32_t i = 0; i < count * RANGE_WORDS; i++) {
        uint64_t word = load(&from[i]);
        memcpy((char *)found->ranges + i * sizeof word, &word, sizeof word);
    }
    return true;
}

static bool find_along(const struct tsr_memo *memo, const struct tsr_memo_path *path, const uint64_t *key, uint32_t capacity,
                       struct tsr_found *found)
{
    uint64_t hash = hash_of(path, key);
    uint32_t ways, key_words = TSR_MEMO_SHAPE + path->count;
    const uint64_t *slots = slots_of(memo, hash, &ways);
    for (uint32_t way = 0; way < ways; way++) {
        uint64_t slot = load(&slots[way]), position = position_of(slot), at = position & (memo->words - 1);
        const uint64_t *entry = memo->log + at;
        if (slot != slot_of(hash, position) || !is_kept(memo, position) || memo->words - at < KEY + key_words)
            continue;
        if (is_same(entry, path, key) && read_entry(entry, memo->words - at, key_words, capacity, found) &&
            is_kept(memo, position))
            return true;
    }
    return false;
}

bool tsr_memo_find(const struct tsr_memo *memo, const struct tsr_access_launch *launch, uint64_t *key, uint32_t capacity,
                   struct tsr_found *found)
{
    uint32_t count = __atomic_load_n(&memo->path_count, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < count; i++)
        if (fill_key(memo, memo->paths[i], launch, key) && find_along(memo, memo->paths[i], key, capacity, found))
            return true;
    return false;
}

/* ---- adding, one at a time ---- */

static void add_word(struct tsr_memo_path *path, struct word word)
{
    struct word *last = path->count ? &path->words[path->count - 1] : NULL;
    if (last && word.what == PLAIN && last->what == PLAIN && last->at == word.at)
        last->mask |= word.mask;
    else
        path->words[path->count++] = word;
}

/* Bits of an input, which lie in eight bytes of the block, those of its neighbours with them. */
static void add_bits(struct tsr_memo_path *path, uint32_t number, struct tsr_input input, uint64_t bits, uint32_t block)
{
    uint32_t end = input.offset + input.size, at = input.offset & ~7u;
    if (input.size < 8)
        bits &= (1ull << 8 * input.size) - 1;
    if (end > block || block < 8) {
        add_word(path, (struct word){number, VALUE, bits});
        return;
    }
    at = end > at + 8 ? input.offset : at;
    at = at + 8 > block ? block - 8 : at;
    add_word(path, (struct word){at, PLAIN, bits << 8 * (input.offset - at)});
    path->reach = at + 8 > path->reach ? at + 8 : path->reach;
}

/* Puts down what was asked; inputs are sorted by their offsets. False: there is no room. */
static bool make_path(const struct tsr_memo *memo, struct tsr_memo_path *path, uint32_t room,
                      const struct tsr_access_launch *launch, const struct tsr_seen *seen)
{
    const struct tsr_inputs *inputs = memo->inputs;
    *path = (struct tsr_memo_path){.number = memo->path_count};
    for (uint32_t i = 0; i < inputs->count && path->count < room; i++)
        if (seen[i].bits)
            add_bits(path, i, inputs->items[i], seen[i].bits, launch->parameter_bytes);
    while (path->plain < path->count && path->words[path->plain].what == PLAIN)
        path->plain++;
    for (uint32_t i = 0; i < width(inputs) && path->count + 2 < room; i++) {
        if (seen[i].asked & TSR_ASKED_NULL)
            add_word(path, (struct word){i, NULLNESS, 0});
        if (seen[i].asked & TSR_ASKED_ALLOCATED)
            add_word(path, (struct word){i, ALLOCATED, 0});
        if (i >= inputs->count && seen[i].bits)
            add_word(path, (struct word){i - inputs->count, ADDRESS, seen[i].bits});
    }
    return path->count + 2 < room;
}

static bool is_equal(const struct tsr_memo_path *a, const struct tsr_memo_path *b)
{
    return a->count == b->count && memcmp(a->words, b->words, a->count * sizeof a->words[0]) == 0;
}

/* The path on which this was asked. NULL: there is no room for it. */
static const struct tsr_memo_path *path_of(struct tsr_memo *memo, const struct tsr_access_launch *launch,
                                           const struct tsr_seen *seen)
{
    uint32_t left = path_room(memo->inputs) - memo->path_words, room = left < PATH_WORDS ? 0 : (left - PATH_WORDS) / WORD_WORDS;
    struct tsr_memo_path *made = (struct tsr_memo_path *)(memo->path_store + memo->path_words);
    if (room > memo->most - TSR_MEMO_SHAPE)
        room = memo->most - TSR_MEMO_SHAPE;
    if (left < PATH_WORDS || !make_path(memo, made, room, launch, seen))
        return NULL;
    for (uint32_t i = 0; i < memo->path_count; i++)
        if (is_equal(memo->paths[i], made))
            return memo->paths[i];
    if (memo->path_count == TSR_MEMO_PATHS)
        return NULL;
    memo->paths[memo->path_count] = made;
    memo->path_words += PATH_WORDS + made->count * WORD_WORDS;
    __atomic_store_n(&memo->path_count, memo->path_count + 1, __ATOMIC_RELEASE);
    return made;
}

static void write_entry(uint64_t *entry, const struct tsr_memo_path *path, const uint64_t *key, const struct tsr_found *found)
{
    uint64_t *at = entry + KEY, word;
    const char *ranges = (const char *)found->ranges;
    store(&entry[PATH], path->number);
    store(&entry[COUNTS], found->count | (uint64_t)found->level << 16 | (uint64_t)found->whys << 32);
    store(&entry[WHY], found->why.line | (uint64_t)found->why.reason << 32);
    store(&entry[TEXT], (uintptr_t)found->why.text);
    for (uint32_t i = 0; i < TSR_MEMO_SHAPE + path->count; i++)
        store(at++, key[i]);
    for (uint32_t i = 0; i < found->count * RANGE_WORDS; i++) {
        memcpy(&word, ranges + i * sizeof word, sizeof word);
        store(at++, word);
    }
}

/* Where in the log there is room now. The entry does not go round its end. */
static uint64_t reserve(struct tsr_memo *memo, uint64_t words)
{
    uint64_t position = memo->reserved, left = memo->words - (position & (memo->words - 1));
    if (left < words)
        position += left;
    store(&memo->reserved, position + words);
    return position;
}

/* One whose entry is gone, or one of a key's by turns. */
static uint64_t *victim(struct tsr_memo *memo, uint64_t hash)
{
    uint32_t ways;
    uint64_t *slots = slots_of(memo, hash, &ways);
    for (uint32_t way = 0; way < ways; way++)
        if (!is_kept(memo, position_of(slots[way])))
            return &slots[way];
    return &slots[memo->next++ % ways];
}

static void add_locked(struct tsr_memo *memo, const struct tsr_access_launch *launch, uint64_t *key,
                       const struct tsr_seen *seen, const struct tsr_found *found)
{
    const struct tsr_memo_path *path = path_of(memo, launch, seen);
    if (!path || !fill_key(memo, path, launch, key))
        return;
    uint64_t words = KEY + TSR_MEMO_SHAPE + path->count + found->count * RANGE_WORDS, hash = hash_of(path, key);
    if (words > memo->words / 2)
        return;
    uint64_t position = reserve(memo, words);
    write_entry(memo->log + (position & (memo->words - 1)), path, key, found);
    store(victim(memo, hash), slot_of(hash, position));
}

void tsr_memo_add(struct tsr_memo *memo, const struct tsr_access_launch *launch, uint64_t *key, const struct tsr_seen *seen,
                  const struct tsr_found *found)
{
    if (!memo->entries || found->count > MOST_RANGES || found->whys > 1 ||
        __atomic_test_and_set(&memo->is_adding, __ATOMIC_ACQUIRE))
        return;
    add_locked(memo, launch, key, seen, found);
    __atomic_clear(&memo->is_adding, __ATOMIC_RELEASE);
}
