/*
 * See copies.h. Room on a full GPU: at a quiet moment it gives up copies of which it holds nothing any more, and doubles that it has not used since
 * it was full the last time. If it is the program that needs room there, it gives up whatever copies it has.
 */
#include "memory/copies_parts.h"

#include <pthread.h>

#include "base/log.h"
#include "driver/gpus.h"
#include "driver/real.h"
#include "memory/allocation.h"
#include "memory/owners.h"
#include "memory/quiet.h"
#include "memory/transfer.h"
#include "object/capture.h"
#include "object/session.h"
#include "order/gate.h"

#define RECENT 64u            /* uses: what they use stays, since it may be about to be pulled */
#define QUIET_NS 100000000ull /* until nothing runs */
#define YIELD_NS 1000000000ull /* the same where the program would get an error otherwise */
#define KNOWN_FOR 16384u        /* uses after which a GPU may have more room than it had */

static uint64_t
    full_at[TSR_DIRECTORY_COPIES]; /* lock; by GPU: tsr_copies_uses when there was no room the last time; 0: there was always */

/* By GPU: what the pool and copies had of it when it had no more, and tsr_copies_uses then. */
static struct {
    uint64_t bytes, at; /* atomic; at 0: it always had more */
} most[TSR_DIRECTORY_COPIES];

bool tsr_copies_have_room(uint32_t copy, uint64_t bytes)
{
    uint64_t at = __atomic_load_n(&most[copy].at, __ATOMIC_RELAXED);
    bool known = at && __atomic_load_n(&tsr_copies_uses, __ATOMIC_RELAXED) - at < KNOWN_FOR;
    return tsr_owners_have_room(copy, bytes, __atomic_load_n(&tsr_copies_held[copy], __ATOMIC_RELAXED),
                                known ? __atomic_load_n(&most[copy].bytes, __ATOMIC_RELAXED) : UINT64_MAX);
}

