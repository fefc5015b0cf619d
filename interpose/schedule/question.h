/*
 * A launch, asked of one timeline of the rule: what it reads there, and how it would fare on each GPU. schedule/choose.c decides between them;
 * place.c asks, and moves the timeline on.
 */
#ifndef TSR_SCHEDULE_QUESTION_H
#define TSR_SCHEDULE_QUESTION_H

#include <tessera/place.h>

/* A launch on one GPU. */
struct tsr_option {
    double start_ns, finish_ns;
    double pull_ns; /* copying fresh bytes */
    double gap_ns;  /* for which the GPU waits */
    uint64_t missing;
    bool copies; /* something, constants too */
};

/* What a launch reads, in one timeline. */
struct tsr_question_read {
    double done_ns;
    uint64_t bytes;
    uint32_t holders, gpu;
};

struct tsr_question {
    const struct tsr_place *place;
    const struct tsr_place_timeline *timeline;
    const struct tsr_place_launch *launch;
    const struct tsr_place_history *history;   /* of a chain that it opens; NULL: not known, or none */
    double rest_ns[TSR_GPUS];                  /* what is expected of that chain after the launch, */
    double whole_ns[TSR_GPUS];                 /* and with it, */
    double shortest_ns;                        /* where that is shortest */
    double now_ns, least_ns;                   /* of the host; before which it starts nowhere */
    bool constants;                            /* count */
    double late_until_ns;                      /* of the chain with which it goes on (tsr_place_chain) */
    bool counts_coming;                        /* GPUs are free only when they have done what other streams will bring, too: */
    double coming_ns[TSR_GPUS], coming_all_ns; /* all: that one GPU would do, too */
    uint32_t count, last;
    struct tsr_question_read reads[TSR_PLACE_PARTS];
};

static inline double tsr_later(double a, double b)
{
    return a > b ? a : b;
}

/* When the GPU has done what comes before the launch. */
static inline double tsr_question_free_ns(const struct tsr_question *question, uint32_t gpu)
{
    return question->timeline->free_ns[gpu] + (question->counts_coming ? question->coming_ns[gpu] : 0);
}

/* How it would fare there. links: written, when the links to the GPU have done; NULL: nobody asks. */
struct tsr_option tsr_question_look(const struct tsr_question *question, uint32_t gpu, double *links);

/* By how much the chain that it opens may end later on the GPU. */
double tsr_question_late_ns(const struct tsr_question *question, uint32_t gpu);

/* What is measured of GPUs that are alike differs a little, too. */
bool tsr_are_alike(const struct tsr_place *place, uint32_t a, uint32_t b);

/* Of the allowed ones; chosen: how it fares there. */
uint32_t tsr_choose(const struct tsr_question *question, uint32_t strategy, uint32_t allowed, struct tsr_option *chosen);

#endif
