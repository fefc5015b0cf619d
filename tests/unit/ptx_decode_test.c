/* What instructions become: operations, operands, conversions, places. */
#include "check.h"
#include "emulator/isa/operands.h"
#include "ptx_load.h"

static struct tsr_ptx_code *loaded;

static const struct tsr_function *load_kernel(const char *text)
{
    tsr_code_destroy(loaded);
    loaded = ptx_load(text);
    if (!loaded)
        CHECK_STR(ptx_error.message, "");
    return loaded ? tsr_code_entry(loaded, "k") : NULL;
}

#define FIND(k, key) ptx_find(k, key, 0)

TEST(a_parameter_load_and_a_predicated_branch)
{
    const struct tsr_function *k =
        load_kernel(PTX_KERNEL("ld.param.u64 %d1, [data];\nld.global.u32 %r1, [%d1+-340];\nsetp.ge.s32 %p1, %r1, 7;\n"
                               "@!%p1 bra END;\nst.global.u32 [ %d1 + 0 ], %r1;\nEND: ret;"));
    REQUIRE(k);
    const struct tsr_insn *param = FIND(k, "ld.param.b64"), *load = FIND(k, "ld.global.b32"), *branch = FIND(k, "bra"),
                          *store = FIND(k, "st.global.b32");
    REQUIRE(param && load && branch && store);
    CHECK_EQ(param->a, TSR_NO_REG);
    CHECK_EQ(param->imm, 0);
    CHECK_EQ(load->a, param->dst);
    CHECK_EQ(load->imm, -340);
    CHECK_EQ(load->line, 7);
    CHECK_EQ(ptx_const(k, FIND(k, "setp.ge.s32")->b), 7);
    CHECK_EQ(branch->guard, FIND(k, "setp.ge.s32")->dst);
    CHECK_EQ(branch->flags & TSR_INSN_GUARD_NOT, TSR_INSN_GUARD_NOT);
    CHECK(branch->target == FIND(k, "join"));
    CHECK_EQ(store->b, load->dst);
    CHECK_STR(ptx_key(&k->insns[k->insn_count - 1]), "exit");
}

TEST(wider_registers_are_converted)
{
    const struct tsr_function *k =
        load_kernel(PTX_KERNEL("cvt.s64.s32 %d1, %d2; ld.shared.u8 %r1, [0]; ld.shared.s8 %d3, [1]; st.shared.u8 [2], %r2;\n"
                               "cvt.u16.u32 %r4, %r5;"));
    REQUIRE(k);
    CHECK_EQ(FIND(k, "cvt.s64.s32")->a, FIND(k, "tsr.low.b32.b64")->dst);
    CHECK_EQ(FIND(k, "tsr.zext.b32.b16")->a, FIND(k, "ld.shared.b8")->dst);
    CHECK_EQ(FIND(k, "tsr.sext.b64.b16")->a, FIND(k, "ld.shared.s8")->dst);
    CHECK_EQ(FIND(k, "st.shared.b8")->b, FIND(k, "tsr.low.b16.b32")->dst);
    CHECK_EQ(ptx_find(k, "tsr.zext.b32.b16", 1)->a, FIND(k, "cvt.u16.u32")->dst);
}

TEST(constants_are_shared_and_typed)
{
    const struct tsr_function *k = load_kernel(PTX_KERNEL(
        "add.f32 %r1, %r2, 0f40000000; add.f32 %r1, %r1, 2.0; add.u32 %r1, %r1, 1073741824; add.f64 %d1, %d2, 0f40000000; add.u16 %h1, %h2, -1;"));
    REQUIRE(k);
    CHECK_EQ(k->const_count, 3);
    CHECK_EQ(ptx_find(k, "add.f32", 0)->b, ptx_find(k, "add.f32", 1)->b);
    CHECK_EQ(ptx_find(k, "add.f32", 0)->b, FIND(k, "add.u32")->b);
    CHECK_EQ(ptx_const(k, FIND(k, "add.f64")->b), 0x4000000000000000ull);
    uint32_t half = FIND(k, "add.u16")->b;
    CHECK_EQ(ptx_const(k, half), 0xffff);
    CHECK_EQ(*(const uint16_t *)(k->frame_template + half + 62), 0xffff);
    CHECK(half >= k->template_begin && half + 64 <= k->template_end);
}

