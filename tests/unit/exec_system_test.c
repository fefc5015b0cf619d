/*
 * What device code asks of the system: printf and its formats, assert, the heap; occupancy.
 */
#include <unistd.h>

#include "check.h"
#include "emulator/exec/heap.h"
#include "emulator/exec/printf.h"
#include "exec_run.h"

/* A format with its arguments packed as a compiler packs them. */
struct formatted {
    unsigned char arguments[256];
    uint32_t used;
    char out[2048];
    size_t bytes;
};

static void format_emit(void *context, const char *data, size_t bytes)
{
    struct formatted *f = context;
    memcpy(f->out + f->bytes, data, bytes);
    f->bytes += bytes;
}

static const void *format_argument(void *context, uint32_t offset, uint32_t bytes)
{
    struct formatted *f = context;
    return offset + bytes <= f->used ? f->arguments + offset : NULL;
}

static const char *format_string(void *context, uint64_t address, size_t *bytes)
{
    (void)context;
    *bytes = strlen((const char *)(uintptr_t)address);
    return (const char *)(uintptr_t)address;
}

static void pack(struct formatted *f, const void *value, uint32_t bytes)
{
    f->used = (f->used + bytes - 1) / bytes * bytes;
    memcpy(f->arguments + f->used, value, bytes);
    f->used += bytes;
}

static int format(struct formatted *f, const char *text)
{
    struct tsr_format callbacks = {.context = f, .emit = format_emit, .argument = format_argument, .string = format_string};
    f->bytes = 0;
    int count = tsr_format_run(&callbacks, text, strlen(text));
    f->out[f->bytes] = '\0';
    return count;
}

#define FORMAT_INT(text, type, value)                                                                                          \
    do {                                                                                                                       \
        struct formatted f_ = {.used = 0};                                                                                     \
        type v_ = (value);                                                                                                     \
        char expected_[512];                                                                                                   \
        pack(&f_, &v_, sizeof v_);                                                                                             \
        CHECK_EQ(format(&f_, text), 1);                                                                                        \
        snprintf(expected_, sizeof expected_, text, v_);                                                                       \
        CHECK_STR(f_.out, expected_);                                                                                          \
    } while (0)

TEST(integers_as_the_host_formats_them)
{
    static const int values[] = {0, 1, -1, 42, -42, 123456, INT32_MAX, INT32_MIN};
    for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
        int x = values[v];
        FORMAT_INT("%d", int, x);
        FORMAT_INT("%i|", int, x);
        FORMAT_INT("%8d|", int, x);
        FORMAT_INT("%-8d|", int, x);
        FORMAT_INT("%08d|", int, x);
        FORMAT_INT("%+.5d", int, x);
        FORMAT_INT("%12.5d|", int, x);
        FORMAT_INT("% d", int, x);
        FORMAT_INT("%u", unsigned, (unsigned)x);
        FORMAT_INT("%x", unsigned, (unsigned)x);
        FORMAT_INT("%#X", unsigned, (unsigned)x);
        FORMAT_INT("%#o", unsigned, (unsigned)x);
        FORMAT_INT("%#010x", unsigned, (unsigned)x);
        FORMAT_INT("%lld", long long, (long long)x * 4000000000ll);
        FORMAT_INT("%20llu|", unsigned long long, (unsigned long long)(long long)x);
        FORMAT_INT("%lx", unsigned long, (unsigned long)(long)x);
        FORMAT_INT("%zu", size_t, (size_t)(unsigned)x);
        FORMAT_INT("%c", int, 'A' + (x & 15));
    }
    FORMAT_INT("%p", void *, (void *)0x7f0012345678);
}

TEST(floats_as_the_host_formats_them)
{
    static const double values[] = {0.0, -0.0, 1.0, -1.5, 3.14159265358979, 1e-9, 123456789.125, 1e300, -1e-300, 0.1};
    for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
        double x = values[v];
        FORMAT_INT("%f", double, x);
        FORMAT_INT("%.3f", double, x);
        FORMAT_INT("%10.2e|", double, x);
        FORMAT_INT("%-12.4g|", double, x);
        FORMAT_INT("%012.3f", double, x);
        FORMAT_INT("%+E", double, x);
        FORMAT_INT("%G", double, x);
        FORMAT_INT("% .0f", double, x);
        FORMAT_INT("%a", double, x);
    }
    FORMAT_INT("%08f|", double, __builtin_inf());
    FORMAT_INT("%+f", double, -__builtin_inf());
}

