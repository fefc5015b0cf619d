// Pitched and three-dimensional memory: allocation, copies of sub-rectangles and boxes both ways, memsets.
#include "check.h"

__global__ void number(unsigned char *base, size_t pitch, int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x < width && y < height)
        base[y * pitch + x] = (unsigned char)(x * 3 + y * 7);
}

int main()
{
    const int width = 301, height = 23;
    unsigned char *base;
    size_t pitch = 0;
    CUDA(cudaMallocPitch((void **)&base, &pitch, width, height));
    EXPECT(pitch >= (size_t)width && pitch % 32 == 0);
    CUDA(cudaMemset2D(base, pitch, 0xee, pitch, height));
    number<<<dim3((width + 63) / 64, height), 64>>>(base, pitch, width, height);
    std::vector<unsigned char> got(width * height), want(width * height);
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            want[y * width + x] = (unsigned char)(x * 3 + y * 7);
    CUDA(cudaMemcpy2D(got.data(), width, base, pitch, width, height, cudaMemcpyDeviceToHost));
    expect_equal("whole", got, want);

    const int x0 = 13, y0 = 4, w = 100, h = 9;
    std::vector<unsigned char> box(w * h);
    CUDA(cudaMemcpy2DAsync(box.data(), w, base + y0 * pitch + x0, pitch, w, h, cudaMemcpyDeviceToHost, nullptr));
    CUDA(cudaStreamSynchronize(nullptr));
    bool right = true;
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            right &= box[y * w + x] == want[(y + y0) * width + x + x0];
    EXPECT(right);
    CUDA(cudaMemset2D(base + y0 * pitch + x0, pitch, 0x5a, w, h));
    CUDA(cudaMemcpy2D(got.data(), width, base, pitch, width, height, cudaMemcpyDeviceToHost));
    for (int y = 0; y < h; y++)
        memset(&want[(y + y0) * width + x0], 0x5a, w);
    expect_equal("memset of a rectangle", got, want);

    const int nx = 20, ny = 6, nz = 5;
    cudaPitchedPtr volume;
    cudaExtent extent = make_cudaExtent(nx * sizeof(int), ny, nz);
    CUDA(cudaMalloc3D(&volume, extent));
    CUDA(cudaMemset3D(volume, 0, extent));
    std::vector<int> in(nx * ny * nz), out(nx * ny * nz, -1), want_volume(nx * ny * nz);
    for (int i = 0; i < nx * ny * nz; i++)
        in[i] = i + 1;
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(in.data(), nx * sizeof(int), nx, ny);
    copy.dstPtr = volume;
    copy.srcPos = make_cudaPos(4 * sizeof(int), 1, 2);
    copy.dstPos = make_cudaPos(2 * sizeof(int), 3, 0);
    copy.extent = make_cudaExtent(11 * sizeof(int), 2, 3);
    copy.kind = cudaMemcpyHostToDevice;
    CUDA(cudaMemcpy3D(&copy));
    for (int z = 0; z < 3; z++)
        for (int y = 0; y < 2; y++)
            for (int x = 0; x < 11; x++)
                want_volume[(z * ny + y + 3) * nx + x + 2] = in[((z + 2) * ny + y + 1) * nx + x + 4];
    cudaMemcpy3DParms back = {};
    back.srcPtr = volume;
    back.dstPtr = make_cudaPitchedPtr(out.data(), nx * sizeof(int), nx, ny);
    back.extent = extent;
    back.kind = cudaMemcpyDeviceToHost;
    CUDA(cudaMemcpy3D(&back));
    expect_equal("box in a volume", out, want_volume);
    CUDA(cudaFree(volume.ptr));
    CUDA(cudaFree(base));
    return finish();
}
