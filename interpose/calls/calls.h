/*
 * Library calls: in which entry point of NVIDIA's libraries (tessera/library_calls.h) the calling thread is, and what the launches inside it may
 * read and write. This is a library of its own, preloaded in addition to the shim when it is asked for; it exports the names of these entry points and calls
 * the real functions. Calls that reach a library in another way (a look-up in the library's own handle, or from library to library) are not seen.
 */
#ifndef TSR_CALLS_CALLS_H
#define TSR_CALLS_CALLS_H

#include <stdint.h>

struct tsr_access_range;

#define TESSERA_CALL __attribute__((weak, visibility("default")))

/* Number of the outermost entry point that the thread is in, from 1; 0: none. */
uint32_t tessera_library_call(void) TESSERA_CALL;
/* Its name; NULL: there is no such number. */
const char *tessera_library_call_name(uint32_t number) TESSERA_CALL;

/* From now on operands of calls are determined. */
void tessera_library_operands_wanted(void) TESSERA_CALL;

/*
 * The ranges of the call that the thread is in: its operands, its work area, and memory that the library allocated for itself. Each launch inside
 * may read and write those, and variables of its own module. A range without ends (`whole`) is the allocation that contains `base`.
 * Returns the number of ranges; -1: they are not known, and `why` says why. `other_gpus`: the launches also access memory of other
 * GPUs and must stay where they are. The ranges remain valid until the call ends or gives the GPU its first work.
 *
 * Overwritten and scratch ranges are those of the call as a whole: what the bytes held before the call does not matter. So only the call's first
 * work has these marks and, while the call has only set memory, the bytes not yet set; later work may need what the first left,
 * and reads everything that the call writes.
 */
int32_t tessera_library_operands(const struct tsr_access_range **ranges, uint32_t *other_gpus, const char **why) TESSERA_CALL;

/*
 * The calling thread launches what another one launched inside a call, of which this was said then: until NULL, it counts as in that call. What is pointed to remains
 * the caller's.
 */
struct tessera_library_stated {
    uint32_t call; /* its number */
    int32_t count; /* and what tessera_library_operands said */
    uint32_t other_gpus;
    const struct tsr_access_range *ranges;
    const char *why;
};
void tessera_library_stand_in(const struct tessera_library_stated *stated) TESSERA_CALL;

/* The thread has given the GPU a launch, a copy or other work; or work that does nothing but set these bytes. */
void tessera_library_enqueued(void) TESSERA_CALL;
void tessera_library_enqueued_bytes(uint64_t address, uint64_t bytes) TESSERA_CALL;

/* The same for the last call that the thread has made: for tools that compare it with what the call did. */
int32_t tessera_library_newest(const struct tsr_access_range **ranges, uint32_t *other_gpus, const char **why) TESSERA_CALL;

/* The application has allocated memory, or freed it. */
void tessera_library_memory(uint64_t address, uint64_t bytes) TESSERA_CALL;
void tessera_library_memory_gone(uint64_t address) TESSERA_CALL;

#endif
