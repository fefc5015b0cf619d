/*
 * How operations come together: the generated lane operations first, then matrix/, then the groups of the interpreter (warp.h). All are
 * compiled for the levels of level.h; the best one of this CPU, or the one that TESSERA_EMULATOR_ISA names, is used by the whole process.
 */
#ifndef TSR_EXEC_REGISTRY_H
#define TSR_EXEC_REGISTRY_H

#include "warp.h"

const struct tsr_op_group *tsr_matrix_op_group(unsigned level);

/* The level in use. */
unsigned tsr_op_level(void);

/* For tests: a lane operation's function at a level; NULL when this CPU lacks the level. */
tsr_op_fn *tsr_op_run_at(const struct tsr_op *op, unsigned level);

#endif
