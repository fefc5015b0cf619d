/*
 * Matrix operations of a warp.
 *
 * One rule gives every fragment's layout. A matrix is cut into blocks of 8 rows and 4 * span columns; lane l holds `span` neighbouring elements of
 * row l / 4, from column l % 4 * span; so the registers of all lanes, side by side, are the block in row-major order. Blocks follow each other
 * down the rows first. B is laid out as its transpose. span: elements in a register for A and B, 2 for C and D.
 *
 * Compiled once per instruction-set level (isa/level.h). The expressions that name these functions come from ptxtools/isa/matrix.py.
 */
#ifndef TSR_EXEC_MATRIX_MATRIX_H
#define TSR_EXEC_MATRIX_MATRIX_H

#include "emulator/exec/lane/convert.h"
#include "emulator/exec/lane/half.h"
#include "emulator/isa/level.h"
#include "emulator/exec/warp.h"

#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define TSR_MATRIX_INLINE static inline __attribute__((always_inline))
#define TSR_MATRIX_ALIGNED __attribute__((aligned(64)))

enum tsr_matrix_type { TSR_MATRIX_F16, TSR_MATRIX_BF16, TSR_MATRIX_TF32, TSR_MATRIX_E4M3, TSR_MATRIX_E5M2 };

/* memory.c; not leveled */
struct tsr_fragment {
    uint8_t rows, columns, span, bytes, registers;
    uint8_t transposed;   /* laid out as its transpose: B */
    uint8_t column_major; /* in memory */
    uint8_t space;        /* enum tsr_space_kind */
};
const struct tsr_insn *tsr_fragment_load(struct tsr_warp *w, const struct tsr_insn *i, uint32_t m,
                                         const struct tsr_fragment *f);
const struct tsr_insn *tsr_fragment_store(struct tsr_warp *w, const struct tsr_insn *i, uint32_t m,
                                          const struct tsr_fragment *f);
const struct tsr_insn *tsr_ldmatrix(struct tsr_warp *w, const struct tsr_insn *i, uint32_t m, uint32_t count, bool transpose,
                                    enum tsr_space_kind space);
const struct tsr_insn *tsr_stmatrix(struct tsr_warp *w, const struct tsr_insn *i, uint32_t m, uint32_t count, bool transpose,
                                    enum tsr_space_kind space);
const struct tsr_insn *tsr_movmatrix(struct tsr_warp *w, const struct tsr_insn *i, uint32_t m);

/* True when the operation may go on; its lanes wait for each other. */
TSR_MATRIX_INLINE bool tsr_matrix_together(struct tsr_warp *w, const struct tsr_insn *i, uint32_t m,
                                           const struct tsr_insn **next)
{
    return m == UINT32_MAX || tsr_warp_converge(w, i, m, w->live, next);
}

/* Writes a 32-bit register of the lanes in m; value holds one for each lane. */
TSR_MATRIX_INLINE void tsr_matrix_put(struct tsr_warp *w, uint32_t reg, const void *value, uint32_t m)
{
    unsigned char *d = w->frame + reg;
    if (m == UINT32_MAX) {
        memcpy(d, value, 128);
        return;
    }
    for (uint32_t rest = m; rest; rest &= rest - 1) {
        uint32_t at = 4 * (uint32_t)__builtin_ctz(rest);
        memcpy(d + at, (const unsigned char *)value + at, 4);
    }
}

/* A register of all lanes as a block of floats, 32 * span of them. */
TSR_MATRIX_INLINE void tsr_matrix_block(float *out, const unsigned char *reg, enum tsr_matrix_type type)
{
    const uint32_t *words = (const uint32_t *)(const void *)reg;
    switch (type) {
    case TSR_MATRIX_F16:
        TSR_LANE_NAME(widen_f16)(out, (const uint16_t *)(const void *)reg, 64);
        break;
    case TSR_MATRIX_BF16:
        TSR_LANE_NAME(widen_bf16)(out, (const uint16_t *)(const void *)reg, 64);
        break;
    case TSR_MATRIX_TF32: /* the low bits do not count */
        for (int n = 0; n < 32; n++)
            out[n] = f32_from(words[n] & 0xffffe000u);
        break;
    case TSR_MATRIX_E4M3:
        for (int n = 0; n < 128; n++)
            out[n] = f16_widen(e4m3_to_f16(reg[n]));
        break;
    case TSR_MATRIX_E5M2:
        for (int n = 0; n < 128; n++)
            out[n] = f16_widen(e5m2_to_f16(reg[n]));
        break;
    }
}

