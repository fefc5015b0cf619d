/*
 * The groups of operations that the interpreter gives to the registry (tsr_exec_op_groups).
 */
#ifndef TSR_EXEC_GROUPS_H
#define TSR_EXEC_GROUPS_H

#include "warp.h"

/* Once per instruction-set level. */
extern const struct tsr_op_group tsr_memory_ops_0, tsr_memory_ops_1, tsr_memory_ops_2;
extern const struct tsr_op_group tsr_collective_ops_0, tsr_collective_ops_1, tsr_collective_ops_2;

extern const struct tsr_op_group tsr_control_ops, tsr_call_ops, tsr_barrier_ops, tsr_atomic_ops, tsr_address_ops, tsr_sreg_ops,
    tsr_async_ops, tsr_mbarrier_ops, tsr_system_ops;

#define TSR_OP_ROW(key_, run_, class_) {.key = (key_), .run = (run_), .op_class = (class_), .work = 1}
#define TSR_OP_GROUP(name, ops) const struct tsr_op_group name = {ops, sizeof(ops) / sizeof *(ops)}

#endif