TEST(strings_stars_and_odd_formats)
{
    struct formatted f = {.used = 0};
    const char *text = "hello";
    int width = -8, precision = 3;
    pack(&f, &width, 4);
    pack(&f, &precision, 4);
    pack(&f, &text, 8);
    CHECK_EQ(format(&f, "[%*.*s]"), 1);
    CHECK_STR(f.out, "[hel     ]");
    struct formatted none = {.used = 0};
    CHECK_EQ(format(&none, "100%% sure %q %"), 0);
    CHECK_STR(none.out, "100% sure %q %");
    CHECK_EQ(format(&none, "before %d after"), 0);
    CHECK_STR(none.out, "before ");
    struct formatted nothing = {.used = 0};
    void *null = NULL;
    pack(&nothing, &null, 8);
    CHECK_EQ(format(&nothing, "%s"), 1);
    CHECK_STR(nothing.out, "(null)");
    struct formatted mixed = {.used = 0};
    char small = 7;
    int one = 300;
    double two = 2.5;
    long long three = -3;
    (void)small;
    pack(&mixed, &one, 4);
    pack(&mixed, &two, 8);
    pack(&mixed, &three, 8);
    CHECK_EQ(format(&mixed, "%hhd %g %lld"), 3);
    CHECK_STR(mixed.out, "44 2.5 -3");
}

