/*
 * Kernels as compilers write them, run on the executor: divergence, calls, barriers, atomics, collectives, faults, cost.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "exec_run.h"

#define HEAD ".version 8.0\n.target sm_90\n.address_size 64\n"
/* A kernel k(u64 out) whose body has %rd1 = out, %r1 = thread in the block, %r2 = block, %r3 = thread in the grid, %rd2 = &((u32 *)out)[%r3]. */
#define KERNEL(declarations, body)                                                                                             \
    HEAD ".visible .entry k(.param .u64 out)\n{\n.reg .b32 %r<64>;\n.reg .b64 %rd<32>;\n.reg .pred %p<8>;\n.reg .f32 %f<8>;\n.reg .b16 %h<8>;\n" \
    declarations                                                                                                               \
    "ld.param.u64 %rd1, [out];\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, %ctaid.x;\nmov.u32 %r4, %ntid.x;\n"                          \
    "mad.lo.u32 %r3, %r2, %r4, %r1;\nmul.wide.u32 %rd2, %r3, 4;\nadd.u64 %rd2, %rd1, %rd2;\n"                                  \
    body "ret;\n}\n"

static enum tsr_grid_state launch(struct run *run, uint32_t blocks, uint32_t threads, uint64_t out)
{
    struct run_args args = {.used = 0};
    RUN_ARG(&args, uint64_t, out);
    return run_launch(run, "k", (uint32_t[]){blocks, 1, 1}, (uint32_t[]){threads, 1, 1}, 0, &args);
}

/* Runs the kernel on `threads` words and gives them. */
struct words {
    enum tsr_grid_state state;
    struct tsr_fault fault;
    struct tsr_cost cost;
    char function[64]; /* of the fault */
    uint32_t out[4096];
};

static struct words run_words(const char *text, uint32_t blocks, uint32_t threads)
{
    static struct words words;
    memset(&words, 0, sizeof words);
    struct run run = run_load(text);
    words.state = TSR_GRID_FAULT;
    if (run.code == NULL)
        return words;
    uint64_t out = run_alloc(&run, sizeof words.out, NULL);
    words.state = launch(&run, blocks, threads, out);
    words.fault = run.fault;
    words.cost = run.cost;
    if (run.fault.function != NULL)
        snprintf(words.function, sizeof words.function, "%s", run.fault.function->name);
    memcpy(words.out, (const void *)(uintptr_t)out, sizeof words.out);
    run_free(&run);
    return words;
}

TEST(lanes_take_different_ways_and_meet)
{
    struct words w = run_words(
        KERNEL(
            "",
            "setp.lt.u32 %p1, %r1, 10;\n@%p1 bra LOW;\nadd.u32 %r5, %r1, 1000;\nbra MEET;\nLOW:\nmul.lo.u32 %r5, %r1, 3;\nMEET:\n"
            "activemask.b32 %r6;\nadd.u32 %r5, %r5, %r6;\nst.global.u32 [%rd2], %r5;\n"),
        1, 32);
    CHECK(w.state == TSR_GRID_DONE);
    for (uint32_t t = 0; t < 32; t++)
        CHECK_EQ(w.out[t], (t < 10 ? t * 3 : t + 1000) + 0xffffffffu);
}

TEST(loops_with_a_trip_count_per_lane)
{
    struct words w =
        run_words(KERNEL("", "mov.u32 %r5, 0;\nmov.u32 %r6, 0;\nLOOP:\nadd.u32 %r5, %r5, %r6;\nadd.u32 %r6, %r6, 1;\n"
                             "setp.le.u32 %p1, %r6, %r1;\n@%p1 bra LOOP;\nst.global.u32 [%rd2], %r5;\n"),
                  2, 70);
    CHECK(w.state == TSR_GRID_DONE);
    for (uint32_t t = 0; t < 140; t++)
        CHECK_EQ(w.out[t], t % 70 * (t % 70 + 1) / 2);
}

TEST(partial_exit_and_predicated_stores)
{
    struct words w = run_words(
        KERNEL(
            "",
            "setp.ge.u32 %p1, %r1, 40;\n@%p1 exit;\nand.b32 %r5, %r1, 1;\nsetp.eq.u32 %p2, %r5, 0;\n@!%p2 st.global.u32 [%rd2], %r1;\n"),
        1, 64);
    CHECK(w.state == TSR_GRID_DONE);
    for (uint32_t t = 0; t < 64; t++)
        CHECK_EQ(w.out[t], t < 40 && t % 2 == 1 ? t : 0);
}

