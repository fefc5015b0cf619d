/*
 * Modules, libraries and functions as the shim knows them: enough to give an executor the same ones.
 *
 * A module's image is kept (in a memory file) from load to unload and sent to an executor when the first of its functions is launched
 * there. CUfunction and CUkernel handles both lead to one record; a launch may be given either.
 */
#ifndef TSR_SHIM_FUNCTIONS_H
#define TSR_SHIM_FUNCTIONS_H

#include "api/driver.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/launch/decide.h"
#include "shim/launch/templates.h"
#include "shim/module/parameters.h"

struct tsr_lane_client;
struct tsr_module_record;

#define TSR_FUNCTION_ATTRIBUTES 32 /* room for CUfunction_attribute; the last place is the cache configuration's */

struct tsr_function_record {
    uint32_t id;
    struct tsr_module_record *module;
    const void *handle; /* that it was found by: a CUkernel or a CUfunction */
    bool is_kernel;
    char *name;
    uint64_t name_hash;
    struct tsr_template_link template;
    struct tsr_decide_cache decide;
    bool different; /* atomic; a verified launch gave other bytes elsewhere than at home */
    bool described; /* atomic; what the driver tells of it is there: */
    struct tsr_parameters parameters;
    uint32_t max_threads;       /* of a block */
    uint32_t most_shared_bytes; /* dynamic, per block, as things stand */
    uint32_t attributes_set;    /* lock; bit k: the application has set attribute k; the highest bit: the cache configuration */
    int attributes[TSR_FUNCTION_ATTRIBUTES];
    uint16_t sent;      /* atomic; bit k: executor k knows the function */
    uint16_t refused;   /* lock; bit k: executor k does not take it with the attributes that it has */
    uint32_t uses;      /* atomic; enum tsr_use_flag; what an executor says is there before its bit in `sent` */
    uint64_t variables; /* atomic; of its module, that it may read, by tsr_variable_bit(); the same */
    uint32_t handles;   /* lock; that lead here */
};

/* NULL: a handle that the shim has not seen. */
struct tsr_function_record *tsr_function_find(const void *handle);
/* The function that executors know by the id. NULL: its module is gone. Looks at all functions. */
struct tsr_function_record *tsr_function_with_id(uint32_t id);

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

/* Why it must run at home although it has been sent: it would use what an executor has a copy of its own of. */
enum tsr_reason tsr_function_hindrance(const struct tsr_function_record *function);

/* False: its module's image is of a form that cannot be sent to an executor. */
bool tsr_function_sendable(const struct tsr_function_record *function);

/* Makes the function known to the lane's executor. Errors: NOT_SUPPORTED when it must stay home, as the executor cannot load its
   module; that of an executor that has failed. */
CUresult tsr_function_send(struct tsr_function_record *function, struct tsr_lane_client *lane);

/* File name of the shared object or executable that held the image; empty: none did. */
const char *tsr_module_name(const struct tsr_module_record *module);
/* Of the image (base/hash.h); made when first asked for; 0: not known. */
uint64_t tsr_module_hash(struct tsr_module_record *module);

/* Flat bytes (tessera/access.h) that say what launches of the function read and write; NULL: that is unknown, as yet or for good. */
static inline const void *tsr_function_template(struct tsr_function_record *function, uint32_t *bytes)
{
    const void *found = tsr_template_find(&function->template);
    *bytes = found ? function->template.bytes : 0;
    return found;
}

/* What the wrappers have seen: nothing is kept without a session. */
void tsr_module_remember(const void *handle, const void *image, bool library);
void tsr_module_remember_file(const void *handle, const char *path, bool library);
void tsr_module_alias(const void *handle, const void *of); /* another handle of the same module */
void tsr_module_drop(const void *handle);
void tsr_function_remember(const void *handle, const void *owner, const char *name, bool kernel);
void tsr_function_alias(const void *handle, const void *of); /* another handle of the same function */
/* An executor that refuses it runs the function no more. Errors: of one that has failed. */
CUresult tsr_function_set_attribute(const void *handle, CUfunction_attribute attribute, int value);
CUresult tsr_function_set_cache(const void *handle, CUfunc_cache config);

/* The application will read or write a variable of the module (NULL: any), at home; so from now on functions that use it must run there, too. */
void tsr_module_hold(const void *owner, const char *variable);

#endif
