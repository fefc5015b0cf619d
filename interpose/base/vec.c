/* See vec.h. */
#include "base/vec.h"

#include <stdint.h>

bool tsr_vec_grow(void **data, size_t *capacity, size_t wanted, size_t element_bytes)
{
    size_t grown = *capacity < 4 ? 4 : *capacity + *capacity / 2;
    if (grown < wanted)
        grown = wanted;
    if (grown > SIZE_MAX / 2 / element_bytes)
        return false;
    void *moved = realloc(*data, grown * element_bytes);
    if (!moved)
        return false;
    *data = moved;
    *capacity = grown;
    return true;
}