TEST(shared_memory_and_barrier)
{
    struct words w = run_words(
        KERNEL(
            ".shared .align 4 .b8 s[1024];\n",
            "mov.u32 %r5, s;\nshl.b32 %r6, %r1, 2;\nadd.u32 %r7, %r5, %r6;\nst.shared.u32 [%r7], %r3;\n"
            "bar.sync 0;\nsub.u32 %r8, 255, %r1;\nshl.b32 %r8, %r8, 2;\nadd.u32 %r8, %r5, %r8;\nld.shared.u32 %r9, [%r8];\nst.global.u32 [%rd2], %r9;\n"),
        4, 256);
    CHECK(w.state == TSR_GRID_DONE);
    for (uint32_t t = 0; t < 1024; t++)
        CHECK_EQ(w.out[t], t / 256 * 256 + 255 - t % 256);
}

TEST(barrier_counts_threads_that_arrive_apart)
{
    /* Even lanes arrive first at one barrier instruction, odd ones at another; both wait for all 64. */
    struct words w = run_words(
        KERNEL(
            ".shared .align 4 .b8 s[256];\n",
            "mov.u32 %r5, s;\nshl.b32 %r6, %r1, 2;\nadd.u32 %r7, %r5, %r6;\nand.b32 %r8, %r1, 1;\nsetp.eq.u32 %p1, %r8, 0;\n@%p1 bra EVEN;\n"
            "st.shared.u32 [%r7], 7;\nbarrier.sync 0;\nbra MEET;\nEVEN:\nst.shared.u32 [%r7], 9;\nbarrier.sync 0;\nMEET:\n"
            "xor.b32 %r9, %r6, 4;\nadd.u32 %r9, %r5, %r9;\nld.shared.u32 %r10, [%r9];\nst.global.u32 [%rd2], %r10;\n"),
        1, 64);
    CHECK(w.state == TSR_GRID_DONE);
    for (uint32_t t = 0; t < 64; t++)
        CHECK_EQ(w.out[t], t % 2 == 0 ? 7 : 9);
}

TEST(barrier_does_not_wait_for_exited_threads)
{
    struct words w =
        run_words(KERNEL("", "setp.lt.u32 %p1, %r1, 48;\n@%p1 exit;\nbar.sync 0;\nst.global.u32 [%rd2], 5;\n"), 1, 96);
    CHECK(w.state == TSR_GRID_DONE);
    CHECK_EQ(w.out[47], 0);
    CHECK_EQ(w.out[48], 5);
    CHECK_EQ(w.out[95], 5);
}

TEST(barrier_with_a_count_and_reduction)
{
    struct words w = run_words(
        KERNEL(
            "",
            "setp.ge.u32 %p1, %r1, 64;\n@%p1 bra REST;\nsetp.lt.u32 %p2, %r1, 10;\nbar.red.popc.u32 %r5, 1, 64, %p2;\n"
            "bar.red.or.pred %p3, 2, 64, !%p2;\nselp.u32 %r6, 100, 0, %p3;\nadd.u32 %r5, %r5, %r6;\nst.global.u32 [%rd2], %r5;\nREST:\n"),
        1, 128);
    CHECK(w.state == TSR_GRID_DONE);
    CHECK_EQ(w.out[0], 110);
    CHECK_EQ(w.out[63], 110);
    CHECK_EQ(w.out[64], 0);
}

TEST(barrier_nobody_completes_is_a_fault)
{
    struct words w = run_words(KERNEL("", "setp.lt.u32 %p1, %r1, 32;\n@%p1 bar.sync 1, 64;\n@!%p1 bar.sync 2, 64;\n"), 1, 64);
    CHECK(w.state == TSR_GRID_FAULT);
    CHECK_EQ(w.fault.kind, TSR_FAULT_DEADLOCK);
}

TEST(spin_lock_inside_a_warp)
{
    /* Every lane takes the lock in turn and adds to a counter that only the lock protects. */
    struct words w = run_words(
        KERNEL(
            "",
            "ADDRESS: add.u64 %rd3, %rd1, 4096;\nSPIN:\natom.global.cas.b32 %r5, [%rd3], 0, 1;\nsetp.ne.u32 %p1, %r5, 0;\n@%p1 bra SPIN;\n"
            "membar.gl;\nld.volatile.global.u32 %r6, [%rd3+4];\nadd.u32 %r6, %r6, 1;\nst.volatile.global.u32 [%rd3+4], %r6;\nmembar.gl;\n"
            "atom.global.exch.b32 %r7, [%rd3], 0;\nst.global.u32 [%rd2], %r6;\n"),
        4, 64);
    CHECK(w.state == TSR_GRID_DONE);
    CHECK_EQ(w.out[1025], 256);
    uint64_t sum = 0;
    for (uint32_t t = 0; t < 256; t++)
        sum += w.out[t];
    CHECK_EQ(sum, 256 * 257 / 2);
}

