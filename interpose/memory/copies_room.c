/*
 * See copies.h. Room on a full GPU: at a quiet moment it gives up copies of which it holds nothing any more, and doubles that it has not used since
 * it was full the last time.
 */
#include "memory/copies_parts.h"

#include <pthread.h>

#include "memory/allocation.h"
#include "memory/quiet.h"
#include "object/capture.h"
#include "order/gate.h"

#define RECENT 64u            /* uses: what they use stays, since it may be about to be pulled */
#define QUIET_NS 100000000ull /* until nothing runs */

static uint64_t
    full_at[TSR_DIRECTORY_COPIES]; /* lock; by GPU: tsr_copies_uses when there was no room the last time; 0: there was always */

/* Whether the GPU can do without its copy. */
static bool is_spare_locked(const struct tsr_copies *copies, uint32_t copy)
{
    uint64_t used_at = copies->used_at[copy];
    if (!(copies->replicas.own >> copy & 1) || used_at + RECENT >= tsr_copies_uses)
        return false;
    enum tsr_directory_keeps keeps = tsr_directory_keeps(&copies->directory, (uint8_t)copy);
    return keeps == TSR_DIRECTORY_KEEPS_NOTHING || (keeps == TSR_DIRECTORY_KEEPS_SHARED && used_at < full_at[copy]);
}

static uint64_t spare_bytes(uint32_t copy)
{
    uint64_t bytes = 0;
    pthread_mutex_lock(&tsr_copies_lock);
    for (size_t i = 0; i < tsr_copies_all.count; i++)
        bytes += is_spare_locked(tsr_copies_all.data[i], copy) ? tsr_copies_all.data[i]->bytes : 0;
    pthread_mutex_unlock(&tsr_copies_lock);
    return bytes;
}

/* Nothing runs and nobody is inside. */
static void give_up(struct tsr_copies *copies, uint32_t copy)
{
    struct tsr_replicas replicas = copies->replicas;
    tsr_replicas_take(tsr_arena_find(copies->address), copy, &replicas);
    pthread_mutex_lock(&tsr_copies_lock);
    copies->replicas = replicas;
    tsr_directory_lose(&copies->directory, (uint8_t)copy);
    pthread_mutex_unlock(&tsr_copies_lock);
    tsr_copies_count_bytes(copies, (uint16_t)(1u << copy), false);
}

static void give_up_spare(uint32_t copy, uint64_t bytes)
{
    uint64_t given = 0;
    for (size_t i = 0; i < tsr_copies_all.count && given < bytes; i++) {
        struct tsr_copies *copies = tsr_copies_all.data[i];
        pthread_mutex_lock(&tsr_copies_lock);
        bool spare = is_spare_locked(copies, copy);
        pthread_mutex_unlock(&tsr_copies_lock);
        if (!spare)
            continue;
        give_up(copies, copy);
        given += copies->bytes;
    }
}

/* What is used from here on is seen, also of who repeats. */
static void look_at_uses(uint32_t copy)
{
    pthread_mutex_lock(&tsr_copies_lock);
    full_at[copy] = tsr_copies_uses;
    tsr_copies_change(&tsr_copies_generation);
    pthread_mutex_unlock(&tsr_copies_lock);
}

bool tsr_copies_make_room(uint32_t copy, uint64_t bytes)
{
    bool made = false;
    if (spare_bytes(copy) >= bytes && tsr_gate_close(QUIET_NS)) {
        made = !tsr_is_any_capture() && tsr_quiet_wait(QUIET_NS) == CUDA_SUCCESS; /* from here on none begins */
        if (made)
            give_up_spare(copy, bytes);
        tsr_gate_open();
    }
    look_at_uses(copy);
    return made;
}