/* Runs `action` with descriptor `fd` going to a file and gives what was written. */
static const char *captured(int fd, void (*action)(void *), void *argument)
{
    static char text[1 << 16];
    FILE *file = tmpfile();
    int saved = dup(fd);
    dup2(fileno(file), fd);
    action(argument);
    dup2(saved, fd);
    close(saved);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

#define PROTOTYPES                                                                                                             \
    ".version 8.0\n.target sm_90\n.address_size 64\n"                                                                          \
    ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"                                                   \
    ".extern .func __assertfail(.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 c);\n"                 \
    ".extern .func (.param .b64 r) malloc(.param .b64 n);\n.extern .func free(.param .b64 p);\n"                               \
    ".global .align 1 .b8 text[16] = {98, 32, 37, 117, 32, 116, 32, 37, 117, 10, 0};\n"                                        \
    ".global .align 1 .b8 claim[8] = {120, 32, 62, 32, 48, 0};\n.global .align 1 .b8 place[8] = {97, 46, 99, 117, 0};\n.global .align 1 .b8 who[8] = {107, 0};\n"

static enum tsr_grid_state last_state;
static struct tsr_fault last_fault;

static void run_text(void *text)
{
    struct run run = run_load(text);
    struct run_args args = {.used = 0};
    last_state = TSR_GRID_FAULT;
    if (run.code == NULL)
        return;
    uint64_t out = run_alloc(&run, 4096, NULL);
    RUN_ARG(&args, uint64_t, out);
    last_state = run_launch(&run, "k", (uint32_t[]){40, 1, 1}, (uint32_t[]){64, 1, 1}, 0, &args);
    last_fault = run.fault;
    run_free(&run);
}

TEST(printf_comes_in_the_order_of_blocks)
{
    static char text[] = PROTOTYPES
        ".visible .entry k(.param .u64 out)\n{\n.local .align 8 .b8 stack[16];\n.reg .b32 %r<8>;\n.reg .b64 %rd<8>;\n.reg .pred %p1;\n"
        "mov.u32 %r1, %tid.x;\nsetp.ne.u32 %p1, %r1, 33;\n@%p1 bra DONE;\nmov.u32 %r2, %ctaid.x;\nst.local.u32 [stack], %r2;\nst.local.u32 [stack+4], %r1;\n"
        "mov.u64 %rd1, stack;\ncvta.local.u64 %rd2, %rd1;\nmov.u64 %rd3, text;\ncvta.global.u64 %rd4, %rd3;\n"
        "{\n.param .b64 f;\n.param .b64 a;\n.param .b32 r;\nst.param.b64 [f], %rd4;\nst.param.b64 [a], %rd2;\ncall.uni (r), vprintf, (f, a);\nld.param.b32 %r3, [r];\n}\nDONE:\nret;\n}\n";
    const char *out = captured(1, run_text, text);
    CHECK(last_state == TSR_GRID_DONE);
    char expected[2048] = "";
    for (int b = 0; b < 40; b++)
        snprintf(expected + strlen(expected), sizeof expected - strlen(expected), "b %d t 33\n", b);
    CHECK_STR(out, expected);
}

TEST(assert_says_where_and_fails_the_grid)
{
    static char text[] = PROTOTYPES
        ".visible .entry k(.param .u64 out)\n{\n.reg .b32 %r<8>;\n.reg .b64 %rd<8>;\n.reg .pred %p1;\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, %ctaid.x;\n"
        "add.u32 %r3, %r1, %r2;\nsetp.ne.u32 %p1, %r3, 0;\n@%p1 bra DONE;\nmov.u64 %rd1, claim;\nmov.u64 %rd2, place;\nmov.u64 %rd3, who;\n"
        "{\n.param .b64 m;\n.param .b64 f;\n.param .b32 l;\n.param .b64 n;\n.param .b64 c;\nst.param.b64 [m], %rd1;\nst.param.b64 [f], %rd2;\nst.param.b32 [l], 12;\n"
        "st.param.b64 [n], %rd3;\nst.param.b64 [c], 1;\ncall.uni __assertfail, (m, f, l, n, c);\n}\nDONE:\nret;\n}\n";
    const char *out = captured(2, run_text, text);
    CHECK_STR(out, "a.cu:12: k: block: [0,0,0], thread: [0,0,0] Assertion `x > 0` failed.\n");
    CHECK(last_state == TSR_GRID_FAULT);
    CHECK_EQ(last_fault.result, CUDA_ERROR_ASSERT);
}

TEST(device_malloc_and_free)
{
    static char text[] = PROTOTYPES
        ".visible .entry k(.param .u64 out)\n{\n.reg .b32 %r<8>;\n.reg .b64 %rd<8>;\n.reg .pred %p1;\nmov.u32 %r1, %tid.x;\n"
        "{\n.param .b64 n;\n.param .b64 r;\nst.param.b64 [n], 100;\ncall.uni (r), malloc, (n);\nld.param.b64 %rd1, [r];\n}\nst.u32 [%rd1+96], %r1;\nld.u32 %r2, [%rd1+96];\n"
        "setp.eq.u32 %p1, %r1, %r2;\n@%p1 bra FINE;\ntrap;\nFINE:\n{\n.param .b64 p;\nst.param.b64 [p], %rd1;\ncall.uni free, (p);\n}\nret;\n}\n";
    run_text(text);
    CHECK(last_state == TSR_GRID_DONE);
}

TEST(heap_reuses_what_is_free_and_knows_its_pieces)
{
    uint64_t first = tsr_heap_allocate(1000), second = tsr_heap_allocate(1), big = tsr_heap_allocate(60 << 20);
    CHECK(first != 0 && second != 0 && big != 0 && first % 16 == 0);
    CHECK(tsr_heap_allocate(60 << 20) == 0);
    CHECK(tsr_heap_free(big));
    CHECK(!tsr_heap_free(big));
    CHECK(!tsr_heap_free(first + 8));
    CHECK(tsr_heap_free(first));
    CHECK_EQ(tsr_heap_allocate(900), first);
    CHECK(tsr_heap_free(first));
    CHECK(tsr_heap_free(second));
    big = tsr_heap_allocate(60 << 20);
    CHECK(big != 0);
    CHECK(tsr_heap_free(big));
}

TEST(occupancy_is_what_the_scarcest_resource_allows)
{
    struct tsr_function f = {.registers = 32};
    CHECK_EQ(tsr_exec_resident_blocks(&run_device, &f, 256, 0), 8);
    CHECK_EQ(tsr_exec_resident_blocks(&run_device, &f, 32, 0), 32);
    CHECK_EQ(tsr_exec_resident_blocks(&run_device, &f, 1024, 0), 2);
    f.registers = 64;
    CHECK_EQ(tsr_exec_resident_blocks(&run_device, &f, 256, 0), 4);
    f.registers = 255;
    CHECK_EQ(tsr_exec_resident_blocks(&run_device, &f, 256, 0), 1);
    f.registers = 16;
    CHECK_EQ(tsr_exec_resident_blocks(&run_device, &f, 128, 48 * 1024), 4);
    CHECK_EQ(tsr_exec_resident_blocks(&run_device, &f, 128, 512 * 1024), 0);
}