TEST(calls_and_recursion)
{
    struct words w = run_words(
        HEAD
        ".func (.param .b32 r) fib(.param .b32 n)\n{\n.reg .b32 %r<8>;\n.reg .pred %p1;\nld.param.u32 %r1, [n];\nsetp.lt.u32 %p1, %r1, 2;\n@%p1 bra DONE;\n"
        "{\n.param .b32 a;\n.param .b32 b;\nadd.u32 %r2, %r1, -1;\nst.param.b32 [a], %r2;\ncall.uni (b), fib, (a);\nld.param.b32 %r3, [b];\n}\n"
        "{\n.param .b32 a;\n.param .b32 b;\nadd.u32 %r2, %r1, -2;\nst.param.b32 [a], %r2;\ncall.uni (b), fib, (a);\nld.param.b32 %r4, [b];\n}\n"
        "add.u32 %r1, %r3, %r4;\nDONE:\nst.param.b32 [r], %r1;\nret;\n}\n"
        ".visible .entry k(.param .u64 out)\n{\n.reg .b32 %r<8>;\n.reg .b64 %rd<4>;\nld.param.u64 %rd1, [out];\nmov.u32 %r1, %tid.x;\nand.b32 %r2, %r1, 15;\n"
        "{\n.param .b32 a;\n.param .b32 b;\nst.param.b32 [a], %r2;\ncall.uni (b), fib, (a);\nld.param.b32 %r3, [b];\n}\n"
        "mul.wide.u32 %rd2, %r1, 4;\nadd.u64 %rd2, %rd1, %rd2;\nst.global.u32 [%rd2], %r3;\nret;\n}\n",
        1, 64);
    static const uint32_t fib[] = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610};
    CHECK(w.state == TSR_GRID_DONE);
    for (uint32_t t = 0; t < 64; t++)
        CHECK_EQ(w.out[t], fib[t % 16]);
}

TEST(endless_recursion_is_a_stack_fault)
{
    struct words w = run_words(
        HEAD
        ".func f(.param .b32 n)\n{\n.reg .b32 %r<4>;\n.local .align 4 .b8 here[256];\nld.param.u32 %r1, [n];\nst.local.u32 [here], %r1;\n{\n.param .b32 a;\nst.param.b32 [a], %r1;\n"
        "call.uni f, (a);\n}\nret;\n}\n.visible .entry k(.param .u64 out)\n{\n.reg .b32 %r<4>;\nmov.u32 %r1, 1;\n{\n.param .b32 a;\nst.param.b32 [a], %r1;\ncall.uni f, (a);\n}\nret;\n}\n",
        1, 32);
    CHECK(w.state == TSR_GRID_FAULT);
    CHECK_EQ(w.fault.kind, TSR_FAULT_STACK);
}

TEST(atomics_return_old_values_in_lane_order)
{
    struct words w = run_words(
        KERNEL(
            "",
            "add.u64 %rd3, %rd1, 8192;\natom.global.add.u32 %r5, [%rd3], 2;\nst.global.u32 [%rd2], %r5;\nred.global.max.s32 [%rd3+4], %r1;\n"
            "atom.global.inc.u32 %r6, [%rd3+8], 9;\nred.global.xor.b32 [%rd3+12], %r3;\natom.global.add.f32 %f1, [%rd3+16], 0f3F800000;\n"),
        1, 96);
    CHECK(w.state == TSR_GRID_DONE);
    for (uint32_t t = 0; t < 96; t++)
        CHECK_EQ(w.out[t], 2 * t);
    CHECK_EQ(w.out[2048], 192);
    CHECK_EQ(w.out[2049], 95);
    CHECK_EQ(w.out[2050], 96 % 10);
    uint32_t x = 0;
    for (uint32_t t = 0; t < 96; t++)
        x ^= t;
    CHECK_EQ(w.out[2051], x);
    float f;
    memcpy(&f, &w.out[2052], 4);
    CHECK(f == 96.0f);
    CHECK_EQ(w.cost.atomics, 5 * 96);
}

