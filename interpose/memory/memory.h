/*
 * Memory of the home GPU; each memory_*.c implements one kind of allocation. Only memory of the home GPU is served
 * from the arena: a program that uses several GPUs itself keeps its own placement on the others.
 */
#ifndef TSR_MEMORY_H
#define TSR_MEMORY_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

struct tsr_allocation;

/* Ordinary memory for the current context; see cuMemAlloc. */
CUresult tsr_memory_allocate(size_t bytes, CUdeviceptr *address);

/* As cuMemFree, of what tsr_memory_allocate gave. */
CUresult tsr_memory_free(CUdeviceptr address);

/* Why nothing can be allocated now: an executor or a kernel has failed, or a capture forbids it. A context is current. */
CUresult tsr_memory_refused(void);

/* cuMemFreeAsync of ordinary memory: waits for the stream. False: the address does not begin any. */
bool tsr_memory_free_after(CUdeviceptr dptr, CUstream stream, bool per_thread, CUresult *result);

/* Memory lock held: takes back what is free but mapped, after an allocation found too little. */
void tsr_memory_reclaim_locked(void);
void tsr_memory_reclaim(void); /* takes the lock */

/* What an arena allocation is to cuMemGetAddressRange and pointer attributes; false: the address is in none. A copy: holds no lock. */
bool tsr_memory_describe(CUdeviceptr address, struct tsr_allocation *out);

/* As the driver does before it frees: whatever may use memory of the context is complete. */
CUresult tsr_memory_wait(CUcontext owner);

/* The application has got the address of a module's variable (NULL: it did not want it). */
void tsr_memory_variable(const CUdeviceptr *address);

/* Whether it is (in) page-locked memory that the application allocated here. */
bool tsr_host_is_allocated(const void *p);
/* Whether it is page-locked memory that executors have at that address, too. */
bool tsr_host_is_shared(uint64_t address, uint64_t bytes);
void tsr_host_context_gone_locked(CUcontext context);
void tsr_host_forget(void);

/* Frees what the context owns: it is gone. */
void tsr_memory_context_gone(CUcontext context);

/* Ends a context, or a device's primary one, by the driver's function given; what it owned goes, if it is gone. */
CUresult tsr_memory_end_context(CUcontext context, CUresult (*end)(CUcontext));
CUresult tsr_memory_end_primary(CUdevice device, CUresult (*end)(CUdevice));
/* The device's primary context; NULL: it is not active. */
CUcontext tsr_memory_primary_context(CUdevice device);

/* From now on another device of the application may access ordinary memory of the home GPU. */
CUresult tsr_memory_open_to(CUdevice device);

/* The application has a context of another device that cannot access ordinary memory of the home GPU yet, as it has had no work. */
extern bool tsr_memory_pending __attribute__((visibility("hidden"))); /* atomic */
/* It has a context of another device. */
extern bool tsr_memory_others __attribute__((visibility("hidden"))); /* atomic */
/* Before work in the stream, named, that may use any memory: lets the stream's device access ordinary memory. */
void tsr_memory_open_for_work_slow(CUstream stream);
/* Before a copy or a memset: the same, if it uses ordinary memory, and for the device whose memory it also uses. An address of 0 is the host's, or none. */
void tsr_memory_open_for_copy_slow(CUstream stream, CUdeviceptr to, CUdeviceptr from);
/* Before work of which it is not known whose it is: for all of these devices. */
void tsr_memory_open_for_all_slow(void);

/* A GPU of the application that has been given work cannot access ordinary memory of the home GPU, and never will: it is no peer. */
extern bool tsr_memory_apart __attribute__((visibility("hidden"))); /* atomic */
static inline bool tsr_memory_any_apart(void)
{
    return __builtin_expect(__atomic_load_n(&tsr_memory_apart, __ATOMIC_ACQUIRE), 0);
}
/* Whether the stream, named, is such a GPU's. */
bool tsr_memory_is_apart(CUstream stream);

static inline bool tsr_memory_any_pending(void)
{
    return __builtin_expect(__atomic_load_n(&tsr_memory_pending, __ATOMIC_ACQUIRE), 0);
}

static inline void tsr_memory_open_for_work(CUstream stream)
{
    if (tsr_memory_any_pending())
        tsr_memory_open_for_work_slow(stream);
}

static inline void tsr_memory_open_for_copy(CUstream stream, CUdeviceptr to, CUdeviceptr from)
{
    if (__builtin_expect(__atomic_load_n(&tsr_memory_others, __ATOMIC_ACQUIRE), 0))
        tsr_memory_open_for_copy_slow(stream, to, from);
}

static inline void tsr_memory_open_for_all(void)
{
    if (tsr_memory_any_pending())
        tsr_memory_open_for_all_slow();
}

void tsr_memory_context_forget(void);

/* The process is another one than that which allocated (a forked child that initialises CUDA itself). */
void tsr_memory_forget(void);

#endif