/* acc[8][8] += a[8][depth] * b[depth][8], k ascending. */
TSR_MATRIX_INLINE void tsr_matrix_accumulate(float acc[64], const float *a, const float *b, int depth)
{
#if defined(__FMA__)
    __m256 sum[8];
    for (int row = 0; row < 8; row++)
        sum[row] = _mm256_load_ps(acc + 8 * row);
    for (int k = 0; k < depth; k++) {
        __m256 right = _mm256_load_ps(b + 8 * k);
        for (int row = 0; row < 8; row++)
            sum[row] = _mm256_fmadd_ps(_mm256_broadcast_ss(a + row * depth + k), right, sum[row]);
    }
    for (int row = 0; row < 8; row++)
        _mm256_store_ps(acc + 8 * row, sum[row]);
#else
    for (int k = 0; k < depth; k++)
        for (int row = 0; row < 8; row++)
            for (int column = 0; column < 8; column++)
                acc[8 * row + column] = f32_fma(a[row * depth + k], b[8 * k + column], acc[8 * row + column]);
#endif
}

/* rows, columns, depth count blocks. halves: D or C is f16. a_regs, b_regs: registers given, of which the first ones count. */
TSR_MATRIX_INLINE const struct tsr_insn *tsr_mma_float(struct tsr_warp *w, const struct tsr_insn *i, uint32_t m, int rows,
                                                       int columns, int depth, int span, enum tsr_matrix_type a_type,
                                                       enum tsr_matrix_type b_type, bool d_half, bool c_half, int a_regs,
                                                       int b_regs)
{
    enum { MOST = 4 };
    TSR_MATRIX_ALIGNED float a[MOST * MOST][128], b[MOST * MOST][128], raw[128], acc[64];
    const struct tsr_insn *next;
    if (!tsr_matrix_together(w, i, m, &next))
        return next;
    const uint32_t *list = i->list;
    int tiles = rows * columns, width = 4 * span, d_regs = d_half ? tiles : 2 * tiles;
    const uint32_t *sources = list + d_regs, *addends = sources + a_regs + b_regs;
    uint32_t result[MOST * 2][32];

    for (int block = 0; block < rows * depth; block++)
        tsr_matrix_block(a[block], w->frame + sources[block], a_type);
    for (int block = 0; block < columns * depth; block++) {
        tsr_matrix_block(raw, w->frame + sources[a_regs + block], b_type);
        for (int k = 0; k < width; k++)
            for (int column = 0; column < 8; column++)
                b[block][8 * k + column] = raw[column * width + k];
    }
    for (int tile = 0; tile < tiles; tile++) {
        if (c_half) {
            TSR_LANE_NAME(widen_f16)(acc, (const uint16_t *)(const void *)(w->frame + addends[tile]), 64);
        } else {
            const float *even = (const float *)(const void *)(w->frame + addends[2 * tile]);
            const float *odd = (const float *)(const void *)(w->frame + addends[2 * tile + 1]);
            for (int l = 0; l < 32; l++) {
                acc[2 * l] = even[l];
                acc[2 * l + 1] = odd[l];
            }
        }
        for (int k = 0; k < depth; k++)
            tsr_matrix_accumulate(acc, a[tile % rows + k * rows], b[tile / rows + k * columns], width);
        if (d_half) {
            TSR_LANE_NAME(narrow_f16)((uint16_t *)(void *)result[tile], acc, 64);
        } else {
            for (int l = 0; l < 32; l++) {
                result[2 * tile][l] = f32_bits(f32_canonical(acc[2 * l]));
                result[2 * tile + 1][l] = f32_bits(f32_canonical(acc[2 * l + 1]));
            }
        }
    }
    for (int reg = 0; reg < d_regs; reg++)
        tsr_matrix_put(w, list[reg], result[reg], m);
    return i + 1;
}

/* sum[8][8] += a[8][16] * b[8][16] transposed, of bytes. */
TSR_MATRIX_INLINE void tsr_matrix_accumulate_bytes(int32_t sum[64], const unsigned char *a, const unsigned char *b,
                                                   bool a_signed, bool b_signed)
{
    TSR_MATRIX_ALIGNED int16_t left[128], columns[128];
    /* Columns of neighbouring k side by side: one multiplication takes two of them. */
    TSR_MATRIX_ALIGNED int16_t right[8][8][2];
    for (int n = 0; n < 128; n++)
        left[n] = a_signed ? (int8_t)a[n] : a[n];
    for (int n = 0; n < 128; n++)
        columns[n] = b_signed ? (int8_t)b[n] : b[n];
    for (int pair = 0; pair < 8; pair++)
        for (int column = 0; column < 8; column++)
            memcpy(right[pair][column], columns + 16 * column + 2 * pair, 4);
#if defined(__AVX2__)
    for (int row = 0; row < 8; row++) {
        __m256i total = _mm256_load_si256((const __m256i *)(const void *)(sum + 8 * row));
        for (int pair = 0; pair < 8; pair++) {
            int32_t both;
            memcpy(&both, left + 16 * row + 2 * pair, sizeof both);
            __m256i both_columns = _mm256_load_si256((const __m256i *)(const void *)right[pair]);
            total = _mm256_add_epi32(total, _mm256_madd_epi16(_mm256_set1_epi32(both), both_columns));
        }
        _mm256_store_si256((__m256i *)(void *)(sum + 8 * row), total);
    }
#else
    for (int row = 0; row < 8; row++)
        for (int k = 0; k < 16; k++)
            for (int column = 0; column < 8; column++)
                sum[8 * row + column] += left[16 * row + k] * right[k / 2][column][k % 2];
#endif
}

