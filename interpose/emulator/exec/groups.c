#include "groups.h"

#include "../isa/level.h"

const struct tsr_op_group *tsr_exec_op_groups(unsigned level)
{
    static struct tsr_op_group groups[TSR_LEVEL_COUNT][12];
    const struct tsr_op_group *const memory[] = TSR_LEVELS(&tsr_memory_ops);
    const struct tsr_op_group *const collective[] = TSR_LEVELS(&tsr_collective_ops);
    struct tsr_op_group *out = groups[level];
    out[0] = *memory[level];
    out[1] = *collective[level];
    out[2] = tsr_control_ops;
    out[3] = tsr_call_ops;
    out[4] = tsr_barrier_ops;
    out[5] = tsr_atomic_ops;
    out[6] = tsr_address_ops;
    out[7] = tsr_sreg_ops;
    out[8] = tsr_async_ops;
    out[9] = tsr_mbarrier_ops;
    out[10] = tsr_system_ops;
    return out;
}
