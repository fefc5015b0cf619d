/*
 * Faults for accesses beyond an allocation and to freed memory, which a GPU has by itself and which the arena, whose pages are all mapped, would
 * lose. With TESSERA_BOUNDS: exact, by a table that the emulated driver checks (tessera/bounds.h), or, with other drivers, by guard pages: each
 * allocation of ordinary memory has an extent of its own, and no extent touches the next. Called with the memory lock held, unless
 * said otherwise.
 */
#ifndef TSR_MEMORY_BOUNDS_H
#define TSR_MEMORY_BOUNDS_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

/* With the first memory of the arena. */
void tsr_bounds_start(void);
/* Bytes that stay free after each allocation. */
uint64_t tsr_bounds_gap_bytes(void);
/* Address space that stays free after each extent. */
uint64_t tsr_bounds_guard_bytes(void);
/* Whether each allocation of ordinary memory has an extent of its own. */
bool tsr_bounds_are_guards(void);
/* Whether there is a table. */
bool tsr_bounds_are_exact(void);

void tsr_bounds_add(CUdeviceptr address, uint64_t bytes);
/* Also without the lock. Nothing happens if the address begins none. */
void tsr_bounds_remove(CUdeviceptr address);

/* What was mapped there, whole pages, is gone: the table takes no memory for it any more. */
void tsr_bounds_unmapped(CUdeviceptr address, uint64_t bytes);

/*
 * Of an allocation that a stream frees: it keeps its bounds until the stream has come to that. Then tsr_bounds_leave, without the lock, with
 * what tsr_bounds_leave_later gave (NULL: no memory, and nothing is to be left).
 */
struct tsr_bounds_leaving;
struct tsr_bounds_leaving *tsr_bounds_leave_later(CUdeviceptr address);
void tsr_bounds_leave(struct tsr_bounds_leaving *leaving);
/*
 * Before what a stream has freed serves it again. True: there are no bounds any more, or the same ones, which stay. False: others, of memory that
 * the stream's work may still use.
 */
bool tsr_bounds_reuse(CUdeviceptr address, uint64_t bytes);

/* Whether all of [address, address + bytes) may be accessed, as far as these bounds are concerned. Takes no lock. */
bool tsr_bounds_allow(CUdeviceptr address, uint64_t bytes);

/* Between the two, whatever is mapped may be accessed: by copies and kernels of the shim's own that go over whole extents. Take no lock. */
void tsr_bounds_lift(void);
void tsr_bounds_restore(void);

void tsr_bounds_forget(void);

#endif
