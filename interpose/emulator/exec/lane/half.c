/* Registers of halves to floats and back. */
#include "emulator/exec/lane/half.h"

#if defined(__F16C__)
#include <immintrin.h>

void TSR_LANE_NAME(widen_f16)(float *out, const uint16_t *in, int count)
{
    for (int n = 0; n < count; n += 8)
        _mm256_storeu_ps(out + n, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(in + n))));
}

void TSR_LANE_NAME(narrow_f16)(uint16_t *out, const float *in, int count)
{
    const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
    for (int n = 0; n < count; n += 8) {
        __m256 x = _mm256_loadu_ps(in + n);
        x = _mm256_blendv_ps(x, nan, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
        _mm_storeu_si128((__m128i *)(out + n), _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    }
}
#else
void TSR_LANE_NAME(widen_f16)(float *out, const uint16_t *in, int count)
{
    for (int n = 0; n < count; n++)
        out[n] = f16_widen(in[n]);
}

void TSR_LANE_NAME(narrow_f16)(uint16_t *out, const float *in, int count)
{
    for (int n = 0; n < count; n++)
        out[n] = f16_narrow(in[n]);
}
#endif

void TSR_LANE_NAME(widen_bf16)(float *out, const uint16_t *in, int count)
{
    for (int n = 0; n < count; n++)
        out[n] = bf16_widen(in[n]);
}

void TSR_LANE_NAME(narrow_bf16)(uint16_t *out, const float *in, int count)
{
    for (int n = 0; n < count; n++)
        out[n] = bf16_narrow(in[n]);
}
