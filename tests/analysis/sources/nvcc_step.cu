// nvcc -O3 -arch=sm_80 -ptx. Its tables say which tensor and which part of it a block works on: with other numbers in them it may be anywhere.
extern "C" {

// A step of an optimiser on many tensors: a block works on a chunk of the tensor that a table gives it.
struct Lists {
    float *addresses[4][36];
    unsigned long long elements[36];
    unsigned char tensor_of[320];
    int chunk_of[320];
};

__global__ void step_all(Lists lists, float rate, long long chunk)
{
    int tensor = lists.tensor_of[blockIdx.x];
    long long first = lists.chunk_of[blockIdx.x] * chunk, n = lists.elements[tensor] - first;
    float *p = lists.addresses[0][tensor] + first, *g = lists.addresses[1][tensor] + first, *m = lists.addresses[2][tensor] + first;
    for (long long i = threadIdx.x; i < n && i < chunk; i += blockDim.x) {
        m[i] = 0.9f * m[i] + 0.1f * g[i];
        p[i] -= rate * m[i];
    }
}
}
