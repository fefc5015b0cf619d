/* See touches.h. */
#include "launch/touches.h"

#include "base/thread_memory.h"
#include "launch/launch.h"
#include "launch/remembered.h"

#define LONGEST (1ll << 40) /* more is anything */

/*
 * False: the end of the range is unknown. Bytes that a library call overwrites, or uses as scratch, are ascribed to its first launch, though a later
 * one may write them: until then they hold nothing that the program may read.
 */
static bool add(const struct tsr_access_range *range, struct tsr_touches *out)
{
    if (range->last < range->first || range->last - range->first >= LONGEST)
        return range->last < range->first && !range->whole;
    bool writes = range->kind != TSR_ACCESS_READ;
    bool scratch = range->scratch;
    bool fresh = scratch || (range->kind == TSR_ACCESS_WRITE && range->overwritten);
    out->all[out->count++] = (struct tsr_touch){.first = range->base + (uint64_t)range->first,
                                                .end = range->base + (uint64_t)range->last + 1,
                                                .pulls = !fresh,
                                                .writes = writes || scratch,
                                                .stride = fresh && !scratch ? (uint64_t)range->stride : 0,
                                                .width = fresh && !scratch ? (uint64_t)range->width : 0};
    return true;
}

static bool find(const struct tsr_launch *launch, struct tsr_touches *out)
{
    struct tsr_prediction prediction;
    out->count = 0;
    if (!tsr_is_predictable(launch)) {
        tsr_predict_later(launch);
        return false;
    }
    struct tsr_remembered remembered = tsr_remembered_find(launch, out);
    if (remembered.known)
        return true;
    tsr_predict(launch, &prediction);
    bool known = prediction.source != TSR_SOURCE_NONE;
    for (uint32_t i = 0; i < prediction.count && known; i++)
        known = add(&prediction.ranges[i], out);
    if (known)
        tsr_remembered_keep(&remembered, launch, out);
    return known;
}

const struct tsr_touches *tsr_touches_of(struct tsr_launch *launch)
{
    static __thread struct tsr_touches *touches;
    static __thread const struct tsr_launch *of; /* whose they are */
    if (!touches && !(touches = tsr_thread_memory(sizeof *touches)))
        return NULL;
    if (launch->touches == TSR_TOUCHES_UNASKED || of != launch) {
        launch->touches = find(launch, touches) ? TSR_TOUCHES_KNOWN : TSR_TOUCHES_ANYTHING;
        of = launch;
    }
    return launch->touches == TSR_TOUCHES_KNOWN ? touches : NULL;
}
