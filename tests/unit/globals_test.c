/* What functions use behind a program's back, from PTX and from machine code. */
#include <stdlib.h>

#include "check.h"
#include "globals/register_number.h"
#include "globals/globals.h"

#define HEADER ".version 8.0\n.target sm_80\n.address_size 64\n"

static struct tsr_references use_in(const char *ptx, const char *function)
{
    struct tsr_globals *uses = tsr_globals_read(ptx, strlen(ptx) + 1, 90);
    struct tsr_references use = uses ? tsr_globals_function(uses, function) : (struct tsr_references){0};
    CHECK(uses != NULL);
    tsr_globals_destroy(uses);
    return use;
}

static uint32_t flags_in(const char *ptx)
{
    return use_in(ptx, "f").flags & ~TSR_GLOBALS_STORED;
}

/* A module with one kernel f around the instructions, a variable v and a table t. */
#define BODY(text)                                                                                                             \
    HEADER ".global .u32 v;\n.global .align 4 .b8 t[8] = {1,0,0,0, 2};\n.visible .entry f(.param .u64 p)\n{\n.reg .b64 %rd<9>;\n" \
           ".reg .b32 %r<9>;\n" text "\nret;\n}\n"

TEST(what_is_only_read_has_no_state)
{
    CHECK_EQ(flags_in(BODY("ld.global.u32 %r1, [v];")), 0);
    CHECK_EQ(flags_in(BODY("mov.u64 %rd1, t; add.s64 %rd2, %rd1, 4; @!%p1 ld.global.u32 %r1, [%rd2+4];")), 0);
    CHECK_EQ(use_in(BODY("ld.global.u32 %r1, [v];"), "f").variables, tsr_variable_bit("v", 1));
    CHECK_EQ(use_in(BODY("mov.u32 %r1, 3;"), "f").variables, 0);
}

TEST(what_is_written_has_state)
{
    CHECK_EQ(flags_in(BODY("st.global.u32 [v], %r1;")), TSR_GLOBALS_STATE);
    CHECK_EQ(flags_in(BODY("mov.u64 %rd1, v; atom.global.add.u32 %r1, [%rd1], 1;")), TSR_GLOBALS_STATE);
    CHECK_EQ(flags_in(BODY("mov.u64 %rd1, v; cvta.global.u64 %rd2, %rd1; add.s64 %rd3, %rd2, %rd4; red.add.u32 [%rd3], 1;")),
             TSR_GLOBALS_STATE);
    CHECK_EQ(flags_in(BODY("cp.async.bulk.global.shared::cta [v], [%r1], 16;")), TSR_GLOBALS_STATE);
}

/* The loop's back edge carries the address to an instruction that stands above. */
TEST(the_order_of_instructions_does_not_matter)
{
    CHECK_EQ(flags_in(BODY("$L1: st.global.u32 [%rd3], %r1; mov.b64 %rd3, %rd2; mov.u64 %rd2, v; bra $L1;")),
             TSR_GLOBALS_STATE);
}

TEST(an_address_that_leaves_the_function_has_state)
{
    CHECK_EQ(flags_in(BODY("ld.param.u64 %rd1, [p]; mov.u64 %rd2, v; st.global.u64 [%rd1], %rd2;")), TSR_GLOBALS_STATE);
    CHECK_EQ(flags_in(BODY("mov.u64 %rd2, v; { .param .b64 param0; st.param.b64 [param0+0], %rd2; call.uni g, (param0); }")),
             TSR_GLOBALS_STATE | TSR_GLOBALS_CODE);
    CHECK_EQ(flags_in(HEADER ".global .u32 v;\n.global .u64 a = generic(v);\n.entry f()\n{ ld.global.u32 %r1, [v]; ret; }"),
             TSR_GLOBALS_STATE);
    CHECK_EQ(flags_in(HEADER ".global .u32 v;\n.func (.param .b64 r) g() { mov.u64 %rd1, v; st.param.b64 [r+0], %rd1; ret; }\n"
                             ".entry f() { .param .b64 q; call.uni (q), g; ret; }"),
             TSR_GLOBALS_STATE);
}

