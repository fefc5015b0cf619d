/*
 * Room for what the program allocates on a GPU that copies of memory (copies.h) may have filled: they are dropped, and it is tried again.
 *
 *     struct tsr_room room = {.device = device, .bytes = bytes};
 *     do
 *         result = ...;
 *     while (tsr_room_is_made(&room, result));
 */
#ifndef TSR_MEMORY_ROOM_H
#define TSR_MEMORY_ROOM_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

#define TSR_ROOM_CURRENT (-2) /* the device of the current context */
#define TSR_ROOM_ANY (-1)

struct tsr_room {
    CUdevice device;
    uint64_t bytes; /* 0: unknown */
    unsigned tries; /* how often room has been made; from the first time on the memory lock is held */
    CUstreamCaptureMode mode;
};

/* Whether to try again. The memory lock is not held when the first result comes. */
bool tsr_room_is_made_slow(struct tsr_room *room, CUresult result);

static inline bool tsr_room_is_made(struct tsr_room *room, CUresult result)
{
    return (room->tries || __builtin_expect(result == CUDA_ERROR_OUT_OF_MEMORY, 0)) && tsr_room_is_made_slow(room, result);
}

#endif
