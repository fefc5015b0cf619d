/*
 * Peer access between contexts. Hardware grants it per pair of contexts; here ordinary memory of a device is open to another device while
 * any context of the latter has enabled it. Pools and VMM have access lists of their own.
 */
#include <pthread.h>
#include <stdlib.h>

#include "base/vec.h"

#include "alloc.h"

struct peers {
    TSR_VEC(struct tsr_context *) contexts; /* lock; a reference each */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t users[TSR_MACHINE_DEVICES][TSR_MACHINE_DEVICES]; /* lock; [owner of the memory][device that may access it] */

static uint16_t mask_locked(uint32_t device)
{
    uint16_t mask = (uint16_t)(1u << device);
    for (uint32_t other = 0; other < TSR_MACHINE_DEVICES; other++)
        if (users[device][other])
            mask |= (uint16_t)(1u << other);
    return mask;
}

uint16_t tsr_peer_mask(uint32_t device)
{
    pthread_mutex_lock(&lock);
    uint16_t mask = mask_locked(device);
    pthread_mutex_unlock(&lock);
    return mask;
}

static void apply_locked(uint32_t device)
{
    struct tsr_range range;
    uint16_t mask = mask_locked(device);
    for (uint64_t from = 0; tsr_space_next(tsr_space_instance(), from, &range); from = range.base + 1)
        if (range.location == device && (range.kind == TSR_RANGE_PLAIN || range.kind == TSR_RANGE_MODULE))
            tsr_space_access_set(tsr_space_instance(), range.base, mask, mask);
}

static void count_locked(const struct tsr_context *context, struct tsr_context *peer, int change)
{
    users[tsr_emulated_context_device(peer)][tsr_emulated_context_device(context)] += (uint32_t)change;
    apply_locked(tsr_emulated_context_device(peer));
}

static void peers_destroy(struct tsr_context *context, void *value)
{
    struct peers *peers = value;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < peers->contexts.count; i++) {
        count_locked(context, peers->contexts.data[i], -1);
        tsr_context_unref(peers->contexts.data[i]);
    }
    pthread_mutex_unlock(&lock);
    tsr_vec_fini(&peers->contexts);
    free(peers);
}

static struct peers *peers_get(struct tsr_context *context)
{
    struct peers *peers = tsr_context_slot(context, TSR_SLOT_PEERS);
    if (peers)
        return peers;
    struct peers *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    peers = tsr_context_slot_set(context, TSR_SLOT_PEERS, made, peers_destroy);
    if (peers != made)
        free(made);
    return peers;
}

static size_t find_locked(const struct peers *peers, const struct tsr_context *peer)
{
    size_t i = 0;
    while (i < peers->contexts.count && peers->contexts.data[i] != peer)
        i++;
    return i;
}

CUresult tsr_peer_enable(struct tsr_context *context, struct tsr_context *peer)
{
    struct peers *peers = peers_get(context);
    if (!peers)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    if (find_locked(peers, peer) < peers->contexts.count) {
        result = CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    } else if (!tsr_vec_push(&peers->contexts, peer)) {
        result = CUDA_ERROR_OUT_OF_MEMORY;
    } else {
        tsr_context_ref(peer);
        count_locked(context, peer, 1);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult tsr_peer_disable(struct tsr_context *context, struct tsr_context *peer)
{
    struct peers *peers = tsr_context_slot(context, TSR_SLOT_PEERS);
    CUresult result = CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    pthread_mutex_lock(&lock);
    size_t index = peers ? find_locked(peers, peer) : 0;
    if (peers && index < peers->contexts.count) {
        tsr_vec_remove_swap(&peers->contexts, index);
        count_locked(context, peer, -1);
        tsr_context_unref(peer);
        result = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return result;
}
