/* See sharing.h. */
#include "schedule/sharing.h"

void tsr_sharing_give(struct tsr_sharing *sharing, CUstream stream, double finish_ns)
{
    if (sharing->last != stream) {
        sharing->others_ns = sharing->others_ns > sharing->last_ns ? sharing->others_ns : sharing->last_ns;
        sharing->turns++;
    }
    sharing->last = stream;
    sharing->last_ns = finish_ns;
}

bool tsr_sharing_is_shared(const struct tsr_sharing *sharing, CUstream stream, double now_ns, double free_ns)
{
    double until_ns = sharing->others_ns;
    if (sharing->last != stream && sharing->last_ns > until_ns)
        until_ns = sharing->last_ns;
    return until_ns > now_ns && free_ns > now_ns; /* the first is not corrected when the host waits */
}

uint64_t tsr_sharing_turns(const struct tsr_sharing *sharing, CUstream stream)
{
    return sharing->turns + (sharing->last != stream);
}
