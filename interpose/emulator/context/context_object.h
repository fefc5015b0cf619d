/* Making and ending contexts, and each thread's stack of current ones. For entry/context.c and entry/green.c. */
#ifndef TSR_CONTEXT_OBJECT_H
#define TSR_CONTEXT_OBJECT_H

#include <pthread.h>

#include "context.h"

#define TSR_LIMITS 10 /* enum CUlimit */

/* What the application sets and reads back; most of it has no effect here. lock protects all of it. */
struct tsr_context_settings {
    pthread_mutex_t lock;
    size_t limits[TSR_LIMITS];
    CUfunc_cache cache;
    CUsharedconfig shared;
    unsigned api_version;
};

/* The new context has one reference, held by its handle. */
CUresult tsr_context_create(uint32_t device, unsigned flags, unsigned api_version, struct tsr_context **out);
/* A green context: its own streams and SMs; memory, modules and failures are those of the root, which the caller keeps alive. */
CUresult tsr_context_create_green(struct tsr_context *root, uint32_t sm_count, struct tsr_context **out);
/* Runs the destructors and removes the handle. Waits for the context's work. CONTEXT_IS_DESTROYED when it was. */
CUresult tsr_context_destroy(struct tsr_context *context);
struct tsr_context_settings *tsr_context_settings(struct tsr_context *context);
bool tsr_context_is_primary(const struct tsr_context *context);
void tsr_context_flags_set(struct tsr_context *context, unsigned flags);
/* Finds a context that is not destroyed. NULL is INVALID_CONTEXT. */
CUresult tsr_context_find(CUcontext handle, struct tsr_context **out);

/* Primary contexts: one per device; the handle stays the same over resets. Device numbers have been checked. */
CUresult tsr_primary_retain(uint32_t device, struct tsr_context **out);
CUresult tsr_primary_release(uint32_t device); /* INVALID_CONTEXT when not retained */
CUresult tsr_primary_reset(uint32_t device);
void tsr_primary_state(uint32_t device, unsigned *flags, bool *active);
void tsr_primary_flags_set(uint32_t device, unsigned flags);

/* The calling thread's stack. context may be NULL in set: removes the top. */
CUresult tsr_current_push(struct tsr_context *context);
CUresult tsr_current_pop(struct tsr_context **out); /* INVALID_CONTEXT when empty; the reference goes to the caller */
CUresult tsr_current_set(struct tsr_context *context);
struct tsr_context *tsr_current_top(void); /* NULL when empty; may be destroyed */

#endif
