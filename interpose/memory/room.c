/* See room.h. */
#include "memory/room.h"

#include "base/os.h"
#include "driver/real.h"
#include "memory/allocation.h"
#include "memory/copies.h"
#include "memory/home.h"
#include "object/capture.h"

#define MOST_TRIES 3u /* first what is asked for, which may lie in pieces, then whatever there is */
#define CAPTURE_LOOK_NS 1000000ull
#define CAPTURE_LOOKS 500u

/* Copies are not dropped while a stream is captured; another thread's capture ends soon, and needs the memory lock for that. */
static void await_captures(void)
{
    static const uint32_t never;
    for (unsigned i = 0; i < CAPTURE_LOOKS && tsr_is_any_capture(); i++)
        tsr_os_futex_wait(&never, 0, CAPTURE_LOOK_NS, false);
}

static void end(const struct tsr_room *room)
{
    if (!room->tries)
        return;
    tsr_memory_unlock();
    tsr_memory_relax_end(room->mode);
}

bool tsr_room_is_made_slow(struct tsr_room *room, CUresult result)
{
    if (result != CUDA_ERROR_OUT_OF_MEMORY || !tsr_copies_are_on() || room->tries == MOST_TRIES ||
        (room->device == TSR_ROOM_CURRENT && tsr_real.cuCtxGetDevice(&room->device) != CUDA_SUCCESS)) {
        end(room);
        return false;
    }
    if (!room->tries) {
        await_captures();
        room->mode = tsr_memory_relax_begin();
        tsr_memory_lock(); /* until the program has its memory: who wants a copy takes it, too */
    }
    room->tries++;
    bool made = tsr_copies_yield(room->device, room->bytes && room->tries == 1 ? room->bytes : UINT64_MAX);
    if (!made)
        end(room);
    return made;
}
