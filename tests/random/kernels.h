/*
 * The kernels of random programs. Every thread has one word, number %ctaid.x * %ntid.x + %tid.x below `words`.
 *
 * plain_ptx has no state: mix_a, mix_b and mix_c do the same under three names for policies to tell apart. STATE_PTX(a, b) is a module with
 * variables and functions whose results depend on the numbers a and b, so that code of another module is noticed.
 */
#ifndef TESSERA_TESTS_RANDOM_KERNELS_H
#define TESSERA_TESTS_RANDOM_KERNELS_H

/* clang-format off */
#define HEADER ".version 7.8\n.target sm_80\n.address_size 64\n"
#define REGISTERS " .reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %d<12>;\n"
/* %r1: the thread's word */
#define PLACE                                                                                                                  \
    " mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r1, %r1, %r2, %r3;\n"                       \
    " ld.param.u32 %r4, [words]; setp.ge.u32 %p1, %r1, %r4; @%p1 bra END;\n"
#define POINTER(register, name) " ld.param.u64 " register ", [" name "]; cvta.to.global.u64 " register ", " register ";\n"
#define AT_WORD(register, base) " mul.wide.u32 " register ", %r1, 4; add.u64 " register ", " base ", " register ";\n"
#define END "END: ret; }\n"

/* (to, from, words, salt, spin): to[i] = to[i] * 3 + from[(i + 1) % words] * 5 + salt + i */
#define MIX(name)                                                                                                              \
    ".visible .entry " name "(.param .u64 to, .param .u64 from, .param .u32 words, .param .u32 salt, .param .u32 spin) {\n"     \
    REGISTERS PLACE " ld.param.u32 %r5, [spin];\n"                                                                             \
    "SPIN: setp.eq.u32 %p2, %r5, 0; @%p2 bra GO; sub.u32 %r5, %r5, 1; bra SPIN;\nGO:\n"                                          \
    POINTER("%d1", "to") POINTER("%d2", "from") AT_WORD("%d3", "%d1")                                                          \
    " add.u32 %r6, %r1, 1; rem.u32 %r6, %r6, %r4; mul.wide.u32 %d4, %r6, 4; add.u64 %d4, %d2, %d4;\n"                            \
    " ld.global.u32 %r7, [%d3]; ld.global.u32 %r8, [%d4]; ld.param.u32 %r9, [salt];\n"                                         \
    " mad.lo.u32 %r9, %r8, 5, %r9; mad.lo.u32 %r9, %r7, 3, %r9; add.u32 %r9, %r9, %r1; st.global.u32 [%d3], %r9;\n" END

