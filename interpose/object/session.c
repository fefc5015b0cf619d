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

struct tsr_policy_counts *tsr_session_counts(const struct tsr_session *session)
{
    static uint32_t threads; /* atomic; that have counted */
    static __thread uint32_t number;
    if (!number)
        number = __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED);
    struct tsr_policy *policy = session->policy;
    return &policy->counts[((uint32_t)session->owner + number) % (sizeof policy->counts / sizeof policy->counts[0])];
}

struct tsr_lane_client *tsr_session_lane(int32_t device)
{
    const struct tsr_session *session = tsr_session();
    for (uint32_t i = 0; session && i < session->lane_count; i++)
        if ((int32_t)session->lane_device[i] == device)
            return session->lanes[i];
    return NULL;
}
