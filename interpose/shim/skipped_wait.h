/*
 * A wait for a stream that the program asked for and did not get, since nobody could tell (memory/readback.h). From then on the program takes the stream's work for done, also
 * in what it gives to other streams, in other threads and processes: before anything of that kind the wait is made after all. Calls that concern only the stream itself need not,
 * nor do those without a stream if it is the legacy one, which they come after.
 */
#ifndef TSR_SHIM_SKIPPED_WAIT_H
#define TSR_SHIM_SKIPPED_WAIT_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

/* The calling thread skips a wait for the stream, which is named, with this stamp (memory/readback.h). False: it has to wait, as another stream's wait has been
   skipped. */
bool tsr_wait_skip(CUstream stream, uint64_t stamp);
/* Whether the program takes all that the stream has been given for done, since a wait was skipped: whoever asks is to hear that it is. */
bool tsr_wait_is_taken_as_made(CUstream stream);

/* Before a call: which stream it names; NULL: none. Errors: of what is waited for. */
CUresult tsr_wait_settle_for(CUstream stream);
/* Before a query of the stream, which waits for nothing: only if what it says may depend on the work of the other one. */
CUresult tsr_wait_settle_for_query(CUstream stream);
/* Before a call after which others may see the stream's work. */
CUresult tsr_wait_settle(void);

/* Around a wait for all work of a stream, or of all streams of the current context (NULL). */
uint64_t tsr_wait_begins(void);
void tsr_wait_made(CUstream stream, uint64_t began);

/* In a forked child. */
void tsr_wait_forget(void);

#endif
