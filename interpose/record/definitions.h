/*
 * Contexts, modules and functions as records name them: numbers, each defined once in the journal. A handle that the driver reuses
 * after its object is gone gets a new number: code that destroys contexts reports it here.
 */
#ifndef TSR_RECORD_DEFINITIONS_H
#define TSR_RECORD_DEFINITIONS_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

#include "object/registry.h"

/* Devices, which are known from the start. */
void tsr_definitions_start(void);

/* Changes whenever a stream or context handle may have become another's. */
extern uint32_t tsr_handles_epoch_now __attribute__((visibility("hidden"))); /* atomic */
static inline uint32_t tsr_handles_epoch(void)
{
    return __atomic_load_n(&tsr_handles_epoch_now, __ATOMIC_RELAXED);
}
void tsr_handles_changed(void);

/* 0: there are too many, or it has no GPU: a primary context between its reset and its next use. */
uint16_t tsr_context_number(CUcontext context);
/* Number of the context's GPU; TSR_DEVICE_UNKNOWN. */
#define TSR_DEVICE_UNKNOWN 0xff
uint8_t tsr_context_device(uint16_t number);

/* The context, or all contexts of the device, have been destroyed; forgotten is called with their numbers. */
void tsr_context_forget(CUcontext context, void (*forgotten)(uint16_t number));
void tsr_contexts_forget_of(CUdevice device, void (*forgotten)(uint16_t number));

/*
 * It has been loaded. image: as the driver got it; NULL: from the file `path`, which is empty otherwise. `caller`: an address in the code
 * that did it.
 */
void tsr_module_define(struct tsr_module_record *module, const void *image, const char *path, const void *caller);
/* At the first launch: gives it its number. handle may be one that was never noted. NULL: no memory. */
struct tsr_function_record *tsr_function_define(const void *handle);

#endif