void tsr_copies_found_full(uint32_t copy)
{
    uint64_t taken = tsr_owners_owned(copy) + __atomic_load_n(&tsr_copies_held[copy], __ATOMIC_RELAXED);
    __atomic_store_n(&most[copy].bytes, taken, __ATOMIC_RELAXED);
    __atomic_store_n(&most[copy].at, __atomic_load_n(&tsr_copies_uses, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

/* Whether the GPU can do without its copy. */
static bool is_spare_locked(const struct tsr_copies *copies, uint32_t copy)
{
    uint64_t used_at = copies->used_at[copy];
    if (!(copies->replicas.own >> copy & 1) || copy == copies->replicas.owner || copies->fixed ||
        used_at + RECENT >= tsr_copies_uses)
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

void tsr_copies_give_up(struct tsr_copies *copies, uint32_t copy)
{
    struct tsr_replicas replicas = copies->replicas;
    if (copy)
        tsr_replicas_take(tsr_arena_find(copies->address), copy, &replicas);
    else
        tsr_replicas_take_home(tsr_arena_find(copies->address), &replicas);
    pthread_mutex_lock(&tsr_copies_lock);
    copies->replicas = replicas;
    tsr_directory_lose(&copies->directory, (uint8_t)copy);
    tsr_copies_change(tsr_copies_state(copies));
    pthread_mutex_unlock(&tsr_copies_lock);
    tsr_copies_count_bytes(copies, (uint16_t)(1u << copy), false);
    tsr_copies_count(&tsr_session()->policy->given_back, 1);
    tsr_copies_count(&tsr_session()->policy->given_back_bytes, copies->bytes);
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
        tsr_copies_give_up(copies, copy);
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

bool tsr_copies_holds_exclusively(struct tsr_copies *copies, uint32_t copy)
{
    pthread_mutex_lock(&tsr_copies_lock);
    enum tsr_directory_keeps keeps = tsr_directory_keeps(&copies->directory, (uint8_t)copy);
    pthread_mutex_unlock(&tsr_copies_lock);
    return keeps == TSR_DIRECTORY_KEEPS_EXCLUSIVE;
}

struct gathering {
    const struct tsr_copies *copies;
    CUstream stream;
    CUresult result;
};

static void pull_now(void *context, const struct tsr_pull *pull)
{
    struct gathering *gathering = context;
    CUdeviceptr at = gathering->copies->address + pull->first;
    const struct tsr_transfer by = {.stream = gathering->stream};
    struct tsr_lane_copy what = tsr_transfer_of(pull, tsr_window_at(pull->to, at), tsr_window_at(pull->from, at));
    if (gathering->result == CUDA_SUCCESS)
        gathering->result = tsr_transfer(&by, &what);
}

static void ignore_wait(void *context, uint64_t ticket)
{
    (void)context;
    (void)ticket;
}

CUresult tsr_copies_bring(struct tsr_copies *copies, uint32_t copy)
{
    struct gathering gathering = {.copies = copies};
    struct tsr_directory_listener listener = {.pull = pull_now, .wait = ignore_wait, .context = &gathering};
    CUresult result = tsr_copies_pull_stream(&gathering.stream);
    if (result != CUDA_SUCCESS)
        return result;
    pthread_mutex_lock(&tsr_copies_lock);
    tsr_directory_gather(&copies->directory, (uint8_t)copy, 0, &listener);
    tsr_directory_settle(&copies->directory);
    CUresult waited = tsr_real.cuStreamSynchronize(gathering.stream);
    result = gathering.result == CUDA_SUCCESS ? waited : gathering.result;
    if (result != CUDA_SUCCESS)
        tsr_copies_fail_locked(result, "bytes could not be pulled");
    pthread_mutex_unlock(&tsr_copies_lock);
    return result;
}

/* A context of the home GPU is current. */
static CUresult bring_home(struct tsr_copies *copies)
{
    if (tsr_owners_are_on())
        return tsr_copies_bring(copies, copies->replicas.owner);
    struct tsr_touch touch = {.first = copies->address, .end = copies->address + copies->bytes, .pulls = true};
    struct tsr_copies_use use = {.touches = &touch, .count = 1, .locked = true, .cause = TSR_PULL_GIVEN};
    return tsr_copies_pull_home(&use);
}

/* Nothing runs and nobody is inside. only_ones: such copies, or all others. How many bytes are free now. */
static uint64_t yield_some(uint32_t copy, uint64_t bytes, bool only_ones)
{
    uint64_t given = 0;
    for (size_t i = 0; i < tsr_copies_all.count && given < bytes; i++) {
        struct tsr_copies *copies = tsr_copies_all.data[i];
        if (!(copies->replicas.own >> copy & 1) || copy == copies->replicas.owner || (copies->fixed && !copy) ||
            tsr_copies_holds_exclusively(copies, copy) != only_ones)
            continue;
        if (only_ones && bring_home(copies) != CUDA_SUCCESS)
            continue;
        tsr_copies_give_up(copies, copy);
        given += copies->bytes;
    }
    return given;
}

static uint64_t yield_of(uint32_t copy, uint64_t bytes)
{
    CUcontext popped, context = tsr_copies_some_context();
    uint64_t given = yield_some(copy, bytes, false);
    if (given >= bytes || !context || tsr_real.cuCtxPushCurrent_v2(context) != CUDA_SUCCESS)
        return given;
    given += yield_some(copy, bytes - given, true);
    tsr_real.cuCtxPopCurrent_v2(&popped);
    return given;
}

/* Bit n: copy n is on the device. */
static uint32_t copies_on(CUdevice device)
{
    const struct tsr_session *session = tsr_session();
    uint32_t on = 0, owned = 0;
    for (uint32_t copy = 0; copy <= session->lane_count; copy++)
        on |= (device < 0 || tsr_gpu_device(tsr_session_gpu(session, copy)) == device ? 1u : 0u) << copy;
    for (size_t i = 0; i < tsr_copies_all.count; i++)
        owned |= tsr_copies_all.data[i]->replicas.own & ~(1u << tsr_copies_all.data[i]->replicas.owner);
    return on & owned;
}

bool tsr_copies_yield(CUdevice device, uint64_t bytes)
{
    uint32_t on = copies_on(device);
    uint64_t given = 0;
    if (!on || !tsr_gate_close(YIELD_NS))
        return false;
    if (!tsr_is_any_capture() && tsr_quiet_wait(YIELD_NS) == CUDA_SUCCESS) {
        tsr_copies_settle();
        for (uint32_t copy = 0; copy < TSR_DIRECTORY_COPIES && given < bytes; copy++)
            given += on >> copy & 1 ? yield_of(copy, bytes - given) : 0;
    }
    tsr_gate_open();
    tsr_debug("copies of memory: %llu of %llu bytes dropped for the program's own", (unsigned long long)given,
              (unsigned long long)bytes);
    return given != 0;
}