static const char plain_ptx[] = HEADER
    ".extern .shared .align 4 .b8 common[];\n"
    MIX("mix_a") MIX("mix_b") MIX("mix_c")
    /* to[i] = i * 2654435761 + salt */
    ".visible .entry fill(.param .u64 to, .param .u32 words, .param .u32 salt) {\n" REGISTERS PLACE POINTER("%d1", "to")
    AT_WORD("%d3", "%d1") " ld.param.u32 %r5, [salt]; mad.lo.u32 %r5, %r1, 2654435761, %r5; st.global.u32 [%d3], %r5;\n" END
    /* atomically to[i * 7 % words] += from[i] * salt, and to[0] += i */
    ".visible .entry add(.param .u64 to, .param .u64 from, .param .u32 words, .param .u32 salt) {\n" REGISTERS PLACE
    POINTER("%d1", "to") POINTER("%d2", "from") AT_WORD("%d3", "%d2")
    " ld.global.u32 %r5, [%d3]; ld.param.u32 %r6, [salt]; mul.lo.u32 %r5, %r5, %r6;\n"
    " mul.lo.u32 %r7, %r1, 7; rem.u32 %r7, %r7, %r4; mul.wide.u32 %d4, %r7, 4; add.u64 %d4, %d1, %d4;\n"
    " red.global.add.u32 [%d4], %r5; atom.global.add.u32 %r8, [%d1], %r1;\n" END
    /* each block's words in opposite order, by way of shared memory; words is a multiple of the block */
    ".visible .entry turn(.param .u64 to, .param .u32 words) {\n" REGISTERS PLACE POINTER("%d1", "to") AT_WORD("%d3", "%d1")
    " ld.global.u32 %r5, [%d3]; mov.u32 %r6, common; shl.b32 %r7, %r3, 2; add.u32 %r7, %r6, %r7; st.shared.u32 [%r7], %r5;\n"
    " bar.sync 0; sub.u32 %r8, %r2, %r3; sub.u32 %r8, %r8, 1; shl.b32 %r8, %r8, 2; add.u32 %r8, %r6, %r8;\n"
    " ld.shared.u32 %r9, [%r8]; add.u32 %r9, %r9, %r3; st.global.u32 [%d3], %r9;\n" END
    /* to[i] = to[i] * 3 + sum of table[k][i], k < count */
    ".visible .entry follow(.param .u64 to, .param .u64 table, .param .u32 words, .param .u32 count) {\n" REGISTERS PLACE
    POINTER("%d1", "to") POINTER("%d2", "table") AT_WORD("%d3", "%d1")
    " ld.param.u32 %r5, [count]; ld.global.u32 %r6, [%d3]; mul.lo.u32 %r6, %r6, 3; mul.wide.u32 %d5, %r1, 4;\n"
    "NEXT: setp.eq.u32 %p2, %r5, 0; @%p2 bra DONE; ld.global.u64 %d6, [%d2]; cvta.to.global.u64 %d6, %d6; add.u64 %d6, %d6, %d5;\n"
    " ld.global.u32 %r7, [%d6]; add.u32 %r6, %r6, %r7; add.u64 %d2, %d2, 8; sub.u32 %r5, %r5, 1; bra NEXT;\n"
    "DONE: st.global.u32 [%d3], %r6;\n" END
    /* to[i] = to[i] * 3 + from[i] * 5 + salt, where i is what only memory says: i + (from[i] ^ from[i]) */
    ".visible .entry scatter(.param .u64 to, .param .u64 from, .param .u32 words, .param .u32 salt, .param .u32 spin) {\n"
    REGISTERS PLACE " ld.param.u32 %r5, [spin];\n"
    "SPIN: setp.eq.u32 %p2, %r5, 0; @%p2 bra GO; sub.u32 %r5, %r5, 1; bra SPIN;\nGO:\n"
    POINTER("%d1", "to") POINTER("%d2", "from") AT_WORD("%d4", "%d2")
    " ld.volatile.global.u32 %r7, [%d4]; ld.volatile.global.u32 %r8, [%d4]; xor.b32 %r8, %r8, %r7; add.u32 %r1, %r1, %r8;\n"
    AT_WORD("%d3", "%d1") AT_WORD("%d4", "%d2") " ld.param.u32 %r9, [salt]; ld.global.u32 %r7, [%d4];\n"
    " ld.global.u32 %r6, [%d3]; mad.lo.u32 %r9, %r6, 3, %r9; mad.lo.u32 %r9, %r7, 5, %r9; st.global.u32 [%d3], %r9;\n" END
    /* table[k][i] = table[k][i] * 5 + salt + i, k < count */
    ".visible .entry chase(.param .u64 table, .param .u32 words, .param .u32 salt, .param .u32 count) {\n" REGISTERS PLACE
    POINTER("%d2", "table") " ld.param.u32 %r5, [count]; ld.param.u32 %r6, [salt]; add.u32 %r6, %r6, %r1;\n"
    " mul.wide.u32 %d5, %r1, 4;\n"
    "NEXT: setp.eq.u32 %p2, %r5, 0; @%p2 bra END; ld.global.u64 %d6, [%d2]; cvta.to.global.u64 %d6, %d6; add.u64 %d6, %d6, %d5;\n"
    " ld.global.u32 %r7, [%d6]; mad.lo.u32 %r7, %r7, 5, %r6; st.global.u32 [%d6], %r7;\n"
    " add.u64 %d2, %d2, 8; sub.u32 %r5, %r5, 1; bra NEXT;\n" END;

#define FUNCTION(name, factor, more)                                                                                           \
    ".func (.param .b32 result) " name "(.param .b32 x) { .reg .b32 %r<4>; ld.param.b32 %r1, [x];\n"                            \
    " mad.lo.u32 %r1, %r1, " factor ", " more "; st.param.b32 [result], %r1; ret; }\n"
/* %r5 = (%d6)(%r5), by address */
#define CALL                                                                                                                   \
    " { .param .b32 p0; .param .b32 r0; st.param.b32 [p0], %r5;\n"                                                             \
    " proto: .callprototype (.param .b32 _) _ (.param .b32 _);\n call (r0), %d6, (p0), proto; ld.param.b32 %r5, [r0]; }\n"
/* %d5 = 8 * ((%r1 + salt) % 4) */
#define OF_FOUR                                                                                                                \
    " ld.param.u32 %r10, [salt]; add.u32 %r10, %r10, %r1; and.b32 %r10, %r10, 3; mul.wide.u32 %d5, %r10, 8;\n"
