/*
 * See copies.h. In a pool (owners.h): which GPUs have copies of their own of memory that another one owns, and which use the owner's through the link. What is written, or
 * was a moment ago, moves between GPUs, so each that uses it has a copy, as long as there is room in the reserve. Constants do not move: only small extents are copied.
 */
#include "memory/copies_parts.h"

#include <pthread.h>

#include "base/log.h"
#include "lane/lane_client.h"
#include "memory/owners.h"
#include "memory/quiet.h"
#include "memory/spill.h"
#include "object/capture.h"
#include "object/session.h"
#include "order/gate.h"

#define FRESH 4096u  /* uses after which what was written counts as constant */
#define SMALL_PART 64u /* of the reserve, 1/n: what is no larger is copied even if it is constant, and so is a page */
#define DENIED_FOR 1024u /* uses */
#define QUIET_NS 2000000000ull /* for what has been given to GPUs to be done; that is once, for each extent */

bool tsr_copies_are_small(const struct tsr_copies *copies)
{
    return copies->bytes == TSR_ARENA_PAGE || copies->bytes <= tsr_session()->policy->memory_reserve_bytes / SMALL_PART;
}

static bool is_fresh_locked(const struct tsr_copies *copies)
{
    return copies->written_at && tsr_copies_uses - copies->written_at < FRESH;
}

static bool was_denied_locked(const struct tsr_copies *copies, uint32_t gpu)
{
    uint64_t at = copies->denied_at[gpu];
    return at && (tsr_copies_uses - at < DENIED_FOR || tsr_spill_is_since(at));
}

bool tsr_copies_deserves_own_locked(const struct tsr_copies *copies, const struct tsr_use *use, uint32_t gpu)
{
    if (copies->replicas.own >> gpu & 1 || copies->fixed || was_denied_locked(copies, gpu))
        return false;
    if (tsr_copies_host_owns(copies))
        return gpu == 0;
    return use->writes || is_fresh_locked(copies) || tsr_copies_are_small(copies);
}

/* Numbered as copies: what the GPU would use. */
static uint32_t would_use_locked(const struct tsr_copies *copies, const struct tsr_use *use, uint32_t gpu)
{
    bool deserves = tsr_copies_deserves_own_locked(copies, use, gpu);
    if (deserves && tsr_copies_host_owns(copies))
        return gpu;
    if (deserves && tsr_copies_have_room(gpu, copies->bytes))
        return gpu;
    return copies->replicas.ready >> gpu & 1 ? copies->replicas.used_by[gpu] : copies->replicas.owner;
}

void tsr_copies_survey_in_pool_locked(const struct tsr_copies *copies, const struct tsr_use *use,
                                      const struct tsr_survey_of *of, struct tsr_survey *survey)
{
    struct tsr_survey one = {0};
    uint64_t bytes = use->end - use->first;
    uint32_t uses[TSR_DIRECTORY_COPIES];
    tsr_directory_survey(&copies->directory, use, of, &one);
    for (uint32_t left = of->copies; left; left &= left - 1) {
        uint32_t gpu = (uint32_t)__builtin_ctz(left);
        uses[gpu] = would_use_locked(copies, use, gpu);
        survey->constants[gpu] += one.constants[uses[gpu]];
        survey->through_link[gpu] += uses[gpu] == gpu ? 0 : bytes;
        survey->new_copies[gpu] += uses[gpu] == gpu && !(copies->replicas.own >> gpu & 1) ? bytes : 0;
    }
    for (uint32_t i = 0; i < one.part_count; i++) {
        uint16_t holders = 0;
        for (uint32_t left = of->copies; left; left &= left - 1)
            if (one.parts[i].holders >> uses[__builtin_ctz(left)] & 1)
                holders |= (uint16_t)(left & -left);
        tsr_survey_add(survey, one.parts[i].writer, one.parts[i].bytes, holders);
    }
}

