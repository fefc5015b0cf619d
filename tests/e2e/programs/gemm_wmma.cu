// Tensor-core matrix products through the WMMA API: half, bfloat16, tf32 and signed 8-bit operands.
//
// Floating-point inputs are small integers divided by powers of two, so every product and partial sum is exact and the
// order in which the tensor core adds does not matter: results must be equal, not near.
#include <mma.h>

#include "check.h"

using namespace nvcuda;

template <typename T, typename Acc, int M, int N, int K, typename Fragment = T>
__global__ void gemm(const T *a, const T *b, Acc *c, int n, int k)
{
    int row = blockIdx.y * M, column = blockIdx.x * N;
    wmma::fragment<wmma::matrix_a, M, N, K, Fragment, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, M, N, K, Fragment, wmma::row_major> right;
    wmma::fragment<wmma::accumulator, M, N, K, Acc> sum;
    wmma::fill_fragment(sum, Acc(0));
    for (int start = 0; start < k; start += K) {
        wmma::load_matrix_sync(left, a + row * k + start, k);
        wmma::load_matrix_sync(right, b + start * n + column, n);
        wmma::mma_sync(sum, left, right, sum);
    }
    wmma::store_matrix_sync(c + row * n + column, sum, n, wmma::mem_row_major);
}

template <typename T>
T from_int(int value)
{
    return T((float)value / 4.0f);
}
template <>
signed char from_int<signed char>(int value)
{
    return (signed char)value;
}
template <typename T>
double to_double(T value)
{
    return (double)(float)value;
}

template <typename T, typename Acc, int M, int N, int K, typename Fragment = T>
void run(const char *what)
{
    const int m = 64, n = 64, k = 64;
    Random random(4);
    std::vector<T> a(m * k), b(k * n);
    for (T &value : a)
        value = from_int<T>((int)random.below(17) - 8);
    for (T &value : b)
        value = from_int<T>((int)random.below(17) - 8);
    std::vector<Acc> want(m * n);
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double sum = 0;
            for (int x = 0; x < k; x++)
                sum += to_double(a[i * k + x]) * to_double(b[x * n + j]);
            want[i * n + j] = (Acc)(float)sum;
        }
    T *device_a = upload(a), *device_b = upload(b);
    Acc *device_c = device_array<Acc>(m * n);
    gemm<T, Acc, M, N, K, Fragment><<<dim3(n / N, m / M), 32>>>(device_a, device_b, device_c, n, k);
    CUDA(cudaGetLastError());
    auto got = download(device_c, m * n);
    std::vector<float> got_floats(got.begin(), got.end()), want_floats(want.begin(), want.end());
    expect_equal(what, got_floats, want_floats);
}

int main()
{
    run<half, float, 16, 16, 16>("half to float");
    run<half, half, 16, 16, 16>("half to half");
    run<half, float, 32, 8, 16>("half, 32x8 tiles");
    run<half, float, 8, 32, 16>("half, 8x32 tiles");
    run<__nv_bfloat16, float, 16, 16, 16>("bfloat16");
    run<float, float, 16, 16, 8, wmma::precision::tf32>("tf32");
    run<signed char, int, 16, 16, 16>("signed 8-bit");
    return finish();
}
