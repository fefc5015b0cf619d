/* Integer helpers of the lane operations: every one is defined for all inputs and free of branches where a vector form exists. */
#ifndef TSR_LANE_INTEGER_H
#define TSR_LANE_INTEGER_H

#include <stdint.h>

static inline int32_t s32_clamp(int64_t x)
{
    return x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : (int32_t)x;
}

static inline int32_t s32_relu(int32_t x)
{
    return x < 0 ? 0 : x;
}

static inline uint32_t s16x2_relu(uint32_t x)
{
    return (x & 0x8000u ? 0 : x & 0xffffu) | (x & 0x80000000u ? 0 : x & 0xffff0000u);
}

static inline uint16_t u16_mul_hi(uint16_t a, uint16_t b)
{
    return (uint16_t)((uint32_t)a * b >> 16);
}
static inline int16_t s16_mul_hi(int16_t a, int16_t b)
{
    return (int16_t)((int32_t)a * b >> 16);
}
static inline uint32_t u32_mul_hi(uint32_t a, uint32_t b)
{
    return (uint32_t)((uint64_t)a * b >> 32);
}
static inline int32_t s32_mul_hi(int32_t a, int32_t b)
{
    return (int32_t)((int64_t)a * b >> 32);
}
static inline uint64_t u64_mul_hi(uint64_t a, uint64_t b)
{
    return (uint64_t)((unsigned __int128)a * b >> 64);
}
static inline int64_t s64_mul_hi(int64_t a, int64_t b)
{
    return (int64_t)((__int128)a * b >> 64);
}

static inline int64_t s24(int32_t x)
{
    return (int32_t)((uint32_t)x << 8) >> 8;
}
static inline uint64_t u24(uint32_t x)
{
    return x & 0xffffffu;
}

/*
 * Division by zero gives all ones, as does its remainder. 32-bit quotients are exact in double precision; the most negative number divided by
 * minus one wraps.
 */
static inline uint32_t u32_div(uint32_t a, uint32_t b)
{
    double q = (double)a / (double)(b ? b : 1);
    /* Conversion of 2^31 and more, without an unsigned instruction. */
    uint32_t high = q >= 2147483648.0;
    uint32_t whole = (uint32_t)(int32_t)(high ? q - 2147483648.0 : q) + (high << 31);
    return b ? whole : 0xffffffffu;
}

static inline uint32_t u32_rem(uint32_t a, uint32_t b)
{
    return b ? a - u32_div(a, b) * b : 0xffffffffu;
}

static inline int32_t s32_div(int32_t a, int32_t b)
{
    uint32_t x = a < 0 ? 0u - (uint32_t)a : (uint32_t)a, y = b < 0 ? 0u - (uint32_t)b : (uint32_t)b;
    uint32_t q = u32_div(x, y);
    return b ? (int32_t)((a ^ b) < 0 ? 0u - q : q) : -1;
}

static inline int32_t s32_rem(int32_t a, int32_t b)
{
    return b ? (int32_t)((uint32_t)a - (uint32_t)s32_div(a, b) * (uint32_t)b) : -1;
}

static inline uint16_t u16_div(uint16_t a, uint16_t b)
{
    return (uint16_t)u32_div(a, b);
}
static inline uint16_t u16_rem(uint16_t a, uint16_t b)
{
    return (uint16_t)u32_rem(a, b);
}
static inline int16_t s16_div(int16_t a, int16_t b)
{
    return (int16_t)s32_div(a, b);
}
static inline int16_t s16_rem(int16_t a, int16_t b)
{
    return (int16_t)s32_rem(a, b);
}
static inline uint64_t u64_div(uint64_t a, uint64_t b)
{
    return b ? a / b : UINT64_MAX;
}
static inline uint64_t u64_rem(uint64_t a, uint64_t b)
{
    return b ? a % b : UINT64_MAX;
}

