/*
 * Whether the shim has anything to do in this process. One word for every role, so that an idle shim costs a call a load, a branch and a jump
 * to the driver. A role is engaged by the process' own cuInit; a forked child has none until it calls cuInit itself.
 *
 * Three kinds of wrapper are written by hand; defining one is all there is to do, generate_wrappers.py finds it.
 *
 *     TSR_REDIRECTED(cuMemFree_v2)(CUdeviceptr dptr) { ... return tsr_real.cuMemFree_v2(dptr); }
 *         Takes the driver's place in a process whose launches may run elsewhere (tsr_session() is not NULL). The generated wrapper calls
 *         it, and records the call as it does for every function. The usual kind.
 *     TSR_ENGAGED(cuLaunchKernel)(CUfunction f, ...) { ... }
 *         In place of the generated wrapper, in any role: it records the call itself (recorder.h).
 *     CUresult CUDAAPI cuInit(unsigned int Flags) { ... }
 *         The export itself, called in every process at any time.
 */
#ifndef TSR_DRIVER_ENGAGED_H
#define TSR_DRIVER_ENGAGED_H

#include <stdbool.h>
#include <stdint.h>

enum tsr_role {
    TSR_RECORDING = 1,   /* calls are recorded for the control plane */
    TSR_REDIRECTING = 2, /* launches may run on other GPUs */
    TSR_COUNTING = 4,    /* there is a policy, but launches cannot leave: they are counted only */
    TSR_DEFINING =
        8 /* what the program loads, and which functions it launches, is reported to the control plane; always when recording */
};
#define TSR_DECIDING ((enum tsr_role)(TSR_REDIRECTING | TSR_COUNTING)) /* either */
#define TSR_OBSERVED ((enum tsr_role)(TSR_RECORDING | TSR_DEFINING))

/* What every launch reads stands together. */
#define TSR_HOT __attribute__((section(".tsr_hot")))

extern uint32_t tsr_engaged __attribute__((visibility("hidden"))); /* atomic; enum tsr_role */

static inline bool tsr_idle(void)
{
    return __builtin_expect(__atomic_load_n(&tsr_engaged, __ATOMIC_ACQUIRE) == 0, 1);
}

/* They declare the function with the type of the driver's, so that the compiler compares them. */
#define TSR_REDIRECTED(symbol)                                                                                                 \
    __typeof__(symbol) redirected_##symbol;                                                                                    \
    CUresult redirected_##symbol
#define TSR_ENGAGED(symbol)                                                                                                    \
    __typeof__(symbol) engaged_##symbol;                                                                                       \
    CUresult engaged_##symbol

static inline bool tsr_has_role(enum tsr_role role)
{
    return __atomic_load_n(&tsr_engaged, __ATOMIC_ACQUIRE) & role;
}

/* What the role needs is in place: from now on wrappers act. */
void tsr_engage(enum tsr_role role);
void tsr_disengage(enum tsr_role role);

/* Once per process, before the first role is engaged: forked children begin idle. */
void tsr_engaged_prepare(void);

#endif