TEST(one_function_that_writes_is_enough_for_those_that_read)
{
    const char *ptx = HEADER ".global .u32 v, w;\n.global .u32 x;\n.entry f() { ld.global.u32 %r1, [v]; }\n"
                             ".entry g() { st.global.u32 [v], 1; }\n.entry h() { ld.global.u32 %r1, [x]; }";
    CHECK_EQ(use_in(ptx, "f").flags, TSR_GLOBALS_STATE);
    CHECK_EQ(use_in(ptx, "g").flags, TSR_GLOBALS_STATE);
    CHECK_EQ(use_in(ptx, "h").flags, 0);
}

TEST(what_is_called_counts)
{
    const char *functions = HEADER
        ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n.extern .func (.param .b64 r) malloc (.param .b64 a);\n"
        ".global .u32 v;\n.global .align 1 .b8 $str[3] = {104, 105};\n"
        ".func inner() { st.global.u32 [v], 1; ret; }\n.func outer() { call.uni inner; ret; }\n"
        ".entry deep() { call.uni outer; ret; }\n"
        ".entry through_pointer() { mov.u64 %rd1, outer; call %rd1, (), proto; ret; }\n"
        ".entry prints() { mov.u64 %rd3, $str; cvta.global.u64 %rd4, %rd3; { .param .b64 param0; st.param.b64 [param0+0], %rd4;\n"
        ".param .b64 param1; .param .b32 retval0; call.uni (retval0), vprintf, (param0, param1); } ret; }\n"
        ".entry allocates() { .param .b64 q; .param .b64 s; call.uni (q), malloc, (s); ret; }\n.entry none() { ret; }";
    CHECK_EQ(use_in(functions, "deep").flags & ~TSR_GLOBALS_STORED, TSR_GLOBALS_STATE);
    CHECK_EQ(use_in(functions, "through_pointer").flags & ~TSR_GLOBALS_STORED, TSR_GLOBALS_STATE);
    CHECK_EQ(use_in(functions, "prints").flags & ~TSR_GLOBALS_STORED, TSR_GLOBALS_PRINTF);
    CHECK_EQ(use_in(functions, "allocates").flags & ~TSR_GLOBALS_STORED, TSR_GLOBALS_HEAP);
    CHECK_EQ(use_in(functions, "none").flags, TSR_GLOBALS_STORED);
}

#define FUNCTIONS                                                                                                              \
    HEADER ".func g() { ret; }\n.func h() { ret; }\n.global .u64 table[2] = {g, h};\n.entry f(.param .u64 p)\n"                \
           "{\n.reg .b64 %rd<9>;\n"
#define CODE(text) FUNCTIONS text "\nret;\n}\n"

TEST(code_whose_address_is_in_memory)
{
    CHECK_EQ(flags_in(CODE("call.uni g;")), 0);
    CHECK_EQ(flags_in(CODE("mov.u64 %rd1, g; mov.u64 %rd2, h; selp.b64 %rd3, %rd1, %rd2, %p1; call %rd3, (), proto;")), 0);
    CHECK_EQ(flags_in(CODE("ld.param.u64 %rd1, [p]; ld.global.u64 %rd2, [%rd1]; call %rd2, (), proto;")), TSR_GLOBALS_CODE);
    CHECK_EQ(flags_in(CODE("ld.param.u64 %rd1, [p]; call %rd1, (), proto;")), TSR_GLOBALS_CODE);
    CHECK_EQ(flags_in(CODE("mov.u64 %rd2, g; ld.param.u64 %rd1, [p]; selp.b64 %rd3, %rd1, %rd2, %p1; call %rd3, (), proto;")),
             TSR_GLOBALS_CODE);
    CHECK_EQ(flags_in(CODE("ld.param.u64 %rd1, [p]; mov.u64 %rd2, h; st.global.u64 [%rd1], %rd2;")), TSR_GLOBALS_CODE);
    CHECK_EQ(flags_in(CODE("ld.param.u64 %rd1, [p]; ld.global.u64 %rd2, [table]; st.global.u64 [%rd1], %rd2;")),
             TSR_GLOBALS_CODE);
    CHECK_EQ(flags_in(CODE("targets: .branchtargets one, two; brx.idx %r1, targets; one: two:")), 0);
    CHECK_EQ(
        flags_in(HEADER ".func g() { ld.param.u64 %rd1, [q]; call %rd1, (), proto; ret; }\n.entry f() { call.uni g; ret; }"),
        TSR_GLOBALS_CODE);
}