static inline int64_t s64_div(int64_t a, int64_t b)
{
    return b == 0 ? -1 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

static inline int64_t s64_rem(int64_t a, int64_t b)
{
    return b == 0 ? -1 : b == -1 ? 0 : a % b;
}

/* Bit counts in plain arithmetic: vectorises at every level. */
static inline uint32_t b32_popc(uint32_t x)
{
    x -= x >> 1 & 0x55555555u;
    x = (x & 0x33333333u) + (x >> 2 & 0x33333333u);
    return ((x + (x >> 4)) & 0x0f0f0f0fu) * 0x01010101u >> 24;
}

static inline uint32_t b64_popc(uint64_t x)
{
    return b32_popc((uint32_t)x) + b32_popc((uint32_t)(x >> 32));
}

static inline uint32_t b32_clz(uint32_t x)
{
    x |= x >> 1;
    x |= x >> 2;
    x |= x >> 4;
    x |= x >> 8;
    x |= x >> 16;
    return b32_popc(~x);
}

static inline uint32_t b64_clz(uint64_t x)
{
    uint32_t high = (uint32_t)(x >> 32);
    return high ? b32_clz(high) : 32 + b32_clz((uint32_t)x);
}

static inline uint32_t b32_brev(uint32_t x)
{
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    x = (x >> 8 & 0x00ff00ffu) | (x & 0x00ff00ffu) << 8;
    return x >> 16 | x << 16;
}

static inline uint64_t b64_brev(uint64_t x)
{
    return (uint64_t)b32_brev((uint32_t)x) << 32 | b32_brev((uint32_t)(x >> 32));
}

/* Position of the highest set bit, all ones when there is none; _shift: how far to shift left to bring it to the top. */
static inline uint32_t b32_bfind(uint32_t x)
{
    return 31 - b32_clz(x);
}
static inline uint32_t b64_bfind(uint64_t x)
{
    return 63 - b64_clz(x);
}
static inline uint32_t b32_bfind_shift(uint32_t x)
{
    return x ? b32_clz(x) : 0xffffffffu;
}
static inline uint32_t b64_bfind_shift(uint64_t x)
{
    return x ? b64_clz(x) : 0xffffffffu;
}

/*
 * Bit fields. Position and length count modulo 256 in the 32-bit forms, as they are in the 64-bit ones (as on hardware); what lies beyond
 * the word reads as zero or as the sign.
 */
static inline uint32_t u32_bfe(uint32_t a, uint32_t position, uint32_t length)
{
    position &= 255;
    length &= 255;
    uint32_t field = a >> (position & 31);
    uint32_t ones = (1u << (length & 31)) - 1;
    ones = length > 31 ? 0xffffffffu : ones;
    return position > 31 ? 0 : field & ones;
}

static inline uint64_t u64_bfe(uint64_t a, uint32_t position, uint32_t length)
{
    uint64_t field = position > 63 ? 0 : a >> (position & 63);
    return length > 63 ? field : field & ((1ull << (length & 63)) - 1);
}

static inline int32_t s32_bfe(int32_t a, uint32_t position, uint32_t length)
{
    position &= 255;
    length &= 255;
    int32_t field = a >> (position > 31 ? 31 : position);
    uint32_t unused = length > 31 ? 0 : 32 - length;
    int32_t value = (int32_t)((uint32_t)field << (unused & 31)) >> (unused & 31);
    return length == 0 ? 0 : value;
}

static inline int64_t s64_bfe(int64_t a, uint32_t position, uint32_t length)
{
    int64_t field = a >> (position > 63 ? 63 : position);
    uint32_t unused = length > 63 ? 0 : 64 - length;
    int64_t value = (int64_t)((uint64_t)field << (unused & 63)) >> (unused & 63);
    return length == 0 ? 0 : value;
}

static inline uint32_t b32_field_mask(uint32_t position, uint32_t length)
{
    uint32_t ones = length > 31 ? 0xffffffffu : (1u << (length & 31)) - 1;
    return position > 31 ? 0 : ones << (position & 31);
}

static inline uint64_t b64_field_mask(uint32_t position, uint32_t length)
{
    uint64_t ones = length > 63 ? UINT64_MAX : (1ull << (length & 63)) - 1;
    return position > 63 ? 0 : ones << (position & 63);
}

static inline uint32_t b32_bfi(uint32_t a, uint32_t b, uint32_t position, uint32_t length)
{
    uint32_t mask = b32_field_mask(position & 255, length & 255);
    return (b & ~mask) | (a << (position & 31) & mask);
}

static inline uint64_t b64_bfi(uint64_t a, uint64_t b, uint32_t position, uint32_t length)
{
    uint64_t mask = b64_field_mask(position, length);
    return (b & ~mask) | (a << (position & 63) & mask);
}

static inline uint32_t b32_bmsk_clamp(uint32_t position, uint32_t length)
{
    return b32_field_mask(position, length);
}
static inline uint32_t b32_bmsk_wrap(uint32_t position, uint32_t length)
{
    return b32_field_mask(position & 31, length & 31);
}

/* The low `bits` bits of a number, extended; clamp: 32 and more keep it, zero gives zero. */
static inline uint32_t u32_szext_clamp(uint32_t a, uint32_t bits)
{
    return a & b32_field_mask(0, bits);
}
static inline uint32_t u32_szext_wrap(uint32_t a, uint32_t bits)
{
    return a & b32_field_mask(0, bits & 31);
}
static inline int32_t s32_szext_clamp(int32_t a, uint32_t bits)
{
    return s32_bfe(a, 0, bits > 32 ? 32 : bits);
}
static inline int32_t s32_szext_wrap(int32_t a, uint32_t bits)
{
    return s32_bfe(a, 0, bits & 31);
}

/* The offset-th set bit of mask from position base upwards (offset > 0), downwards (< 0), or base itself if set (0); none: all ones. */
static inline uint32_t b32_fns(uint32_t mask, uint32_t base, int32_t offset)
{
    int32_t step = offset >= 0 ? 1 : -1;
    int64_t left = offset > 0 ? offset : offset < 0 ? -(int64_t)offset : 1;
    if (offset == 0)
        mask &= base < 32 ? 1u << base : 0;
    for (uint32_t position = base; position < 32; position += (uint32_t)step)
        if ((mask >> position & 1) && --left == 0)
            return position;
    return 0xffffffffu;
}

/* Byte `n` of b:a chosen by a selector's low three bits; its fourth bit asks for the byte's sign instead. */
static inline uint32_t b32_prmt_byte(uint64_t bytes, uint32_t selector)
{
    uint32_t byte = (uint32_t)(bytes >> (8 * (selector & 7))) & 0xff;
    return selector & 8 ? (byte & 0x80 ? 0xff : 0) : byte;
}

static inline uint32_t b32_prmt(uint32_t a, uint32_t b, uint32_t selectors)
{
    uint64_t bytes = (uint64_t)b << 32 | a;
    return b32_prmt_byte(bytes, selectors) | b32_prmt_byte(bytes, selectors >> 4) << 8 |
           b32_prmt_byte(bytes, selectors >> 8) << 16 | b32_prmt_byte(bytes, selectors >> 12) << 24;
}

/* prmt's named modes as selectors, from the low two bits of c. */
static inline uint32_t b32_prmt_f4e(uint32_t c)
{
    return 0x3210u + 0x1111u * (c & 3);
}
static inline uint32_t b32_prmt_b4e(uint32_t c)
{
    return (0x5670u + 0x1111u * (c & 3)) & 0x7777u;
}
static inline uint32_t b32_prmt_rc8(uint32_t c)
{
    return 0x1111u * (c & 3);
}
static inline uint32_t b32_prmt_rc16(uint32_t c)
{
    return c & 1 ? 0x3232u : 0x1010u;
}

static inline uint32_t b32_prmt_ecl(uint32_t c)
{
    uint32_t selectors = 0;
    for (uint32_t n = 0; n < 4; n++)
        selectors |= (n < (c & 3) ? (c & 3) : n) << (4 * n);
    return selectors;
}

static inline uint32_t b32_prmt_ecr(uint32_t c)
{
    uint32_t selectors = 0;
    for (uint32_t n = 0; n < 4; n++)
        selectors |= (n > (c & 3) ? (c & 3) : n) << (4 * n);
    return selectors;
}

/* Dot products of four bytes, or of two 16-bit numbers with two bytes; the suffix names the operands' signs. */
#define TSR_DOT(suffix, byte_a, byte_b, half_a)                                                                                \
    static inline uint32_t dp4a_##suffix(uint32_t a, uint32_t b, uint32_t c)                                                   \
    {                                                                                                                          \
        int32_t low = (byte_a)a * (byte_b)b + (byte_a)(a >> 8) * (byte_b)(b >> 8);                                             \
        int32_t high = (byte_a)(a >> 16) * (byte_b)(b >> 16) + (byte_a)(a >> 24) * (byte_b)(b >> 24);                          \
        return c + (uint32_t)low + (uint32_t)high;                                                                             \
    }                                                                                                                          \
    static inline uint32_t dp2a_##suffix(uint32_t a, uint32_t b, uint32_t c)                                                   \
    {                                                                                                                          \
        return c + (uint32_t)((half_a)a * (byte_b)b) + (uint32_t)((half_a)(a >> 16) * (byte_b)(b >> 8));                       \
    }
TSR_DOT(uu, uint8_t, uint8_t, uint16_t)
TSR_DOT(us, uint8_t, int8_t, uint16_t)
TSR_DOT(su, int8_t, uint8_t, int16_t)
TSR_DOT(ss, int8_t, int8_t, int16_t)
#undef TSR_DOT

#endif
