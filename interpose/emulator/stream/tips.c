#include "tips.h"

#include <string.h>

bool tsr_tips_merge(tsr_tips *tips, const tsr_tips *more)
{
    if (!tsr_vec_reserve(tips, tips->count + more->count))
        return false;
    for (size_t i = 0; i < more->count; i++) {
        size_t k = 0;
        while (k < tips->count && (tips->data[k].node != more->data[i].node ||
                                   memcmp(&tips->data[k].edge, &more->data[i].edge, sizeof(CUgraphEdgeData)) != 0))
            k++;
        if (k == tips->count)
            (void)tsr_vec_push(tips, more->data[i]);
    }
    return true;
}