TEST(collectives)
{
    struct words w = run_words(
        KERNEL(
            "",
            "shfl.sync.down.b32 %r5|%p1, %r1, 4, 31, -1;\nselp.u32 %r6, 1000, 0, %p1;\nadd.u32 %r5, %r5, %r6;\nst.global.u32 [%rd2], %r5;\n"
            "shfl.sync.bfly.b32 %r7, %r1, 5, 31, -1;\nst.global.u32 [%rd2+128], %r7;\nsetp.lt.u32 %p2, %r1, 7;\nvote.sync.ballot.b32 %r8, %p2, -1;\nst.global.u32 [%rd2+256], %r8;\n"
            "shr.u32 %r9, %r1, 3;\nmatch.any.sync.b32 %r10, %r9, -1;\nst.global.u32 [%rd2+384], %r10;\nredux.sync.add.u32 %r11, %r1, -1;\nst.global.u32 [%rd2+512], %r11;\n"
            "shfl.sync.up.b32 %r12, %r1, 1, 4096, -1;\nst.global.u32 [%rd2+640], %r12;\nshfl.sync.idx.b32 %r13, %r1, 2, 6175, -1;\nst.global.u32 [%rd2+768], %r13;\n"),
        1, 32);
    CHECK(w.state == TSR_GRID_DONE);
    for (uint32_t t = 0; t < 32; t++) {
        CHECK_EQ(w.out[t], t + 4 < 32 ? t + 4 + 1000 : t);
        CHECK_EQ(w.out[32 + t], t ^ 5);
        CHECK_EQ(w.out[64 + t], 0x7f);
        CHECK_EQ(w.out[96 + t], 0xffu << t / 8 * 8);
        CHECK_EQ(w.out[128 + t], 496);
        CHECK_EQ(w.out[160 + t], t % 16 == 0 ? t : t - 1);
        CHECK_EQ(w.out[192 + t], t / 8 * 8 + 2);
    }
}

TEST(sync_waits_for_lanes_that_come_later)
{
    /* Lanes below 8 take a long way round before the shuffle that all lanes take part in. */
    struct words w = run_words(
        KERNEL(
            "",
            "mov.u32 %r5, %r1;\nsetp.ge.u32 %p1, %r1, 8;\n@%p1 bra SHARED;\nadd.u32 %r5, %r5, 100;\nbra AFTER;\nAFTER:\nadd.u32 %r5, %r5, 1;\nSHARED:\n"
            "shfl.sync.idx.b32 %r6, %r5, 3, 31, -1;\nst.global.u32 [%rd2], %r6;\n"),
        1, 32);
    CHECK(w.state == TSR_GRID_DONE);
    for (uint32_t t = 0; t < 32; t++)
        CHECK_EQ(w.out[t], 104);
}

static struct tsr_fault fault_of(const char *text)
{
    struct words w = run_words(text, 2, 64);
    CHECK(w.state == TSR_GRID_FAULT);
    CHECK_STR(w.function, "k");
    return w.fault;
}

TEST(faults_name_the_thread_and_address)
{
    struct tsr_fault f =
        fault_of(KERNEL("", "setp.eq.u32 %p1, %r3, 37;\nmov.u64 %rd3, 0x10;\n@%p1 st.global.u32 [%rd3], 1;\n"));
    CHECK_EQ(f.kind, TSR_FAULT_ILLEGAL_ADDRESS);
    CHECK_EQ(f.address, 0x10);
    CHECK_EQ(f.thread[0], 37);
    CHECK_EQ(f.block[0], 0);
    CHECK(f.write);
    CHECK_EQ(f.bytes, 4);
    CHECK(f.line == 20);
    f = fault_of(KERNEL("", "setp.eq.u32 %p1, %r3, 100;\nadd.u64 %rd3, %rd1, 2;\n@%p1 ld.global.u32 %r5, [%rd3];\n"));
    CHECK_EQ(f.kind, TSR_FAULT_MISALIGNED);
    CHECK_EQ(f.thread[0], 36);
    CHECK_EQ(f.block[0], 1);
    CHECK(!f.write);
    f = fault_of(KERNEL(".shared .align 4 .b8 s[64];\n", "mov.u32 %r5, 64;\nld.shared.u32 %r6, [%r5];\n"));
    CHECK_EQ(f.kind, TSR_FAULT_SHARED_RANGE);
    f = fault_of(KERNEL("", "ld.global.v4.u32 {%r5,%r6,%r7,%r8}, [%rd1+8];\n"));
    CHECK_EQ(f.kind, TSR_FAULT_MISALIGNED);
    CHECK_EQ(f.bytes, 16);
    f = fault_of(KERNEL("", "trap;\n"));
    CHECK_EQ(f.result, CUDA_ERROR_LAUNCH_FAILED);
    f = fault_of(KERNEL("", "add.u64 %rd3, %rd2, 16256;\nld.global.u32 %r5, [%rd3];\n"));
    CHECK_EQ(f.kind, TSR_FAULT_ILLEGAL_ADDRESS);
    CHECK_EQ(f.thread[0], 32);
}

