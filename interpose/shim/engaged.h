/*
 * Whether the shim has anything to do in this process. One word for every role, so that a wrapper of an idle shim is a load, a branch and
 * a jump to the driver. A role is engaged by the process' own cuInit; a forked child has none until it calls cuInit itself.
 *
 * How a wrapper written by hand begins (and a generated one):
 *
 *     CUresult CUDAAPI cuMemFree_v2(CUdeviceptr dptr)
 *     {
 *         if (tsr_idle())
 *             return tsr_real.cuMemFree_v2(dptr);
 *         return engaged_free(dptr);      // a function of its own, not inlined, so that the idle path saves no register
 *     }
 */
#ifndef TSR_SHIM_ENGAGED_H
#define TSR_SHIM_ENGAGED_H

#include <stdbool.h>
#include <stdint.h>

enum tsr_role {
    TSR_RECORDING = 1,  /* calls are recorded for the control plane */
    TSR_REDIRECTING = 2 /* launches may run on other GPUs */
};

extern uint32_t tsr_engaged __attribute__((visibility("hidden"))); /* atomic; enum tsr_role */

static inline bool tsr_idle(void)
{
    return __builtin_expect(__atomic_load_n(&tsr_engaged, __ATOMIC_ACQUIRE) == 0, 1);
}

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
