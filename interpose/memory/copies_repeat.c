/* See copies.h. Uses that repeat: what was proved of them stands as long as nothing has changed. Takes no lock. */
#include "memory/copies_parts.h"

#include "lane/streams.h"

static inline bool are_same(const struct tsr_proof_extent *extents, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (__atomic_load_n(&tsr_copies_states[extents[i].page], __ATOMIC_SEQ_CST) != extents[i].state)
            return false;
    return true;
}

bool tsr_copies_repeat(const struct tsr_copies_proof *proof, const struct tsr_order_hold *hold)
{
    if (!hold->stream || !proof->queue || hold->stream->queue != proof->queue ||
        __atomic_load_n(&proof->queue->gone, __ATOMIC_RELAXED))
        return false;
    tsr_ticket_number(proof->queue, proof->strand);
    proof->queue->strands[proof->strand].used_at = proof->queue->broadcasts;
    if (__atomic_load_n(&tsr_copies_generation, __ATOMIC_SEQ_CST) != proof->generation)
        return false;
    uint32_t first = proof->count < TSR_PROOF_EXTENTS ? proof->count : TSR_PROOF_EXTENTS;
    return are_same(proof->extents, first) && (first == proof->count || are_same(proof->more, proof->count - first));
}

void tsr_copies_prove(const struct tsr_copies_proof *proof, const struct tsr_order_hold *hold)
{
    if (proof && hold->stream && proof->queue)
        hold->stream->queue = proof->queue;
}

CUresult tsr_copies_mark(const struct tsr_order_hold *hold, const struct tsr_lane_client *lane)
{
    return hold->stream ? tsr_tickets_mark(hold->stream, tsr_lane_rank(lane)) : CUDA_SUCCESS;
}

void tsr_copies_look_again(void)
{
    tsr_copies_change(&tsr_copies_generation);
}
