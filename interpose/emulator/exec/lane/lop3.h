/*
 * lop3: any function of three bits. The table is the same in all lanes, so the eight entries become masks once per instruction and every
 * lane needs three levels of two-way choices.
 */
#ifndef TSR_LANE_LOP3_H
#define TSR_LANE_LOP3_H

#include <stdint.h>

/* base[n] is the value for c = 0, flip[n] what c = 1 changes; n = a * 2 + b. */
struct tsr_lop3 {
    uint32_t base[4], flip[4];
};

static inline struct tsr_lop3 tsr_lop3_table(uint32_t table)
{
    struct tsr_lop3 t;
    for (int n = 0; n < 4; n++) {
        uint32_t zero = 0u - (table >> (2 * n) & 1), one = 0u - (table >> (2 * n + 1) & 1);
        t.base[n] = zero;
        t.flip[n] = zero ^ one;
    }
    return t;
}

static inline uint32_t b32_lop3(uint32_t a, uint32_t b, uint32_t c, const struct tsr_lop3 *t)
{
    uint32_t v0 = t->base[0] ^ (t->flip[0] & c), v1 = t->base[1] ^ (t->flip[1] & c);
    uint32_t v2 = t->base[2] ^ (t->flip[2] & c), v3 = t->base[3] ^ (t->flip[3] & c);
    uint32_t low = v0 ^ ((v0 ^ v1) & b), high = v2 ^ ((v2 ^ v3) & b);
    return low ^ ((low ^ high) & a);
}

#endif
