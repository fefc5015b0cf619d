/* The tables of matrix operations, by level. */
#include "emulator/isa/level.h"
#include "emulator/exec/registry.h"

extern const struct tsr_op_group tsr_matrix_ops_0, tsr_matrix_ops_1, tsr_matrix_ops_2;

const struct tsr_op_group *tsr_matrix_op_group(unsigned level)
{
    static const struct tsr_op_group *const groups[] = TSR_LEVELS(&tsr_matrix_ops);
    return groups[level];
}
