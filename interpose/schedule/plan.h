/*
 * Following a plan (tessera/plan.h) where launches are placed one by one: for a launch of which is known where in the plan's iteration it is, the
 * plan says the GPU. For all others nothing is said, and the rule places them. Requests, that is iterations, take turns in the plan's placements
 * by weight, and in the GPUs of a group one after the other.
 *
 * All but the start and tsr_plan_is_there are called with automatic.c's lock held.
 */
#ifndef TSR_SCHEDULE_PLAN_H
#define TSR_SCHEDULE_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "schedule/plan_position.h"

struct tsr_class;
struct tsr_classes;
struct tsr_function_record;
struct tsr_session;

#define TSR_PLAN_NO_GPU UINT32_MAX

struct tsr_plan_asked {
    const struct tsr_function_record *function; /* or what stands for a copy or memset (automatic.h) */
    const uint32_t *grid, *block;
    uint32_t shared_bytes;
    const struct tsr_classes *classes;
    const struct tsr_class *shape; /* of these; NULL: nothing is said */
    enum tsr_plan_reads reads;
    double now_ns;
};

/* Constant for a session. */
extern bool tsr_plan_is_there __attribute__((visibility("hidden")));

/* The rank of the GPU where the thread's next operation should go; TSR_PLAN_NO_GPU: nothing is said. */
uint32_t tsr_plan_gpu(const struct tsr_plan_asked *asked);
/* It went to the GPU with the rank, and is expected to end then. */
void tsr_plan_went(uint32_t gpu, double finish_ns);
/* Whether the plan may be replaced because of what launches take. */
bool tsr_plan_adapts(void);
/* What launches took, and which executors are lost, is reported to the control plane, now and then. start_ns: when there was the first launch. */
void tsr_plan_report(double start_ns, double now_ns);

/* A process' session begins. */
void tsr_plan_start(const struct tsr_session *session);

#endif
