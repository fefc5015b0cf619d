/*
 * Runs single lane and matrix operations for tests in Python: one shared library with the registry, these operations and nothing else of
 * the emulator. Registers are given as arrays over 32 lanes; predicates as one 32-bit mask. Memory is the test's own: an address is a
 * host address, or an offset in the buffer that stands for shared memory.
 */
#include "emulator/isa/operands.h"
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

bool tsr_warp_converge(struct tsr_warp *w, const struct tsr_insn *i, uint32_t m, uint32_t mask, const struct tsr_insn **next)
{
    (void)w, (void)i, (void)m, (void)mask, (void)next;
    return true;
}

bool tsr_warp_addresses(struct tsr_warp *w, const struct tsr_insn *i, uint32_t m, enum tsr_space_kind space,
                        const uint64_t address[TSR_WARP_LANES], uint32_t bytes, uint32_t align, enum tsr_memory_access access,
                        unsigned char *host[TSR_WARP_LANES])
{
    (void)i, (void)bytes, (void)access;
    for (uint32_t rest = m; rest; rest &= rest - 1) {
        uint32_t l = (uint32_t)__builtin_ctz(rest);
        if (address[l] % align)
            return false;
        host[l] = space == TSR_SPACE_SHARED ? w->shared + address[l] : (unsigned char *)(uintptr_t)address[l];
    }
    return true;
}

EXPORT int lane_describe(uint32_t number, const char **key, uint8_t shape[8]);
EXPORT int matrix_describe(uint32_t number, const char **key);
EXPORT int matrix_run(const char *key, unsigned level, uint32_t m, void *registers, uint32_t count, uint32_t register_bytes,
                      const uint64_t address[32], const uint32_t stride[32], void *shared);
EXPORT int lane_run(const char *key, unsigned level, uint32_t m, const void *const sources[4], void *dst, void *dst2,
                    int64_t imm);

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
        .run = run,
        .guard = TSR_NO_REG,
        .dst = 0,
        .dst2 = dst2 ? SLOT : TSR_NO_REG,
        .a = 2 * SLOT,
        .b = 3 * SLOT,
        .c = 4 * SLOT,
        .d = 5 * SLOT,
        .imm = imm,
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

int matrix_describe(uint32_t number, const char **key)
{
    const struct tsr_op_group *group = tsr_matrix_op_group(0);
    if (number >= group->count)
        return 0;
    *key = group->ops[number].key;
    return 1;
}

/*
 * registers: `count` of them, in the order of the operation's list, changed in place; of movmatrix first the destination, then the source.
 * stride may be NULL: not written.
 */
int matrix_run(const char *key, unsigned level, uint32_t m, void *registers, uint32_t count, uint32_t bytes,
               const uint64_t address[32], const uint32_t stride[32], void *shared)
{
    enum { MOST = 40, SIZE = 256 };
    static _Thread_local unsigned char frame[(MOST + 2) * SIZE] __attribute__((aligned(64)));
    uint32_t list[MOST];
    struct tsr_warp warp = {.frame = frame, .shared = shared, .live = UINT32_MAX, .active = m};
    const struct tsr_op_group *group = tsr_matrix_op_group(level);
    struct tsr_insn insn = {.guard = TSR_NO_REG, .list = list, .dst = 0, .b = stride ? MOST * SIZE : TSR_NO_REG};
    for (uint32_t n = 0; n < group->count; n++)
        if (strcmp(group->ops[n].key, key) == 0)
            insn.run = group->ops[n].run;
    if (!insn.run || count > MOST)
        return 0;
    for (uint32_t n = 0; n < count; n++) {
        list[n] = n * SIZE;
        memcpy(frame + list[n], (unsigned char *)registers + (size_t)n * bytes * 32, bytes * 32);
    }
    insn.a = address ? (MOST + 1) * SIZE : SIZE;
    insn.flags = TSR_MEM_ADDRESS64;
    if (address)
        memcpy(frame + insn.a, address, 256);
    if (stride)
        memcpy(frame + insn.b, stride, 128);
    const struct tsr_insn *next = insn.run(&warp, &insn, m);
    for (uint32_t n = 0; n < count; n++)
        memcpy((unsigned char *)registers + (size_t)n * bytes * 32, frame + list[n], bytes * 32);
    return next == &insn + 1;
}