TEST(addresses_of_variables_in_their_spaces)
{
    const struct tsr_function *k = load_kernel(
        PTX_HEADER
        ".global .u32 g; .extern .shared .align 32 .b8 dynamic[]; .shared .align 8 .b8 unused[100];\n"
        ".entry k(.param .u64 data, .param .u32 second) { .shared .align 4 .b8 s[20]; .shared .b32 t; .local .align 8 .b8 l[24]; .reg .b64 %d<9>; .reg .b32 %r<9>;\n"
        "mov.u64 %d1, g; mov.u32 %r1, t; cvta.shared.u64 %d2, s; mov.u64 %d3, l; mov.u32 %r2, dynamic; mov.b64 %d4, second; ld.param.u32 %r3, [%d4+-4];\n"
        "st.local.u32 [l+4], %r1; ld.shared.u32 %r4, [dynamic+8]; ld.global.u32 %r5, [g+4]; st.shared.v2.b64 [%d1], {%d2,%d3}; st.shared.v2.b32 [%r2], {%r3,%r4};\n"
        "st.global.b32 [%d4], %r5; ld.const.u32 %r6, [g]; }");
    REQUIRE(k);
    CHECK_EQ(k->shared_static_bytes, 24);
    CHECK_EQ(k->shared_dynamic_align, 32);
    CHECK_EQ(k->local_bytes, 32);
    CHECK_EQ(ptx_const(k, FIND(k, "mov.u64")->a), 0x10000);
    CHECK_EQ(ptx_const(k, FIND(k, "mov.u32")->a), 20);
    CHECK_EQ(ptx_const(k, FIND(k, "cvta.shared")->a), 0);
    CHECK_EQ(ptx_const(k, ptx_find(k, "mov.u32", 1)->a), 32);
    CHECK_EQ(FIND(k, "ld.param.b32")->imm, -4);
    CHECK_EQ(FIND(k, "st.local.b32")->imm, 4);
    CHECK_EQ(FIND(k, "st.local.b32")->a, TSR_NO_REG);
    CHECK_EQ(ptx_const(k, FIND(k, "ld.shared.b32")->a), 32);
    CHECK_EQ(FIND(k, "ld.shared.b32")->imm, 8);
    CHECK_EQ(ptx_const(k, FIND(k, "ld.global.b32")->a), 0x10000);
    CHECK_EQ(FIND(k, "ld.global.b32")->imm, 4);
    CHECK_EQ(FIND(k, "st.shared.v2.b64")->flags, TSR_MEM_ADDRESS64);
    CHECK_EQ(FIND(k, "st.shared.v2.b32")->flags, 0);
}

TEST(vector_loads_and_stores)
{
    const struct tsr_function *k = load_kernel(PTX_KERNEL(
        "ld.volatile.global.v4.u32 {%r1, _, %r3, %r4}, [%d1]; st.global.v4.f32 [%d1+16], {%r1, %r3, 0f3F800000, %r4};\n"
        "mov.b64 {%r1, %r2}, %d1; mov.b64 %d2, {%r2, 5}; mov.b32 %r5, {%h1, %h2}; st.global.v2.b64 [%d3], {%d2, %d1};\n"
        "st.global.v2.u32 [%d3], {%r5, %r2};"));
    REQUIRE(k);
    const struct tsr_insn *load = FIND(k, "ld.global.v4.b32"), *store = FIND(k, "st.global.v4.b32");
    REQUIRE(load && store);
    CHECK_EQ(load->flags, TSR_MEM_STRONG);
    CHECK_EQ(load->dst2, TSR_NO_REG);
    CHECK_EQ(store->b, load->dst);
    CHECK_EQ(store->c, load->c);
    CHECK_EQ(ptx_const(k, store->d), 0x3f800000);
    CHECK_EQ(store->dst, load->d);
    CHECK(FIND(k, "tsr.unpack.b64.b32.0") && FIND(k, "tsr.unpack.b64.b32.1"));
    CHECK_EQ(ptx_const(k, FIND(k, "tsr.pack.b64.b32x2")->b), 5);
    CHECK(FIND(k, "tsr.pack.b32.b16x2"));
}