#define LEAVER ".entry leave(.param .u64 p) { ld.param.u64 %rd1, [p]; mov.u64 %rd2, v; st.global.u64 [%rd1], %rd2; ret; }\n"
#define FOLLOWED(global, text) HEADER global ".entry f(.param .u64 p)\n{\nld.param.u64 %rd1, [p];\n" text "\nret;\n}\n"

TEST(pointers_where_addresses_are_left)
{
    const char *follows =
        FOLLOWED(".global .u32 v;\n" LEAVER, "ld.global.u64 %rd2, [%rd1]; add.s64 %rd3, %rd2, 8; st.global.u32 [%rd3], 1;");
    CHECK_EQ(use_in(follows, "f").flags, TSR_GLOBALS_ADDRESS | TSR_GLOBALS_STORED);
    CHECK_EQ(flags_in(FOLLOWED("", "ld.global.u64 %rd2, [%rd1]; st.global.u32 [%rd2], 1;")), 0); /* nobody leaves any */
    CHECK_EQ(flags_in(FOLLOWED(".global .u32 v;\n" LEAVER, "ld.global.f64 %fd1, [%rd1]; st.global.f64 [%rd1+8], %fd1;")), 0);
    CHECK_EQ(flags_in(FOLLOWED(".global .u32 v;\n" LEAVER, "ld.global.u64 %rd2, [%rd1]; st.shared.u32 [%rd2], 1;")), 0);
    CHECK_EQ(flags_in(FOLLOWED(".global .u32 v;\n" LEAVER, "atom.global.exch.b64 %rd2, [%rd1], 0; st.u32 [%rd2], 1;")),
             TSR_GLOBALS_ADDRESS);
    CHECK_EQ(
        flags_in(FOLLOWED(
            ".extern .func (.param .b64 r) malloc (.param .b64 a);\n.entry other() { .param .b64 q; .param .b64 s; call.uni (q), malloc, (s); ret; }\n",
            "ld.global.u64 %rd2, [%rd1]; st.u32 [%rd2], 1;")),
        TSR_GLOBALS_ADDRESS);
}

TEST(a_variable_leads_to_what_its_initial_value_names)
{
    CHECK_EQ(flags_in(FOLLOWED(".global .u32 v;\n.const .u64 a = generic(v);\n", "ld.const.u64 %rd2, [a]; st.u32 [%rd2], 1;")) &
                 TSR_GLOBALS_STATE,
             TSR_GLOBALS_STATE);
}

TEST(managed_variables_and_textures_have_state)
{
    CHECK_EQ(flags_in(HEADER ".visible .global .attribute(.managed) .align 4 .u32 v;\n.entry f() { ld.global.u32 %r1, [v]; }"),
             TSR_GLOBALS_STATE);
    CHECK_EQ(flags_in(BODY("tex.1d.v4.f32.s32 {%f1,%f2,%f3,%f4}, [%rd1, {%r1}];")), TSR_GLOBALS_STATE);
}

TEST(statements_that_end_without_a_semicolon)
{
    CHECK_EQ(flags_in(BODY(".loc 1 2 3\nst.global.u32 [v], 1; // [\n/* ; */ .pragma \"nounroll;\";")), TSR_GLOBALS_STATE);
    CHECK_EQ(
        flags_in(
            ".version 8.0 .target sm_80, debug .address_size 64 .file 1 \"a;{\"\n.entry f() .pragma \"x\"; .maxntid 1, 1, 1 "
            "{ ret; }\n.section .debug_info { .b8 1 }"),
        0);
}

static bool leads_to(const char *ptx, const char *variable)
{
    struct tsr_globals *uses = tsr_globals_read(ptx, strlen(ptx) + 1, 90);
    bool leads = tsr_globals_leads_to(uses, variable);
    tsr_globals_destroy(uses);
    return leads;
}

TEST(variables_that_no_code_leads_to)
{
    CHECK(leads_to(BODY("ld.global.u32 %r1, [v];"), "v"));
    CHECK(!leads_to(BODY("ld.global.u32 %r1, [v];"), "t"));
    CHECK(!leads_to(BODY("ld.param.u64 %rd1, [p];"), "v"));
    CHECK(leads_to(HEADER ".global .u32 v;\n.global .u64 address = v;\n.entry f() { ret; }", "v"));
    CHECK(leads_to(HEADER ".entry f() { ret;", "v")); /* cannot be read */
}

