// Causal attention twice: scores written out and normalised, and one pass with the online softmax.
#include "check.h"

constexpr int DIM = 32;

__global__ void attend_naive(const float *q, const float *k, const float *v, float *scores, float *out, int length)
{
    int row = blockIdx.x, head = blockIdx.y, t = threadIdx.x;
    const float *head_q = q + head * length * DIM, *head_k = k + head * length * DIM, *head_v = v + head * length * DIM;
    float *row_scores = scores + (head * length + row) * length;
    for (int j = t; j <= row; j += blockDim.x) {
        float score = 0;
        for (int d = 0; d < DIM; d++)
            score += head_q[row * DIM + d] * head_k[j * DIM + d];
        row_scores[j] = score * rsqrtf((float)DIM);
    }
    __syncthreads();
    float largest = -INFINITY, sum = 0, value = 0;
    for (int j = 0; j <= row; j++)
        largest = fmaxf(largest, row_scores[j]);
    for (int j = 0; j <= row; j++) {
        float weight = expf(row_scores[j] - largest);
        sum += weight;
        value += weight * head_v[j * DIM + t];
    }
    out[(head * length + row) * DIM + t] = value / sum;
}

// One warp per query row; lane = feature.  Keys are visited once; the running sum is rescaled when the maximum grows.
__global__ void attend_online(const float *q, const float *k, const float *v, float *out, int length)
{
    int row = blockIdx.x * blockDim.y + threadIdx.y, head = blockIdx.y, lane = threadIdx.x;
    if (row >= length)
        return;
    size_t base = (size_t)head * length * DIM;
    float query = q[base + row * DIM + lane] * rsqrtf((float)DIM), largest = -INFINITY, sum = 0, value = 0;
    for (int j = 0; j <= row; j++) {
        float score = query * k[base + j * DIM + lane];
        for (int distance = 16; distance > 0; distance /= 2)
            score += __shfl_xor_sync(0xffffffff, score, distance);
        float now = fmaxf(largest, score), keep = __expf(largest - now), weight = __expf(score - now);
        sum = sum * keep + weight;
        value = value * keep + weight * v[base + j * DIM + lane];
        largest = now;
    }
    out[base + row * DIM + lane] = value / sum;
}

int main()
{
    const int heads = 2, length = 61;
    Random random(12);
    size_t size = heads * length * DIM;
    auto q = random.floats(size, -2, 2), k = random.floats(size, -2, 2), v = random.floats(size, -1, 1);
    std::vector<double> want(size);
    for (int h = 0; h < heads; h++)
        for (int i = 0; i < length; i++) {
            std::vector<double> weights(i + 1);
            double sum = 0;
            for (int j = 0; j <= i; j++) {
                double score = 0;
                for (int d = 0; d < DIM; d++)
                    score += (double)q[(h * length + i) * DIM + d] * k[(h * length + j) * DIM + d];
                sum += weights[j] = exp(score / sqrt((double)DIM));
            }
            for (int d = 0; d < DIM; d++) {
                double value = 0;
                for (int j = 0; j <= i; j++)
                    value += weights[j] * v[(h * length + j) * DIM + d];
                want[(h * length + i) * DIM + d] = value / sum;
            }
        }
    float *device_q = upload(q), *device_k = upload(k), *device_v = upload(v);
    float *scores = device_array<float>(heads * length * length), *out = device_array<float>(size);
    attend_naive<<<dim3(length, heads), DIM>>>(device_q, device_k, device_v, scores, out, length);
    CUDA(cudaGetLastError());
    expect_near("naive", download(out, size), want, 1e-5, 1e-5);
    CUDA(cudaMemset(out, 0, size * sizeof(float)));
    attend_online<<<dim3((length + 3) / 4, heads), dim3(32, 4)>>>(device_q, device_k, device_v, out, length);
    CUDA(cudaGetLastError());
    expect_near("online", download(out, size), want, 2e-5, 2e-5);
    return finish();
}