/* stores one of four addresses in table[i] */
#define STORE_ADDRESS(first, second, third, fourth, load)                                                                      \
    " mov.u64 %d1, " first "; mov.u64 %d2, " second "; mov.u64 %d3, " third "; mov.u64 %d4, " fourth ";\n"                      \
    " ld.param.u32 %r10, [salt]; add.u32 %r10, %r10, %r1; and.b32 %r10, %r10, 3;\n"                                             \
    " setp.eq.u32 %p2, %r10, 1; selp.b64 %d1, %d2, %d1, %p2; setp.eq.u32 %p2, %r10, 2; selp.b64 %d1, %d3, %d1, %p2;\n"           \
    " setp.eq.u32 %p2, %r10, 3; selp.b64 %d1, %d4, %d1, %p2;\n" load POINTER("%d7", "table")                                     \
    " mul.wide.u32 %d8, %r1, 8; add.u64 %d7, %d7, %d8; st.global.u64 [%d7], %d1;\n"
#define GENERIC " cvta.global.u64 %d1, %d1;\n"

#define STATE_PTX(a, b)                                                                                                        \
    HEADER ".extern .func (.param .b64 r) malloc(.param .b64 n);\n.extern .func free(.param .b64 p);\n"                          \
    ".visible .global .align 4 .u32 counters[64] = {" a ", 2, 3, " b "};\n"                                                     \
    ".visible .const .align 4 .u32 constants[64] = {1, " b ", 3, " a "};\n"                                                     \
    FUNCTION("f0", a, "1") FUNCTION("f1", "5", b) FUNCTION("f2", "7", "1" a) FUNCTION("f3", "1" b, "9")                          \
    ".global .align 8 .u64 class_a[2] = {f0, f1};\n.global .align 8 .u64 class_b[2] = {f2, f3};\n"                               \
    /* counters[i] = counters[i] * a + salt + i */                                                                             \
    ".visible .entry bump(.param .u32 words, .param .u32 salt) {\n" REGISTERS PLACE                                            \
    " mov.u64 %d1, counters;\n" AT_WORD("%d3", "%d1") " ld.global.u32 %r5, [%d3]; ld.param.u32 %r6, [salt];\n"                   \
    " mad.lo.u32 %r5, %r5, " a ", %r6; add.u32 %r5, %r5, %r1; st.global.u32 [%d3], %r5;\n" END                                  \
    /* to[i] = to[i] * b + counters[i] */                                                                                      \
    ".visible .entry peek(.param .u64 to, .param .u32 words) {\n" REGISTERS PLACE POINTER("%d2", "to")                         \
    " mov.u64 %d1, counters;\n" AT_WORD("%d3", "%d1") AT_WORD("%d4", "%d2")                                                     \
    " ld.global.u32 %r5, [%d3]; ld.global.u32 %r6, [%d4]; mad.lo.u32 %r6, %r6, " b ", %r5; st.global.u32 [%d4], %r6;\n" END     \
    /* to[i] = to[i] * a + constants[i] */                                                                                     \
    ".visible .entry look(.param .u64 to, .param .u32 words) {\n" REGISTERS PLACE POINTER("%d2", "to")                         \
    " mov.u64 %d1, constants;\n" AT_WORD("%d3", "%d1") AT_WORD("%d4", "%d2")                                                    \
    " ld.const.u32 %r5, [%d3]; ld.global.u32 %r6, [%d4]; mad.lo.u32 %r6, %r6, " a ", %r5; st.global.u32 [%d4], %r6;\n" END      \
    /* table[i] = a function */                                                                                                \
    ".visible .entry remember(.param .u64 table, .param .u32 words, .param .u32 salt) {\n" REGISTERS PLACE                     \
    STORE_ADDRESS("f0", "f1", "f2", "f3", "") END                                                                              \
    /* to[i] = table[i % 8](to[i]) */                                                                                          \
    ".visible .entry apply(.param .u64 to, .param .u64 table, .param .u32 words) {\n" REGISTERS PLACE                          \
    POINTER("%d1", "to") POINTER("%d2", "table") AT_WORD("%d3", "%d1") " ld.global.u32 %r5, [%d3];\n"                           \
    " and.b32 %r6, %r1, 7; mul.wide.u32 %d4, %r6, 8; add.u64 %d4, %d2, %d4; ld.global.u64 %d6, [%d4];\n" CALL                    \
    " st.global.u32 [%d3], %r5;\n" END                                                                                         \
    /* table[i] = an object: the address of its class, which is a table of functions */                                        \
    ".visible .entry objects(.param .u64 table, .param .u32 words, .param .u32 salt) {\n" REGISTERS PLACE                      \
    STORE_ADDRESS("class_a", "class_b", "class_a", "class_b", GENERIC) END                                                     \
    /* to[i] = table[i % 8]->function[i / 8 % 2](to[i]) */                                                                     \
    ".visible .entry invoke(.param .u64 to, .param .u64 table, .param .u32 words) {\n" REGISTERS PLACE                         \
    POINTER("%d1", "to") POINTER("%d2", "table") AT_WORD("%d3", "%d1") " ld.global.u32 %r5, [%d3];\n"                           \
    " and.b32 %r6, %r1, 7; mul.wide.u32 %d4, %r6, 8; add.u64 %d4, %d2, %d4; ld.global.u64 %d6, [%d4];\n"                        \
    " shr.u32 %r6, %r1, 3; and.b32 %r6, %r6, 1; mul.wide.u32 %d4, %r6, 8; add.u64 %d6, %d6, %d4; ld.u64 %d6, [%d6];\n" CALL      \
    " st.global.u32 [%d3], %r5;\n" END                                                                                         \
    /* table[i] = the address of counters */                                                                                   \
    ".visible .entry keep_address(.param .u64 table, .param .u32 words, .param .u32 salt) {\n" REGISTERS PLACE                 \
    STORE_ADDRESS("counters", "counters", "counters", "counters", GENERIC) END                                                 \
    /* to[i] and (*table[0])[i] are mixed */                                                                                   \
    ".visible .entry by_address(.param .u64 to, .param .u64 table, .param .u32 words) {\n" REGISTERS PLACE                     \
    POINTER("%d1", "to") POINTER("%d2", "table") " ld.global.u64 %d5, [%d2];\n" AT_WORD("%d3", "%d1") AT_WORD("%d4", "%d5")      \
    " ld.global.u32 %r5, [%d3]; ld.u32 %r6, [%d4]; mad.lo.u32 %r5, %r5, 3, %r6; st.global.u32 [%d3], %r5;\n"                    \
    " mad.lo.u32 %r6, %r6, 5, %r1; st.u32 [%d4], %r6;\n" END                                                                   \
    /* table[i] = 64 bytes of the heap with salt * i in them */                                                                \
    ".visible .entry heap_make(.param .u64 table, .param .u32 words, .param .u32 salt) {\n" REGISTERS PLACE                    \
    POINTER("%d7", "table") " mul.wide.u32 %d8, %r1, 8; add.u64 %d7, %d7, %d8;\n"                                              \
    " { .param .b64 p0; .param .b64 r0; st.param.b64 [p0], 64; call.uni (r0), malloc, (p0); ld.param.b64 %d1, [r0]; }\n"         \
    " st.global.u64 [%d7], %d1; ld.param.u32 %r5, [salt]; mul.lo.u32 %r5, %r5, %r1; mov.u32 %r6, 0;\n"                          \
    "NEXT: mul.wide.u32 %d3, %r6, 4; add.u64 %d3, %d1, %d3; add.u32 %r7, %r5, %r6; st.u32 [%d3], %r7; add.u32 %r6, %r6, 1;\n"     \
    " setp.lt.u32 %p2, %r6, 16; @%p2 bra NEXT;\n" END                                                                          \
    /* to[i] = to[i] * 3 + table[i % 8][i / 8 % 16]; those of the first 128 change, too */                                     \
    ".visible .entry heap_use(.param .u64 to, .param .u64 table, .param .u32 words) {\n" REGISTERS PLACE                       \
    POINTER("%d1", "to") POINTER("%d2", "table") AT_WORD("%d3", "%d1") " ld.global.u32 %r5, [%d3];\n"                           \
    " and.b32 %r6, %r1, 7; mul.wide.u32 %d4, %r6, 8; add.u64 %d4, %d2, %d4; ld.global.u64 %d6, [%d4];\n"                        \
    " shr.u32 %r6, %r1, 3; and.b32 %r6, %r6, 15; mul.wide.u32 %d4, %r6, 4; add.u64 %d6, %d6, %d4; ld.u32 %r7, [%d6];\n"          \
    " mad.lo.u32 %r5, %r5, 3, %r7; st.global.u32 [%d3], %r5;\n"                                                                \
    " mad.lo.u32 %r7, %r7, 5, %r1; st.u32 [%d6], %r7;\n" END                                                                   \
    ".visible .entry heap_free(.param .u64 table, .param .u32 words) {\n" REGISTERS PLACE                                      \
    POINTER("%d7", "table") " mul.wide.u32 %d8, %r1, 8; add.u64 %d7, %d7, %d8; ld.global.u64 %d1, [%d7];\n"                      \
    " { .param .b64 p0; st.param.b64 [p0], %d1; call.uni free, (p0); }\n" END

static const char *const state_ptx[] = {STATE_PTX("11", "13"), STATE_PTX("17", "19"), STATE_PTX("23", "29")};
/* clang-format on */

#endif
