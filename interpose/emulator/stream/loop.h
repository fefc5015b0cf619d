/* The engine's thread (engine.h says in which order it runs items). */
#ifndef TSR_STREAM_LOOP_H
#define TSR_STREAM_LOOP_H

#include <cuda.h>

/* DEINITIALIZED once the process is ending or after a fork, NOT_PERMITTED on the callback thread, OUT_OF_MEMORY. Starts the engine. */
CUresult tsr_loop_ready_locked(void);

#endif
