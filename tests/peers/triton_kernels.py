"""Triton kernels, compiled to cubins without a GPU, run from the PTX in them. Exit status 0 when right."""

import ctypes
import os
import sys
from pathlib import Path

import numpy as np
import triton
import triton.language as tl
from cuda.bindings import driver
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call, use_gpu

TARGET = GPUTarget("cuda", int(os.environ.get("TRITON_TEST_ARCH", "80")), 32)


@triton.jit
def add(x, y, out, count, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < count
    tl.store(out + i, tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside), mask=inside)


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + i, mask=i < columns, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * columns + i, powers / tl.sum(powers, axis=0), mask=i < columns)


@triton.jit
def layer_norm(x, weight, bias, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    inside = i < columns
    values = tl.load(x + row * columns + i, mask=inside, other=0.0)
    mean = tl.sum(values, axis=0) / columns
    centred = tl.where(inside, values - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / columns + 1e-5)
    result = centred * scale * tl.load(weight + i, mask=inside) + tl.load(bias + i, mask=inside)
    tl.store(out + row * columns + i, result, mask=inside)


@triton.jit
def matmul(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    inner = tl.arange(0, K)
    total = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, k, K):
        step = start + inner
        left = tl.load(a + rows[:, None] * k + step[None, :], mask=(rows[:, None] < m) & (step[None, :] < k), other=0.0)
        inside = (step[:, None] < k) & (columns[None, :] < n)
        right = tl.load(b + step[:, None] * n + columns[None, :], mask=inside, other=0.0)
        total += tl.dot(left, right)
    tl.store(c + rows[:, None] * n + columns[None, :], total, mask=(rows[:, None] < m) & (columns[None, :] < n))


class Gpu:
    def __init__(self) -> None:
        use_gpu()

    def upload(self, array: np.ndarray) -> int:
        pointer = int(call(driver.cuMemAlloc(array.nbytes)))
        call(driver.cuMemcpyHtoD(pointer, array.ctypes.data, array.nbytes))
        return pointer

    def download(self, pointer: int, like: np.ndarray) -> np.ndarray:
        array = np.empty_like(like)
        call(driver.cuMemcpyDtoH(array.ctypes.data, pointer, array.nbytes))
        return array

    def run(self, kernel, signature: dict[str, str], constants: dict[str, int], grid: tuple[int, int], *values) -> None:
        kinds = {**signature, **dict.fromkeys(constants, "constexpr")}
        compiled = triton.compile(ASTSource(kernel, kinds, constexprs=constants), target=TARGET)
        module = call(driver.cuModuleLoadData(compiled.asm["cubin"]))
        function = call(driver.cuModuleGetFunction(module, compiled.metadata.name.encode()))
        shared = compiled.metadata.shared
        if shared > 49152:
            attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            call(driver.cuFuncSetAttribute(function, attribute, shared))
        types = tuple(ctypes.c_void_p if kind.startswith("*") else ctypes.c_int for kind in signature.values())
        packed = ((*values, 0, 0), (*types, ctypes.c_void_p, ctypes.c_void_p))  # two scratch pointers come last
        threads = 32 * compiled.metadata.num_warps
        call(driver.cuLaunchKernel(function, *grid, 1, threads, 1, 1, shared, 0, packed, 0))
        call(driver.cuCtxSynchronize())


def main() -> int:
    gpu = Gpu()
    random = np.random.default_rng(3)
    wrong = []

    def check(name: str, got: np.ndarray, want: np.ndarray, tolerance: float) -> None:
        if not np.allclose(got, want, rtol=tolerance, atol=tolerance):
            wrong.append(f"{name} ({np.abs(got - want).max():.3g} off)")

    x, y = (random.normal(size=5000).astype(np.float32) for _ in range(2))
    device_x, device_y, out = gpu.upload(x), gpu.upload(y), gpu.upload(x)
    signature = {"x": "*fp32", "y": "*fp32", "out": "*fp32", "count": "i32"}
    gpu.run(add, signature, {"BLOCK": 1024}, (5, 1), device_x, device_y, out, 5000)
    check("add", gpu.download(out, x), x + y, 0)

    x = random.normal(size=(40, 300)).astype(np.float32)
    device_x, out = gpu.upload(x), gpu.upload(x)
    gpu.run(softmax, {"x": "*fp32", "out": "*fp32", "columns": "i32"}, {"BLOCK": 512}, (40, 1), device_x, out, 300)
    powers = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    check("softmax", gpu.download(out, x), powers / powers.sum(axis=1, keepdims=True), 1e-6)

    weight, bias = (random.normal(size=300).astype(np.float32) for _ in range(2))
    signature = {"x": "*fp32", "weight": "*fp32", "bias": "*fp32", "out": "*fp32", "columns": "i32"}
    values = (device_x, gpu.upload(weight), gpu.upload(bias), out, 300)
    gpu.run(layer_norm, signature, {"BLOCK": 512}, (40, 1), *values)
    wide = x.astype(np.float64)
    centred = wide - wide.mean(axis=1, keepdims=True)
    want = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5) * weight + bias
    check("layer norm", gpu.download(out, x), want, 1e-5)

    for name, kind, numpy_kind, tolerance in (("half", "fp16", np.float16, 1e-3), ("single", "fp32", np.float32, 2e-3)):
        a, b = random.normal(size=(70, 90)).astype(numpy_kind), random.normal(size=(90, 50)).astype(numpy_kind)
        c = np.zeros((70, 50), np.float32)
        device_c = gpu.upload(c)
        signature = {"a": f"*{kind}", "b": f"*{kind}", "c": "*fp32", "m": "i32", "n": "i32", "k": "i32"}
        blocks = {"M": 32, "N": 32, "K": 32}
        gpu.run(matmul, signature, blocks, (3, 2), gpu.upload(a), gpu.upload(b), device_c, 70, 50, 90)
        # Single precision runs on tensor cores as tf32: 10 bits of mantissa, hence the wider bound.
        scale = np.abs(a).astype(np.float64) @ np.abs(b)
        check(f"matmul in {name}", gpu.download(device_c, c) / scale, (a.astype(np.float64) @ b) / scale, tolerance)
    print("wrong: " + ", ".join(wrong) if wrong else "right")
    return len(wrong)


if __name__ == "__main__":
    sys.exit(main())
