/*
 * Home-only ranges: memory that exists on the home GPU's side only, each with its reason. A launch whose parameters hold an address in one
 * stays home. The scan is conservative: any aligned 8-byte word of the parameter block counts as an address. What it cannot see are
 * addresses that a kernel finds in memory.
 */
#ifndef TSR_MEMORY_HOME_ONLY_H
#define TSR_MEMORY_HOME_ONLY_H

#include "api/driver.h"

#include <stddef.h>
#include <stdint.h>

#include <tessera/records.h>

struct tsr_home_only {
    uint64_t address, bytes; /* bytes 0: none */
    enum tsr_reason reason;
};

/*
 * Another thread may get an address as soon as the driver has it back. So a range is noted after the driver gave it, and taken out before
 * it is given back; if the driver then refuses, it is put back.
 */

/* What overlaps is replaced. Without memory to note it, every launch stays home from then on. */
void tsr_home_only_add(uint64_t address, uint64_t bytes, enum tsr_reason reason);
/* Takes out the range that begins there, if there is one. */
struct tsr_home_only tsr_home_only_take(uint64_t address);
/* Unless the driver took it, too. */
void tsr_home_only_put_back(struct tsr_home_only taken, CUresult freed);
/* In a forked child: forgets everything. */
void tsr_home_only_forget(void);

/* Why the address is home's only; TSR_REASON_NONE: it is not. */
enum tsr_reason tsr_home_only_reason(uint64_t address);

/* Goes up with every change of the ranges. */
uint64_t tsr_home_only_changes(void);

enum tsr_reason tsr_home_only_scan_slow(const void *parameters, size_t bytes);

extern uint32_t tsr_home_only_count __attribute__((visibility("hidden"))); /* atomic */

/* Why a launch with these parameters must stay home. Costs a load and a branch while there are no home-only ranges. */
static inline enum tsr_reason tsr_home_only_scan(const void *parameters, size_t bytes)
{
    return __builtin_expect(__atomic_load_n(&tsr_home_only_count, __ATOMIC_ACQUIRE) == 0, 1)
               ? TSR_REASON_NONE
               : tsr_home_only_scan_slow(parameters, bytes);
}

#endif
