/* What the generator knows of every lane operation: the registry (exec/lane_ops.c) turns it into struct tsr_op. */
#ifndef TSR_LANE_LANE_TABLE_H
#define TSR_LANE_LANE_TABLE_H

#include "emulator/isa/level.h"
#include "emulator/isa/op.h"

/* The functions of one generated file, at each level. */
struct tsr_lane_group {
    tsr_op_fn *const *functions[TSR_LEVEL_COUNT];
};

struct tsr_lane_row {
    struct tsr_op op;      /* without function and number */
    uint16_t group, index; /* which function */
};

extern const struct tsr_lane_group tsr_lane_groups[];
extern const struct tsr_lane_row tsr_lane_rows[];
extern const uint32_t tsr_lane_row_count;

#endif
