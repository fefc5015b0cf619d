// Addresses of functions, variables and the heap that one launch leaves in memory, and another one uses.
#include <new>

#include "check.h"

struct Shape {
    float side;
    __device__ explicit Shape(float s) : side(s) {}
    __device__ virtual float area(float x) const = 0;
};

struct Square : Shape {
    __device__ explicit Square(float s) : Shape(s) {}
    __device__ float area(float x) const override { return side * side + x; }
};

struct Circle : Shape {
    __device__ explicit Circle(float s) : Shape(s) {}
    __device__ float area(float x) const override { return 3 * side * side - x; }
};

using Function = float (*)(float);

__device__ __noinline__ float twice(float x) { return 2 * x; }
__device__ __noinline__ float thrice(float x) { return 3 * x + 1; }

__device__ Function chosen = thrice;
__device__ float counters[32];
__constant__ float *shortcut = counters;

__global__ void make_objects(char *room)
{
    new (room) Square(2);
    new (room + 64) Circle(3);
}

__global__ void call_methods(const char *room, float *out)
{
    out[threadIdx.x] = reinterpret_cast<const Shape *>(room + threadIdx.x % 2 * 64)->area(float(threadIdx.x));
}

__global__ void leave_functions(Function *table)
{
    table[0] = twice;
    table[1] = thrice;
}

__global__ void call_functions(const Function *table, float *out)
{
    out[threadIdx.x] = table[threadIdx.x % 2](float(threadIdx.x));
}

__global__ void call_given(Function function, float *out)
{
    out[threadIdx.x] = function(float(threadIdx.x));
}

__global__ void leave_variable(float **place)
{
    *place = counters;
}

__global__ void add_through(float *const *place)
{
    (*place)[threadIdx.x] += float(threadIdx.x);
}

__global__ void add_given(float *values)
{
    values[threadIdx.x] += 100;
}

__global__ void add_through_initial()
{
    shortcut[threadIdx.x] += float(threadIdx.x);
}

__global__ void read_variable(float *out)
{
    out[threadIdx.x] = counters[threadIdx.x];
}

__global__ void allocate(float **place)
{
    *place = static_cast<float *>(malloc(32 * sizeof(float)));
}

__global__ void fill(float *const *place)
{
    (*place)[threadIdx.x] = float(threadIdx.x) / 2;
}

__global__ void scale_given(float *values)
{
    values[threadIdx.x] *= 3;
}

__global__ void take(float *const *place, float *out)
{
    out[threadIdx.x] = (*place)[threadIdx.x];
}

__global__ void release(float **place)
{
    free(*place);
}

template <typename Value>
static void expect_each(const char *what, const float *device, Value value)
{
    std::vector<float> wanted;
    for (int i = 0; i < 32; i++)
        wanted.push_back(value(float(i), i % 2));
    expect_equal(what, download(device, 32), wanted);
}

int main()
{
    char *room = device_array<char>(128);
    float *out = device_array<float>(32), **place = device_array<float *>(1), *given;
    Function *table = device_array<Function>(2), function;

    make_objects<<<1, 1>>>(room);
    call_methods<<<1, 32>>>(room, out);
    expect_each("methods", out, [](float x, int odd) { return odd ? 27 - x : 4 + x; });

    leave_functions<<<1, 1>>>(table);
    call_functions<<<1, 32>>>(table, out);
    expect_each("functions", out, [](float x, int odd) { return odd ? 3 * x + 1 : 2 * x; });
    CUDA(cudaMemcpyFromSymbol(&function, chosen, sizeof function));
    call_given<<<1, 32>>>(function, out);
    expect_each("a function that the host was told", out, [](float x, int) { return 3 * x + 1; });
    CUDA(cudaMemcpy(&function, table, sizeof function, cudaMemcpyDeviceToHost));
    call_given<<<1, 32>>>(function, out);
    expect_each("a function that the host found", out, [](float x, int) { return 2 * x; });

    leave_variable<<<1, 1>>>(place);
    add_through<<<1, 32>>>(place);
    CUDA(cudaMemcpy(&given, place, sizeof given, cudaMemcpyDeviceToHost));
    add_given<<<1, 32>>>(given);
    read_variable<<<1, 32>>>(out);
    expect_each("a variable", out, [](float x, int) { return x + 100; });
    add_through_initial<<<1, 32>>>();
    read_variable<<<1, 32>>>(out);
    expect_each("a variable, through another's initial value", out, [](float x, int) { return 2 * x + 100; });

    allocate<<<1, 1>>>(place);
    fill<<<1, 32>>>(place);
    CUDA(cudaMemcpy(&given, place, sizeof given, cudaMemcpyDeviceToHost));
    scale_given<<<1, 32>>>(given);
    take<<<1, 32>>>(place, out);
    expect_each("the heap", out, [](float x, int) { return x * 3 / 2; });
    release<<<1, 1>>>(place);
    CUDA(cudaDeviceSynchronize());
    return finish();
}