TEST(narrow_and_vector_accesses)
{
    struct words w = run_words(
        KERNEL(
            "",
            "cvt.u16.u32 %h1, %r1;\nadd.u64 %rd3, %rd1, 2048;\ncvt.u64.u32 %rd4, %r1;\nadd.u64 %rd5, %rd3, %rd4;\nsub.u16 %h1, 0, %h1;\nst.global.u8 [%rd5], %h1;\n"
            "ld.global.s8 %h2, [%rd5];\ncvt.s32.s16 %r5, %h2;\nst.global.u32 [%rd2], %r5;\n"
            "shl.b64 %rd6, %rd4, 4;\nadd.u64 %rd7, %rd1, %rd6;\nadd.u32 %r6, %r1, 1;\nadd.u32 %r7, %r1, 2;\nadd.u32 %r8, %r1, 3;\n"
            "st.global.v4.u32 [%rd7+4096], {%r1, %r6, %r7, %r8};\nld.global.v4.u32 {%r9, _, %r10, %r11}, [%rd7+4096];\nadd.u32 %r9, %r9, %r10;\nadd.u32 %r9, %r9, %r11;\n"
            "st.global.u32 [%rd2+256], %r9;\n"),
        1, 64);
    CHECK(w.state == TSR_GRID_DONE);
    for (uint32_t t = 0; t < 64; t++) {
        CHECK_EQ(w.out[t], 0u - t);
        CHECK_EQ(w.out[64 + t], 3 * t + 5);
        for (uint32_t k = 0; k < 4; k++)
            CHECK_EQ(w.out[1024 + 4 * t + k], t + k);
    }
}

TEST(generic_addresses_and_local_memory)
{
    struct words w = run_words(
        KERNEL(
            ".shared .align 4 .b8 s[512];\n.local .align 8 .b8 here[32];\n",
            "mov.u64 %rd3, s;\ncvta.shared.u64 %rd4, %rd3;\ncvt.u64.u32 %rd5, %r1;\nshl.b64 %rd5, %rd5, 2;\nadd.u64 %rd4, %rd4, %rd5;\nst.u32 [%rd4], %r3;\n"
            "mov.u64 %rd6, here;\ncvta.local.u64 %rd7, %rd6;\nadd.u32 %r5, %r3, 11;\nst.u32 [%rd7+8], %r5;\nld.local.u32 %r6, [here+8];\n"
            "and.b32 %r7, %r1, 1;\nsetp.eq.u32 %p1, %r7, 0;\nadd.u64 %rd7, %rd7, 8;\nselp.b64 %rd8, %rd4, %rd7, %p1;\nld.u32 %r8, [%rd8];\nadd.u32 %r8, %r8, %r6;\nst.u32 [%rd2], %r8;\n"
            "isspacep.shared %p2, %rd8;\nisspacep.global %p3, %rd2;\nselp.u32 %r9, 1, 0, %p2;\nselp.u32 %r10, 2, 0, %p3;\nadd.u32 %r9, %r9, %r10;\nst.global.u32 [%rd2+1024], %r9;\n"),
        2, 128);
    CHECK(w.state == TSR_GRID_DONE);
    for (uint32_t t = 0; t < 256; t++) {
        CHECK_EQ(w.out[t], (t % 2 == 0 ? t : t + 11) + t + 11);
        CHECK_EQ(w.out[256 + t], t % 2 == 0 ? 3 : 2);
    }
}

TEST(cost_counts_lines_sectors_and_instructions)
{
    struct words w = run_words(
        KERNEL("", "ld.global.u32 %r5, [%rd2];\nld.global.u32 %r6, [%rd2];\nst.global.u32 [%rd2+4096], %r5;\n"), 4, 64);
    CHECK(w.state == TSR_GRID_DONE);
    CHECK_EQ(w.cost.dram_read_bytes[0], 1024);
    CHECK_EQ(w.cost.dram_write_bytes[0], 1024);
    CHECK_EQ(w.cost.l2_bytes, 3 * 1024);
    CHECK_EQ(w.cost.warps, 8);
    CHECK_EQ(w.cost.lane_instructions, w.cost.warp_instructions * 32);
    CHECK(w.cost.longest_block_cycles > 400);
}