TEST(what_cannot_be_read_uses_everything)
{
    uint32_t all = ~TSR_GLOBALS_STORED &
                   (TSR_GLOBALS_STATE | TSR_GLOBALS_PRINTF | TSR_GLOBALS_HEAP | TSR_GLOBALS_CODE | TSR_GLOBALS_ADDRESS);
    CHECK_EQ(flags_in(HEADER ".entry f() { ret;"), all);
    CHECK_EQ(flags_in(HEADER ".entry g() { ret; }"), all);
    CHECK_EQ(flags_in("\177ELF"), all);
    CHECK_EQ(flags_in("x"), all);
}

static void expect_machine_code(const void *image, size_t bytes, uint32_t arch)
{
    static const struct {
        const char *name;
        uint32_t flags;
    } expected[] = {{"count", TSR_GLOBALS_STATE},
                    {"look_up", TSR_GLOBALS_STATE},
                    {"add_bias", 0},
                    {"print", TSR_GLOBALS_PRINTF},
                    {"check", 0},
                    {"keep", TSR_GLOBALS_STATE},
                    {"plain", 0},
                    {"allocate", TSR_GLOBALS_HEAP},
                    {"through_call", TSR_GLOBALS_STATE}};
    struct tsr_globals *uses = tsr_globals_read(image, bytes, arch);
    REQUIRE(uses != NULL);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        uint32_t flags = tsr_globals_function(uses, expected[i].name).flags & ~TSR_GLOBALS_STORED;
        if (!CHECK_EQ(expected[i].flags ? flags & expected[i].flags : flags, expected[i].flags))
            fprintf(stderr, "sm_%u %s\n", arch, expected[i].name);
    }
    CHECK_EQ(tsr_globals_function(uses, "add_bias").variables, tsr_variable_bit("bias", 4));
    CHECK_EQ(tsr_globals_function(uses, "plain").variables, 0);
    tsr_globals_destroy(uses);
}

enum { REGISTER = 14, MOVE = 0xe7802, PAIR = 0xd7805, LOAD = 0x0e0e7b82, MULTIPLY_ADD = 0xff0e7424, BRANCH = 0x7947 };

/* The number in the register where the last instruction is read; -1: it cannot be told. */
static int64_t number_in(const uint64_t (*instructions)[2], size_t count)
{
    uint32_t number;
    struct tsr_span code = {(const uint8_t *)instructions, count * sizeof *instructions};
    return tsr_register_number(code, (count - 1) * sizeof *instructions, REGISTER, &number) ? (int64_t)number : -1;
}

#define NUMBER_IN(...)                                                                                                             number_in((const uint64_t[][2]){__VA_ARGS__}, sizeof((const uint64_t[][2]){__VA_ARGS__}) / sizeof(uint64_t[2]))
#define INSTRUCTION(number, low) {(uint64_t)(number) << 32 | (low), 0xff}
/* To so many instructions after the next. */
#define JUMP(instructions) {(uint64_t)(instructions) << 36 | BRANCH, (instructions) < 0 ? 0x3ffff : 0}

TEST(numbers_in_registers)
{
    CHECK_EQ(NUMBER_IN(INSTRUCTION(0x48, MOVE), INSTRUCTION(0, LOAD)), 0x48);
    CHECK_EQ(NUMBER_IN(INSTRUCTION(8, MOVE), INSTRUCTION(0x48, MULTIPLY_ADD), INSTRUCTION(0, LOAD)), 0x48);
    CHECK_EQ(NUMBER_IN({(uint64_t)0x48 << 32 | 0x030e7424, 0xff}, INSTRUCTION(0, LOAD)), -1); /* a product */
    CHECK_EQ(NUMBER_IN({(uint64_t)0x48 << 32 | 0xe0802, 0xff}, INSTRUCTION(0, LOAD)), -1);    /* under a predicate */
    CHECK_EQ(NUMBER_IN(INSTRUCTION(8, MOVE), INSTRUCTION(0, PAIR), INSTRUCTION(0, LOAD)), -1);
    CHECK_EQ(NUMBER_IN(INSTRUCTION(0, LOAD)), -1);
}

