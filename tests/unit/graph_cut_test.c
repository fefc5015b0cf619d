/* graph/cut: random sequences, against all ways to divide them. */
#include "graph/cut.c"

#include "check.h"

#define MOST 7u

static uint64_t state = 5;

static uint32_t draw(uint32_t below)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(state >> 33) % below;
}

static double cost_of(const struct tsr_cut_sequence *sequence, const uint8_t *gpus)
{
    double cost = 0;
    for (uint32_t i = 0; i < sequence->count; i++) {
        cost += sequence->costs[i * sequence->gpus + gpus[i]];
        cost += i && gpus[i] != gpus[i - 1] ? sequence->elsewhere : 0;
    }
    return cost;
}

static double least(const struct tsr_cut_sequence *sequence)
{
    uint8_t gpus[MOST];
    uint64_t all = 1;
    double best = 1e300;
    for (uint32_t i = 0; i < sequence->count; i++)
        all *= sequence->gpus;
    for (uint64_t number = 0; number < all; number++) {
        uint64_t left = number;
        for (uint32_t i = 0; i < sequence->count; i++, left /= sequence->gpus)
            gpus[i] = (uint8_t)(left % sequence->gpus);
        double cost = cost_of(sequence, gpus);
        best = cost < best ? cost : best;
    }
    return best;
}

TEST(no_other_division_costs_less)
{
    for (int trial = 0; trial < 2000; trial++) {
        double costs[MOST * 3];
        uint8_t gpus[MOST] = {0};
        struct tsr_cut_sequence sequence = {
            .count = draw(MOST + 1), .gpus = 1 + draw(3), .costs = costs, .elsewhere = draw(20)};
        for (uint32_t i = 0; i < sequence.count * sequence.gpus; i++)
            costs[i] = draw(30);
        CHECK(tsr_cut(&sequence, gpus));
        for (uint32_t i = 0; i < sequence.count; i++)
            CHECK(gpus[i] < sequence.gpus);
        CHECK(cost_of(&sequence, gpus) == least(&sequence));
    }
}

TEST(what_costs_the_same_everywhere_stays_with_its_neighbours)
{
    double costs[] = {9, 0, 0, 0, 9, 0, 0, 0};
    uint8_t gpus[4];
    struct tsr_cut_sequence sequence = {.count = 4, .gpus = 2, .costs = costs, .elsewhere = 1};
    CHECK(tsr_cut(&sequence, gpus));
    for (uint32_t i = 0; i < 4; i++)
        CHECK_EQ(gpus[i], 1);
}
