/*
 * Checks for the C unit tests. A test program includes this header once, defines tests with TEST(name) { ... } and nothing else:
 * main, the report "N passed, N failed" and the exit code come from here. Each test runs in the order of the file; a failed CHECK
 * is reported with its values and the test goes on, REQUIRE leaves the test. `program name...` runs only the named tests.
 * Long models take a quarter of their steps, with TESSERA_TEST_WHOLE=1 all.
 */
#ifndef TESSERA_TESTS_CHECK_H
#define TESSERA_TESTS_CHECK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct check_test {
    const char *name;
    void (*run)(void);
    struct check_test *next;
};

static struct check_test *check_first, **check_end = &check_first;
static int check_failures;

#define TEST(title)                                                                                                            \
    static void test_##title(void);                                                                                            \
    __attribute__((constructor)) static void register_##title(void)                                                            \
    {                                                                                                                          \
        static struct check_test entry = {#title, test_##title, NULL};                                                         \
        *check_end = &entry;                                                                                                   \
        check_end = &entry.next;                                                                                               \
    }                                                                                                                          \
    static void test_##title(void)

__attribute__((format(printf, 3, 4), unused)) static int check_report(const char *file, int line, const char *format, ...)
{
    __builtin_va_list values;
    check_failures++;
    fprintf(stderr, "%s:%d: ", file, line);
    __builtin_va_start(values, format);
    vfprintf(stderr, format, values);
    __builtin_va_end(values);
    fputc('\n', stderr);
    return 0;
}

#define CHECK(condition) ((condition) ? 1 : check_report(__FILE__, __LINE__, "not true: %s", #condition))

/* Integers and pointers of any width; printed in decimal and hexadecimal. */
#define CHECK_EQ(actual, expected) check_eq(__FILE__, __LINE__, #actual, (uint64_t)(actual), #expected, (uint64_t)(expected))
#define CHECK_STR(actual, expected) check_str(__FILE__, __LINE__, #actual, (actual), (expected))

#define REQUIRE(condition)                                                                                                     \
    do {                                                                                                                       \
        if (!CHECK(condition))                                                                                                 \
            return;                                                                                                            \
    } while (0)

__attribute__((unused)) static int check_eq(const char *file, int line, const char *actual_text, uint64_t actual,
                                            const char *expected_text, uint64_t expected)
{
    if (actual == expected)
        return 1;
    return check_report(file, line, "%s is %lld (0x%llx), expected %s = %lld (0x%llx)", actual_text, (long long)actual,
                        (unsigned long long)actual, expected_text, (long long)expected, (unsigned long long)expected);
}

__attribute__((unused)) static int check_str(const char *file, int line, const char *actual_text, const char *actual,
                                             const char *expected)
{
    if (actual && expected ? strcmp(actual, expected) == 0 : actual == expected)
        return 1;
    return check_report(file, line, "%s is \"%s\", expected \"%s\"", actual_text, actual ? actual : "(null)",
                        expected ? expected : "(null)");
}

/* How many of a long model's steps are taken. */
__attribute__((unused)) static unsigned check_steps(unsigned whole)
{
    return getenv("TESSERA_TEST_WHOLE") ? whole : whole / 4;
}

static int check_wanted(const char *name, int count, char **names)
{
    for (int i = 1; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return 1;
    return count < 2;
}

int main(int argc, char **argv)
{
    int passed = 0, failed = 0;
    for (struct check_test *test = check_first; test; test = test->next) {
        if (!check_wanted(test->name, argc, argv))
            continue;
        check_failures = 0;
        test->run();
        if (check_failures)
            fprintf(stderr, "failed: %s\n", test->name);
        *(check_failures ? &failed : &passed) += 1;
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed || !passed;
}

#endif
