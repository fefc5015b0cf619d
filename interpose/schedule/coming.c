/* See coming.h. */
#include "schedule/coming.h"

#include <string.h>

_Static_assert(TSR_PLACE_STREAMS == sizeof((struct tsr_place *)0)->coming / sizeof(struct tsr_place_coming), "streams");

/* One that is not soon joined. */
static bool opens_chain(const struct tsr_question *question)
{
    return question->history && (double)question->history->work_ns > question->place->options.lead_ns;
}

void tsr_coming_count(struct tsr_question *question, uint32_t timeline)
{
    const struct tsr_place *place = question->place;
    uint32_t stream = question->launch->stream;
    question->coming_all_ns = 0;
    question->counts_coming = stream && place->coming_count > 1;
    if (!question->counts_coming)
        return;
    memset(question->coming_ns, 0, place->options.gpus * sizeof question->coming_ns[0]);
    for (uint32_t i = 0; i < place->coming_count; i++) {
        const struct tsr_place_coming *coming = &place->coming[i];
        if (coming->left_ns <= 0 || coming->stream == stream || coming->until_ns < question->launch->now_ns)
            continue;
        uint32_t gpu = coming->gpu[timeline];
        question->coming_ns[gpu] += coming->left_ns * place->slowness[gpu];
        question->coming_all_ns += coming->left_ns;
    }
    if (opens_chain(question))
        return;
    question->coming_ns[question->last] = 0;
    question->coming_all_ns = 0;
}

/* The stream's own; where there are too many streams, that of the one which has brought nothing for longest. */
static struct tsr_place_coming *of_stream(struct tsr_place *place, uint32_t stream)
{
    struct tsr_place_coming *stalest = &place->coming[0];
    for (uint32_t i = 0; i < place->coming_count; i++) {
        struct tsr_place_coming *coming = &place->coming[i];
        if (coming->stream == stream)
            return coming;
        if (coming->until_ns < stalest->until_ns)
            stalest = coming;
    }
    struct tsr_place_coming *made = place->coming_count < TSR_PLACE_STREAMS ? &place->coming[place->coming_count++] : stalest;
    *made = (struct tsr_place_coming){.stream = stream};
    return made;
}

void tsr_coming_take(struct tsr_place *place, const struct tsr_place_launch *launch, double opened_ns,
                     const struct tsr_place_known *own)
{
    if (!launch->stream)
        return;
    struct tsr_place_coming *coming = of_stream(place, launch->stream);
    double ns = launch->ns[place->options.home];
    if (opened_ns > place->options.lead_ns) /* whatever it was expected to bring of another one */
        coming->left_ns = coming->patience_ns = opened_ns;
    coming->left_ns -= ns < coming->left_ns ? ns : coming->left_ns;
    coming->until_ns = launch->now_ns + coming->patience_ns;
    memcpy(coming->gpu, own->gpu, sizeof coming->gpu);
}
