/*
 * Tests over the addresses of a warp and moves between memory and registers, in the instruction set of the level that includes it.
 * Arrays of lanes are 64-byte aligned.
 */
#ifndef TSR_EXEC_LANES_H
#define TSR_EXEC_LANES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define TSR_LANES_INLINE static inline __attribute__((always_inline))

/* Whether a[0..15] are first, first + step, first + 2 step ... */
TSR_LANES_INLINE bool tsr_ramp32(const uint32_t *a, uint32_t step)
{
#if defined(__AVX512F__)
    __m512i ramp = _mm512_mullo_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
                                      _mm512_set1_epi32((int)step));
    return _mm512_cmpneq_epi32_mask(_mm512_load_si512(a), _mm512_add_epi32(ramp, _mm512_set1_epi32((int)a[0]))) == 0;
#elif defined(__AVX2__)
    __m256i first = _mm256_set1_epi32((int)a[0]), by = _mm256_set1_epi32((int)step);
    __m256i low = _mm256_add_epi32(first, _mm256_mullo_epi32(_mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0), by));
    __m256i high = _mm256_add_epi32(first, _mm256_mullo_epi32(_mm256_set_epi32(15, 14, 13, 12, 11, 10, 9, 8), by));
    __m256i same = _mm256_and_si256(_mm256_cmpeq_epi32(_mm256_load_si256((const __m256i *)a), low),
                                    _mm256_cmpeq_epi32(_mm256_load_si256((const __m256i *)(a + 8)), high));
    return _mm256_movemask_epi8(same) == -1;
#else
    uint32_t differ = 0;
    for (uint32_t l = 0; l < 16; l++)
        differ |= a[l] ^ (a[0] + l * step);
    return differ == 0;
#endif
}

TSR_LANES_INLINE bool tsr_ramp64(const uint64_t *a, uint64_t step)
{
#if defined(__AVX512F__)
    __m512i ramp = _mm512_set_epi64(7 * (long long)step, 6 * (long long)step, 5 * (long long)step, 4 * (long long)step,
                                    3 * (long long)step, 2 * (long long)step, (long long)step, 0);
    __m512i first = _mm512_add_epi64(ramp, _mm512_set1_epi64((long long)a[0]));
    __m512i second = _mm512_add_epi64(first, _mm512_set1_epi64(8 * (long long)step));
    return (_mm512_cmpneq_epi64_mask(_mm512_load_si512(a), first) |
            _mm512_cmpneq_epi64_mask(_mm512_load_si512(a + 8), second)) == 0;
#else
    uint64_t differ = 0;
    for (uint32_t l = 0; l < 16; l++)
        differ |= a[l] ^ (a[0] + l * step);
    return differ == 0;
#endif
}

/* Whether every a[l] + add is below room and has none of the bits in `low`. */
TSR_LANES_INLINE bool tsr_inside32(const uint32_t *a, uint32_t add, uint32_t room, uint32_t low)
{
#if defined(__AVX512F__)
    __m512i by = _mm512_set1_epi32((int)add), limit = _mm512_set1_epi32((int)room);
    __m512i x = _mm512_add_epi32(_mm512_load_si512(a), by), y = _mm512_add_epi32(_mm512_load_si512(a + 16), by);
    uint32_t bad = _mm512_cmpge_epu32_mask(x, limit) | _mm512_cmpge_epu32_mask(y, limit);
    if (low != 0)
        bad |= _mm512_test_epi32_mask(_mm512_or_si512(x, y), _mm512_set1_epi32((int)low));
    return bad == 0;
#else
    uint32_t bad = 0;
    for (uint32_t l = 0; l < 32; l++) {
        uint32_t x = a[l] + add;
        bad |= (x >= room ? 1u : 0u) | (x & low);
    }
    return bad == 0;
#endif
}

/* Whether every a[l] - base is below room and every a[l] + add has none of the bits in `low`. */
TSR_LANES_INLINE bool tsr_inside64(const uint64_t *a, uint64_t base, uint64_t room, uint64_t add, uint64_t low)
{
#if defined(__AVX512F__)
    __m512i from = _mm512_set1_epi64((long long)base), limit = _mm512_set1_epi64((long long)room), any = _mm512_setzero_si512();
    uint32_t bad = 0;
    for (int l = 0; l < 32; l += 8) {
        __m512i x = _mm512_load_si512(a + l);
        bad |= _mm512_cmpge_epu64_mask(_mm512_sub_epi64(x, from), limit);
        any = _mm512_or_si512(any, _mm512_add_epi64(x, _mm512_set1_epi64((long long)add)));
    }
    if (low != 0)
        bad |= _mm512_test_epi64_mask(any, _mm512_set1_epi64((long long)low));
    return bad == 0;
#else
    uint64_t bad = 0;
    for (uint32_t l = 0; l < 32; l++)
        bad |= (a[l] - base >= room ? 1u : 0u) | ((a[l] + add) & low);
    return bad == 0;
#endif
}

/* Copies lanes; those not in m get the value of the first that is. */
TSR_LANES_INLINE void tsr_fill32(uint32_t *out, const uint32_t *in, uint32_t m)
{
    uint32_t first = in[__builtin_ctz(m)];
    for (uint32_t l = 0; l < 32; l++)
        out[l] = m >> l & 1 ? in[l] : first;
}

TSR_LANES_INLINE void tsr_fill64(uint64_t *out, const uint64_t *in, uint32_t m)
{
    uint64_t first = in[__builtin_ctz(m)];
    for (uint32_t l = 0; l < 32; l++)
        out[l] = m >> l & 1 ? in[l] : first;
}

#endif
