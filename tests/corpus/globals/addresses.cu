// Addresses of code, variables and the heap that kernels leave in memory or take from there, and what must not be taken for it.
// nvcc -fatbin -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90 -gencode arch=compute_100,code=sm_100 -o addresses.fatbin addresses.cu
#include <cstdio>
#include <new>

struct Shape {
    __device__ virtual float area(float x) const = 0;
};
struct Square : Shape {
    float side;
    __device__ float area(float x) const override { return side * side + x; }
};

using Function = float (*)(float);
__device__ __noinline__ float twice(float x) { return x * 2; }
__device__ __noinline__ float thrice(float x) { return x * 3 + 1; }
__device__ int counter[16];
__constant__ int *shortcut = counter;

extern "C" {
__global__ void make(char *room) { new (room) Square; }
__global__ void call_method(Shape **of, float *r) { r[threadIdx.x] = of[0]->area(r[threadIdx.x]); }
__global__ void leave_function(Function *to, int n) { to[0] = n ? twice : thrice; }
__global__ void call_function(Function *from, float *r) { r[threadIdx.x] = from[0](r[threadIdx.x]); }
__global__ void call_given(Function f, float *r) { r[threadIdx.x] = f(r[threadIdx.x]); }
__global__ void leave_variable(int **to) { to[0] = counter; }
__global__ void write_through(int **from) { from[0][threadIdx.x] = 5; }
__global__ void write_shortcut() { shortcut[threadIdx.x] = 5; }
__global__ void check(int *x) { if (!x[0]) __assert_fail("a", "b", 1, "c"); x[1] = 2; }
__global__ void call_by_name(float *r) { r[threadIdx.x] = twice(r[threadIdx.x]) + thrice(r[1]); }
__global__ void divide(double *x, long *y) { x[0] = x[1] / x[2]; y[0] = y[1] / y[2]; x[3] = y[x[2] > 1 ? 4 : 5]; }
__global__ void choose(int *x, int n)
{
    switch (n) {
    case 0: x[0] = 1; break;
    case 1: x[1] = 7; break;
    case 2: x[2] = x[4] * 3; break;
    case 3: x[9] /= x[3]; break;
    case 4: x[0] *= 3; break;
    case 5: x[5] = 0; break;
    case 6: x[0] ^= 77; break;
    case 7: x[3] = x[1] % x[2]; break;
    }
}
}
