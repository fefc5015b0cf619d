/*
 * What executors have of modules and functions: the image of a module is kept from load to unload, and sent to an executor when the first of its
 * functions is launched there.
 */
#ifndef TSR_LANE_FUNCTIONS_H
#define TSR_LANE_FUNCTIONS_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

#include <tessera/lane.h>
#include <tessera/records.h>

#include "object/registry.h"

struct tsr_lane_client;

/*
 * What the driver tells of the function, at a launch: then there is a current context, without which it does not tell all of a CUkernel. If it
 * does not tell, the next launch asks again.
 */
void tsr_function_ask(struct tsr_function_record *function);
static inline void tsr_function_describe(struct tsr_function_record *function)
{
    if (__builtin_expect(!__atomic_load_n(&function->described, __ATOMIC_ACQUIRE), 0))
        tsr_function_ask(function);
}

/* Why it could not be sent, as an executor that works did not take it. */
enum tsr_reason tsr_function_refusal(const struct tsr_function_record *function, const struct tsr_lane_client *lane);

/*
 * Whether launches of the function may go to that lane, is a property of the function: it is found out once (tsr_function_prepare) and holds until
 * something that it rests on changes, of whatever function (tsr_function_changed).
 */
extern uint64_t tsr_function_changes __attribute__((visibility("hidden"))); /* atomic */

#define TSR_FIT_LANES 16u /* lowest bits of tsr_function_record.fit: lanes; above them the changes that it was found after */

/* True: nothing of the function itself keeps its launches from the lane with that number. It has been described and sent. */
static inline bool tsr_function_is_fit(const struct tsr_function_record *function, uint32_t lane)
{
    uint64_t fit = __atomic_load_n(&function->fit, __ATOMIC_ACQUIRE);
    return fit >> TSR_FIT_LANES == __atomic_load_n(&tsr_function_changes, __ATOMIC_ACQUIRE) && (fit >> lane & 1);
}

/* What a function's fitness rests on has changed. */
void tsr_function_changed(void);

/* Why none of its launches can go to any lane, as far as is known without sending it. It has been described. */
enum tsr_reason tsr_function_bound(const struct tsr_function_record *function);

/*
 * Sends the function, and finds out whether it would use there what an executor has a copy of its own of: *reason says why it stays home. Errors:
 * of an executor that has failed.
 */
CUresult tsr_function_prepare(struct tsr_function_record *function, struct tsr_lane_client *lane, enum tsr_reason *reason);
/* Of one that has been sent; of others nothing is known yet. */
enum tsr_reason tsr_function_hindrance(const struct tsr_function_record *function);

/* Why a launch with these parameters stays home: they may hold an address that its module's functions left in memory, where the application found it. */
enum tsr_reason tsr_function_scan_left(const struct tsr_function_record *function, const void *block, uint32_t bytes);
static inline enum tsr_reason tsr_function_hindrance_given(const struct tsr_function_record *function, const void *block,
                                                           uint32_t bytes)
{
    bool follows = __atomic_load_n(&function->uses, __ATOMIC_RELAXED) & TSR_GLOBALS_LEFT;
    return __builtin_expect(follows, 0) ? tsr_function_scan_left(function, block, bytes) : TSR_REASON_NONE;
}

/* Flat bytes (tessera/access.h) that say what launches of the function on that GPU read and write; NULL: that is unknown, as yet or for good. */
static inline const void *tsr_function_template(struct tsr_function_record *function, uint32_t gpu, uint32_t *bytes)
{
    const void *found = tsr_template_find(&function->template, gpu);
    *bytes = found ? function->template.places[tsr_template_kind(gpu)].bytes : 0;
    return found;
}

/* It is being unloaded: by executors, too. */
void tsr_functions_unload(struct tsr_module_record *module);

/* An executor that refuses it runs the function no more. Errors: of one that has failed. */
CUresult tsr_function_set_attribute(const void *handle, CUfunction_attribute attribute, int value);
CUresult tsr_function_set_cache(const void *handle, CUfunc_cache config);

/* The application will read or write a variable of the module (NULL: any), at home; so from now on functions that use it must run there, too. */
void tsr_module_hold(struct tsr_module_record *module, const char *variable);
/* Whether it may have been said to hold that one. */
bool tsr_module_holds(const struct tsr_module_record *module, const char *variable);
/* Where a variable of the module lies in the current context. The application has not asked for it, and does not get to know. Errors: the driver's. */
CUresult tsr_module_locate(const struct tsr_module_record *module, const char *variable, CUdeviceptr *address, size_t *bytes);
/* Whether code or data of the module may lead to the variable; an executor looks, and without one it may. */
bool tsr_module_leads_to(struct tsr_module_record *module, const char *variable);

#endif