void tsr_copies_survey_mapped(uint64_t first, uint64_t end, const struct tsr_survey_of *of, struct tsr_survey *survey)
{
    uint64_t owned[TSR_DIRECTORY_COPIES] = {0}, all = 0;
    tsr_owners_look(first, end, owned);
    for (uint32_t gpu = 0; gpu < TSR_DIRECTORY_COPIES; gpu++)
        all += owned[gpu];
    for (uint32_t left = all ? of->copies : 0; left; left &= left - 1)
        survey->through_link[__builtin_ctz(left)] += all - owned[__builtin_ctz(left)];
}

/* Nothing runs and nobody is inside. */
static CUresult replace_link(const struct tsr_extent *extent, uint32_t gpu, struct tsr_replicas *replicas)
{
    if (!gpu)
        return tsr_replicas_give_home(extent, replicas);
    tsr_replicas_take(extent, gpu, replicas);
    return tsr_replicas_give(extent, gpu, true, replicas);
}

static bool replace_when_quiet(struct tsr_extent *extent, uint32_t gpu)
{
    struct tsr_copies *copies = extent->copies;
    struct tsr_replicas replicas = copies->replicas;
    bool quiet = tsr_gate_close(QUIET_NS);
    if (quiet && !tsr_is_any_capture() && tsr_quiet_wait(QUIET_NS) == CUDA_SUCCESS) {
        replace_link(extent, gpu, &replicas);
        if (!(replicas.own >> gpu & 1))
            tsr_copies_found_full(gpu);
    }
    pthread_mutex_lock(&tsr_copies_lock);
    copies->replicas = replicas;
    tsr_copies_change(tsr_copies_state(copies));
    pthread_mutex_unlock(&tsr_copies_lock);
    if (quiet)
        tsr_gate_open();
    return replicas.own >> gpu & 1;
}

static bool is_room(const struct tsr_copies *copies, uint32_t gpu)
{
    return tsr_copies_have_room(gpu, copies->bytes) || tsr_copies_make_room(gpu, copies->bytes);
}

/* Again, if the GPU turned out to be full. */
static bool replace_or_make_room(struct tsr_extent *extent, uint32_t gpu)
{
    uint64_t bytes = extent->bytes;
    return replace_when_quiet(extent, gpu) ||
           (!tsr_copies_have_room(gpu, bytes) && tsr_copies_make_room(gpu, bytes) && replace_when_quiet(extent, gpu));
}

void tsr_copies_deny(struct tsr_copies *copies, uint32_t gpu)
{
    pthread_mutex_lock(&tsr_copies_lock);
    copies->denied_at[gpu] = tsr_copies_uses;
    pthread_mutex_unlock(&tsr_copies_lock);
}

CUresult tsr_copies_take_own(struct tsr_extent *extent, uint32_t gpu)
{
    struct tsr_copies *copies = extent->copies;
    if (tsr_copies_host_owns(copies)) {
        if (!gpu && !tsr_spill_take(extent))
            tsr_copies_deny(copies, gpu);
    } else if (is_room(copies, gpu) && replace_or_make_room(extent, gpu))
        tsr_copies_count_bytes(copies, (uint16_t)(1u << gpu), true);
    else
        tsr_copies_deny(copies, gpu);
    return CUDA_SUCCESS;
}

void tsr_copies_begin_own(const struct tsr_extent *extent, struct tsr_copies *copies)
{
    if (copies->replicas.owner && !tsr_copies_host_owns(copies) && tsr_copies_are_small(copies) &&
        tsr_copies_have_room(0, copies->bytes) && tsr_replicas_give_home(extent, &copies->replicas) == CUDA_SUCCESS)
        tsr_copies_count_bytes(copies, 1, true);
}

bool tsr_copies_may_have_own(struct tsr_copies *copies, uint32_t gpu)
{
    if (!tsr_owners_are_on())
        return true;
    if (copies->wanted >> gpu & 1 && is_room(copies, gpu))
        return true;
    tsr_copies_deny(copies, gpu);
    return false;
}
