/*
 * What one launch may read and write: from its function's template (templates.h), or from the library call that it happens in
 * (call_ranges.h).
 */
#ifndef TSR_LAUNCH_PREDICT_H
#define TSR_LAUNCH_PREDICT_H

#include <stdbool.h>
#include <stdint.h>

#include <tessera/access.h>

#define TSR_PREDICTED_RANGES 512u

struct tsr_function_record;
struct tsr_launch;

enum tsr_source { TSR_SOURCE_NONE, TSR_SOURCE_PTX, TSR_SOURCE_MACHINE_CODE, TSR_SOURCE_LIBRARY };

struct tsr_prediction {
    enum tsr_source source; /* NONE: it may touch anything */
    bool in_call;           /* from a library call: overwritten and scratch ranges hold for the call as a whole */
    uint32_t count;
    struct tsr_access_range ranges[TSR_PREDICTED_RANGES];
};

/* Whether something is known of the launch's function, or it is in a library call. Takes no lock. */
bool tsr_is_predictable(const struct tsr_launch *launch);

/* For a launch whose function is known, and whose parameters have been gathered. Takes no lock, except for the first launches of a function. */
void tsr_predict(const struct tsr_launch *launch, struct tsr_prediction *out);

/* Nothing is known yet of the launch's function: once it is, such launches will have been evaluated. */
void tsr_predict_later(const struct tsr_launch *launch);

extern uint32_t tsr_predict_errors __attribute__((visibility("hidden"))); /* atomic; predictions that were wrong so far */

/* The prediction was wrong: from now on the access sets of the function, or of the thread's library call, are unknown in this process. */
void tsr_predict_distrust(struct tsr_function_record *function, enum tsr_source source);

#endif
