/* The kernels that the tests launch, as PTX for sm_80 and later. One module, so that a load costs once per process. */
#include "contract.h"

#define HEAD ".version 7.8\n.target sm_80\n.address_size 64\n"

/* clang-format off */
const char contract_ptx[] = HEAD
    ".visible .global .align 4 .u32 counter = 7;\n"
    ".visible .global .align 4 .u32 table[4] = {10, 20, 30, 40};\n"
    ".visible .const .align 4 .u32 constants[4] = {1, 2, 3, 4};\n"
    ".global .align 1 .b8 message[40] = {118,97,108,117,101,115,32,37,100,32,37,117,32,37,120,32,37,46,50,102,32,37,115,32,37,99,10,0};\n"
    ".global .align 1 .b8 word[8] = {116,101,120,116,0};\n"
    ".global .align 1 .b8 condition[8] = {120,32,62,32,48,0};\n"
    ".extern .func (.param .b32 result) vprintf(.param .b64 format, .param .b64 values);\n"
    ".extern .func __assertfail(.param .b64 message, .param .b64 file, .param .b32 line, .param .b64 function, .param .b64 size);\n"
    ".extern .shared .align 16 .b8 dynamic[];\n"

    /* empty(): nothing */
    ".visible .entry empty() { ret; }\n"

    /* fill(u32 *out, u32 value, u32 n) */
    ".visible .entry fill(.param .u64 out, .param .u32 value, .param .u32 n) {\n"
    " .reg .pred %p; .reg .b32 %r<6>; .reg .b64 %d<4>;\n"
    " mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r1, %r1, %r2, %r3;\n"
    " ld.param.u32 %r4, [n]; setp.ge.u32 %p, %r1, %r4; @%p bra END;\n"
    " ld.param.u64 %d1, [out]; cvta.to.global.u64 %d1, %d1; mul.wide.u32 %d2, %r1, 4; add.u64 %d1, %d1, %d2;\n"
    " ld.param.u32 %r5, [value]; st.global.u32 [%d1], %r5;\n"
    "END: ret; }\n"

    /* add(u32 *out, u32 value, u32 n): out[i] += value */
    ".visible .entry add(.param .u64 out, .param .u32 value, .param .u32 n) {\n"
    " .reg .pred %p; .reg .b32 %r<7>; .reg .b64 %d<4>;\n"
    " mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r1, %r1, %r2, %r3;\n"
    " ld.param.u32 %r4, [n]; setp.ge.u32 %p, %r1, %r4; @%p bra END;\n"
    " ld.param.u64 %d1, [out]; cvta.to.global.u64 %d1, %d1; mul.wide.u32 %d2, %r1, 4; add.u64 %d1, %d1, %d2;\n"
    " ld.param.u32 %r5, [value]; ld.global.u32 %r6, [%d1]; add.u32 %r6, %r6, %r5; st.global.u32 [%d1], %r6;\n"
    "END: ret; }\n"

    /* scale_sum(float *out, const float *a, const float *b, float s, u32 n): out = s * a + b */
    ".visible .entry scale_sum(.param .u64 out, .param .u64 a, .param .u64 b, .param .f32 s, .param .u32 n) {\n"
    " .reg .pred %p; .reg .b32 %r<6>; .reg .b64 %d<6>; .reg .f32 %f<5>;\n"
    " mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r1, %r1, %r2, %r3;\n"
    " ld.param.u32 %r4, [n]; setp.ge.u32 %p, %r1, %r4; @%p bra END;\n"
    " mul.wide.u32 %d4, %r1, 4;\n"
    " ld.param.u64 %d1, [out]; cvta.to.global.u64 %d1, %d1; add.u64 %d1, %d1, %d4;\n"
    " ld.param.u64 %d2, [a]; cvta.to.global.u64 %d2, %d2; add.u64 %d2, %d2, %d4;\n"
    " ld.param.u64 %d3, [b]; cvta.to.global.u64 %d3, %d3; add.u64 %d3, %d3, %d4;\n"
    " ld.param.f32 %f1, [s]; ld.global.f32 %f2, [%d2]; ld.global.f32 %f3, [%d3]; fma.rn.f32 %f4, %f1, %f2, %f3;\n"
    " st.global.f32 [%d1], %f4;\n"
    "END: ret; }\n"

    /* params(u64 *out, u8, s16, u32, u64, f64, 24 bytes aligned to 8): out = each value widened, then the three words */
    ".visible .entry params(.param .u64 out, .param .u8 p1, .param .s16 p2, .param .u32 p3, .param .u64 p4, .param .f64 p5,\n"
    "  .param .align 8 .b8 p6[24]) {\n"
    " .reg .b16 %h<3>; .reg .b32 %r<2>; .reg .b64 %d<9>; .reg .f64 %f<2>;\n"
    " ld.param.u64 %d1, [out]; cvta.to.global.u64 %d1, %d1;\n"
    " ld.param.u8 %h1, [p1]; cvt.u64.u16 %d2, %h1; st.global.u64 [%d1], %d2;\n"
    " ld.param.s16 %h2, [p2]; cvt.s64.s16 %d3, %h2; st.global.u64 [%d1+8], %d3;\n"
    " ld.param.u32 %r1, [p3]; cvt.u64.u32 %d4, %r1; st.global.u64 [%d1+16], %d4;\n"
    " ld.param.u64 %d5, [p4]; st.global.u64 [%d1+24], %d5;\n"
    " ld.param.f64 %f1, [p5]; st.global.f64 [%d1+32], %f1;\n"
    " ld.param.u64 %d6, [p6]; ld.param.u64 %d7, [p6+8]; ld.param.u64 %d8, [p6+16];\n"
    " st.global.u64 [%d1+40], %d6; st.global.u64 [%d1+48], %d7; st.global.u64 [%d1+56], %d8;\n"
    " ret; }\n"

    /* where(u32 *out): each thread of a 3-D launch stores 1 + its linear number in block order at that place */
    ".visible .entry where(.param .u64 out) {\n"
    " .reg .b32 %r<12>; .reg .b64 %d<3>;\n"
    " mov.u32 %r1, %ctaid.z; mov.u32 %r2, %nctaid.y; mov.u32 %r3, %ctaid.y; mad.lo.u32 %r1, %r1, %r2, %r3;\n"
    " mov.u32 %r2, %nctaid.x; mov.u32 %r3, %ctaid.x; mad.lo.u32 %r1, %r1, %r2, %r3;\n"
    " mov.u32 %r4, %ntid.z; mul.lo.u32 %r1, %r1, %r4; mov.u32 %r5, %tid.z; add.u32 %r1, %r1, %r5;\n"
    " mov.u32 %r6, %ntid.y; mov.u32 %r7, %tid.y; mad.lo.u32 %r1, %r1, %r6, %r7;\n"
    " mov.u32 %r8, %ntid.x; mov.u32 %r9, %tid.x; mad.lo.u32 %r1, %r1, %r8, %r9;\n"
    " ld.param.u64 %d1, [out]; cvta.to.global.u64 %d1, %d1; mul.wide.u32 %d2, %r1, 4; add.u64 %d1, %d1, %d2;\n"
    " add.u32 %r10, %r1, 1; st.global.u32 [%d1], %r10; ret; }\n"

    /* reverse(u32 *data): one block reverses ntid words through dynamic shared memory */
    ".visible .entry reverse(.param .u64 data) {\n"
    " .reg .b32 %r<9>; .reg .b64 %d<4>;\n"
    " ld.param.u64 %d1, [data]; cvta.to.global.u64 %d1, %d1; mov.u32 %r1, %tid.x; mov.u32 %r2, %ntid.x;\n"
    " mul.wide.u32 %d2, %r1, 4; add.u64 %d1, %d1, %d2; ld.global.u32 %r3, [%d1];\n"
    " mov.u32 %r4, dynamic; shl.b32 %r5, %r1, 2; add.u32 %r5, %r4, %r5; st.shared.u32 [%r5], %r3; bar.sync 0;\n"
    " sub.u32 %r6, %r2, 1; sub.u32 %r6, %r6, %r1; shl.b32 %r6, %r6, 2; add.u32 %r6, %r4, %r6; ld.shared.u32 %r7, [%r6];\n"
    " st.global.u32 [%d1], %r7; ret; }\n"

    /* bounded(u32 *out): one thread stores ntid; at most 64 threads per block, 512 bytes of shared memory */
    ".visible .entry bounded(.param .u64 out) .maxntid 64, 1, 1 {\n"
    " .reg .b32 %r<3>; .reg .b64 %d<2>; .shared .align 4 .b8 room[512];\n"
    " mov.u32 %r1, %ntid.x; st.shared.u32 [room], %r1; ld.shared.u32 %r2, [room];\n"
    " ld.param.u64 %d1, [out]; cvta.to.global.u64 %d1, %d1; st.global.u32 [%d1], %r2; ret; }\n"

    /* globals(u32 *out): counter, table[2], constants[3]; then counter += 1 */
    ".visible .entry globals(.param .u64 out) {\n"
    " .reg .b32 %r<5>; .reg .b64 %d<2>;\n"
    " ld.param.u64 %d1, [out]; cvta.to.global.u64 %d1, %d1;\n"
    " ld.global.u32 %r1, [counter]; st.global.u32 [%d1], %r1;\n"
    " ld.global.u32 %r2, [table+8]; st.global.u32 [%d1+4], %r2;\n"
    " ld.const.u32 %r3, [constants+12]; st.global.u32 [%d1+8], %r3;\n"
    " add.u32 %r4, %r1, 1; st.global.u32 [counter], %r4; ret; }\n"

    /* meet(u32 *arrived, u32 *out): every block waits for all blocks of a cooperative grid, then stores what it saw */
    ".visible .entry meet(.param .u64 arrived, .param .u64 out) {\n"
    " .reg .pred %p; .reg .b32 %r<7>; .reg .b64 %d<4>;\n"
    " ld.param.u64 %d1, [arrived]; cvta.to.global.u64 %d1, %d1; ld.param.u64 %d2, [out]; cvta.to.global.u64 %d2, %d2;\n"
    " atom.global.add.u32 %r1, [%d1], 1; mov.u32 %r2, %nctaid.x;\n"
    "WAIT: ld.volatile.global.u32 %r3, [%d1]; setp.lt.u32 %p, %r3, %r2; @%p bra WAIT;\n"
    " mov.u32 %r4, %ctaid.x; mul.wide.u32 %d3, %r4, 4; add.u64 %d2, %d2, %d3; st.global.u32 [%d2], %r3; ret; }\n"

    /* store(u64 address, u32 value): one store wherever the address leads */
    ".visible .entry store(.param .u64 address, .param .u32 value) {\n"
    " .reg .b32 %r<2>; .reg .b64 %d<2>;\n"
    " ld.param.u64 %d1, [address]; ld.param.u32 %r1, [value]; st.global.u32 [%d1], %r1; ret; }\n"

    /* load(u64 address, u32 *out) */
    ".visible .entry load(.param .u64 address, .param .u64 out) {\n"
    " .reg .b32 %r<2>; .reg .b64 %d<3>;\n"
    " ld.param.u64 %d1, [address]; ld.param.u64 %d2, [out]; ld.global.u32 %r1, [%d1]; st.global.u32 [%d2], %r1; ret; }\n"

    /* stop(): trap */
    ".visible .entry stop() { trap; ret; }\n"

    /* refuse(): a failed device assertion */
    ".visible .entry refuse() {\n"
    " .reg .b64 %d<3>; .param .b64 m; .param .b64 f; .param .b32 l; .param .b64 n; .param .b64 s;\n"
    " mov.u64 %d1, condition; cvta.global.u64 %d1, %d1; mov.u64 %d2, word; cvta.global.u64 %d2, %d2;\n"
    " st.param.b64 [m], %d1; st.param.b64 [f], %d2; st.param.b32 [l], 42; st.param.b64 [n], %d2; st.param.b64 [s], 1;\n"
    " call.uni __assertfail, (m, f, l, n, s); ret; }\n"

    /* say(): printf("values %d %u %x %.2f %s %c\n", -7, 8, 0x1f, 2.5, "text", 'c') */
    ".visible .entry say() {\n"
    " .local .align 8 .b8 room[48]; .reg .b32 %r<3>; .reg .b64 %d<6>; .reg .f64 %f<2>;\n"
    " .param .b64 f; .param .b64 v; .param .b32 result;\n"
    " mov.u64 %d1, room; cvta.local.u64 %d2, %d1;\n"
    " st.local.u32 [room], -7; st.local.u32 [room+4], 8; st.local.u32 [room+8], 31;\n"
    " mov.f64 %f1, 0d4004000000000000; st.local.f64 [room+16], %f1;\n"
    " mov.u64 %d3, word; cvta.global.u64 %d3, %d3; st.local.u64 [room+24], %d3; st.local.u32 [room+32], 99;\n"
    " mov.u64 %d4, message; cvta.global.u64 %d4, %d4;\n"
    " st.param.b64 [f], %d4; st.param.b64 [v], %d2; call.uni (result), vprintf, (f, v); ret; }\n";
/* clang-format on */
