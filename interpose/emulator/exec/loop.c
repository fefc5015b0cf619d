/*
 * The interpreter's loop. Compiled once per instruction-set level (TSR_LEVEL).
 */
#include "../isa/level.h"
#include "split.h"
#include "state.h"

/* Runs the warp's running split from i. Returns where to go on when the budget of instructions is used up, else NULL (control->stop says why). */
const struct tsr_insn *TSR_LEVELED(tsr_loop)(struct tsr_warp *w, const struct tsr_insn *i, uint32_t budget)
{
    uint64_t lanes = 0, cycles = 0;
    uint32_t left = budget;
    while (left != 0) {
        uint32_t m = w->active;
        cycles += i->cycles;
        left--;
        if (i->guard != TSR_NO_REG) {
            uint32_t p = *(const uint32_t *)(const void *)(w->frame + i->guard);
            m &= i->flags & TSR_INSN_GUARD_NOT ? ~p : p;
            if (m == 0) {
                i++;
                continue;
            }
        }
        lanes += (uint32_t)__builtin_popcount(m);
        i = i->run(w, i, m);
        if (i == NULL)
            break;
    }
    struct tsr_counters *counters = &w->control->counters;
    counters->instructions += budget - left;
    counters->lanes += lanes;
    counters->cycles += cycles;
    counters->shared_cycles += w->shared_cycles;
    counters->l2_sectors += w->l2_sectors;
    counters->latency_cycles += w->latency_cycles;
    counters->atomics += w->atomics;
    w->shared_cycles = w->l2_sectors = w->latency_cycles = w->atomics = 0;
    return i;
}
