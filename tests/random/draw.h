/* Numbers that follow from a seed: splitmix64. */
#ifndef TESSERA_TESTS_RANDOM_DRAW_H
#define TESSERA_TESTS_RANDOM_DRAW_H

#include <stdbool.h>
#include <stdint.h>

struct draw {
    uint64_t state;
};

static inline uint64_t scramble(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static inline uint32_t draw(struct draw *draw, uint32_t below)
{
    draw->state += 0x9e3779b97f4a7c15u;
    return (uint32_t)(((scramble(draw->state) >> 32) * below) >> 32);
}

static inline bool one_in(struct draw *from, uint32_t times)
{
    return draw(from, times) == 0;
}

/* A sequence of its own for each operation, so that leaving some out changes nothing for the others. */
static inline struct draw draw_of(uint64_t seed, uint64_t number)
{
    return (struct draw){scramble(scramble(seed + 0x632be59bd9b4e019u) + number)};
}

#endif