TEST(a_sleep_takes_virtual_time_as_its_longest_lane_does)
{
    struct words w = run_words(KERNEL("", "mul.lo.u32 %r5, %r1, 100;\nnanosleep.u32 %r5;\nnanosleep.u32 4000000;\n"), 1, 32);
    uint64_t ns = w.cost.longest_block_cycles * 1000000 / 1500000;
    CHECK(w.state == TSR_GRID_DONE);
    CHECK(ns > 1003000 && ns < 1004000);
}

TEST(cost_does_not_depend_on_workers_and_quanta)
{
    struct tsr_cost cost[3];
    for (uint32_t n = 0; n < 3; n++) {
        tsr_exec_workers(n == 0 ? 1 : n == 1 ? 2 : 4);
        struct run run = run_load(KERNEL(
            "",
            "mov.u32 %r5, 0;\nLOOP:\nadd.u64 %rd3, %rd1, 131072;\nred.global.add.u32 [%rd3], 1;\nld.global.u32 %r7, [%rd2];\nadd.u32 %r5, %r5, 1;\n"
            "and.b32 %r6, %r1, 63;\nsetp.le.u32 %p1, %r5, %r6;\n@%p1 bra LOOP;\nst.global.u32 [%rd2], %r5;\n"));
        uint64_t out = run_alloc(&run, 262144, NULL);
        run.quantum_ns = n == 2 ? 1 : 20000000;
        CHECK(launch(&run, 256, 128, out) == TSR_GRID_DONE);
        CHECK_EQ(((uint32_t *)(uintptr_t)out)[32768], 256 * 2 * (64 * 65 / 2));
        cost[n] = run.cost;
        CHECK(n != 2 || run.quanta > 1);
        run_free(&run);
    }
    CHECK(memcmp(&cost[0], &cost[1], sizeof cost[0]) == 0);
    CHECK(memcmp(&cost[0], &cost[2], sizeof cost[0]) == 0);
    tsr_exec_workers(2);
}

TEST(cooperative_grid_waits_for_all_blocks)
{
    /* Each block adds itself to a counter and spins until all have come. */
    struct tsr_cost cost[2];
    for (uint32_t n = 0; n < 2; n++) {
        tsr_exec_workers(n + 1);
        struct run run = run_load(KERNEL(
            "",
            "add.u64 %rd3, %rd1, 8192;\nsetp.ne.u32 %p1, %r1, 0;\n@%p1 bra WAITED;\natom.global.add.u32 %r5, [%rd3], 1;\nmov.u32 %r6, %nctaid.x;\n"
            "SPIN:\nld.acquire.gpu.global.u32 %r7, [%rd3];\nsetp.lt.u32 %p2, %r7, %r6;\n@%p2 bra SPIN;\nWAITED:\nbar.sync 0;\nld.global.u32 %r8, [%rd3];\nst.global.u32 [%rd2], %r8;\n"));
        uint64_t out = run_alloc(&run, 16384, NULL);
        run.cooperative = true;
        CHECK(launch(&run, 24, 64, out) == TSR_GRID_DONE);
        for (uint32_t t = 0; t < 24 * 64; t++)
            CHECK_EQ(((uint32_t *)(uintptr_t)out)[t], 24);
        cost[n] = run.cost;
        run_free(&run);
    }
    CHECK_EQ(cost[0].warp_instructions, cost[1].warp_instructions);
    CHECK_EQ(cost[0].l2_bytes, cost[1].l2_bytes);
}

TEST(blocks_waiting_for_later_blocks_make_way)
{
    struct run run = run_load(KERNEL(
        "",
        "add.u64 %rd3, %rd1, 8192;\nsetp.eq.u32 %p1, %r2, 63;\n@%p1 st.release.gpu.global.u32 [%rd3], 1;\n"
        "SPIN:\nld.acquire.gpu.global.u32 %r7, [%rd3];\nsetp.eq.u32 %p2, %r7, 0;\n@%p2 bra SPIN;\nst.global.u32 [%rd2], %r7;\n"));
    uint64_t out = run_alloc(&run, 16384, NULL);
    CHECK(launch(&run, 64, 32, out) == TSR_GRID_DONE);
    CHECK_EQ(((uint32_t *)(uintptr_t)out)[0], 1);
    run_free(&run);
}