TEST(special_registers_are_read_into_place)
{
    const struct tsr_function *k = load_kernel(
        PTX_KERNEL("mov.u32 %r1, %tid.x; mov.u64 %d1, %clock64; mov.u16 %h1, %ntid.y; add.s32 %r2, %r1, %laneid;\n"
                   "mov.u32 %r3, WARP_SZ; st.shared.v2.u32 [0], {%r2, %r3}; st.shared.u64 [8], %d1; st.shared.u16 [16], %h1;"));
    REQUIRE(k);
    CHECK_EQ(FIND(k, "add.s32")->a, FIND(k, "sreg.tid.x")->dst);
    CHECK_EQ(FIND(k, "add.s32")->b, FIND(k, "sreg.laneid")->dst);
    CHECK_EQ(FIND(k, "st.shared.b64")->b, FIND(k, "sreg.clock64")->dst);
    CHECK_EQ(FIND(k, "tsr.low.b16.b32")->a, FIND(k, "sreg.ntid.y")->dst);
}

TEST(calls_copy_areas)
{
    const struct tsr_function *k = load_kernel(
        PTX_HEADER
        ".func (.param .b32 r) f(.param .b64 a, .param .align 8 .b8 s[20]);\n"
        ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n"
        ".entry k(.param .u64 data) { .reg .b64 %d<4>; .reg .b32 %r<4>;\n"
        "{ .param .b64 p0; .param .align 8 .b8 p1[20]; .param .b32 r0; st.param.b64 [p0], %d1; st.param.b32 [p1+16], %r1; call.uni (r0), f, (p0, p1); ld.param.b32 %r2, [r0+0]; }\n"
        "{ .param .b64 p0; .param .b64 p1; .param .b32 r0; st.param.b64 [p0], %d1; st.param.b64 [p1], %d2; call (r0), vprintf, (p0, p1); ld.param.b32 %r3, [r0]; }\n"
        "mov.u64 %d3, f; { .param .b64 p0; .param .align 8 .b8 p1[20]; .param .b32 r0; proto: .callprototype (.param .b32 _) _ (.param .b64 _, .param .align 8 .b8 _[20]);\n"
        " call (r0), %d3, (p0, p1), proto; } st.shared.v2.b32 [0], {%r2, %r3}; }\n"
        ".func (.param .b32 r) f(.param .b64 a, .param .align 8 .b8 s[20]) { .reg .b32 x; .local .b32 l; ld.param.b32 x, [s+16]; st.local.b32 [l], x; st.param.b32 [r], x; ret; }\n");
    REQUIRE(k);
    const struct tsr_function *f = &loaded->functions[0];
    const struct tsr_insn *call = FIND(k, "call"), *first = FIND(k, "stp.b64"), *second = FIND(k, "stp.b32");
    REQUIRE(call && first && second);
    CHECK_STR(f->name, "f");
    CHECK_EQ(call->call->function, 0);
    CHECK_EQ(call->call->arg_count, 2);
    CHECK_EQ(call->call->args[0].caller_offset, first->a);
    CHECK_EQ(call->call->args[1].caller_offset, second->a);
    CHECK_EQ(call->call->args[1].callee_offset, f->params_area + 32 * 16);
    CHECK_EQ(call->call->args[1].bytes, 20);
    CHECK_EQ(call->call->results[0].callee_offset, f->results_area);
    CHECK_EQ(f->results_area, f->params_area + 32 * (16 + 32));
    CHECK_EQ(second->dst2, 32);
    CHECK_EQ(second->imm, 16);
    CHECK_EQ(FIND(k, "ldp.b32")->a, call->call->results[0].caller_offset);
    CHECK_EQ(FIND(f, "ldp.b32")->a, f->params_area + 32 * 16);
    CHECK_EQ(FIND(f, "stp.b32")->a, f->results_area);
    CHECK_EQ(FIND(f, "tsr.local_address.b32")->imm, 0);
    CHECK_EQ(FIND(k, "sys.vprintf")->call->arg_count, 2);
    const struct tsr_insn *indirect = FIND(k, "call.indirect");
    CHECK_EQ(ptx_const(k, FIND(k, "mov.u64")->a), TSR_CODE_WINDOW);
    CHECK_EQ(indirect->a, FIND(k, "mov.u64")->dst);
    CHECK_EQ(indirect->call->function, TSR_NO_REG);
    CHECK_EQ(indirect->call->results[0].callee_offset, 0);
    CHECK_EQ(k->local_depth_bytes, 16384);
    CHECK_EQ(f->local_depth_bytes, 16);
    CHECK(k->calls && !f->calls);
}

