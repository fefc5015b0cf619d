/*
 * The application's modules, libraries and functions, by their handles. Each has one record, whatever roles the process has: each role keeps its
 * data of an object in a part of the record that only that role writes.
 *
 * CUfunction and CUkernel handles of a function both lead to its record; a launch may be given either. The driver reuses handles: code that
 * unloads modules or destroys contexts reports it here, and an object that appears under a known handle replaces the old one. Look-ups take no
 * lock. A record outlives its handles for a while, because a launch on another thread may hold it.
 */
#ifndef TSR_OBJECT_REGISTRY_H
#define TSR_OBJECT_REGISTRY_H

#include "api/driver.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tessera/policy.h>

#include "object/templates.h"
#include "object/parameters.h"

#define TSR_FUNCTION_ATTRIBUTES 32 /* room for CUfunction_attribute; the last place is the cache configuration's */

#define TSR_RULES_WORDS (TSR_POLICY_RULES / 64)

/* What is known of a function's rules; schedule/decide.c's part of its record. Zero bytes: nothing. */
struct tsr_decide_cache {
    uint32_t generation;                  /* atomic; of the policy, for the candidates; 0: they are being written */
    uint64_t candidates[TSR_RULES_WORDS]; /* atomic */
    uint64_t cached_rule;                 /* atomic; the decision for every launch of the function; 0: launches differ */
    uint64_t launches;                    /* atomic; number of launches while a candidate has a condition on it */
    bool noted;                           /* atomic; it is in the policy's list of functions */
};

/* Addresses of variables of a function's module in a context; launch/predict.c's part of the record, freed with it. */
struct tsr_symbols {
    struct tsr_symbols *next;
    CUcontext context;
    uint64_t epoch;       /* tsr_registry_epoch() when they were found */
    const void *template; /* whose symbols they are, in its order: */
    uint64_t addresses[];
};

struct tsr_module_record {
    const void *handle; /* that it was loaded under */
    uint32_t id;        /* that executors know it by */
    bool is_library;
    CUcontext context; /* that it is unloaded with; NULL: it is a library, in every context */
    uint64_t hash;     /* atomic; of its image (base/hash.h); 0: not known yet */

    uint32_t number; /* for recording: in the journal; 0: none */

    /* Redirecting; lane/functions.c has the lock. */
    int image;        /* memory file; -1: none, or of a form that cannot be sent */
    size_t bytes;     /* of the image */
    char name[64];    /* cut off if longer */
    uint16_t sent;    /* atomic; bit k: executor k has it */
    uint16_t refused; /* atomic; bit k: executor k cannot load it: no room, or no code for its GPU */
    uint16_t foreign; /* atomic; of these, bit k: it, or a function of it, has no code for the GPU of executor k */
    uint64_t held;    /* atomic; variables whose address the application has, by tsr_variable_bit() */

    struct tsr_constant *constants; /* memory/constants.c has the lock */
};

struct tsr_function_record {
    /* Recording. */
    uint32_t number;   /* atomic; in the journal; 0 before the first launch */
    uint32_t launches; /* relaxed; counted for sampling of times */

    struct tsr_template_link template;
    struct tsr_symbols *symbols; /* atomic; the newest first */
    struct tsr_parameters parameters;
    struct tsr_module_record *module; /* NULL: unknown */
    uint32_t id;                      /* that executors know it by */
    const void *handle;               /* that it was found by: a CUkernel or a CUfunction */
    bool is_kernel;                   /* which of them */
    uint32_t handles;                 /* registry's lock; handles that lead to this record, and who keeps it */
    CUcontext context;                /* of a CUfunction: the handle ends with it */
    char *name;                       /* NULL: a handle that was never looked up */
    uint64_t name_hash;
    uint32_t block[3]; /* for forms of launch that set it beforehand (cuFuncSetBlockShape) */
    uint32_t shared_bytes;
    uint32_t taken;    /* atomic; forms of launch of it that the driver has taken: 1: without attributes, 2: with some */
    uint32_t deferred; /* atomic; bit n: ring n (shim/deferred.h) has been given launches of it */