/* Blocks of 8 x 16 bytes. */
TSR_MATRIX_INLINE const struct tsr_insn *tsr_mma_integer(struct tsr_warp *w, const struct tsr_insn *i, uint32_t m, int rows,
                                                         int columns, int depth, bool a_signed, bool b_signed, bool saturate,
                                                         int a_regs, int b_regs)
{
    enum { MOST = 4 };
    const struct tsr_insn *next;
    if (!tsr_matrix_together(w, i, m, &next))
        return next;
    const uint32_t *list = i->list;
    int tiles = rows * columns;
    const uint32_t *sources = list + 2 * tiles, *addends = sources + a_regs + b_regs;
    uint32_t result[MOST * 2][32];

    for (int tile = 0; tile < tiles; tile++) {
        TSR_MATRIX_ALIGNED int32_t sum[64] = {0};
        for (int k = 0; k < depth; k++)
            tsr_matrix_accumulate_bytes(sum, w->frame + sources[tile % rows + k * rows],
                                        w->frame + sources[a_regs + tile / rows + k * columns], a_signed, b_signed);
        for (int odd = 0; odd < 2; odd++) {
            const int32_t *c = (const int32_t *)(const void *)(w->frame + addends[2 * tile + odd]);
            for (int l = 0; l < 32; l++) {
                int64_t exact = (int64_t)c[l] + sum[2 * l + odd];
                exact = saturate && exact > INT32_MAX ? INT32_MAX : saturate && exact < INT32_MIN ? INT32_MIN : exact;
                result[2 * tile + odd][l] = (uint32_t)exact;
            }
        }
    }
    for (int reg = 0; reg < 2 * tiles; reg++)
        tsr_matrix_put(w, list[reg], result[reg], m);
    return i + 1;
}

/* Blocks of 8 x 4 numbers. */
TSR_MATRIX_INLINE const struct tsr_insn *tsr_mma_double(struct tsr_warp *w, const struct tsr_insn *i, uint32_t m, int rows,
                                                        int columns, int depth)
{
    enum { MOST = 2 };
    const struct tsr_insn *next;
    if (!tsr_matrix_together(w, i, m, &next))
        return next;
    const uint32_t *list = i->list;
    int tiles = rows * columns;
    const uint32_t *sources = list + 2 * tiles, *addends = sources + rows * depth + columns * depth;
    double result[MOST * 2][32];

    for (int tile = 0; tile < tiles; tile++) {
        TSR_MATRIX_ALIGNED double acc[64], b[32];
        for (int n = 0; n < 64; n++)
            acc[n] = ((const double *)(const void *)(w->frame + addends[2 * tile + (n & 1)]))[n >> 1];
        for (int k = 0; k < depth; k++) {
            const double *a = (const double *)(const void *)(w->frame + sources[tile % rows + k * rows]);
            const double *right = (const double *)(const void *)(w->frame + sources[rows * depth + tile / rows + k * columns]);
            for (int at = 0; at < 4; at++)
                for (int column = 0; column < 8; column++)
                    b[8 * at + column] = right[column * 4 + at];
            for (int at = 0; at < 4; at++)
                for (int row = 0; row < 8; row++)
                    for (int column = 0; column < 8; column++)
                        acc[8 * row + column] = f64_fma(a[row * 4 + at], b[8 * at + column], acc[8 * row + column]);
        }
        for (int n = 0; n < 64; n++)
            result[2 * tile + (n & 1)][n >> 1] = acc[n] == acc[n] ? acc[n] : f64_from(TSR_F64_INVALID);
    }
    for (int reg = 0; reg < 2 * tiles; reg++) {
        double *d = (double *)(void *)(w->frame + list[reg]);
        for (uint32_t rest = m; rest; rest &= rest - 1)
            d[__builtin_ctz(rest)] = result[reg][__builtin_ctz(rest)];
    }
    return i + 1;
}

#endif
