/* See hash.h. */
#include "base/hash.h"

#include <string.h>

#define STEP 0x9e3779b97f4a7c15ull

static inline uint64_t mixed(uint64_t word)
{
    word = (word ^ word >> 32) * 0xd6e8feb86659fd93ull;
    word = (word ^ word >> 29) * 0xa0761d6478bd642full;
    return word ^ word >> 32;
}

uint64_t tsr_hash(const void *data, size_t bytes)
{
    const char *at = data;
    uint64_t sum = 0, place = STEP, word;
    size_t left = bytes;
    for (; left >= sizeof word; left -= sizeof word, at += sizeof word, place += STEP) {
        memcpy(&word, at, sizeof word);
        sum += mixed(word + place);
    }
    if (left) {
        word = 0;
        memcpy(&word, at, left);
        sum += mixed(word + place);
    }
    uint64_t hash = mixed(sum + bytes);
    return hash ? hash : 1;
}
