/* See decode.h: tsr_liveness_place. */
#include "decode.h"

uint32_t tsr_liveness_place(struct tsr_load *load, uint32_t *offset, uint32_t *top)
{
    static const uint32_t sizes[] = {8, 4, 2, 0};
    uint32_t words = 0;
    for (unsigned s = 0; s < 4; s++)
        for (uint32_t reg = 0; reg < load->register_types.count; reg++) {
            uint32_t bytes = tsr_register_bytes(load, reg);
            if (bytes != sizes[s] || offset[reg] != TSR_NO_REG)
                continue;
            offset[reg] = *top;
            *top += bytes ? bytes * 32 : 4;
            words += (bytes + 3) / 4;
        }
    return words;
}
