/* See alike.h. */
#include "launch/alike.h"

#include <string.h>

#include <tessera/access.h>

#include "launch/call_ranges.h"
#include "launch/launch.h"

struct tsr_alike tsr_alike_of(const struct tsr_launch *launch)
{
    struct tsr_library_operands call = launch->call ? *launch->call : tsr_library_operands_now();
    struct tsr_alike alike = {.key = {.function = launch->known,
                                      .grid = {launch->grid[0], launch->grid[1], launch->grid[2]},
                                      .block = {launch->block[0], launch->block[1], launch->block[2]},
                                      .shared_bytes = launch->shared_bytes,
                                      .bytes = launch->gathered->bytes,
                                      .call = call.call},
                              .parameters = launch->gathered->values};
    if (!alike.key.call)
        return alike;
    alike.key.operands = call.count;
    alike.key.other_gpus = call.other_gpus;
    alike.key.operand_bytes = call.count > 0 ? (uint32_t)call.count * (uint32_t)sizeof *call.ranges : 0;
    alike.operands = call.ranges;
    return alike;
}

static uint64_t mixed(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)(a ^ 0x9e3779b97f4a7c15ull) * (b ^ 0xd6e8feb86659fd93ull);
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* For so few words, mixing pairs is 30 to 50 ns faster than tsr_hash (base/hash.h). */
static uint64_t hash_bytes(uint64_t hash, const uint8_t *at, uint32_t bytes)
{
    uint64_t pair[2];
    for (; bytes >= sizeof pair; bytes -= (uint32_t)sizeof pair, at += sizeof pair) {
        memcpy(pair, at, sizeof pair);
        hash = mixed(hash ^ pair[0], pair[1]);
    }
    if (!bytes)
        return hash;
    memset(pair, 0, sizeof pair);
    memcpy(pair, at, bytes);
    return mixed(hash ^ pair[0], pair[1]);
}

uint64_t tsr_alike_hash(const struct tsr_alike *alike, uint64_t seed)
{
    const struct tsr_alike_key *key = &alike->key;
    uint64_t hash = mixed((uintptr_t)key->function, seed);
    hash = mixed(hash ^ key->grid[0], (uint64_t)key->grid[1] << 32 | key->grid[2]);
    hash = hash_bytes(hash, alike->parameters, key->bytes);
    return hash_bytes(hash, alike->operands, key->operand_bytes) | 1;
}

void tsr_alike_keep(const struct tsr_alike *alike, struct tsr_alike_key *key, uint8_t *content)
{
    *key = alike->key;
    memcpy(content, alike->parameters, key->bytes);
    if (key->operand_bytes)
        memcpy(content + key->bytes, alike->operands, key->operand_bytes);
}

bool tsr_alike_is(const struct tsr_alike *alike, const struct tsr_alike_key *key, const uint8_t *content)
{
    return memcmp(key, &alike->key, sizeof *key) == 0 && memcmp(content, alike->parameters, key->bytes) == 0 &&
           (!key->operand_bytes || memcmp(content + key->bytes, alike->operands, key->operand_bytes) == 0);
}
