/* See host_space.h. */
#include "memory/host_space.h"

#include <stddef.h>

#include <tessera/lane.h>

#include "base/blocks.h"

#define PAGE 4096u

static struct tsr_blocks space; /* memory lock */

struct tsr_block *tsr_host_space_take_locked(uint64_t bytes)
{
    uint64_t whole = (bytes + PAGE - 1) / PAGE * PAGE;
    if (!space.lowest)
        tsr_blocks_add(&space, TSR_HOST_ADDRESS, TSR_HOST_BYTES);
    return whole < TSR_HOST_BYTES ? tsr_blocks_take(&space, TSR_BLOCKS_FREE, whole, PAGE) : NULL;
}

void tsr_host_space_give_locked(struct tsr_block *block)
{
    tsr_blocks_give(&space, block, TSR_BLOCKS_FREE);
}

struct tsr_block *tsr_host_space_find_locked(uint64_t address)
{
    return tsr_blocks_find(&space, address);
}

struct tsr_block *tsr_host_space_first_locked(void)
{
    return space.lowest;
}

void tsr_host_space_forget(void)
{
    space = (struct tsr_blocks){0};
}
