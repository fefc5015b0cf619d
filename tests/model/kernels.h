/* The kernels of the model test: k_NAME(u32 *to, const u32 *from, u32 salt, u32 spin) does what mix() does. NAME is where policies send it. */
#ifndef TESSERA_TESTS_MODEL_KERNELS_H
#define TESSERA_TESTS_MODEL_KERNELS_H

/* clang-format off */
#define KERNEL(name)                                                                                                           \
    ".visible .entry k_" name "(.param .u64 to, .param .u64 from, .param .u32 salt, .param .u32 spin) {\n"                      \
    " .reg .pred %p; .reg .b32 %r<10>; .reg .b64 %d<5>;\n"                                                                     \
    " mov.u32 %r1, %tid.x; ld.param.u32 %r2, [spin];\n"                                                                        \
    "SPIN: setp.eq.u32 %p, %r2, 0; @%p bra GO; sub.u32 %r2, %r2, 1; bra SPIN;\n"                                                \
    "GO: ld.param.u64 %d1, [to]; cvta.to.global.u64 %d1, %d1; ld.param.u64 %d2, [from]; cvta.to.global.u64 %d2, %d2;\n"         \
    " mul.wide.u32 %d3, %r1, 4; add.u64 %d1, %d1, %d3;\n"                                                                      \
    " add.u32 %r3, %r1, 1; and.b32 %r3, %r3, 63; mul.wide.u32 %d4, %r3, 4; add.u64 %d2, %d2, %d4;\n"                            \
    " ld.global.u32 %r4, [%d1]; ld.global.u32 %r5, [%d2]; ld.param.u32 %r6, [salt];\n"                                         \
    " mul.lo.u32 %r4, %r4, 3; mad.lo.u32 %r4, %r5, 5, %r4; add.u32 %r4, %r4, %r6; add.u32 %r4, %r4, %r1;\n"                      \
    " st.global.u32 [%d1], %r4; ret; }\n"
/* clang-format on */

static const char home_ptx[] = ".version 7.8\n.target sm_80\n.address_size 64\n" KERNEL("home") KERNEL("one") KERNEL("two");
static const char other_ptx[] = ".version 7.8\n.target sm_80\n.address_size 64\n" KERNEL("other");

#endif