TEST(functions_share_shared_memory_of_the_module)
{
    const struct tsr_function *k = load_kernel(
        PTX_HEADER
        ".shared .align 16 .b8 common[64];\n.func f() { .shared .b32 own; .reg .b32 x; ld.shared.b32 x, [common]; st.shared.b32 [own], x; bar.sync 3; ret; }\n"
        ".entry k() { .shared .b64 mine; .reg .b32 x; .reg .b64 y; ld.shared.b64 y, [mine]; st.shared.b64 [common+8], y; call f; ret; }\n"
        ".entry alone() { .shared .b64 mine; .reg .b64 y; ld.shared.b64 y, [mine]; st.shared.b64 [mine], y; ret; }");
    REQUIRE(k);
    const struct tsr_function *alone = tsr_code_entry(loaded, "alone");
    CHECK_EQ(k->shared_static_bytes, 80);
    CHECK_EQ(ptx_const(k, FIND(k, "ld.shared.b64")->a), 72);
    CHECK_EQ(alone->shared_static_bytes, 8);
    CHECK_EQ(ptx_const(alone, FIND(alone, "ld.shared.b64")->a), 0);
    CHECK(k->uses_barriers && !alone->uses_barriers);
    CHECK_EQ(k->max_barrier, 3);
}

TEST(registers_that_are_not_live_together_share_a_place)
{
    const struct tsr_function *k = load_kernel(
        PTX_HEADER
        ".entry k(.param .u64 p) { .reg .b32 a, b, c, i; .reg .pred q; .reg .b64 d; .reg .b32 %t<100>;\n"
        "ld.shared.b32 a, [0]; ld.shared.b32 i, [4]; LOOP: add.s32 b, a, 1; add.s32 c, b, 2; add.s32 a, c, i; sub.s32 i, i, 1; setp.ne.s32 q, i, 0; @q bra LOOP;\n"
        "st.shared.b32 [8], a; ret; }");
    REQUIRE(k);
    const struct tsr_insn *first = ptx_find(k, "add.s32", 0), *second = ptx_find(k, "add.s32", 1),
                          *third = ptx_find(k, "add.s32", 2);
    CHECK(first->a != FIND(k, "sub.s32")->dst);
    CHECK(third->b == FIND(k, "sub.s32")->a);
    CHECK_EQ(third->dst, first->a);
    CHECK_EQ(second->a, first->dst);
    CHECK(k->frame_bytes <= 128 * 3 + 64 + 128 * 3 + 64);
    CHECK_EQ(k->registers, 16);
}

TEST(a_value_written_under_a_guard_keeps_what_it_had)
{
    const struct tsr_function *k = load_kernel(PTX_KERNEL(
        "mov.b32 %r1, 7; ld.shared.b32 %r2, [0]; setp.eq.s32 %p1, %r2, 0; @%p1 mov.b32 %r1, %r2; ld.shared.b32 %r3, [4];\n"
        "st.shared.v2.b32 [8], {%r1, %r3};"));
    REQUIRE(k);
    CHECK(ptx_find(k, "ld.shared.b32", 0)->dst != ptx_find(k, "mov.b32", 0)->dst);
    CHECK_EQ(ptx_find(k, "mov.b32", 0)->dst, FIND(k, "st.shared.v2.b32")->b);
    CHECK(ptx_find(k, "ld.shared.b32", 1)->dst != FIND(k, "st.shared.v2.b32")->b);
}

