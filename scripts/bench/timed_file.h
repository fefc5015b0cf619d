/* For evaluator_times.c and predict_times.c: the clock and its own cost, and reading the file of launches. */
#ifndef TESSERA_BENCH_TIMED_FILE_H
#define TESSERA_BENCH_TIMED_FILE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t clock_ns(void)
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 1000; i++) {
        uint64_t begin = now_ns(), passed = now_ns() - begin;
        least = passed < least ? passed : least;
    }
    return least;
}

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *data = NULL;
    if (!file)
        return NULL;
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    if (size > 0 && (data = malloc((size_t)size)) && fread(data, 1, (size_t)size, file) != (size_t)size)
        size = 0;
    fclose(file);
    return size > 0 ? data : NULL;
}

static uint32_t next(const char **at)
{
    uint32_t number;
    memcpy(&number, *at, sizeof number);
    *at += sizeof number;
    return number;
}

#endif
