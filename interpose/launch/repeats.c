/* See repeats.h. */
#include "launch/repeats.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "base/os.h"
#include "calls/calls.h"
#include "launch/launch.h"
#include "memory/address_map.h"
#include "object/registry.h"

#define ENTRIES 1024u
#define MOST_BYTES 256u /* of parameters */

struct key {
    const struct tsr_function_record *function;
    CUstream stream;
    const struct tsr_lane_client *lane;
    uint32_t grid[3], block[3], shared_bytes, bytes;
};

struct tsr_repeat_entry {
    uint64_t hash; /* 0: nothing is remembered */
    uint64_t addresses, modules;
    struct key key;
    struct tsr_copies_proof proof;
    uint8_t parameters[MOST_BYTES];
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_key;
static __thread struct tsr_repeat_entry *entries; /* NULL: none yet */

static void give_back(void *all)
{
    tsr_os_unmap(all, ENTRIES * sizeof(struct tsr_repeat_entry));
}

static void prepare(void)
{
    pthread_key_create(&thread_key, give_back);
}

static bool make_entries(void)
{
    pthread_once(&once, prepare);
    void *made = tsr_os_map(NULL, ENTRIES * sizeof(struct tsr_repeat_entry), PROT_READ | PROT_WRITE, -1, 0);
    if (made && pthread_setspecific(thread_key, made) != 0) {
        give_back(made);
        return false;
    }
    entries = made;
    return made;
}

static struct key key_of(const struct tsr_launch *launch, const struct tsr_lane_client *lane)
{
    return (struct key){.function = launch->known,
                        .stream = launch->stream,
                        .lane = lane,
                        .grid = {launch->grid[0], launch->grid[1], launch->grid[2]},
                        .block = {launch->block[0], launch->block[1], launch->block[2]},
                        .shared_bytes = launch->shared_bytes,
                        .bytes = launch->gathered->bytes};
}

static uint64_t mixed(uint64_t hash, uint64_t word)
{
    unsigned __int128 product = (unsigned __int128)(hash ^ word) * 0x9e3779b97f4a7c15ull;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t hash_bytes(uint64_t hash, const void *data, uint32_t bytes)
{
    const uint8_t *at = data;
    uint64_t word;
    for (; bytes >= sizeof word; bytes -= (uint32_t)sizeof word, at += sizeof word) {
        memcpy(&word, at, sizeof word);
        hash = mixed(hash, word);
    }
    for (; bytes; bytes--)
        hash = mixed(hash, *at++);
    return hash;
}

/* Never 0. */
static uint64_t hash_of(const struct key *key, const uint8_t *parameters)
{
    return hash_bytes(hash_bytes(0x2545f4914f6cdd1dull, key, sizeof *key), parameters, key->bytes) | 1;
}

static bool is_same(const struct tsr_repeat_entry *entry, const struct tsr_repeat *now, const struct key *key,
                    const uint8_t *parameters)
{
    return entry->hash == now->hash && entry->addresses == now->addresses && entry->modules == now->modules &&
           memcmp(&entry->key, key, sizeof *key) == 0 && memcmp(entry->parameters, parameters, key->bytes) == 0;
}

/* In a library's call what a launch touches also depends on the call. */
static bool is_fit(const struct tsr_launch *launch)
{
    return launch->gathered->bytes <= MOST_BYTES && !(tessera_library_call && tessera_library_call()) &&
           (entries || make_entries());
}

struct tsr_repeat tsr_repeat_find(const struct tsr_launch *launch, const struct tsr_lane_client *lane)
{
    struct tsr_repeat now = {0};
    if (!is_fit(launch))
        return now;
    struct key key = key_of(launch, lane);
    now.hash = hash_of(&key, launch->gathered->values);
    now.addresses = __atomic_load_n(&tsr_address_changes, __ATOMIC_ACQUIRE);
    now.modules = tsr_registry_epoch();
    now.entry = &entries[(now.hash >> 32) % ENTRIES];
    if (is_same(now.entry, &now, &key, launch->gathered->values))
        now.last = &now.entry->proof;
    return now;
}

void tsr_repeat_keep(const struct tsr_repeat *repeat, const struct tsr_launch *launch, const struct tsr_lane_client *lane,
                     const struct tsr_copies_proof *proof)
{
    struct tsr_repeat_entry *entry = repeat->entry;
    if (!entry || !proof->worker)
        return;
    entry->hash = repeat->hash;
    entry->addresses = repeat->addresses;
    entry->modules = repeat->modules;
    entry->key = key_of(launch, lane);
    entry->proof = *proof;
    memcpy(entry->parameters, launch->gathered->values, launch->gathered->bytes);
}
