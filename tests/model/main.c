/*
 * stream_model [--seed N] [--programs N] [--ops N] [--save DIRECTORY] [FILE...]: runs the programs in the files, or random ones, and
 * compares with the interpreter. A program that differs is made smaller by dropping operations as long as it still does, printed
 * and saved.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "program.h"

#define HANG_SECONDS 20
#define TRIES 5 /* of a smaller program, before it counts as right */

static struct program current;
static char what[256];
static unsigned long current_seed;

static void on_alarm(int signal_number)
{
    char text[96];
    (void)signal_number;
    int bytes = snprintf(text, sizeof text, "seed %lu: no end within %d s\n", current_seed, HANG_SECONDS);
    if (write(2, text, (size_t)bytes) == bytes)
        program_print(&current, stderr);
    _exit(3);
}

static bool run(const struct program *program)
{
    alarm(HANG_SECONDS);
    bool right = run_program(program, what, sizeof what);
    alarm(0);
    return right;
}

static bool still_differs(const struct program *program)
{
    for (unsigned i = 0; i < TRIES; i++)
        if (!run(program))
            return true;
    return false;
}

static bool without(const struct program *program, unsigned first, unsigned count, struct program *smaller)
{
    *smaller = *program;
    memmove(&smaller->ops[first], &smaller->ops[first + count], (program->count - first - count) * sizeof smaller->ops[0]);
    smaller->count -= count;
    return edges_valid(smaller);
}

static void shrink(struct program *program)
{
    struct program smaller;
    for (unsigned size = program->count / 2; size > 0; size /= 2)
        for (unsigned first = 0; first + size <= program->count;) {
            if (without(program, first, size, &smaller) && still_differs(&smaller))
                *program = smaller;
            else
                first++;
        }
}

static void report(const char *directory, const char *name)
{
    printf("%s: %s\n", name, what);
    shrink(&current);
    printf("%u operations are enough: %s\n", current.count, what);
    program_print(&current, stdout);
    if (directory) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s.txt", directory, name);
        FILE *file = fopen(path, "w");
        if (file) {
            program_print(&current, file);
            fclose(file);
        }
    }
}

static bool run_file(const char *path)
{
    FILE *file = fopen(path, "r");
    bool read = file && program_read(&current, file);
    if (file)
        fclose(file);
    if (!read || !edges_valid(&current)) {
        printf("%s: not a program without races\n", path);
        return false;
    }
    if (!still_differs(&current))
        return true;
    printf("%s: %s\n", path, what);
    return false;
}

int main(int count, char **values)
{
    unsigned long seed = 1, programs = 1, ops = 80, wrong = 0, done = 0;
    const char *directory = NULL;
    int at = 1;
    for (; at + 1 < count && strncmp(values[at], "--", 2) == 0; at += 2) {
        if (strcmp(values[at], "--seed") == 0)
            seed = strtoul(values[at + 1], NULL, 0);
        else if (strcmp(values[at], "--programs") == 0)
            programs = strtoul(values[at + 1], NULL, 0);
        else if (strcmp(values[at], "--ops") == 0)
            ops = strtoul(values[at + 1], NULL, 0);
        else if (strcmp(values[at], "--save") == 0)
            directory = values[at + 1];
    }
    signal(SIGALRM, on_alarm);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!run_start()) {
        fprintf(stderr, "the driver does not start\n");
        return 2;
    }
    if (at < count)
        programs = 0;
    for (; at < count; at++, done++)
        wrong += !run_file(values[at]);
    for (unsigned long i = 0; i < programs && wrong < 3; i++, done++) {
        char name[32];
        current_seed = seed + i;
        program_generate(&current, current_seed, ops < MOST_OPS ? (unsigned)ops : MOST_OPS);
        if (run(&current))
            continue;
        snprintf(name, sizeof name, "seed-%lu", current_seed);
        report(directory, name);
        wrong++;
    }
    run_finish();
    printf("%lu programs, %lu differ\n", done, wrong);
    return wrong != 0;
}
