/*
 * random_programs [--seed N] [--programs N] [--without FEATURE,...] [--only THREAD.PHASE.OP,...]... [--repeat N] [--digests] [--print]
 *                 [--describe] [--patience SECONDS]
 *
 * Runs the programs of the seeds from N on. A line "SEED DIGEST" for each; equal digests: equal bytes. With --only, which can be given
 * many times, a line "SEED DIGEST" for each part of the one program. A CUDA error ends the process with "SEED error WHAT" and 3,
 * a program that does not end with "SEED hang" and 4.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "program.h"

#define MOST_PARTS 256

static volatile unsigned long current_seed;

static void on_alarm(int number)
{
    char text[64];
    (void)number;
    int bytes = snprintf(text, sizeof text, "%lu hang\n", current_seed);
    _exit(write(1, text, (size_t)bytes) == bytes ? 4 : 5);
}

static uint32_t features_named(const char *names)
{
    uint32_t features = 0;
    for (const char *at = names; *at; at += strcspn(at, ","), at += *at == ',')
        for (uint32_t i = 0; i < FEATURE_COUNT; i++)
            if (strcspn(at, ",") == strlen(feature_names[i]) && strncmp(at, feature_names[i], strlen(feature_names[i])) == 0)
                features |= 1u << i;
    return features;
}

struct part {
    uint32_t *ops;
    size_t count;
};

static struct part read_part(const char *text)
{
    struct part part = {.ops = malloc((strlen(text) + 1) * sizeof *part.ops)};
    unsigned thread, phase, op;
    for (const char *at = text; sscanf(at, "%u.%u.%u", &thread, &phase, &op) == 3; at += strcspn(at, ","), at += *at == ',')
        part.ops[part.count++] = op_number(thread, phase, op);
    return part;
}

static struct options {
    unsigned long seed, programs, repeat, patience;
    uint32_t without;
    bool digests, describe;
    struct part parts[MOST_PARTS];
    size_t part_count;
} options = {.seed = 1, .programs = 1, .repeat = 1, .patience = 30};

static bool read_option(const char *name, const char *value)
{
    if (strcmp(name, "--seed") == 0)
        options.seed = strtoul(value, NULL, 0);
    else if (strcmp(name, "--programs") == 0)
        options.programs = strtoul(value, NULL, 0);
    else if (strcmp(name, "--repeat") == 0)
        options.repeat = strtoul(value, NULL, 0);
    else if (strcmp(name, "--patience") == 0)
        options.patience = strtoul(value, NULL, 0);
    else if (strcmp(name, "--without") == 0)
        options.without = features_named(value);
    else if (strcmp(name, "--only") == 0 && options.part_count < MOST_PARTS)
        options.parts[options.part_count++] = read_part(value);
    else
        return false;
    return true;
}

static bool read_options(int count, char **values)
{
    for (int i = 1; i < count; i++) {
        if (strcmp(values[i], "--print") == 0)
            printing = true;
        else if (strcmp(values[i], "--digests") == 0)
            options.digests = true;
        else if (strcmp(values[i], "--describe") == 0)
            options.describe = true;
        else if (i + 1 == count || !read_option(values[i], values[i + 1]))
            return false;
        else
            i++;
    }
    return true;
}

static bool run(unsigned long seed, const struct part *part)
{
    struct request request = {seed, options.without, part ? part->ops : NULL, part ? part->count : 0, options.digests};
    uint64_t digest;
    char failure[256];
    for (unsigned long i = 0; i < options.repeat; i++) {
        current_seed = seed;
        alarm((unsigned)options.patience);
        bool done = run_program(&request, &digest, failure);
        alarm(0);
        if (done)
            printf("%lu %016lx\n", seed, (unsigned long)digest);
        else
            printf("%lu error %s\n", seed, failure);
        fflush(stdout);
        if (!done)
            return false;
    }
    return true;
}

int main(int count, char **values)
{
    if (count == 2 && strcmp(values[1], "--partner") == 0)
        return partner_main();
    if (!read_options(count, values)) {
        fprintf(stderr, "random_programs: see tests/random/main.c for its options\n");
        return 2;
    }
    signal(SIGALRM, on_alarm);
    if (options.describe) {
        for (unsigned long i = 0; i < options.programs; i++)
            run_describe(options.seed + i, options.without);
        return 0;
    }
    if (!run_start()) {
        fprintf(stderr, "random_programs: the driver does not start\n");
        return 2;
    }
    for (size_t i = 0; i < options.part_count; i++)
        if (!run(options.seed, &options.parts[i]))
            return 3;
    for (unsigned long i = 0; i < options.programs && options.part_count == 0; i++)
        if (!run(options.seed + i, NULL))
            return 3;
    partner_end();
    run_report();
    return 0;
}
