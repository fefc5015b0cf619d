/* See cut.h. From the last piece to the first: what the rest costs if it begins on a GPU, and where it goes on. */
#include "graph/cut.h"

#include <stdlib.h>
#include <string.h>

#include <tessera/gpus.h>

static uint32_t cheapest(const double *costs, uint32_t gpus)
{
    uint32_t best = 0;
    for (uint32_t gpu = 1; gpu < gpus; gpu++)
        best = costs[gpu] < costs[best] ? gpu : best;
    return best;
}

bool tsr_cut(const struct tsr_cut_sequence *sequence, uint8_t *gpus)
{
    uint32_t width = sequence->gpus, count = sequence->count;
    double rest[TSR_GPUS] = {0};
    uint8_t *next = malloc((size_t)count * width + 1); /* of a piece on a GPU: where the one after it runs */
    if (!next)
        return false;
    for (uint32_t i = count; i--;) {
        uint32_t best = cheapest(rest, width);
        for (uint32_t gpu = 0; gpu < width; gpu++) {
            bool leaves = rest[best] + sequence->elsewhere < rest[gpu];
            next[(size_t)i * width + gpu] = (uint8_t)(leaves ? best : gpu);
        }
        double leaving = rest[best] + sequence->elsewhere;
        for (uint32_t gpu = 0; gpu < width; gpu++)
            rest[gpu] = sequence->costs[(size_t)i * width + gpu] + (leaving < rest[gpu] ? leaving : rest[gpu]);
    }
    uint32_t gpu = cheapest(rest, width);
    for (uint32_t i = 0; i < count; i++) {
        gpus[i] = (uint8_t)gpu;
        gpu = next[(size_t)i * width + gpu];
    }
    free(next);
    return true;
}