TEST(branches_to_between_the_number_and_its_use)
{
    CHECK_EQ(NUMBER_IN(INSTRUCTION(8, MOVE), INSTRUCTION(0, LOAD), JUMP(-2), INSTRUCTION(9, MOVE), INSTRUCTION(0, LOAD)), 9);
    CHECK_EQ(NUMBER_IN(JUMP(1), INSTRUCTION(8, MOVE), INSTRUCTION(0, LOAD)), -1);
    CHECK_EQ(NUMBER_IN(JUMP(2), INSTRUCTION(8, MOVE), INSTRUCTION(8, 0x0f7802), INSTRUCTION(0, LOAD)), -1);
    CHECK_EQ(NUMBER_IN(JUMP(0), INSTRUCTION(8, MOVE), INSTRUCTION(0, LOAD)), 8);
    CHECK_EQ(NUMBER_IN(INSTRUCTION(8, MOVE), JUMP(-9), INSTRUCTION(0, LOAD)), -1);
}

static uint8_t *read_file(const char *path, size_t *bytes)
{
    FILE *stream = fopen(path, "rb");
    uint8_t *image = malloc(1 << 20);
    if (!CHECK(stream != NULL))
        return image;
    *bytes = fread(image, 1, 1 << 20, stream);
    fclose(stream);
    return image;
}

static uint8_t *read_machine_code(size_t *bytes)
{
    return read_file(TSR_TEST_DATA "/corpus/globals/globals.fatbin", bytes);
}

TEST(machine_code)
{
    size_t bytes = 0;
    uint8_t *image = read_machine_code(&bytes);
    const uint32_t archs[] = {80, 86, 90, 100, 120};
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++)
        expect_machine_code(image, bytes, archs[i]);
    struct tsr_globals *other = tsr_globals_read(image, bytes, 75);
    CHECK_EQ(tsr_globals_function(other, "plain").flags & TSR_GLOBALS_HEAP, TSR_GLOBALS_HEAP);
    tsr_globals_destroy(other);
    free(image);
}

static void expect_addresses(const void *image, size_t bytes, uint32_t arch)
{
    static const struct {
        const char *name;
        uint32_t flags;
    } expected[] = {{"make", TSR_GLOBALS_CODE},
                    {"call_method", TSR_GLOBALS_CODE},
                    {"leave_function", TSR_GLOBALS_CODE},
                    {"call_function", TSR_GLOBALS_CODE},
                    {"call_given", TSR_GLOBALS_CODE},
                    {"leave_variable", TSR_GLOBALS_STATE},
                    {"write_through", TSR_GLOBALS_ADDRESS},
                    {"write_shortcut", TSR_GLOBALS_ADDRESS},
                    {"check", 0},
                    {"call_by_name", 0},
                    {"choose", 0}};
    struct tsr_globals *uses = tsr_globals_read(image, bytes, arch);
    REQUIRE(uses != NULL);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        uint32_t flags = tsr_globals_function(uses, expected[i].name).flags;
        CHECK(flags & TSR_GLOBALS_STORED);
        flags &= ~TSR_GLOBALS_STORED;
        if (!CHECK_EQ(expected[i].flags ? flags & expected[i].flags : flags, expected[i].flags))
            fprintf(stderr, "sm_%u %s\n", arch, expected[i].name);
    }
    CHECK(!(tsr_globals_function(uses, "divide").flags & (TSR_GLOBALS_CODE | TSR_GLOBALS_STATE))); /* calls of subroutines */
    tsr_globals_destroy(uses);
}

TEST(addresses_in_machine_code)
{
    size_t bytes = 0;
    uint8_t *image = read_file(TSR_TEST_DATA "/corpus/globals/addresses.fatbin", &bytes);
    const uint32_t archs[] = {80, 90, 100};
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++)
        expect_addresses(image, bytes, archs[i]);
    free(image);
}

/* Every damage is answered, none is followed out of the image. */
TEST(damaged_machine_code)
{
    size_t bytes = 0;
    uint8_t *image = read_machine_code(&bytes);
    uint32_t state = 1;
    for (int i = 0; i < 300; i++) {
        uint8_t *copy = malloc(bytes);
        memcpy(copy, image, bytes);
        for (int k = 0; k < 8; k++) {
            state = state * 1664525u + 1013904223u;
            copy[state % bytes] = (uint8_t)(state >> 24);
        }
        tsr_globals_destroy(tsr_globals_read(copy, bytes - state % 64, 90));
        free(copy);
    }
    free(image);
}
