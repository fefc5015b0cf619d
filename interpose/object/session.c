/* See session.h. */
#include "object/session.h"

#include "driver/engaged.h"

static struct tsr_session *current; /* atomic */

void tsr_session_set(struct tsr_session *session)
{
    __atomic_store_n(&current, session, __ATOMIC_RELEASE);
}

struct tsr_session *tsr_session(void)
{
    return tsr_has_role(TSR_REDIRECTING) ? __atomic_load_n(&current, __ATOMIC_ACQUIRE) : NULL;
}

struct tsr_session *tsr_session_counting(void)
{
    return tsr_has_role(TSR_DECIDING) ? __atomic_load_n(&current, __ATOMIC_ACQUIRE) : NULL;
}

__thread struct tsr_session_counting tsr_session_counts_here;

void tsr_session_count_in(const struct tsr_session *session)
{
    struct tsr_policy *policy = session->policy;
    uint32_t all = sizeof policy->counts / sizeof policy->counts[0], half = all / 2;
    uint32_t number = __atomic_load_n(&policy->counting, __ATOMIC_RELAXED);
    if (number < UINT32_MAX / 2) /* it never begins anew */
        number = __atomic_fetch_add(&policy->counting, 1, __ATOMIC_RELAXED);
    bool alone = number < half;
    tsr_session_counts_here = (struct tsr_session_counting){
        .session = session, .counts = &policy->counts[alone ? number : half + number % half], .alone = alone};
}

struct tsr_lane_client *tsr_session_lane(int32_t device)
{
    const struct tsr_session *session = tsr_session();
    for (uint32_t i = 0; session && i < session->lane_count; i++)
        if ((int32_t)session->lane_device[i] == device)
            return session->lanes[i];
    return NULL;
}
