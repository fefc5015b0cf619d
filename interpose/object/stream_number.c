/* See stream_number.h. A handle that the driver gives out again gets a new number with its new stream. */
#include "object/stream_number.h"

#include "base/map.h"
#include "driver/stream_handle.h"

static struct tsr_map numbers; /* by handle */
static uintptr_t made;         /* atomic */

uint32_t tsr_stream_number(CUstream stream)
{
    if (tsr_stream_is_default(stream))
        return 0;
    uintptr_t number = (uintptr_t)tsr_map_find(&numbers, (uint64_t)(uintptr_t)stream);
    return number ? (uint32_t)number : TSR_STREAM_UNNUMBERED;
}

void tsr_stream_number_forget(CUstream stream)
{
    if (stream)
        tsr_map_remove(&numbers, (uint64_t)(uintptr_t)stream);
}

void tsr_stream_number_give(CUstream stream)
{
    tsr_map_set(&numbers, (uint64_t)(uintptr_t)stream, (void *)__atomic_add_fetch(&made, 1, __ATOMIC_RELAXED));
}
