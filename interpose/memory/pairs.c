/* See pairs.h. */
#include "memory/pairs.h"

#include "driver/gpus.h"
#include "driver/real.h"
#include "memory/directory.h"
#include "object/session.h"

static uint32_t known[TSR_DIRECTORY_COPIES], direct[TSR_DIRECTORY_COPIES]; /* atomic; by user, bit n: owner n */

static CUdevice device_of(uint32_t copy)
{
    const struct tsr_session *session = tsr_session();
    return copy ? tsr_gpu_device(session->lane_device[copy - 1]) : session->home;
}

static bool ask(uint32_t user, uint32_t owner)
{
    CUdevice here = device_of(user), there = device_of(owner);
    int can = 1;
    if (here < 0 || there < 0 || tsr_real.cuDeviceCanAccessPeer(&can, here, there) != CUDA_SUCCESS)
        return true;
    return can != 0;
}

bool tsr_pair_is_direct(uint32_t user, uint32_t owner)
{
    if (user == owner)
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

void tsr_pairs_forget(void)
{
    for (uint32_t i = 0; i < TSR_DIRECTORY_COPIES; i++)
        known[i] = direct[i] = 0;
}
