"""cuda-python with NVRTC: C++ compiled at run time, launched through the bindings. Exit status 0 when right."""

import ctypes
import sys
from pathlib import Path

import numpy as np
from cuda.bindings import driver, nvrtc

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call, use_gpu

SOURCE = r"""
template <typename T> __device__ T square(T x) { return x * x; }

extern "C" __global__ void norms(const float *points, float *out, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        out[i] = sqrtf(square(points[3 * i]) + square(points[3 * i + 1]) + square(points[3 * i + 2]));
}

extern "C" __global__ void scan(const int *in, int *out) {
    extern __shared__ int part[];
    int t = threadIdx.x;
    part[t] = in[t];
    __syncthreads();
    for (int step = 1; step < blockDim.x; step *= 2) {
        int before = t >= step ? part[t - step] : 0;
        __syncthreads();
        part[t] += before;
        __syncthreads();
    }
    out[t] = part[t];
}

__constant__ double weights[4] = {0.5, -1, 2, 4};
__device__ unsigned long long calls;

extern "C" __global__ void weighted(const double *in, double *out, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&calls, 1ull);
    if (i < count)
        out[i] = in[i] * weights[i % 4];
}
"""


def compile_ptx(source: str) -> bytes:
    program = call(nvrtc.nvrtcCreateProgram(source.encode(), b"kernels.cu", 0, [], []))
    options = [b"--gpu-architecture=compute_80", b"--std=c++17"]
    (error,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    if int(error) != 0:
        log = b" " * call(nvrtc.nvrtcGetProgramLogSize(program))
        nvrtc.nvrtcGetProgramLog(program, log)
        raise RuntimeError(log.decode())
    ptx = b" " * call(nvrtc.nvrtcGetPTXSize(program))
    call(nvrtc.nvrtcGetPTX(program, ptx))
    return ptx


class Gpu:
    def __init__(self) -> None:
        use_gpu()
        self.module = call(driver.cuModuleLoadData(compile_ptx(SOURCE)))

    def upload(self, array: np.ndarray) -> int:
        pointer = call(driver.cuMemAlloc(array.nbytes))
        call(driver.cuMemcpyHtoD(pointer, array.ctypes.data, array.nbytes))
        return int(pointer)

    def download(self, pointer: int, like: np.ndarray) -> np.ndarray:
        array = np.empty_like(like)
        call(driver.cuMemcpyDtoH(array.ctypes.data, pointer, array.nbytes))
        return array

    def launch(self, name: str, grid: int, block: int, shared: int, *arguments: tuple[object, type]) -> None:
        function = call(driver.cuModuleGetFunction(self.module, name.encode()))
        values = (tuple(value for value, _ in arguments), tuple(kind for _, kind in arguments))
        call(driver.cuLaunchKernel(function, grid, 1, 1, block, 1, 1, shared, 0, values, 0))
        call(driver.cuCtxSynchronize())


def main() -> int:
    gpu = Gpu()
    random = np.random.default_rng(8)
    wrong = []

    points = random.normal(size=(1000, 3)).astype(np.float32)
    out = np.zeros(1000, np.float32)
    device_in, device_out = gpu.upload(points), gpu.upload(out)
    gpu.launch("norms", 8, 128, 0, (device_in, ctypes.c_void_p), (device_out, ctypes.c_void_p), (1000, ctypes.c_int))
    if not np.allclose(gpu.download(device_out, out), np.linalg.norm(points.astype(np.float64), axis=1), rtol=1e-6):
        wrong.append("norms")

    values = random.integers(-9, 9, 512).astype(np.int32)
    device_in, device_out = gpu.upload(values), gpu.upload(values)
    gpu.launch("scan", 1, 512, 2048, (device_in, ctypes.c_void_p), (device_out, ctypes.c_void_p))
    if not np.array_equal(gpu.download(device_out, values), np.cumsum(values)):
        wrong.append("scan")

    values = random.normal(size=777)
    device_in, device_out = gpu.upload(values), gpu.upload(values)
    gpu.launch("weighted", 7, 128, 0, (device_in, ctypes.c_void_p), (device_out, ctypes.c_void_p), (777, ctypes.c_int))
    if not np.array_equal(gpu.download(device_out, values), values * np.resize([0.5, -1, 2, 4], 777)):
        wrong.append("weighted")
    address, size = call(driver.cuModuleGetGlobal(gpu.module, b"calls"))
    if size != 8 or gpu.download(int(address), np.zeros(1, np.uint64))[0] != 7 * 128:
        wrong.append("global")
    print("wrong: " + ", ".join(wrong) if wrong else "right")
    return len(wrong)


if __name__ == "__main__":
    sys.exit(main())
