#include "groups.h"
#include "mbarrier.h"
#include "split.h"
#include "state.h"

typedef const struct tsr_insn insn;
#define EACH_LANE(m, l) for (uint32_t rest_ = (m), l; rest_ != 0 && (l = (uint32_t)__builtin_ctz(rest_), true); rest_ &= rest_ - 1)
#define COUNT_MAX 0xfffffu
#define TX_MASK 0x3fffffu
#define VALID (1ull << 63)

struct phase {
    uint32_t pending, expected;
    int32_t tx;
    bool parity;
};

static struct phase unpack(uint64_t word)
{
    uint32_t tx = (uint32_t)(word >> 40) & TX_MASK;
    return (struct phase){.pending = (uint32_t)word & COUNT_MAX,
                          .expected = (uint32_t)(word >> 20) & COUNT_MAX,
                          .tx = (int32_t)(tx << 10) / 1024,
                          .parity = word >> 62 & 1};
}

static uint64_t pack(struct phase p)
{
    return p.pending | (uint64_t)p.expected << 20 | (uint64_t)((uint32_t)p.tx & TX_MASK) << 40 | (uint64_t)p.parity << 62 |
           VALID;
}

/* The phase ends when nothing is expected any more. */
static uint64_t settled(struct phase p)
{
    if (p.pending == 0 && p.tx == 0) {
        p.pending = p.expected;
        p.parity = !p.parity;
    }
    return pack(p);
}

void tsr_mbarrier_complete_tx(unsigned char *barrier, uint32_t bytes)
{
    uint64_t *word = (void *)barrier;
    struct phase p = unpack(*word);
    p.tx -= (int32_t)bytes;
    *word = settled(p);
}

static uint32_t word_at(const struct tsr_warp *w, uint32_t reg, uint32_t l, uint32_t fallback)
{
    return reg == TSR_NO_REG ? fallback : ((const uint32_t *)(const void *)(w->frame + reg))[l];
}

static uint64_t address_of(const struct tsr_warp *w, insn *i, uint32_t l, enum tsr_space_kind space)
{
    if (i->a == TSR_NO_REG)
        return (uint64_t)i->imm;
    const unsigned char *a = w->frame + i->a;
    if (space == TSR_SPACE_GENERIC)
        return ((const uint64_t *)(const void *)a)[l] + (uint64_t)i->imm;
    uint64_t base =
        i->flags & TSR_MEM_ADDRESS64 ? ((const uint64_t *)(const void *)a)[l] : ((const uint32_t *)(const void *)a)[l];
    return (uint32_t)(base + (uint64_t)i->imm);
}

static uint64_t *barrier_at(struct tsr_warp *w, insn *i, uint32_t l, enum tsr_space_kind space, enum tsr_memory_access access)
{
    return (void *)tsr_warp_address(w, i, l, space, address_of(w, i, l, space), 8, 8, access);
}

enum change {
    INIT,
    INVAL,
    ARRIVE,
    ARRIVE_DROP,
    ARRIVE_EXPECT,
    ARRIVE_DROP_EXPECT,
    EXPECT,
    COMPLETE,
    ARRIVE_COPIES,
    ARRIVE_COPIES_NOINC
};

static uint64_t changed(uint64_t word, enum change change, uint32_t operand)
{
    struct phase p = unpack(word);
    bool arrives = change != EXPECT && change != COMPLETE, drops = change == ARRIVE_DROP || change == ARRIVE_DROP_EXPECT;
    if (change == ARRIVE_EXPECT || change == ARRIVE_DROP_EXPECT || change == EXPECT)
        p.tx += (int32_t)operand;
    if (change == COMPLETE)
        p.tx -= (int32_t)operand;
    uint32_t count = change == ARRIVE || change == ARRIVE_DROP ? operand : 1;
    if (arrives) {
        p.pending -= count < p.pending ? count : p.pending;
        if (drops)
            p.expected -= count < p.expected ? count : p.expected;
    }
    return change == EXPECT ? pack(p) : settled(p);
}