TEST(a_value_carried_around_a_loop_is_kept_from_its_end_to_its_beginning)
{
    /* x is written at the end of the loop and read, under a guard, at its beginning: nothing else may take its place in between. */
    const struct tsr_function *k = load_kernel(PTX_KERNEL(
        "mov.b32 %r0, 0;\nLOOP: setp.ne.s32 %p1, %r0, 0; @%p1 st.shared.b32 [0], %r1; ld.shared.b32 %r2, [4]; st.shared.b32 [8], %r2;\n"
        "ld.shared.b32 %r1, [12]; add.s32 %r0, %r0, 1; setp.lt.s32 %p2, %r0, 9; @%p2 bra LOOP;"));
    REQUIRE(k);
    CHECK(ptx_find(k, "ld.shared.b32", 0)->dst != ptx_find(k, "ld.shared.b32", 1)->dst);
    CHECK_EQ(ptx_find(k, "st.shared.b32", 0)->b, ptx_find(k, "ld.shared.b32", 1)->dst);
}

TEST(branch_tables)
{
    const struct tsr_function *k =
        load_kernel(PTX_KERNEL("ts: .branchtargets A, B, A;\nbrx.idx %r1, ts;\nA: st.shared.b32 [0], 1;\nB: ret;"));
    REQUIRE(k);
    const struct tsr_branch_table *table = FIND(k, "brx.idx")->aux;
    CHECK_EQ(table->count, 3);
    CHECK(table->targets[0] == ptx_find(k, "join", 0));
    CHECK(table->targets[1] == ptx_find(k, "join", 1));
    CHECK(table->targets[2] == table->targets[0]);
}

TEST(barriers_votes_and_shuffles)
{
    const struct tsr_function *k = load_kernel(PTX_KERNEL(
        "bar.sync 0; barrier.sync.aligned 1, 64; bar.red.popc.u32 %r1, 2, !%p1; vote.sync.ballot.b32 %r2, !%p1, 0xffffffff;\n"
        "shfl.sync.bfly.b32 %r3|%p2, %r2, 16, 31, -1; match.any.sync.b64 %r4, %d1, %r1; redux.sync.add.s32 %r5, %r4, %r3; activemask.b32 %r6;\n"
        "bar.warp.sync 15; @%p2 st.shared.v4.b32 [0], {%r1, %r5, %r6, %r3};"));
    REQUIRE(k);
    CHECK_EQ(FIND(k, "bar.sync")->a, TSR_NO_REG);
    CHECK_EQ(ptx_find(k, "bar.sync", 1)->imm, 1);
    CHECK_EQ(ptx_const(k, ptx_find(k, "bar.sync", 1)->b), 64);
    CHECK_EQ(FIND(k, "bar.red.popc")->flags, TSR_SOURCE_NOT);
    CHECK_EQ(FIND(k, "vote.ballot")->flags, TSR_SOURCE_NOT);
    CHECK_EQ(ptx_const(k, FIND(k, "vote.ballot")->d), 0xffffffff);
    const struct tsr_insn *shuffle = FIND(k, "shfl.bfly");
    CHECK_EQ(shuffle->dst2, FIND(k, "st.shared.v4.b32")->guard);
    CHECK(shuffle->dst != shuffle->a);
    CHECK(FIND(k, "match.any.b64") && FIND(k, "redux.add.s32") && FIND(k, "activemask") && FIND(k, "bar.warp.sync"));
    CHECK_EQ(k->max_barrier, 2);
}

