// Functions in every shape: recursive, through a table of pointers, with structs by value, with local arrays, of the system.
#include <cassert>
#include <cstdio>

struct S {
    double d;
    int i;
    const char *s;
};

__device__ int g1 = 5;
__constant__ float c1[4] = {1, 2, 3, 4};
__device__ S gs = {1.5, 3, "hi"};
__device__ int *gp = &g1;
__managed__ int mg = 3;
__device__ int (*fptr)(int);

__device__ __noinline__ int rec(int n)
{
    return n < 2 ? 1 : n * rec(n - 1);
}
__device__ __noinline__ int sq(int n)
{
    return n * n;
}
__device__ int (*tbl[2])(int) = {rec, sq};

__device__ __noinline__ S mk(int i, S s)
{
    s.i += i;
    return s;
}
__device__ __noinline__ int va(const int *p, int n)
{
    int s = 0;
    for (int i = 0; i < n; i++)
        s += p[i];
    return s;
}

__global__ void k(int *o, S s, int sel)
{
    extern __shared__ float dyn[];
    __shared__ int st[32];
    int loc[8];
    for (int i = 0; i < 8; i++)
        loc[i] = o[i];
    st[threadIdx.x] = loc[sel];
    __syncthreads();
    dyn[threadIdx.x] = c1[sel];
    S r = mk(sel, s);
    printf("x %d %f\n", r.i, r.d);
    assert(sel < 7);
    o[threadIdx.x] =
        tbl[sel](st[31 - threadIdx.x]) + va(loc, sel) + g1 + mg + gs.i + *gp + rec(sel) + (int)dyn[0];
    switch (sel) {
    case 0: o[0] = 1; break;
    case 1: o[1] = 7; break;
    case 2: o[3] = 8; break;
    case 3: o[4] = 9; break;
    case 4: o[6] = 77; break;
    case 5: o[8] *= 4; break;
    }
    void *p = malloc(10);
    free(p);
    atomicAdd(o, 3);
}
