/*
 * Templates from tests/corpus/access, damaged at random and evaluated: for the unit test and, longer, for the fuzzer. Scratch, ranges and
 * bytes are of exactly the size that is told, so that a sanitizer sees what goes beyond.
 */
#ifndef TESSERA_TESTS_ACCESS_DAMAGE_H
#define TESSERA_TESTS_ACCESS_DAMAGE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tessera/access.h>

#define DAMAGE_RANGES 8u
#define DAMAGE_WHYS 3u
#define DAMAGE_PARAMETERS 256u

struct template_bytes {
    uint8_t *data;
    size_t size;
};

static inline uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* An empty one when the file cannot be read. */
static inline struct template_bytes read_template(const char *path)
{
    struct template_bytes bytes = {malloc(1 << 20), 0};
    FILE *file = fopen(path, "rb");
    if (file && bytes.data) {
        bytes.size = fread(bytes.data, 1, 1 << 20, file);
        fclose(file);
    }
    return bytes;
}

/* A launch of anything: small numbers, addresses, and everything else. */
static inline struct tsr_access_launch random_launch(uint64_t *state, uint8_t parameters[DAMAGE_PARAMETERS])
{
    struct tsr_access_launch launch = {.parameters = parameters, .parameter_bytes = DAMAGE_PARAMETERS};
    for (int axis = 0; axis < 3; axis++) {
        launch.grid[axis] = 1 + next_random(state) % 4;
        launch.block[axis] = 1 + next_random(state) % 9;
    }
    for (uint32_t i = 0; i < DAMAGE_PARAMETERS; i += 8) {
        uint64_t word = next_random(state), kind = next_random(state) % 4;
        word = kind == 0   ? word % 100
               : kind == 1 ? 0x7f0000000000 + word % 65536
               : kind == 2 ? word % 100 << 32 | word % 7
                           : word;
        memcpy(parameters + i, &word, sizeof word);
    }
    if (next_random(state) % 8 == 0)
        launch.parameter_bytes = next_random(state) % DAMAGE_PARAMETERS;
    launch.steps = next_random(state) % 4 ? 20000 : 1 + next_random(state) % 500;
    return launch;
}

static inline bool is_same_result(const struct tsr_access_result *a, const struct tsr_access_result *b)
{
    return a->level == b->level && a->whys == b->whys && a->count == b->count &&
           memcmp(a->ranges, b->ranges, a->count * sizeof *a->ranges) == 0;
}

/* Whether all reasons begin with the one that a result has, and go as far as there is room. */
static inline bool tells_all(struct tsr_access *access, struct tsr_access_launch *launch, void *scratch, size_t scratch_bytes,
                             const struct tsr_access_result *one)
{
    struct tsr_access_range *ranges = malloc(DAMAGE_RANGES * sizeof *ranges);
    struct tsr_access_why *whys = calloc(DAMAGE_WHYS, sizeof *whys);
    struct tsr_access_result all = {.ranges = ranges, .capacity = DAMAGE_RANGES, .every = whys, .room = DAMAGE_WHYS};
    launch->options = TSR_ACCESS_ALL_REASONS;
    tsr_access_evaluate(access, launch, scratch, scratch_bytes, &all);
    bool right = (all.whys == 0) == (all.level != TSR_LEVEL_UNKNOWN) && (!one->whys || all.whys);
    right &= !all.whys || (whys[0].line == all.why.line && whys[0].reason == all.why.reason);
    for (uint32_t i = 0; i < DAMAGE_WHYS; i++)
        right &= (i < all.whys) == (whys[i].reason != TSR_WHY_NONE);
    free(ranges);
    free(whys);
    return right;
}

/* Evaluates twice with the memo, between them at other addresses, and once without. False: the answers differ. */
static inline bool evaluate_consistently(struct tsr_access *access, struct tsr_access_launch *launch, uint64_t *state)
{
    size_t scratch_bytes = next_random(state) % 8 ? TSR_ACCESS_SCRATCH_BYTES : next_random(state) % 65536;
    void *scratch = aligned_alloc(16, (scratch_bytes + 15) & ~(size_t)15);
    struct tsr_access_range *ranges[3];
    struct tsr_access_result results[3];
    struct tsr_access_why whys[3] = {{0}};
    for (int i = 0; i < 3; i++) {
        ranges[i] = malloc(DAMAGE_RANGES * sizeof *ranges[i]);
        results[i] = (struct tsr_access_result){.ranges = ranges[i], .capacity = DAMAGE_RANGES, .every = &whys[i], .room = 1};
        launch->options = i == 2 ? TSR_ACCESS_NO_MEMO : 0;
        tsr_access_evaluate(access, launch, scratch, scratch_bytes, &results[i]);
    }
    bool same = is_same_result(&results[0], &results[2]) && is_same_result(&results[1], &results[2]);
    for (int i = 0; i < 3 && results[2].whys; i++)
        same &= whys[i].line == results[2].why.line && whys[i].reason == results[2].why.reason;
    same = same && tells_all(access, launch, scratch, scratch_bytes, &results[2]);
    for (int i = 0; i < 3; i++)
        free(ranges[i]);
    free(scratch);
    return same;
}

/* Changes a few words of a copy, mostly behind the header. */
static inline struct template_bytes damaged(const struct template_bytes *whole, uint64_t *state)
{
    struct template_bytes copy = {malloc(whole->size), whole->size};
    memcpy(copy.data, whole->data, whole->size);
    for (uint64_t left = next_random(state) % 6; left > 0; left--) {
        bool in_header = next_random(state) % 16 == 0;
        size_t begin = in_header ? 0 : sizeof(struct tsr_access_template),
               at = begin + next_random(state) % (copy.size - begin);
        uint64_t word = next_random(state), kind = next_random(state) % 4;
        size_t bytes = kind == 0 ? 1 : 4;
        word = kind == 1 ? word % 64 : kind == 2 ? 0 - word % 8 : word;
        at = kind == 0 ? at : at & ~(size_t)3;
        memcpy(copy.data + at, &word, copy.size - at < bytes ? copy.size - at : bytes);
    }
    if (next_random(state) % 16 == 0)
        copy.size = next_random(state) % (copy.size + 1);
    return copy;
}

/* One damaged template and three launches of it: -1 the answers differ, 0 it was refused, 1 it was evaluated. */
static inline int damage_and_evaluate(const struct template_bytes *whole, uint64_t *state)
{
    uint8_t parameters[DAMAGE_PARAMETERS];
    struct template_bytes copy = damaged(whole, state);
    struct tsr_access *access = tsr_access_create(copy.data, copy.size, next_random(state) % 4);
    int verdict = access != NULL;
    free(copy.data);
    for (int launches = 3; access && launches > 0 && verdict > 0; launches--) {
        struct tsr_access_launch launch = random_launch(state, parameters);
        if (!evaluate_consistently(access, &launch, state))
            verdict = -1;
    }
    tsr_access_destroy(access);
    return verdict;
}

#endif
