/* The registry: look-up of every operation, and issue costs. */
#include "check.h"

#include "emulator/isa/level.h"
#include "emulator/exec/registry.h"
#include "tessera/machine.h"

static const struct tsr_op *find(const char *key)
{
    return tsr_op_find(key, strlen(key));
}

TEST(every_operation_is_found_under_its_key)
{
    uint32_t count = 0;
    for (const struct tsr_op *op; (op = tsr_op_at(count)) != NULL; count++) {
        REQUIRE(CHECK_EQ(op->number, count));
        REQUIRE(find(op->key) == op);
        REQUIRE(op->run != NULL);
    }
    CHECK(count > 4000);
    CHECK(tsr_op_at(UINT32_MAX) == NULL);
}

TEST(other_keys_are_not_found)
{
    CHECK(find("") == NULL);
    CHECK(find("add.s3") == NULL);
    CHECK(find("add.s322") == NULL);
    CHECK(tsr_op_find("add.s32.more", 7) == find("add.s32"));
}

TEST(operands_are_described)
{
    const struct tsr_op *op = find("mad.wide.s32");
    REQUIRE(op != NULL);
    CHECK_EQ(op->flags, TSR_OP_LANE);
    CHECK_EQ(op->sources, 3);
    CHECK_EQ(op->dst_type, TSR_T_S64);
    CHECK_EQ(op->src_type[0], TSR_T_S32);
    CHECK_EQ(op->src_type[2], TSR_T_S64);
    op = find("setp.lt.and.ftz.f32");
    REQUIRE(op != NULL);
    CHECK_EQ(op->flags, TSR_OP_LANE | TSR_OP_DST2);
    CHECK_EQ(op->dst_type, TSR_T_PRED);
    CHECK_EQ(op->src_type[2], TSR_T_PRED);
}

static uint16_t cycles(const char *key)
{
    static const struct tsr_device_desc device = {
        .fp32_ops_per_sm_clk = 256,
        .fp64_ops_per_sm_clk = 4,
        .int32_ops_per_sm_clk = 64,
        .special_ops_per_sm_clk = 16,
        .tensor_fp16_ops_per_sm_clk = 4096,
    };
    const struct tsr_op *op = find(key);
    return op ? tsr_op_cycles(op, &device) : 0;
}

TEST(issue_costs_follow_the_device)
{
    CHECK_EQ(cycles("fma.rn.f32"), 16);
    CHECK_EQ(cycles("add.s32"), 32);
    CHECK_EQ(cycles("ex2.approx.f32"), 128);
    CHECK_EQ(cycles("fma.rn.f64"), 1024);
    /* 2048 multiply-adds at 2048 per clock of the SM: four cycles of one of its four schedulers. */
    CHECK_EQ(cycles("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"), 64);
}

TEST(levels)
{
    const struct tsr_op *op = find("add.s32");
    REQUIRE(op != NULL);
    CHECK(op->run == tsr_op_run_at(op, tsr_op_level()));
    CHECK(tsr_op_run_at(op, 0) != NULL);
    CHECK(tsr_op_run_at(op, TSR_LEVEL_COUNT) == NULL);
}
