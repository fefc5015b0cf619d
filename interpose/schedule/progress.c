/* See progress.h. */
#include "schedule/progress.h"

#include "object/session.h"

#define HOME 0u /* rank */

void tsr_progress_mark(struct tsr_progress *progress, const struct tsr_lane_client *lane, const struct tsr_progress_mark *mark)
{
    struct tsr_progress_gpu *gpu = &progress->gpus[tsr_lane_rank(lane)];
    if (gpu->end - gpu->first < TSR_PROGRESS_MARKS)
        gpu->marks[gpu->end++ % TSR_PROGRESS_MARKS] = *mark;
}

/* Home marks for all lanes at once. */
static bool is_passed(uint32_t gpu, const struct tsr_progress_mark *mark)
{
    const struct tsr_lane_client *lane = tsr_session()->lanes[gpu == HOME ? 0 : gpu - 1];
    return (gpu == HOME ? tsr_lane_home_value(mark->slot, lane) : tsr_lane_away_value(mark->slot, lane)) >= mark->value;
}

/* A mark that was there when the GPU was last looked at had not been passed then. */
static void look_at(struct tsr_progress_gpu *of, uint32_t gpu, struct tsr_place *place, double now_ns)
{
    const struct tsr_progress_mark *last = NULL;
    while (of->first != of->end && is_passed(gpu, &of->marks[of->first % TSR_PROGRESS_MARKS]))
        last = &of->marks[of->first++ % TSR_PROGRESS_MARKS];
    bool is_busy = of->first != of->end;
    if (last)
        tsr_place_seen(place, last->ticket, last->given_ns > of->looked_ns ? last->given_ns : of->looked_ns, now_ns, is_busy);
    if (is_busy)
        tsr_place_pending(place, of->marks[of->first % TSR_PROGRESS_MARKS].ticket, now_ns);
    of->looked_ns = now_ns;
}

void tsr_progress_look(struct tsr_progress *progress, struct tsr_place *place, double now_ns)
{
    for (uint32_t gpu = 0; gpu < place->options.gpus; gpu++)
        if (progress->gpus[gpu].first != progress->gpus[gpu].end)
            look_at(&progress->gpus[gpu], gpu, place, now_ns);
}

void tsr_progress_forget(struct tsr_progress *progress, struct tsr_place *place, uint32_t gpu)
{
    progress->gpus[gpu].first = progress->gpus[gpu].end;
    tsr_place_unseen(place, gpu);
}
