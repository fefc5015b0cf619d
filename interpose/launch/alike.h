/*
 * Launches that are alike: of the same function, shape and parameters, in the same library call over the same operands. Whatever is
 * remembered of a launch for such ones keeps their key, and their content, which is compared.
 */
#ifndef TSR_LAUNCH_ALIKE_H
#define TSR_LAUNCH_ALIKE_H

#include <stdbool.h>
#include <stdint.h>

struct tsr_function_record;
struct tsr_launch;

struct tsr_alike_key {
    const struct tsr_function_record *function;
    uint32_t grid[3], block[3], shared_bytes;
    uint32_t bytes; /* of parameters */
    uint32_t call;  /* 0: none */
    int32_t operands;
    uint32_t other_gpus, operand_bytes;
};

/* A launch whose parameters have been gathered; valid as long as these. */
struct tsr_alike {
    struct tsr_alike_key key;
    const uint8_t *parameters;
    const void *operands;
};

struct tsr_alike tsr_alike_of(const struct tsr_launch *launch);

static inline uint32_t tsr_alike_bytes(const struct tsr_alike *alike)
{
    return alike->key.bytes + alike->key.operand_bytes;
}

/* Never 0. Only to find what is remembered. */
uint64_t tsr_alike_hash(const struct tsr_alike *alike, uint64_t seed);

/* Content: tsr_alike_bytes of it. */
void tsr_alike_keep(const struct tsr_alike *alike, struct tsr_alike_key *key, uint8_t *content);
bool tsr_alike_is(const struct tsr_alike *alike, const struct tsr_alike_key *key, const uint8_t *content);

#endif