TEST(a_grid_that_waits_for_the_host_says_so)
{
    struct run run = run_load(KERNEL(
        "",
        "add.u64 %rd3, %rd1, 8192;\nSPIN:\nld.volatile.global.u32 %r7, [%rd3];\nsetp.eq.u32 %p2, %r7, 0;\n@%p2 bra SPIN;\nst.global.u32 [%rd2], %r7;\n"));
    uint64_t out = run_alloc(&run, 16384, NULL);
    struct run_args args = {.used = 0};
    RUN_ARG(&args, uint64_t, out);
    CUresult result;
    struct tsr_grid *grid = run_create(&run, "k", (uint32_t[]){2, 1, 1}, (uint32_t[]){32, 1, 1}, 0, &args, &result);
    REQUIRE(grid != NULL);
    CHECK(tsr_grid_run(grid, 5000000) == TSR_GRID_RUNNING);
    CHECK(tsr_grid_run(grid, 5000000) == TSR_GRID_RUNNING);
    CHECK(!tsr_grid_made_progress(grid));
    __atomic_store_n((uint32_t *)(uintptr_t)(out + 8192), 3, __ATOMIC_RELEASE);
    CHECK(tsr_grid_run(grid, 50000000) == TSR_GRID_DONE);
    CHECK_EQ(((uint32_t *)(uintptr_t)out)[63], 3);
    tsr_grid_destroy(grid);
    run_free(&run);
}

TEST(clusters_share_memory_and_barrier)
{
    struct run run = run_load(KERNEL(
        ".shared .align 4 .b8 s[4];\n",
        "mov.u32 %r5, s;\nsetp.eq.u32 %p1, %r1, 0;\nadd.u32 %r6, %r2, 100;\n@%p1 st.shared.u32 [%r5], %r6;\n"
        "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\nmov.u32 %r7, %cluster_ctarank;\nxor.b32 %r7, %r7, 1;\n"
        "mapa.shared::cluster.u32 %r8, %r5, %r7;\nld.shared::cluster.u32 %r9, [%r8];\nst.global.u32 [%rd2], %r9;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\n"));
    uint64_t out = run_alloc(&run, 16384, NULL);
    run.cluster[0] = 2;
    CHECK(launch(&run, 8, 64, out) == TSR_GRID_DONE);
    for (uint32_t t = 0; t < 512; t++)
        CHECK_EQ(((uint32_t *)(uintptr_t)out)[t], (t / 64 ^ 1) + 100);
    run_free(&run);
}

TEST(clocks_advance_with_what_is_executed)
{
    struct words w = run_words(
        KERNEL(
            "",
            "mov.u64 %rd3, %clock64;\nmov.u32 %r5, 0;\nLOOP:\nadd.u32 %r5, %r5, 1;\nsetp.lt.u32 %p1, %r5, 100;\n@%p1 bra LOOP;\n"
            "mov.u64 %rd4, %clock64;\nsub.u64 %rd4, %rd4, %rd3;\ncvt.u32.u64 %r6, %rd4;\nst.global.u32 [%rd2], %r6;\n"),
        2, 32);
    CHECK(w.state == TSR_GRID_DONE);
    CHECK(w.out[0] > 300 && w.out[0] < 2000);
    CHECK_EQ(w.out[0], w.out[63]);
    CHECK_EQ(w.cost.lane_instructions, (w.cost.warp_instructions - 2) * 32); /* no lane takes the last branch */
}

static uint64_t trace_sum[3], trace_intervals[3];
static void visit(void *ctx, enum tsr_access_kind kind, uint64_t begin, uint64_t end)
{
    (void)ctx;
    trace_sum[kind] += end - begin;
    trace_intervals[kind]++;
}

TEST(the_trace_is_exact)
{
    struct run run = run_load(KERNEL(
        "",
        "ld.global.u32 %r5, [%rd2];\nmul.wide.u32 %rd3, %r1, 8;\nadd.u64 %rd3, %rd1, %rd3;\nst.global.u16 [%rd3+4096], 1;\nred.global.add.u32 [%rd1+8192], 1;\n"));
    uint64_t out = run_alloc(&run, 16384, NULL);
    struct run_args args = {.used = 0};
    RUN_ARG(&args, uint64_t, out);
    CUresult result;
    tsr_exec_trace_enable(true);
    struct tsr_grid *grid = run_create(&run, "k", (uint32_t[]){1, 1, 1}, (uint32_t[]){40, 1, 1}, 0, &args, &result);
    tsr_exec_trace_enable(false);
    REQUIRE(grid != NULL);
    CHECK(tsr_grid_run(grid, 50000000) == TSR_GRID_DONE);
    tsr_grid_trace(grid, visit, NULL);
    CHECK_EQ(trace_sum[TSR_ACCESS_READ], 160);
    CHECK_EQ(trace_intervals[TSR_ACCESS_READ], 1);
    CHECK_EQ(trace_sum[TSR_ACCESS_WRITE], 80);
    CHECK_EQ(trace_intervals[TSR_ACCESS_WRITE], 40);
    CHECK_EQ(trace_sum[TSR_ACCESS_ATOMIC], 4);
    tsr_grid_destroy(grid);
    run_free(&run);
}

