/*
 * Reading few bytes back from where they were made. The program's host wants a number (a loss, a flag, a token) and waits for it: under data order
 * it need not wait for what the stream's other strands still do, nor for what its own strand was given since.
 *
 * A wait for the stream that follows at once (PyTorch's `item`) waits for nothing else then, provided that nobody could tell: since this thread last waited
 * for all of the stream's work nothing has been given to a GPU but tracked work over memory that only GPUs see (tsr_order_exposed). It is
 * expected where a thread's last reads were followed by one; a read that is not is a copy as any other.
 *
 * The same holds for a wait that follows at once when few bytes of the host's ordinary memory have been given to the stream (PyTorch's `cuda()`): the program may
 * change them already.
 */
#ifndef TSR_MEMORY_READBACK_H
#define TSR_MEMORY_READBACK_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

/* What was waited for, as tickets are told (tickets.h), and since when the host did (monotonic time). */
struct tsr_readback {
    uint64_t ticket;
    void (*waits)(void); /* called before the host waits; NULL: nobody asks */
};

/* Copies the bytes to the host, at once. False: it is to be done as any other copy, in the stream (never NULL). Errors: the executors'. */
bool tsr_readback(CUstream stream, void *to, CUdeviceptr from, uint64_t bytes, struct tsr_readback *told, CUresult *result);
/* A copy of few bytes has been enqueued in the usual way. */
void tsr_readback_missed(CUstream stream, uint64_t bytes);

/* Bytes of the host's ordinary memory have been given to the stream (never NULL): the call has copied them, and exposed nothing. */
void tsr_readback_gave(CUstream stream);

/* Tells what the stream has been given so far: it changes with everything that it is given. */
uint64_t tsr_readback_stamp(CUstream stream);
/* The program is about to wait for the stream. Whether it need not: it has read, or given, and nobody could tell. *stamp: of the stream now. */
bool tsr_readback_covers(CUstream stream, uint64_t *stamp);
/* It has waited for all work of the stream; NULL: of all streams. exposed: tsr_order_exposed, before it began to. */
void tsr_readback_waited(CUstream stream, uint64_t exposed);

#endif
