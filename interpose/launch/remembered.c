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

#define SETS 4096u /* of a thread; a power of two */
#define WAYS 2u /* entries of a set */
#define ROOM_BYTES 384u   /* for an entry's ranges and content */
#define MOST_RANGES 16u
#define LINE_BYTES 64u
#define LINES_AHEAD 4u /* of an entry: what most have */

struct range {
    uint64_t first, end;
};

/* Few lines of cache, as a large program's are not in the nearest one: its ranges, then its content. */
struct tsr_remembered_entry {
    uint64_t hash; /* 0: nothing is remembered */
    struct tsr_remembered_stamp stamp;
    CUcontext context;             /* of the stream: where the module's variables are */
    uint16_t count, pulls, writes; /* bit n of the last two: range n */
    uint32_t next;                 /* place of the entry that was looked for after it the last time */
    struct tsr_alike_key key;
    uint8_t room[ROOM_BYTES] __attribute__((aligned(8)));
} __attribute__((aligned(LINE_BYTES)));

static __thread struct tsr_remembered_entry *entries; /* NULL: none yet */
static __thread uint32_t last;                        /* place of the one that was looked for last */

static struct tsr_remembered_stamp stamp_now(void)
{
    uint64_t published = __atomic_load_n(tsr_templates_published, __ATOMIC_ACQUIRE);
    uint64_t distrusted = __atomic_load_n(&tsr_predict_errors, __ATOMIC_ACQUIRE);
    return (struct tsr_remembered_stamp){.addresses = __atomic_load_n(&tsr_address_changes, __ATOMIC_ACQUIRE),
                                         .modules = tsr_registry_epoch(),
                                         .knowledge = published << 32 | distrusted};
}

static bool is_now(const struct tsr_remembered_stamp *stamp, const struct tsr_remembered_stamp *now)
{
    return stamp->addresses == now->addresses && stamp->modules == now->modules && stamp->knowledge == now->knowledge;
}

static void read_entry(const struct tsr_remembered_entry *entry, struct tsr_touches *out)
{
    const struct range *ranges = (const struct range *)entry->room;
    out->count = entry->count;
    for (uint32_t i = 0; i < entry->count; i++)
        out->all[i] = (struct tsr_touch){
            .first = ranges[i].first, .end = ranges[i].end, .pulls = entry->pulls >> i & 1, .writes = entry->writes >> i & 1};
}

static bool is_same(const struct tsr_remembered_entry *entry, const struct tsr_remembered *wanted, CUcontext context,
                    const struct tsr_alike *alike)
{
    return entry->hash == wanted->hash && entry->context == context && is_now(&entry->stamp, &wanted->stamp) &&
           tsr_alike_is(alike, &entry->key, entry->room + entry->count * sizeof(struct range));
}

/* Programs repeat themselves: what comes next is brought nearer while this launch is placed. */
static void go_on_to(const struct tsr_remembered_entry *entry)
{
    entries[last].next = (uint32_t)(entry - entries);
    last = entries[last].next;
    for (uint32_t line = 0; line < LINES_AHEAD; line++)
        __builtin_prefetch((const char *)&entries[entry->next] + line * LINE_BYTES);
}

/* The one of a set that holds nothing valid, or any. */
static struct tsr_remembered_entry *victim(struct tsr_remembered_entry *set, const struct tsr_remembered *wanted)
{
    for (uint32_t way = 0; way < WAYS; way++)
        if (set[way].hash == wanted->hash || !is_now(&set[way].stamp, &wanted->stamp))
            return &set[way];
    return &set[wanted->hash >> 1 & (WAYS - 1)];
}

struct tsr_remembered tsr_remembered_find(const struct tsr_launch *launch, struct tsr_touches *out)
{
    struct tsr_remembered found = {0};
    const struct tsr_stream *stream = launch->place.stream;
    if (!stream || (!entries && !(entries = tsr_thread_memory(SETS * WAYS * sizeof *entries))))
        return found;
    struct tsr_alike alike = tsr_alike_of(launch);
    CUcontext context = __atomic_load_n(&stream->context, __ATOMIC_RELAXED);
    if (tsr_alike_bytes(&alike) > ROOM_BYTES)
        return found;
    found.hash = tsr_alike_hash(&alike, (uintptr_t)context);
    found.stamp = stamp_now();
    struct tsr_remembered_entry *set = &entries[(found.hash >> 32) % SETS * WAYS];
    for (uint32_t way = 0; way < WAYS && !found.known; way++)
        if (is_same(&set[way], &found, context, &alike)) {
            found.known = true;
            read_entry(&set[way], out);
            go_on_to(&set[way]);
        }
    if (!found.known)
        found.entry = victim(set, &found);
    return found;
}

void tsr_remembered_keep(const struct tsr_remembered *remembered, const struct tsr_launch *launch,
                         const struct tsr_touches *touches)
{
    struct tsr_remembered_entry *entry = remembered->entry;
    uint32_t bytes = touches->count * (uint32_t)sizeof(struct range);
    if (!entry)
        return;
    struct tsr_alike alike = tsr_alike_of(launch);
    if (touches->count > MOST_RANGES || bytes + tsr_alike_bytes(&alike) > ROOM_BYTES)
        return;
    struct range *ranges = (struct range *)entry->room;
    entry->hash = 0;
    entry->pulls = entry->writes = 0;
    for (uint32_t i = 0; i < touches->count; i++) {
        const struct tsr_touch *touch = &touches->all[i];
        if (touch->stride)
            return;
        ranges[i] = (struct range){touch->first, touch->end};
        entry->pulls |= (uint16_t)(touch->pulls << i);
        entry->writes |= (uint16_t)(touch->writes << i);
    }
    entry->count = (uint16_t)touches->count;
    entry->stamp = remembered->stamp;
    entry->context = __atomic_load_n(&launch->place.stream->context, __ATOMIC_RELAXED);
    tsr_alike_keep(&alike, &entry->key, entry->room + bytes);
    entry->hash = remembered->hash;
    go_on_to(entry);
}
