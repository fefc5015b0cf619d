// nvcc -fatbin -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90 -gencode arch=compute_100,code=sm_100
//      -gencode arch=compute_120,code=sm_120 -o globals.fatbin globals.cu
#include <cassert>
#include <cstdio>

__device__ int counter;
__device__ int table[4] = {1, 2, 3, 4};
__device__ int never_used = 5;
__constant__ int bias[4] = {4, 3, 2, 1};
__device__ int *address = &never_used;

extern "C" __global__ void count(int *x)
{
    atomicAdd(&counter, 1);
    x[0] = 7;
}
extern "C" __global__ void look_up(int *x, int i)
{
    x[i] = table[i & 3];
}
extern "C" __global__ void add_bias(int *x, int i)
{
    x[i] = bias[i & 3];
}
extern "C" __global__ void print(int *x, int i)
{
    printf("%d\n", i);
}
extern "C" __global__ void check(int *x, int i)
{
    assert(i > 0);
    x[i] = 1;
}
extern "C" __global__ void keep(int *x, int i)
{
    static int kept = 3;
    kept += i;
    x[i] = kept;
}
extern "C" __global__ void plain(int *x, int i)
{
    __shared__ int part[32];
    part[threadIdx.x] = i;
    __syncthreads();
    x[i] = part[31 - threadIdx.x];
}
extern "C" __global__ void allocate(int **x, int i)
{
    x[i] = (int *)malloc(4);
}
__noinline__ __device__ int helper(int i)
{
    return atomicAdd(&counter, i);
}
extern "C" __global__ void through_call(int *x, int i)
{
    x[i] = helper(i);
}
