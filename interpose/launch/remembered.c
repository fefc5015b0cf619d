/* See remembered.h. */
#include "launch/remembered.h"

#include <string.h>

#include "base/thread_memory.h"
#include "launch/alike.h"
#include "launch/launch.h"
#include "launch/touches.h"
#include "memory/address_map.h"
#include "object/registry.h"
#include "object/templates.h"

#define SLOTS 8192u        /* of a thread; a power of two */
#define WAYS 2u            /* slots that an entry may have */
#define LOG_BYTES (2u << 20) /* of entries; a power of two */
#define MOST_BYTES (16u << 10)
#define MOST_RANGES 64u
#define LINE_BYTES 64u
#define LINES_AHEAD 5u /* of an entry: what most have */
#define TAG_SHIFT 48

struct range {
    uint64_t first, end;
};

/* Its ranges follow, then its content. */
struct entry {
    uint64_t hash;
    struct tsr_remembered_stamp stamp;
    CUcontext context;      /* of the stream: where the module's variables are */
    uint64_t pulls, writes; /* bit n: range n */
    uint32_t count, bytes;  /* ranges; of all */
    struct tsr_alike_key key;
    struct range ranges[];
};

/*
 * Entries are written one after the other, and over the oldest ones: a program that repeats itself finds the next one behind the last. Positions
 * grow; a slot has the lowest bits of one more than an entry's, and a tag of its hash, or 0.
 */
static __thread struct table {
    uint64_t slots[SLOTS];
    uint64_t written;
    uint8_t log[LOG_BYTES] __attribute__((aligned(8)));
} *table; /* NULL: none yet */

static struct tsr_remembered_stamp stamp_now(void)
{
    uint64_t published = __atomic_load_n(tsr_templates_published, __ATOMIC_ACQUIRE);
    uint64_t errors = __atomic_load_n(&tsr_predict_errors, __ATOMIC_ACQUIRE);
    return (struct tsr_remembered_stamp){.addresses = __atomic_load_n(&tsr_address_changes, __ATOMIC_ACQUIRE),
                                         .modules = tsr_registry_epoch(),
                                         .knowledge = published << 32 | errors};
}

static bool is_now(const struct tsr_remembered_stamp *stamp, const struct tsr_remembered_stamp *now)
{
    return stamp->addresses == now->addresses && stamp->modules == now->modules && stamp->knowledge == now->knowledge;
}

static uint64_t slot_of(uint64_t hash, uint64_t position)
{
    return (hash >> TAG_SHIFT) << TAG_SHIFT | (position + 1);
}

static uint64_t *slots_at(uint64_t hash)
{
    return &table->slots[(hash >> 24) % SLOTS & ~(WAYS - 1)];
}

/* NULL: it has none, or that was written over. */
static struct entry *entry_in(uint64_t slot)
{
    uint64_t position = (slot & ((1ull << TAG_SHIFT) - 1)) - 1;
    return slot && table->written - position <= LOG_BYTES ? (struct entry *)(table->log + position % LOG_BYTES) : NULL;
}

static bool is_same(const struct entry *entry, const struct tsr_remembered *wanted, CUcontext context,
                    const struct tsr_alike *alike)
{
    return entry->hash == wanted->hash && entry->context == context && is_now(&entry->stamp, &wanted->stamp) &&
           tsr_alike_is(alike, &entry->key, (const uint8_t *)&entry->ranges[entry->count]);
}

static const struct entry *find(const struct tsr_remembered *wanted, CUcontext context, const struct tsr_alike *alike)
{
    const uint64_t *slots = slots_at(wanted->hash);
    for (uint32_t way = 0; way < WAYS; way++) {
        const struct entry *entry = (slots[way] ^ wanted->hash) >> TAG_SHIFT ? NULL : entry_in(slots[way]);
        if (entry && is_same(entry, wanted, context, alike))
            return entry;
    }
    return NULL;
}

static void read_entry(const struct entry *entry, struct tsr_touches *out)
{
    out->count = entry->count;
    for (uint32_t i = 0; i < entry->count; i++)
        out->all[i] = (struct tsr_touch){.first = entry->ranges[i].first,
                                         .end = entry->ranges[i].end,
                                         .pulls = entry->pulls >> i & 1,
                                         .writes = entry->writes >> i & 1};
    for (uint32_t line = 0; line < LINES_AHEAD; line++) /* while this launch is placed */
        __builtin_prefetch((const char *)entry + entry->bytes + line * LINE_BYTES);
}

struct tsr_remembered tsr_remembered_find(const struct tsr_launch *launch, struct tsr_touches *out)
{
    struct tsr_remembered found = {0};
    const struct tsr_stream *stream = launch->place.stream;
    if (!stream || (!table && !(table = tsr_thread_memory(sizeof *table))))
        return found;
    struct tsr_alike alike = tsr_alike_of(launch);
    CUcontext context = __atomic_load_n(&stream->context, __ATOMIC_RELAXED);
    if (tsr_alike_bytes(&alike) > MOST_BYTES)
        return found;
    found.hash = tsr_alike_hash(&alike, (uintptr_t)context);
    found.stamp = stamp_now();
    const struct entry *entry = find(&found, context, &alike);
    found.known = entry != NULL;
    if (entry)
        read_entry(entry, out);
    return found;
}

/* Room for an entry, which does not go round the end. */
static struct entry *add(uint32_t bytes, uint64_t *position)
{
    uint64_t left = LOG_BYTES - table->written % LOG_BYTES;
    *position = left < bytes ? table->written + left : table->written;
    table->written = *position + bytes;
    return (struct entry *)(table->log + *position % LOG_BYTES);
}

/* Of a launch like it before, or of one that is written over; or any. */
static uint64_t *victim(uint64_t hash)
{
    uint64_t *slots = slots_at(hash);
    for (uint32_t way = 0; way < WAYS; way++)
        if (!entry_in(slots[way]) || entry_in(slots[way])->hash == hash)
            return &slots[way];
    return &slots[table->written / sizeof(uint64_t) % WAYS];
}

void tsr_remembered_keep(const struct tsr_remembered *remembered, const struct tsr_launch *launch,
                         const struct tsr_touches *touches)
{
    bool fits = remembered->hash && touches->count <= MOST_RANGES;
    for (uint32_t i = 0; i < touches->count && fits; i++)
        fits = !touches->all[i].stride;
    if (!fits)
        return;
    struct tsr_alike alike = tsr_alike_of(launch);
    uint32_t content = (tsr_alike_bytes(&alike) + 7) / 8 * 8;
    uint32_t bytes = (uint32_t)(sizeof(struct entry) + touches->count * sizeof(struct range)) + content;
    uint64_t position, *slot = victim(remembered->hash);
    struct entry *entry = add(bytes, &position);
    *entry = (struct entry){.hash = remembered->hash,
                            .stamp = remembered->stamp,
                            .context = __atomic_load_n(&launch->place.stream->context, __ATOMIC_RELAXED),
                            .count = touches->count,
                            .bytes = bytes};
    for (uint32_t i = 0; i < touches->count; i++) {
        const struct tsr_touch *touch = &touches->all[i];
        entry->ranges[i] = (struct range){touch->first, touch->end};
        entry->pulls |= (uint64_t)touch->pulls << i;
        entry->writes |= (uint64_t)touch->writes << i;
    }
    tsr_alike_keep(&alike, &entry->key, (uint8_t *)&entry->ranges[touches->count]);
    *slot = slot_of(remembered->hash, position);
}
