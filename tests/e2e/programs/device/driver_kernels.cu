// Kernels of the driver-API programs, compiled to PTX text and to a fatbin that the programs load themselves.
extern "C" {

__constant__ int bias[4] = {1, 2, 3, 4};
__device__ unsigned long long launches;

__global__ void saxpy(float a, const float *x, float *y, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        y[i] = a * x[i] + y[i];
    if (i == 0)
        launches++;
}

__global__ void biased(const int *in, int *out, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        out[i] = in[i] + bias[i % 4];
}

struct Mixed {
    char tag;
    double weight;
    short rest[3];
};

__global__ void mixed_parameters(char c, Mixed mixed, short s, double *out)
{
    out[threadIdx.x] = c + mixed.tag + mixed.weight + mixed.rest[0] * 2 + mixed.rest[2] + s;
}

__global__ void fill(int *out, int value, int count)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        out[i] = value + i;
}
}