    /* Redirecting; lane/functions.c has the lock. */
    bool described;      /* atomic; its parameters are known, and these attributes: */
    bool is_collective;  /* of NCCL; valid with `described` */
    bool captured_alone; /* atomic; a launch of it became a node outside of library calls (launch/captured_calls.h) */
    bool different;      /* atomic; a verified launch gave other bytes elsewhere than at home */
    uint64_t drawable;   /* atomic; launches from which check/check.c has drawn a sample */
    struct tsr_decide_cache decide;
    uint32_t max_threads;       /* of a block */
    uint32_t most_shared_bytes; /* dynamic, per block, with its present attributes */
    uint16_t sent;              /* atomic; bit k: executor k knows the function */
    uint16_t refused;           /* atomic; bit k: executor k refuses it with its present attributes */
    uint32_t
        globals; /* atomic; global references, enum tsr_global_flag; an executor's answer is stored before its bit in `sent` is set */
    uint64_t variables; /* atomic; variables of its module that it may read, by tsr_variable_bit(); stored likewise */
    uint64_t
        fit; /* atomic; lane/functions.c: lanes to which its launches may go, and the count of changes for which that is valid */
    uint32_t attributes_set; /* lock; bit k: the application has set attribute k; the highest bit: the cache configuration */
    int attributes[TSR_FUNCTION_ATTRIBUTES]; /* lock */
    uint32_t attribute_changes;              /* lock */

    /* To be sent in the background; lane/prepared.c has the lock. */
    bool is_listed;  /* atomic; not sent to all yet */
    bool was_listed; /* atomic; it is or has been sent to all, or could not be, with its present attributes */
    struct tsr_function_record *next;
};

/* Before the first look-up: forked children begin with none. */
void tsr_registry_start(void);

/* Called for every module that is being unloaded, while the records of the module and its functions still exist; in the order of registering. */
#define TSR_UNLOAD_LISTENERS 4u
typedef void tsr_unload_listener(struct tsr_module_record *module);
void tsr_registry_listen(tsr_unload_listener *listener);

/* A module or library has been loaded; its image is -1. NULL: no memory. */
struct tsr_module_record *tsr_module_note(const void *handle, bool is_library);
void tsr_module_alias(const void *handle, const void *of); /* another handle of the same module */
struct tsr_module_record *tsr_module_find(const void *handle);
/* The module is being unloaded: it and its functions are forgotten, by executors too. */
void tsr_module_forget(const void *handle);
/* The context has ended, and with it its modules and functions. */
void tsr_modules_forget_of(CUcontext context);
/* Goes up whenever a context ends: what was found under a context's handle before is invalid. */
uint64_t tsr_registry_epoch(void);

/* The application has got a function's handle. name: by which it was looked up; NULL: the handle was obtained otherwise. */
void tsr_function_note(const void *handle, const void *owner, const char *name, bool is_kernel);
void tsr_function_alias(const void *handle, const void *of); /* another handle of the same function */
/* NULL: a handle that the shim has not seen. */
struct tsr_function_record *tsr_function_find(const void *handle);
/* The program itself has made a launch of it a node of a graph. kernel: its other handle. Either may be NULL. */
void tsr_function_made_node(const void *handle, const void *kernel);
/* The function that executors know by the id. NULL: its module is gone. Looks at all functions. */
struct tsr_function_record *tsr_function_with_id(uint32_t id);
/* A visit for each handle, with what it leads to, a struct tsr_function_record; none comes or goes meanwhile. */
void tsr_functions_each(void (*visit)(uint64_t handle, void *function, void *argument), void *argument);

/* Its record stays until it is given back, also when no handle leads to it any more. False: none does already. */
bool tsr_function_keep(struct tsr_function_record *function);
void tsr_function_give(struct tsr_function_record *function);

/* Asks the driver for the layout of the parameters, unless it is known. */
void tsr_function_read_parameters(struct tsr_function_record *function);

#endif
