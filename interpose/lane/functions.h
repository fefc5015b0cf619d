/*
 * Modules and functions on executors: the image of a module is kept from load to unload, and sent to an executor when the first of the module's
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

/* Before the first function: forked children begin with locks that nobody holds. More than once is as once. */
void tsr_functions_start(void);

/*
 * Asks the driver for the function's properties. Called at a launch, because then a context is current, without which the driver does not give all properties of
 * a CUkernel. If it fails, the next launch asks again.
 */
void tsr_function_ask(struct tsr_function_record *function);
static inline void tsr_function_describe(struct tsr_function_record *function)
{
    if (__builtin_expect(!__atomic_load_n(&function->described, __ATOMIC_ACQUIRE), 0))
        tsr_function_ask(function);
}

/* Why a working executor did not accept it. */
enum tsr_reason tsr_function_refusal(const struct tsr_function_record *function, const struct tsr_lane_client *lane);

/*
 * Whether launches of a function may go to a lane is a property of the function: it is determined once (tsr_function_prepare) and stays valid until
 * something that it depends on changes, for any function (tsr_function_changed).
 */
extern uint64_t tsr_function_changes __attribute__((visibility("hidden"))); /* atomic */

#define TSR_FIT_LANES 16u /* lowest bits of tsr_function_record.fit: lanes; above them the count of changes when they were determined */

/* True: the function itself is no reason to keep its launches from the lane with that number. It has been described and sent. */
static inline bool tsr_function_is_fit(const struct tsr_function_record *function, uint32_t lane)
{
    uint64_t fit = __atomic_load_n(&function->fit, __ATOMIC_ACQUIRE);
    return fit >> TSR_FIT_LANES == __atomic_load_n(&tsr_function_changes, __ATOMIC_ACQUIRE) && (fit >> lane & 1);
}

/* Something has changed on which the fitness of functions depends. */
void tsr_function_changed(void);

/* Why none of its launches can go to any lane, as far as is known without sending it. It has been described. */
enum tsr_reason tsr_function_reason_unsent(const struct tsr_function_record *function);

/*
 * Sends the function, and determines whether it has global references, of which an executor has copies of its own: *reason says why it stays home. Errors:
 * those of an executor that has failed.
 */
CUresult tsr_function_prepare(struct tsr_function_record *function, struct tsr_lane_client *lane, enum tsr_reason *reason);
/* Of one that has been sent; of others nothing is known yet. */
enum tsr_reason tsr_function_reason_sent(const struct tsr_function_record *function);

/* Why a launch with these parameters stays home: they may hold an address that functions of its module stored in memory, where the application found it. */
enum tsr_reason tsr_function_scan_stored(const struct tsr_function_record *function, const void *block, uint32_t bytes);
static inline enum tsr_reason tsr_function_reason_with(const struct tsr_function_record *function, const void *block,
                                                       uint32_t bytes)
{
    bool follows = __atomic_load_n(&function->globals, __ATOMIC_RELAXED) & TSR_GLOBALS_STORED;
    return __builtin_expect(follows, 0) ? tsr_function_scan_stored(function, block, bytes) : TSR_REASON_NONE;
}

/* The access template (tessera/access.h) of launches of the function on that GPU; NULL: there is none, or none yet. */
static inline const void *tsr_function_template(struct tsr_function_record *function, uint32_t gpu, uint32_t *bytes)
{
    const void *found = tsr_template_find(&function->template, gpu);
    *bytes = found ? function->template.places[tsr_template_kind(gpu)].bytes : 0;
    return found;
}

/* The module is being unloaded: executors unload it, too. */
void tsr_functions_unload(struct tsr_module_record *module);

/* An executor that refuses the attribute runs the function no more. Errors: those of an executor that has failed. */
CUresult tsr_function_set_attribute(const void *handle, CUfunction_attribute attribute, int value);
CUresult tsr_function_set_cache(const void *handle, CUfunc_cache config);

/* The application may now read or write a variable of the module (NULL: any of them) at home, so functions that use it must run there from now on. */
void tsr_module_hold(struct tsr_module_record *module, const char *variable);
/* Whether the application may have the address of that variable. */
bool tsr_module_holds(const struct tsr_module_record *module, const char *variable);
/* Address of a variable of the module in the current context, for the shim's own use: the application does not count as having it. Errors: the driver's. */
CUresult tsr_module_locate(const struct tsr_module_record *module, const char *variable, CUdeviceptr *address, size_t *bytes);
/* Whether code or data of the module may refer to the variable. An executor determines that; without one, true. */
bool tsr_module_leads_to(struct tsr_module_record *module, const char *variable);

#endif