static insn *change_all(struct tsr_warp *w, insn *i, uint32_t m, enum tsr_space_kind space, enum change change)
{
    EACH_LANE(m, l)
    {
        uint64_t *word = barrier_at(w, i, l, space, TSR_ACCESS_MODE_ATOMIC);
        if (word == NULL)
            return NULL;
        uint32_t operand = word_at(w, i->b, l, 1);
        uint64_t before = *word;
        if (change == INIT)
            *word = pack((struct phase){.pending = operand & COUNT_MAX, .expected = operand & COUNT_MAX});
        else if (change == INVAL)
            *word = 0;
        else if (change == ARRIVE_COPIES) /* the pending count goes up for the copies' own arrival and down with it */
            *word = before;
        else
            *word = changed(before, change, operand);
        if (i->dst != TSR_NO_REG && change >= ARRIVE && change <= ARRIVE_DROP_EXPECT)
            ((uint64_t *)(void *)(w->frame + i->dst))[l] = before;
    }
    return i + 1;
}

static insn *test(struct tsr_warp *w, insn *i, uint32_t m, enum tsr_space_kind space, bool parity)
{
    uint32_t holds = 0;
    uint64_t seen = 0;
    EACH_LANE(m, l)
    {
        uint64_t *word = barrier_at(w, i, l, space, TSR_ACCESS_MODE_READ);
        if (word == NULL)
            return NULL;
        bool asked =
            parity ? word_at(w, i->b, l, 0) & 1 : unpack(((const uint64_t *)(const void *)(w->frame + i->b))[l]).parity;
        holds |= (unpack(*word).parity != asked ? 1u : 0u) << l;
        seen = seen * 31 + (uintptr_t)word;
    }
    uint32_t *d = (void *)(w->frame + i->dst);
    *d = (*d & ~m) | holds;
    return holds == m ? i + 1 : tsr_warp_poll(w, i, seen);
}

static insn *pending_count(struct tsr_warp *w, insn *i, uint32_t m)
{
    uint32_t count[TSR_WARP_LANES], *d = (void *)(w->frame + i->dst);
    EACH_LANE(m, l)
    count[l] = unpack(((const uint64_t *)(const void *)(w->frame + i->a))[l]).pending;
    EACH_LANE(m, l)
    d[l] = count[l];
    return i + 1;
}

#define CHANGES(X, space)                                                                                                      \
    X(space, init, "mbarrier.init", INIT)                                                                                      \
    X(space, inval, "mbarrier.inval", INVAL)                                                                                   \
    X(space, arrive, "mbarrier.arrive", ARRIVE)                                                                                \
    X(space, arrive_drop, "mbarrier.arrive_drop", ARRIVE_DROP)                                                                 \
    X(space, arrive_expect, "mbarrier.arrive.expect_tx", ARRIVE_EXPECT)                                                        \
    X(space, arrive_drop_expect, "mbarrier.arrive_drop.expect_tx", ARRIVE_DROP_EXPECT)                                         \
    X(space, expect, "mbarrier.expect_tx", EXPECT)                                                                             \
    X(space, complete, "mbarrier.complete_tx", COMPLETE)                                                                       \
    X(space, arrive_copies, "cp.async.mbarrier.arrive", ARRIVE_COPIES)                                                         \
    X(space, arrive_copies_noinc, "cp.async.mbarrier.arrive.noinc", ARRIVE_COPIES_NOINC)
#define WHERE_shared TSR_SPACE_SHARED
#define WHERE_generic TSR_SPACE_GENERIC
#define DEFINE(space, name, key, change)                                                                                       \
    static insn *space##_##name(struct tsr_warp *w, insn *i, uint32_t m) { return change_all(w, i, m, WHERE_##space, change); }
#define DEFINE_TESTS(space)                                                                                                    \
    static insn *space##_test(struct tsr_warp *w, insn *i, uint32_t m) { return test(w, i, m, WHERE_##space, false); }         \
    static insn *space##_test_parity(struct tsr_warp *w, insn *i, uint32_t m) { return test(w, i, m, WHERE_##space, true); }
CHANGES(DEFINE, shared)
CHANGES(DEFINE, generic)
DEFINE_TESTS(shared)
DEFINE_TESTS(generic)

#define ROW(space, name, key, change) TSR_OP_ROW(key "." #space, space##_##name, TSR_C_SHARED),
#define TEST_ROWS(space)                                                                                                       \
    TSR_OP_ROW("mbarrier.test_wait." #space, space##_test, TSR_C_SHARED),                                                      \
    TSR_OP_ROW("mbarrier.test_wait.parity." #space, space##_test_parity, TSR_C_SHARED),
static const struct tsr_op ops[] = {
    CHANGES(ROW, shared) CHANGES(ROW, generic) TEST_ROWS(shared) TEST_ROWS(generic)
        TSR_OP_ROW("mbarrier.pending_count", pending_count, TSR_C_INT),
};
TSR_OP_GROUP(tsr_mbarrier_ops, ops);
