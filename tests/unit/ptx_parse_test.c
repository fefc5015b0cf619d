/* What the parser accepts, and how it says no. */
#include "check.h"
#include "ptx_load.h"

static void expect_error(const char *text, uint32_t line, const char *part)
{
    struct tsr_ptx_code *code = ptx_load(text);
    CHECK(!code);
    CHECK_EQ(ptx_error.line, line);
    if (!strstr(ptx_error.message, part))
        CHECK_STR(ptx_error.message, part);
    tsr_code_destroy(code);
}

static void expect_loads(const char *text)
{
    struct tsr_ptx_code *code = ptx_load(text);
    if (!code)
        CHECK_STR(ptx_error.message, "");
    tsr_code_destroy(code);
}

TEST(an_empty_module_has_version_and_target)
{
    struct tsr_ptx_code *code = ptx_load(".version 7.8\n.target sm_86, debug\n.address_size 64");
    REQUIRE(code);
    CHECK_EQ(code->ptx_version, 78);
    CHECK_EQ(code->target, 86);
    CHECK(code->debug);
    CHECK_EQ(code->function_count, 0);
    tsr_code_destroy(code);
    expect_error("", 1, "not a PTX module");
}

TEST(a_target_above_the_device_does_not_load)
{
    struct tsr_ptx_code *code = NULL;
    struct tsr_ptx_error error;
    static const char text[] = ".version 8.7\n.target sm_100\n.address_size 64\n", special[] = ".version 8.0\n.target sm_90a\n";
    CHECK_EQ(tsr_code_create(text, sizeof text - 1, &ptx_device, &code, &error), CUDA_ERROR_INVALID_PTX);
    CHECK_EQ(error.line, 2);
    CHECK_EQ(tsr_code_create(special, sizeof special - 1, &ptx_device, &code, &error), CUDA_SUCCESS);
    tsr_code_destroy(code);
    struct tsr_device_desc newer = {.compute_major = 10};
    CHECK_EQ(tsr_code_create(special, sizeof special - 1, &newer, &code, &error), CUDA_ERROR_INVALID_PTX);
    static const char future[] = ".version 10.0\n.target sm_80\n";
    CHECK_EQ(tsr_code_create(future, sizeof future - 1, &ptx_device, &code, &error), CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
}

TEST(text_without_indentation_and_with_all_kinds_of_comments)
{
    expect_loads(
        "// one\n/* two\n lines */.version 8.0 // three\n.target sm_80\n.address_size 64\n.visible .entry k(){ret;}/* open");
}

TEST(debug_directives_are_skipped)
{
    expect_loads(PTX_HEADER
                 ".file 1 \"a.cu\", 12, 34\n.entry k() {\n.loc 1 5 3, function_name $L__info_string0, inlined_at 1 4 2\n"
                 "bar.sync 0;\n.pragma \"nounroll\";\n@@DWARF .byte 1\nret; }\n"
                 ".section .debug_str\n{\n$L__info_string0:\n.b8 95,90\n.b8 0\n}\n");
}

TEST(parameters_and_performance_directives)
{
    struct tsr_ptx_code *code =
        ptx_load(PTX_HEADER ".visible .entry k(.param .u64 .ptr .global .align 16 p, .param .u8 c,\n"
                            ".param .align 8 .b8 s[24], .param .v2 .f32 v)\n"
                            ".maxntid 128, 2\n.minnctapersm 2\n.reqnctapercluster 4\n.explicitcluster { ret; }");
    REQUIRE(code);
    const struct tsr_function *k = tsr_code_entry(code, "k");
    REQUIRE(k);
    CHECK_EQ(k->param_count, 4);
    CHECK_EQ(k->param_bytes, 48);
    CHECK_EQ(k->params[0].pointer, true);
    CHECK_EQ(k->params[0].align, 8);
    CHECK_EQ(k->params[1].offset, 8);
    CHECK_EQ(k->params[2].offset, 16);
    CHECK_EQ(k->params[2].bytes, 24);
    CHECK_EQ(k->params[3].offset, 40);
    CHECK_EQ(k->max_threads[1], 2);
    CHECK_EQ(k->max_threads[2], 1);
    CHECK_EQ(k->min_blocks, 2);
    CHECK_EQ(k->cluster[0], 4);
    CHECK(k->explicit_cluster);
    CHECK(!tsr_code_entry(code, "kk"));
    tsr_code_destroy(code);
}

TEST(variables_with_initialisers)
{
    struct tsr_ptx_code *code = ptx_load(
        PTX_HEADER
        ".visible .global .align 4 .b8 a[2][4] = {{1, 0x2}, {-1, 0b11}};\n.const .f32 f[] = {0f3F800000, 2.5, -1};\n"
        ".global .u64 p[3] = {a, generic(f)+8, a+1};\n.global .f64 d = 0d4000000000000000;\n"
        ".global .attribute(.managed) .u32 m = (1 << 4) | 3, n = 10 / 3 * 2 - 1 ? 017 : 9;\n.extern .global .u32 e;\n"
        ".global .u32 e = 6;\n.global .b8 masked[16] = {7, 0, 0, 0, 0, 0, 0, 0, 0xff(a), 0xff00(a), 0xff0000(a), 0xff000000(a),"
        " 0xff00000000(a), 0xff0000000000(a), 0xff000000000000(a), 0xff00000000000000(a)};\n.global .v2 .u32 vec = {1, 2};");
    if (!code)
        CHECK_STR(ptx_error.message, "");
    REQUIRE(code);
    uint32_t index = 99;
    const struct tsr_variable *a = tsr_code_variable(code, "a", &index);
    REQUIRE(a && index == 0);
    CHECK_EQ(a->bytes, 8);
    CHECK_EQ(a->align, 4);
    CHECK(a->visible);
    CHECK(memcmp(a->init, "\1\2\0\0\xff\3\0\0", 8) == 0);
    const struct tsr_variable *f = tsr_code_variable(code, "f", NULL);
    CHECK_EQ(f->bytes, 12);
    CHECK_EQ(f->space, TSR_SPACE_CONST);
    CHECK(memcmp(f->init, (float[]){1, 2.5f, -1}, 12) == 0);
    const struct tsr_variable *p = tsr_code_variable(code, "p", NULL);
    CHECK_EQ(p->reloc_count, 3);
    CHECK(memcmp(p->init, (uint64_t[]){0x10000, 0x20008, 0x10001}, 24) == 0);
    const struct tsr_variable *m = tsr_code_variable(code, "m", NULL);
    CHECK(m->managed);
    CHECK_EQ(*(const uint32_t *)m->init, 19);
    CHECK_EQ(*(const uint32_t *)tsr_code_variable(code, "n", NULL)->init, 15);
    const struct tsr_variable *e = tsr_code_variable(code, "e", NULL);
    CHECK(!e->is_extern);
    CHECK_EQ(*(const uint32_t *)e->init, 6);
    const struct tsr_variable *masked = tsr_code_variable(code, "masked", NULL);
    CHECK_EQ(masked->reloc_count, 1);
    CHECK(memcmp(masked->init, (uint64_t[]){7, 0x10000}, 16) == 0);
    CHECK(memcmp(tsr_code_variable(code, "vec", NULL)->init, (uint32_t[]){1, 2}, 8) == 0);
    tsr_code_destroy(code);
}

TEST(nested_scopes_shadow)
{
    struct tsr_ptx_code *code = ptx_load(PTX_KERNEL(
        "mov.b32 %r1, 1; mov.b32 %r2, %r1;\n"
        "{ .reg .b32 %r<3>; .reg .b64 t; mov.b32 %r1, 2; { .reg .b32 %r1; mov.b32 %r1, 3; st.shared.b32 [0], %r1; }\n"
        "st.shared.b32 [4], %r1; }\nst.shared.b32 [8], %r1; st.shared.b32 [12], %r2;"));
    REQUIRE(code);
    const struct tsr_function *k = tsr_code_entry(code, "k");
    uint32_t first = ptx_find(k, "st.shared.b32", 0)->b, second = ptx_find(k, "st.shared.b32", 1)->b,
             third = ptx_find(k, "st.shared.b32", 2)->b;
    CHECK(first != second && second != third && first != third);
    tsr_code_destroy(code);
    expect_error(PTX_KERNEL("{ .reg .b32 t; }\nmov.b32 t, 1;"), 7, "mov.b32");
}

TEST(the_longest_register_range_name_wins_by_scope)
{
    expect_loads(PTX_KERNEL("{ .reg .b32 %r1<5>; mov.b32 %r13, 1; mov.b32 %r3, 2; mov.b32 %r10, 3; }"));
    expect_error(PTX_KERNEL("mov.b32 %r8, 1;"), 6, "mov.b32");
}

TEST(labels_have_scopes)
{
    struct tsr_ptx_code *code =
        ptx_load(PTX_KERNEL("{ L: @%p1 bra L; @%p2 bra OUT; }\n{ L: @%p1 bra L; bra.uni L; }\nOUT: ret;"));
    REQUIRE(code);
    const struct tsr_function *k = tsr_code_entry(code, "k");
    CHECK(ptx_find(k, "bra", 0)->target == ptx_find(k, "join", 0));
    CHECK(ptx_find(k, "bra", 1)->target == ptx_find(k, "join", 2));
    CHECK(ptx_find(k, "bra", 2)->target == ptx_find(k, "join", 1));
    tsr_code_destroy(code);
    expect_error(PTX_KERNEL("bra L;\n{ L: }"), 6, "'L'");
    expect_error(PTX_KERNEL("L: bra L;\nL: ret;"), 7, "already defined");
}

TEST(vector_registers_and_components)
{
    struct tsr_ptx_code *code =
        ptx_load(PTX_KERNEL(".reg .v4 .f32 %v; .reg .v2 .b32 w<3>;\nld.shared.v4.f32 %v, [16]; mov.b32 w2.y, %r1;\n"
                            "add.f32 %v.x, %v.w, %v.b; st.shared.v2.b32 [0], {w2.x, w2.y};"));
    REQUIRE(code);
    const struct tsr_function *k = tsr_code_entry(code, "k");
    const struct tsr_insn *load = ptx_find(k, "ld.shared.v4.b32", 0), *add = ptx_find(k, "add.f32", 0);
    REQUIRE(load && add);
    CHECK_EQ(load->imm, 16);
    CHECK_EQ(add->a, load->d);
    CHECK_EQ(add->b, load->c);
    tsr_code_destroy(code);
}

TEST(errors_name_line_column_and_what_was_expected)
{
    expect_error(PTX_KERNEL("add.s32 %r1, %r2;"), 6, "add.s32: expected 3 operands");
    expect_error(PTX_KERNEL("ret;\n  frobnicate.b32 %r1;"), 7, "unsupported instruction frobnicate.b32");
    CHECK_EQ(ptx_error.column, 3);
    expect_error(PTX_KERNEL("mov.b32 %r1, %r9;"), 6, "%r9");
    CHECK_EQ(ptx_error.column, 14);
    expect_error(PTX_KERNEL("tex.2d.v4.f32.f32 {%r1,%r2,%r3,%r4}, [data, {%r1, %r2}];"), 6, "tex.2d");
    expect_error(PTX_KERNEL("mov.b32 %r1, 1"), 7, "expected ';'");
    expect_error(PTX_KERNEL("@%r1 bra L;"), 6, "not a predicate");
    expect_error(PTX_KERNEL("mov.b64 %d1, %r1;"), 6, "as wide as");
    expect_error(PTX_HEADER ".entry k() { .reg .b32 a\n", 5, "end of the text");
    expect_error(PTX_HEADER ".tex .u64 t;", 4, ".tex");
    expect_error(PTX_HEADER ".global .u32 x = 1 / 0;", 4, "divisor");
    expect_error(PTX_HEADER ".global .u8 x[2] = {1, 2, 3};", 4, "no more elements");
    expect_error(PTX_HEADER ".func f();\n.entry k() { call f; }\n.extern .func g();", 5, "unresolved extern function 'f'");
    expect_error(PTX_HEADER
                 ".func f(.param .b64 a);\n.entry k() { .param .b64 p; call f, (p); }\n.func f(.param .b32 a) { ret; }",
                 5, "other parameters");
    expect_error(PTX_HEADER ".func f(.param .b64 a);\n.entry k() { .param .b8 p[40]; call f, (p); }", 5, "of the size");
    expect_error(PTX_HEADER ".extern .func malloc();\n.entry k() { call malloc; }", 5, "own parameters");
    expect_error("\177ELF", 1, "a directive");
}

TEST(deep_nesting_is_refused)
{
    char text[8192] = PTX_HEADER ".global .u32 x = ";
    memset(text + strlen(text), '(', 4000);
    expect_error(text, 4, "levels");
    strcpy(text, PTX_HEADER ".entry k() ");
    memset(text + strlen(text), '{', 4000);
    expect_error(text, 4, "nested scopes");
}
