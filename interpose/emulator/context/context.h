/*
 * Contexts, the current context of each thread, and the process' view of the machine.
 *
 * A context belongs to one device; the primary context of a device is reference-counted. A context that failed stays failed: every later
 * call on it returns its sticky error. What belongs to a context (streams, modules, memory) registers a destructor; destruction runs
 * them in the order of the slots below: streams first, which also waits for their work. Streams, modules and memory live in higher parts,
 * which this file does not know.
 */
#ifndef TSR_CONTEXT_H
#define TSR_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

#include <tessera/machine.h>

struct tsr_context;

/* The mapped machine. NULL before a successful cuInit. */
struct tsr_machine *tsr_machine_instance(void);
/* cuInit's work, once per process and again in a forked child (where CUDA is not usable if the parent had initialised it: NOT_INITIALIZED as on hardware). */
CUresult tsr_driver_init(void);
CUresult tsr_driver_ready(void); /* NOT_INITIALIZED before, DEINITIALIZED while the process ends */
/* fn runs once when the process exits normally after cuInit, in reverse order, when calls already answer DEINITIALIZED. At most 8. */
void tsr_driver_at_exit(void (*fn)(void));
int tsr_driver_process_row(void); /* of the machine's process table, see machine/live.h */

/* Current context of the calling thread. Errors: NOT_INITIALIZED, INVALID_CONTEXT (none, or destroyed), or the context's sticky error. */
CUresult tsr_context_current(struct tsr_context **out);
/* The same without failing on a sticky error (for calls that still work: cuCtxGetDevice, destroy, ...). */
CUresult tsr_context_current_any(struct tsr_context **out);
CUresult tsr_context_from_handle(CUcontext handle, struct tsr_context **out); /* NULL handle: current */
CUcontext tsr_context_handle(struct tsr_context *context);

uint32_t tsr_emulated_context_device(const struct tsr_context *context);
uint32_t tsr_context_sm_count(const struct tsr_context *context); /* limited in a green context */
const struct tsr_device_desc *tsr_context_desc(const struct tsr_context *context);
/* The context whose memory and modules it uses: itself, for a green context its device's primary one. */
struct tsr_context *tsr_context_root(struct tsr_context *context);
/* A struct tsr_context outlives cuCtxDestroy while somebody holds a reference. */
void tsr_context_ref(struct tsr_context *context);
void tsr_context_unref(struct tsr_context *context);
bool tsr_context_destroyed(const struct tsr_context *context);
uint64_t tsr_context_id(const struct tsr_context *context);
unsigned tsr_context_flags(const struct tsr_context *context);

/* Sticky failure: first one wins; wakes everybody who waits for work of this context. */
void tsr_context_fail(struct tsr_context *context, CUresult error);
CUresult tsr_context_sticky(const struct tsr_context *context);

/* Slots for the parts above: one pointer per part and context, with a destructor that runs when the context is destroyed. */
enum tsr_context_slot { TSR_SLOT_STREAMS, TSR_SLOT_GRAPHS, TSR_SLOT_MODULES, TSR_SLOT_MEMORY, TSR_SLOT_PEERS, TSR_SLOT_COUNT };
void *tsr_context_slot(struct tsr_context *context, enum tsr_context_slot slot);
/* Sets it if it is NULL and returns what is set afterwards (the caller frees his own when he lost the race). */
void *tsr_context_slot_set(struct tsr_context *context, enum tsr_context_slot slot, void *value,
                           void (*destroy)(struct tsr_context *, void *));

#endif