TEST(asynchronous_copies_and_mbarrier)
{
    struct words w = run_words(
        KERNEL(
            ".shared .align 16 .b8 s[1024];\n.shared .align 8 .b8 bar[8];\n",
            "mov.u32 %r5, s;\nmov.u32 %r6, bar;\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 mbarrier.init.shared.b64 [%r6], 64;\nst.global.u32 [%rd2], %r1;\nbar.sync 0;\n"
            "shl.b32 %r7, %r1, 2;\nadd.u32 %r8, %r5, %r7;\ncp.async.ca.shared.global [%r8], [%rd2], 4;\ncp.async.ca.shared.global [%r8+512], [%rd2], 4, 0;\n"
            "cp.async.commit_group;\ncp.async.wait_group 0;\nmbarrier.arrive.shared.b64 %rd4, [%r6];\nWAIT:\nmbarrier.test_wait.shared.b64 %p2, [%r6], %rd4;\n@!%p2 bra WAIT;\n"
            "xor.b32 %r9, %r7, 252;\nadd.u32 %r9, %r5, %r9;\nld.shared.u32 %r10, [%r9];\nld.shared.u32 %r11, [%r8+512];\nadd.u32 %r10, %r10, %r11;\nst.global.u32 [%rd2], %r10;\n"),
        1, 64);
    CHECK(w.state == TSR_GRID_DONE);
    for (uint32_t t = 0; t < 64; t++)
        CHECK_EQ(w.out[t], 63 - t);
}

#if !defined(__SANITIZE_THREAD__) /* which does not support threads in a forked child */
TEST(a_forked_child_starts_its_own_workers)
{
    tsr_exec_workers(2);
    struct run run = run_load(KERNEL("", "add.u32 %r5, %r3, 1;\nst.global.u32 [%rd2], %r5;\n"));
    uint64_t out = run_alloc(&run, 16384, NULL);
    CHECK(launch(&run, 32, 128, out) == TSR_GRID_DONE);
    memset((void *)(uintptr_t)out, 0, 16384);
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        bool done = launch(&run, 32, 128, out) == TSR_GRID_DONE;
        for (uint32_t t = 0; t < 4096; t++)
            done &= ((uint32_t *)(uintptr_t)out)[t] == t + 1;
        _exit(done ? 0 : 1);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_EQ(status, 0);
    CHECK(launch(&run, 32, 128, out) == TSR_GRID_DONE);
    run_free(&run);
}
#endif

TEST(scattered_partial_and_wide_shared_accesses)
{
    /* Permuted addresses, odd lanes only, 8 and 16 bytes: what the quick ways leave to the general one. */
    struct words w = run_words(
        KERNEL(
            ".shared .align 16 .b8 s[4096];\n",
            "mov.u32 %r5, s;\nmul.lo.u32 %r6, %r1, 7;\nand.b32 %r6, %r6, 31;\nshl.b32 %r7, %r6, 4;\nadd.u32 %r7, %r5, %r7;\n"
            "add.u32 %r8, %r1, 100;\nadd.u32 %r9, %r1, 200;\nadd.u32 %r10, %r1, 300;\nst.shared.v4.u32 [%r7], {%r1, %r8, %r9, %r10};\n"
            "bar.sync 0;\nshl.b32 %r11, %r1, 4;\nadd.u32 %r11, %r5, %r11;\nld.shared.v2.u32 {%r12, %r13}, [%r11+8];\n"
            "and.b32 %r14, %r1, 1;\nsetp.eq.u32 %p1, %r14, 1;\nmov.u32 %r15, 0;\n@%p1 ld.shared.u32 %r15, [%r11];\n"
            "st.global.u32 [%rd2], %r12;\nst.global.u32 [%rd2+128], %r13;\nst.global.u32 [%rd2+256], %r15;\n"),
        1, 32);
    CHECK(w.state == TSR_GRID_DONE);
    for (uint32_t t = 0; t < 32; t++) {
        uint32_t slot = t * 7 % 32;
        CHECK_EQ(w.out[slot], t + 200);
        CHECK_EQ(w.out[32 + slot], t + 300);
        CHECK_EQ(w.out[64 + slot], slot % 2 == 1 ? t : 0);
    }
}