TEST(atomics)
{
    const struct tsr_function *k = load_kernel(PTX_KERNEL(
        "atom.global.add.u32 %r1, [%d1+4], 3; atom.add.s32 %r2, [%d1], %r1; red.relaxed.gpu.global.add.f32 [%d1], %r1; atom.shared.cas.b32 %r3, [%r1], %r2, 9;\n"
        "atom.global.and.b32 _, [%d1], %r1; atom.global.min.s64 %d2, [%d1], %d3; atom.global.exch.b64 %d2, [%d1], 0; red.global.add.noftz.f16x2 [%d1], %r1;\n"
        "st.shared.v2.b32 [0], {%r2, %r3}; st.shared.b64 [8], %d2; red.global.add.v2.f32 [%d1], {%r1, %r2};"));
    REQUIRE(k);
    CHECK_EQ(FIND(k, "atom.global.add.u32")->imm, 4);
    CHECK(FIND(k, "atom.generic.add.u32") && FIND(k, "atom.global.min.s64") && FIND(k, "atom.global.exch.b64") &&
          FIND(k, "atom.global.add.f16x2"));
    CHECK_EQ(FIND(k, "atom.global.add.f32")->dst, TSR_NO_REG);
    CHECK_EQ(ptx_const(k, FIND(k, "atom.shared.cas.b32")->c), 9);
    CHECK_EQ(FIND(k, "atom.global.and.b32")->dst, TSR_NO_REG);
    CHECK_EQ(FIND(k, "atom.global.add.v2.f32")->list[0], TSR_NO_REG);
    CHECK_EQ(FIND(k, "atom.global.add.v2.f32")->list[3], FIND(k, "st.shared.v2.b32")->b);
}

