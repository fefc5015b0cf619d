// Calls on the device: recursion, calls through function pointers, virtual functions, structs by value, local arrays.
#include "check.h"

__device__ __noinline__ long long ackermann_like(int depth, int branch)
{
    if (depth == 0)
        return branch;
    return ackermann_like(depth - 1, branch) + 2 * ackermann_like(depth - 1, branch + 1);
}

static long long host_recursion(int depth, int branch)
{
    return depth == 0 ? branch : host_recursion(depth - 1, branch) + 2 * host_recursion(depth - 1, branch + 1);
}

struct Point {
    double x, y;
    int tags[5];
};

__device__ __noinline__ Point mirrored(Point point, int by)
{
    Point out = {point.y, point.x, {}};
    for (int i = 0; i < 5; i++)
        out.tags[i] = point.tags[(i + by) % 5];
    return out;
}

typedef int (*Operation)(int, int);
__device__ __noinline__ int add(int a, int b)
{
    return a + b;
}
__device__ __noinline__ int subtract(int a, int b)
{
    return a - b;
}
__device__ __noinline__ int multiply(int a, int b)
{
    return a * b;
}
__device__ Operation operations[3] = {add, subtract, multiply};

struct Shape {
    __device__ virtual float area() const = 0;
};
struct Square : Shape {
    float side;
    __device__ explicit Square(float s) : side(s)
    {
    }
    __device__ float area() const override
    {
        return side * side;
    }
};
struct Triangle : Shape {
    float base, height;
    __device__ Triangle(float b, float h) : base(b), height(h)
    {
    }
    __device__ float area() const override
    {
        return 0.5f * base * height;
    }
};

__global__ void recurse(long long *out)
{
    out[threadIdx.x] = ackermann_like(threadIdx.x % 7, threadIdx.x);
}

__global__ void through_structs(Point *points)
{
    points[threadIdx.x] = mirrored(points[threadIdx.x], threadIdx.x);
}

__global__ void through_pointers(int *out)
{
    int t = threadIdx.x;
    out[t] = operations[t % 3](t + 5, t);
}

__global__ void through_virtuals(float *out)
{
    int t = threadIdx.x;
    Square square((float)t);
    Triangle triangle((float)t, 3.0f);
    const Shape *shape = t % 2 ? (const Shape *)&square : (const Shape *)&triangle;
    out[t] = shape->area();
}

__global__ void local_arrays(const int *keys, int *out, int count)
{
    int history[16];
    for (int i = 0; i < 16; i++)
        history[i] = i * threadIdx.x;
    int last = 0;
    for (int i = 0; i < count; i++) {
        int slot = keys[i] + (int)threadIdx.x & 15;
        last = history[slot];
        history[slot] = last + i;
    }
    unsigned mixed = (unsigned)last;
    for (int i = 0; i < 16; i++)
        mixed = mixed * 31u + (unsigned)history[i];
    out[threadIdx.x] = (int)mixed;
}

int main()
{
    const int threads = 64;
    std::vector<long long> want_recursion(threads);
    std::vector<int> want_pointers(threads), keys(40), want_local(threads);
    std::vector<float> want_areas(threads);
    for (int i = 0; i < 40; i++)
        keys[i] = i * 7 % 16;
    for (int t = 0; t < threads; t++) {
        want_recursion[t] = host_recursion(t % 7, t);
        want_pointers[t] = t % 3 == 0 ? 2 * t + 5 : t % 3 == 1 ? 5 : (t + 5) * t;
        want_areas[t] = t % 2 ? (float)t * t : 0.5f * t * 3.0f;
        int history[16], last = 0;
        for (int i = 0; i < 16; i++)
            history[i] = i * t;
        for (int i = 0; i < 40; i++) {
            int slot = (keys[i] + t) & 15;
            last = history[slot];
            history[slot] = last + i;
        }
        unsigned mixed = (unsigned)last;
        for (int i = 0; i < 16; i++)
            mixed = mixed * 31u + (unsigned)history[i];
        want_local[t] = (int)mixed;
    }
    auto *wide = device_array<long long>(threads);
    recurse<<<1, threads>>>(wide);
    CUDA(cudaGetLastError());
    expect_equal("recursion", download(wide, threads), want_recursion);

    std::vector<Point> points(threads);
    for (int t = 0; t < threads; t++)
        points[t] = {t + 0.5, -t * 2.0, {t, t + 1, t + 2, t + 3, t + 4}};
    Point *device_points = upload(points);
    through_structs<<<1, threads>>>(device_points);
    CUDA(cudaGetLastError());
    auto got = download(device_points, threads);
    bool right = true;
    for (int t = 0; t < threads; t++)
        for (int i = 0; i < 5; i++)
            right &= got[t].x == -t * 2.0 && got[t].y == t + 0.5 && got[t].tags[i] == t + (i + t) % 5;
    EXPECT(right);

    int *out = device_array<int>(threads);
    through_pointers<<<1, threads>>>(out);
    CUDA(cudaGetLastError());
    expect_equal("function pointers", download(out, threads), want_pointers);
    float *areas = device_array<float>(threads);
    through_virtuals<<<1, threads>>>(areas);
    CUDA(cudaGetLastError());
    expect_equal("virtual functions", download(areas, threads), want_areas);
    local_arrays<<<1, threads>>>(upload(keys), out, 40);
    CUDA(cudaGetLastError());
    expect_equal("local arrays", download(out, threads), want_local);
    return finish();
}
