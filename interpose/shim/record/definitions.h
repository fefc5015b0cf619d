/*
 * Contexts, modules and functions as records name them: numbers, each defined once in the journal. A handle that the driver gives out again
 * after its object is gone gets a new number: who destroys contexts or unloads modules says so here.
 *
 * Look-ups take no lock. What is known of a function outlives its module for a while, because a launch may hold it.
 */
#ifndef TSR_SHIM_DEFINITIONS_H
#define TSR_SHIM_DEFINITIONS_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

#include "shim/launch/templates.h"
#include "shim/module/parameters.h"

struct tsr_known_function {
    uint32_t number;                   /* atomic; 0 before the first launch */
    uint32_t launches;                 /* relaxed; of which timing takes samples */
    uint32_t module;                   /* number; 0: unknown */
    uint16_t context;                  /* of a CUfunction; 0: a CUkernel, or unknown */
    bool is_kernel;                    /* the handle is a CUkernel */
    const void *owner;                 /* CUmodule or CUlibrary; NULL: unknown */
    char *name;                        /* where the driver cannot tell it; else NULL */
    struct tsr_template_link template; /* complete once `number` is given */
    struct tsr_parameters parameters;  /* complete once `number` is given */
    uint32_t block[3];                 /* of the forms of launch that set it beforehand */
    uint32_t shared_bytes;
};

/* Devices, which are known from the start. */
void tsr_definitions_start(void);

/* Changes whenever a stream or context handle may have become another's. */
extern uint32_t tsr_handles_epoch_now __attribute__((visibility("hidden"))); /* atomic */
static inline uint32_t tsr_handles_epoch(void)
{
    return __atomic_load_n(&tsr_handles_epoch_now, __ATOMIC_RELAXED);
}
void tsr_handles_changed(void);

/* 0: there are too many. */
uint16_t tsr_context_number(CUcontext context);
/* Number of the context's GPU; TSR_DEVICE_UNKNOWN. */
#define TSR_DEVICE_UNKNOWN 0xff
uint8_t tsr_context_device(uint16_t number);

/* The context, or all contexts of the device, have been destroyed; told is called with their numbers. */
void tsr_context_forget(CUcontext context, void (*told)(uint16_t number));
void tsr_contexts_forget_of(CUdevice device, void (*told)(uint16_t number));

/* image: as the driver got it; NULL: loaded from the file `path`, which is empty otherwise. */
void tsr_module_define(const void *handle, const void *image, const char *path, bool is_library);
void tsr_module_forget(const void *handle);

/* The application has got a function's handle. */
void tsr_function_note(const void *handle, const void *owner, const char *name, bool is_kernel);
/* NULL: never seen. */
struct tsr_known_function *tsr_function_known(const void *handle);
/* At the first launch: gives it its number. handle may be one that was never noted. NULL: no memory. */
struct tsr_known_function *tsr_function_define(const void *handle);

#endif
