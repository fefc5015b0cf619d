/*
 * Runs single lane operations for tests in Python: one shared library with the registry, the lane operations and nothing else of the
 * emulator. Registers are given as arrays over 32 lanes; predicates as one 32-bit mask.
 */
#include "emulator/exec/registry.h"

#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define SLOT 512

/* The executor's operations are not part of this library. */
const struct tsr_op_group *tsr_exec_op_groups(unsigned level)
{
    static const struct tsr_op_group none = {NULL, 0};
    (void)level;
    return &none;
}

EXPORT int lane_describe(uint32_t number, const char **key, uint8_t shape[8]);
EXPORT int lane_run(const char *key, unsigned level, uint32_t m, const void *const sources[4], void *dst, void *dst2, int64_t imm);

/* shape: flags, class, number of sources, destination type, source types. */
int lane_describe(uint32_t number, const char **key, uint8_t shape[8])
{
    const struct tsr_op *op = tsr_op_at(number);
    if (!op || !(op->flags & TSR_OP_LANE))
        return 0;
    *key = op->key;
    memcpy(shape, &op->flags, 3);
    shape[3] = op->dst_type;
    memcpy(shape + 4, op->src_type, 4);
    return 1;
}

static size_t register_bytes(uint8_t type)
{
    if (type == TSR_T_PRED)
        return 4;
    return 32 * (size_t)(tsr_type_bytes[type] < 2 ? 2 : tsr_type_bytes[type]);
}

/* dst and dst2 hold the old contents before and the new ones after. 0: no such operation or level, or the next instruction is wrong. */
int lane_run(const char *key, unsigned level, uint32_t m, const void *const sources[4], void *dst, void *dst2, int64_t imm)
{
    static _Thread_local unsigned char frame[6 * SLOT] __attribute__((aligned(64)));
    struct tsr_warp warp = {.frame = frame};
    const struct tsr_op *op = tsr_op_find(key, strlen(key));
    tsr_op_fn *run = op ? tsr_op_run_at(op, level) : NULL;
    if (!run)
        return 0;
    struct tsr_insn insn = {
        .run = run, .guard = TSR_NO_REG, .dst = 0, .dst2 = dst2 ? SLOT : TSR_NO_REG, .a = 2 * SLOT, .b = 3 * SLOT, .c = 4 * SLOT,
        .d = 5 * SLOT, .imm = imm,
    };
    for (int n = 0; n < op->sources; n++)
        memcpy(frame + (size_t)(2 + n) * SLOT, sources[n], register_bytes(op->src_type[n]));
    memcpy(frame, dst, register_bytes(op->dst_type));
    if (dst2)
        memcpy(frame + SLOT, dst2, 4);
    const struct tsr_insn *next = run(&warp, &insn, m);
    memcpy(dst, frame, register_bytes(op->dst_type));
    if (dst2)
        memcpy(dst2, frame + SLOT, 4);
    return next == &insn + 1;
}
