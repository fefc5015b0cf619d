/* See pairs.h. */
#include "memory/pairs.h"

#include <stddef.h>

#include "base/log.h"
#include "base/os.h"
#include "driver/gpus.h"
#include "driver/real.h"
#include "memory/directory.h"
#include "object/session.h"

#define LONGEST_NS 12000000000ull /* for a proof; who makes it gives up before */
#define LOOK_NS 1000000ull

static uint32_t known[TSR_DIRECTORY_COPIES], direct[TSR_DIRECTORY_COPIES]; /* atomic; by user, bit n: owner n */

static CUdevice device_of(uint32_t copy)
{
    const struct tsr_session *session = tsr_session();
    return copy ? tsr_gpu_device(session->lane_device[copy - 1]) : session->home;
}

const struct tsr_policy_pair *tsr_pair_of(const struct tsr_session *session, uint32_t to, uint32_t from)
{
    return &session->policy->pairs[tsr_session_gpu(session, to)][tsr_session_gpu(session, from)];
}

static enum tsr_policy_proof proof_of(uint32_t to, uint32_t from)
{
    static const uint32_t never;
    const uint32_t *proof = &tsr_pair_of(tsr_session(), to, from)->proof;
    uint64_t end = tsr_os_monotonic_ns() + LONGEST_NS;
    uint32_t found;
    while ((found = __atomic_load_n(proof, __ATOMIC_ACQUIRE)) == TSR_PROOF_PENDING && tsr_os_monotonic_ns() < end)
        tsr_os_futex_wait(&never, 0, LOOK_NS, false);
    return (enum tsr_policy_proof)found;
}

/* Both ways: memory that one of them sees it also writes to. */
static bool is_wrong(uint32_t user, uint32_t owner)
{
    enum tsr_policy_proof there = proof_of(user, owner), back = proof_of(owner, user);
    if (there == TSR_PROOF_FAILED || there == TSR_PROOF_PENDING)
        tsr_warn("whether GPU %u copies memory of GPU %u rightly could not be found out (error %d); it is taken to",
                 tsr_session_gpu(tsr_session(), user), tsr_session_gpu(tsr_session(), owner),
                 tsr_pair_of(tsr_session(), user, owner)->error);
    return there == TSR_PROOF_WRONG || back == TSR_PROOF_WRONG;
}

static bool ask(uint32_t user, uint32_t owner)
{
    CUdevice here = device_of(user), there = device_of(owner);
    int can = 1;
    if (here < 0 || there < 0 || here == there || tsr_real.cuDeviceCanAccessPeer(&can, here, there) != CUDA_SUCCESS)
        can = 1;
    return can && !is_wrong(user, owner);
}

bool tsr_pair_is_direct(uint32_t user, uint32_t owner)
{
    if (user == owner || owner > tsr_session()->lane_count) /* the host's: all GPUs can */
        return true;
    if (!(__atomic_load_n(&known[user], __ATOMIC_ACQUIRE) >> owner & 1)) {
        if (ask(user, owner))
            __atomic_fetch_or(&direct[user], 1u << owner, __ATOMIC_RELAXED);
        __atomic_fetch_or(&known[user], 1u << owner, __ATOMIC_RELEASE);
    }
    return __atomic_load_n(&direct[user], __ATOMIC_RELAXED) >> owner & 1;
}

bool tsr_pairs_are_all_direct(void)
{
    uint32_t last = tsr_session()->lane_count;
    for (uint32_t user = 0; user <= last; user++)
        for (uint32_t owner = 0; owner <= last; owner++)
            if (!tsr_pair_is_direct(user, owner))
                return false;
    return true;
}

bool tsr_pairs_may_share(void)
{
    const struct tsr_session *session = tsr_session();
    for (uint32_t i = 0; session->policy->memory_place == TSR_POLICY_COPIES && i < session->lane_count; i++)
        if (!tsr_pair_is_direct(i + 1, 0))
            return false;
    return true;
}

void tsr_pairs_forget(void)
{
    for (uint32_t i = 0; i < TSR_DIRECTORY_COPIES; i++)
        known[i] = direct[i] = 0;
}
