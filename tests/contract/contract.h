/*
 * The contract suite: what a CUDA driver answers, asserted once and run against the emulated driver and against real ones.
 * Plain C against cuda.h, linked with libcuda.so.1 alone: whatever the loader finds is what is tested.
 *
 * One file per class of functions. A file opens with GROUP(name, setup) and defines tests, TEST(behaviour) { ... }. Each group
 * runs in a process of its own, so that a broken context cannot spread; `setup` runs first (use_primary, use_init or use_nothing).
 * A check that fails is reported with both values and the test goes on; NEED_* leave the test. What drivers may legitimately
 * answer either way is not asserted. EXPECT_GUESS marks an answer that nobody has seen on hardware yet: a difference is reported
 * apart and does not fail; none may stay once the suite has run on hardware.
 *
 * A second process is a role: ROLE(name) { ... } is run by role_run() in a fresh copy of this program.
 */
#ifndef TESSERA_CONTRACT_H
#define TESSERA_CONTRACT_H

#include <cuda.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct contract_group {
    const char *name;
    void (*setup)(void);
    struct contract_test *tests, **end;
    struct contract_group *next;
};

struct contract_test {
    const char *name;
    void (*run)(void);
    struct contract_test *next;
};

struct contract_role {
    const char *name;
    int (*run)(int count, char **words);
    struct contract_role *next;
};

struct contract_site {
    const char *file;
    int line;
    const char *text;
};

void contract_add_group(struct contract_group *group);
void contract_add_role(struct contract_role *role);

#define GROUP(title, prepare)                                                                                                  \
    static struct contract_group contract_here = {.name = #title, .setup = prepare, .end = &contract_here.tests};              \
    __attribute__((constructor(200))) static void contract_register(void) { contract_add_group(&contract_here); }

#define TEST(title)                                                                                                            \
    static void title(void);                                                                                                   \
    __attribute__((constructor(201))) static void contract_register_##title(void)                                              \
    {                                                                                                                          \
        static struct contract_test test = {#title, title, NULL};                                                              \
        *contract_here.end = &test;                                                                                            \
        contract_here.end = &test.next;                                                                                        \
    }                                                                                                                          \
    static void title(void)

#define ROLE(title)                                                                                                            \
    static int role_##title(int count, char **words);                                                                          \
    __attribute__((constructor(201))) static void contract_register_role_##title(void)                                         \
    {                                                                                                                          \
        static struct contract_role role = {#title, role_##title, NULL};                                                       \
        contract_add_role(&role);                                                                                              \
    }                                                                                                                          \
    static int role_##title(int count, char **words)

/* The checks. Each returns nonzero when it held. */
int contract_result(struct contract_site site, int guess, CUresult actual, CUresult expected);
int contract_equal(struct contract_site site, int guess, long long actual, long long expected);
int contract_true(struct contract_site site, int guess, int holds);
int contract_text(struct contract_site site, const char *actual, const char *expected);
int contract_bytes(struct contract_site site, const void *actual, const void *expected, size_t size);
void contract_skip(const char *reason);

#define HERE(text) ((struct contract_site){__FILE__, __LINE__, text})
#define EXPECT_SURE(call, code) contract_result(HERE(#call), 0, call, code)
#define EXPECT_GUESS(call, code) contract_result(HERE(#call), 1, call, code)
#define OK(call) EXPECT_SURE(call, CUDA_SUCCESS)
#define EQ(actual, expected) contract_equal(HERE(#actual " == " #expected), 0, (long long)(actual), (long long)(expected))
#define EQ_GUESS(actual, expected) contract_equal(HERE(#actual " == " #expected), 1, (long long)(actual), (long long)(expected))
#define TRUE(condition) contract_true(HERE(#condition), 0, !!(condition))
#define TRUE_GUESS(condition) contract_true(HERE(#condition), 1, !!(condition))
#define TEXT(actual, expected) contract_text(HERE(#actual), actual, expected)
#define BYTES(actual, expected, size) contract_bytes(HERE(#actual), actual, expected, size)
#define NEED_OK(call)                                                                                                          \
    do {                                                                                                                       \
        if (!OK(call))                                                                                                         \
            return;                                                                                                            \
    } while (0)
#define SKIP_UNLESS(condition, reason)                                                                                         \
    do {                                                                                                                       \
        if (!(condition)) {                                                                                                    \
            contract_skip(reason);                                                                                             \
            return;                                                                                                            \
        }                                                                                                                      \
    } while (0)

/* Setups: nothing; cuInit; the current context is the primary one of device 0. */
void use_nothing(void);
void use_init(void);
void use_primary(void);

/* How a role ended: its exit code, or 128 + signal. What it wrote to standard output is in `output`, terminated. */
struct role_end {
    int code;
    char output[4096];
};

/* Runs a role with up to 8 words, the last followed by NULL. Descriptors that are not close-on-exec are inherited. */
struct role_end role_run(const char *name, ...) __attribute__((sentinel));

/* A role reports driver answers to its parent by these: a line "name code" on standard output. */
void role_say(const char *name, long long value);
/* The value of such a line, or -1. */
long long role_heard(const struct role_end *end, const char *name);

/* The module of all small kernels (kernels.c), loaded on first use; a kernel of it, or NULL after a failed check. */
extern const char contract_ptx[];
CUmodule contract_module(void);
CUfunction contract_kernel(const char *name);

int device_attribute(CUdevice_attribute attribute);
/* Device memory of `words` 32-bit words, all `value`; 0 after a failed check. */
CUdeviceptr device_words(size_t words, uint32_t value);
/* True when `words` words at `address` are all `value` (copied back synchronously). */
int device_holds(CUdeviceptr address, size_t words, uint32_t value);

/* A closed gate keeps a stream busy until the host opens it: a wait for a value in pinned memory. */
struct gate {
    uint32_t *word;
    CUdeviceptr address;
};
int gate_close(struct gate *gate, CUstream stream);
void gate_open(struct gate *gate);
void gate_free(struct gate *gate);

#endif