TEST(matrix_fragments_have_the_right_size)
{
    const struct tsr_function *k = load_kernel(PTX_KERNEL(
        ".reg .f32 %f<5>; ldmatrix.sync.aligned.m8n8.x4.shared::cta.b16 {%r0,%r1,%r2,%r3}, [%r4+32];\n"
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r0,%r1,%r2,%r3}, {%r4,%r5}, {%f0,%f1,%f2,%f3};\nst.shared.v4.f32 [0], {%f0,%f1,%f2,%f3};"));
    REQUIRE(k);
    const struct tsr_insn *load = FIND(k, "ldmatrix.sync.aligned.m8n8.x4.shared.b16"),
                          *mma = FIND(k, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32");
    REQUIRE(load && mma);
    CHECK_EQ(load->imm, 32);
    for (unsigned i = 0; i < 4; i++)
        CHECK_EQ(mma->list[4 + i], load->list[i]);
    CHECK_EQ(mma->list[8], load->a);
    CHECK_EQ(mma->list[0], mma->list[10]);
    CHECK(!ptx_load(PTX_KERNEL(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r0,%r1,%r2,%r3}, {%r0,%r1,%r2}, {%r4,%r5}, {%r0,%r1,%r2,%r3};")));
    CHECK_STR(ptx_error.message, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32: expected a fragment of 4 registers");
}

TEST(address_conversions_cost_nothing_where_they_do_nothing)
{
    const struct tsr_function *k =
        load_kernel(PTX_KERNEL("ld.param.u64 %d1, [data]; cvta.to.global.u64 %d2, %d1; st.global.b32 [%d2], 1;"));
    REQUIRE(k);
    CHECK_EQ(k->insn_count, 3);
}

TEST(asynchronous_copies_and_mbarriers)
{
    const struct tsr_function *k = load_kernel(PTX_KERNEL(
        "cp.async.cg.shared.global.L2::128B [%r1+16], [%d1+32], 16, %r2; cp.async.commit_group; cp.async.wait_group 0;\n"
        "mbarrier.init.shared::cta.b64 [%r3], 1; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3+8], 64; mbarrier.try_wait.parity.shared.b64 %p1, [%r3], %r4, 1000;\n@%p1 ret;"));
    REQUIRE(k);
    const struct tsr_insn *copy = FIND(k, "cp.async.16");
    REQUIRE(copy);
    CHECK_EQ(copy->imm, 16);
    CHECK_EQ((intptr_t)copy->aux, 32);
    CHECK(copy->c != TSR_NO_REG && copy->d == TSR_NO_REG);
    CHECK_EQ(FIND(k, "mbarrier.arrive.expect_tx.shared")->imm, 8);
    CHECK_EQ(FIND(k, "mbarrier.arrive.expect_tx.shared")->dst, TSR_NO_REG);
    CHECK(FIND(k, "mbarrier.test_wait.parity.shared") && FIND(k, "mbarrier.init.shared"));
}

TEST(conditions_carry_and_logic_with_predicates)
{
    const struct tsr_function *k = load_kernel(PTX_KERNEL(
        "add.cc.u32 %r1, %r2, %r3; addc.u32 %r4, %r2, 0; setp.lt.and.s32 %p1|%p2, %r1, %r4, !%p3; lop3.or.b32 %r5|%p0, %r1, %r2, %r3, 0x80, %p1; @%p2 ret; @%p0 st.shared.b32 [0], %r5;"));
    REQUIRE(k);
    CHECK_EQ(FIND(k, "addc.u32")->c, FIND(k, "add.cc.u32")->dst2);
    CHECK_EQ(FIND(k, "setp.lt.and.s32")->c, FIND(k, "not.pred")->dst);
    CHECK_EQ(FIND(k, "lop3.or.b32")->imm, 0x80);
    CHECK_EQ(FIND(k, "lop3.or.b32")->d, FIND(k, "setp.lt.and.s32")->dst);
}

TEST(mixed_and_paired_floating_point)
{
    const struct tsr_function *k = load_kernel(PTX_KERNEL(
        "fma.rn.f32.f16 %r1, %h1, %h2, %r2; sub.rn.f32.bf16 %r3, %h3, %r1; add.rn.f32x2 %d1, %d2, %d3; st.shared.b32 [0], %r3; st.shared.b64 [8], %d1;"));
    REQUIRE(k);
    CHECK_EQ(FIND(k, "fma.rn.f32")->b, ptx_find(k, "cvt.f32.f16", 1)->dst);
    CHECK_EQ(FIND(k, "sub.rn.f32")->a, FIND(k, "cvt.f32.bf16")->dst);
    CHECK(ptx_find(k, "add.rn.f32", 1) && FIND(k, "tsr.pack.b64.b32x2")->b == ptx_find(k, "add.rn.f32", 1)->dst);
}

TEST(aliases_stand_for_their_function)
{
    const struct tsr_function *k = load_kernel(
        PTX_HEADER ".global .u32 v;\n.func g();\n.func f() { .reg .b64 d; mov.u64 d, v; st.global.u64 [d], d; ret; }\n"
                   ".alias g, f;\n.entry k() { .reg .b64 d; call g; mov.u64 d, g; st.shared.b64 [0], d; ret; }");
    REQUIRE(k);
    const struct tsr_function *g = &loaded->functions[0], *f = &loaded->functions[1];
    CHECK_STR(g->name, "g");
    CHECK_EQ(FIND(k, "call")->call->function, 1);
    CHECK_EQ(g->index, 1);
    CHECK(g->insns == f->insns && g->frame_template == f->frame_template);
    CHECK_EQ(ptx_const(f, FIND(f, "mov.u64")->a), 0x10000);
}

TEST(everything_that_the_corpus_holds_decodes)
{
    static const char *const names[] = {"nvcc_calls",     "nvcc_gemm_mma_sync", "nvcc_gemm_wmma",
                                        "nvcc_histogram", "nvcc_scan",          "nvcc_vector_add"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        char path[512], *text = calloc(1, 1 << 17);
        snprintf(path, sizeof path, "%s/corpus/ptx/%s.ptx", TSR_TEST_DATA, names[i]);
        FILE *stream = fopen(path, "rb");
        if (CHECK(stream && fread(text, 1, (1 << 17) - 1, stream) > 0)) {
            struct tsr_ptx_code *code = ptx_load(text);
            CHECK_STR(code ? "" : ptx_error.message, "");
            tsr_code_destroy(code);
            fclose(stream);
        }
        free(text);
    }
}
