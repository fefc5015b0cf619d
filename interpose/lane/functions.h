/*
 * What executors have of modules and functions: the image of a module is kept from load to unload, and sent to an executor when the first of its
 * functions is launched there.
 */
#ifndef TSR_LANE_FUNCTIONS_H
#define TSR_LANE_FUNCTIONS_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

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

/* Why it must run at home although it has been sent: it would use what an executor has a copy of its own of. */
enum tsr_reason tsr_function_hindrance(const struct tsr_function_record *function);

/* The same of the parameters, `bytes` of the block: they may hold an address that its module's functions left in memory, where the application found it. */
enum tsr_reason tsr_function_hindrance_given(const struct tsr_function_record *function, const void *block, uint32_t bytes);

/* False: its module is not known, or its image is of a form that cannot be sent to an executor. */
bool tsr_function_sendable(const struct tsr_function_record *function);

/* Makes the function known to the lane's executor. Errors: NOT_SUPPORTED when it must stay home, as the executor cannot load its
   module; that of an executor that has failed. */
CUresult tsr_function_send(struct tsr_function_record *function, struct tsr_lane_client *lane);

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
