#!/usr/bin/env python3
"""numba_kernels.py DIRECTORY: writes the PTX that Numba makes of typical kernels. Needs numba-cuda, no GPU."""
# mypy: ignore-errors

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import complex64, cuda, float32, float64, int32, int64

F4, F8, I4, I8, C8 = float32[:], float64[:], int32[:], int64[:], complex64[:]


def axpy(a: Any, x: Any, y: Any) -> None:
    i = cuda.grid(1)
    if i < x.size:
        y[i] += a * x[i]


def matmul(a: Any, b: Any, c: Any) -> None:
    tile_a = cuda.shared.array((16, 16), float32)
    tile_b = cuda.shared.array((16, 16), float32)
    x, y = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0.0)
    for i in range(a.shape[1] // 16):
        tile_a[ty, tx] = a[y, tx + i * 16]
        tile_b[ty, tx] = b[ty + i * 16, x]
        cuda.syncthreads()
        for j in range(16):
            total += tile_a[ty, j] * tile_b[j, tx]
        cuda.syncthreads()
    c[y, x] = total


def histogram(x: Any, bins: Any) -> None:
    i = cuda.grid(1)
    while i < x.size:
        cuda.atomic.add(bins, x[i], 1)
        i += cuda.gridsize(1)


def reduce_maximum(x: Any, out: Any) -> None:
    shared = cuda.shared.array(0, float64)
    t = cuda.threadIdx.x
    shared[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    k = cuda.blockDim.x // 2
    while k > 0:
        if t < k:
            shared[t] += shared[t + k]
        cuda.syncthreads()
        k //= 2
    if t == 0:
        cuda.atomic.max(out, 0, shared[0])


def warp_wide(x: Any, out: Any) -> None:
    i = cuda.grid(1)
    v = x[i]
    v += cuda.shfl_down_sync(0xFFFFFFFF, v, 16)
    v += cuda.shfl_xor_sync(0xFFFFFFFF, v, 8)
    out[i] = v + cuda.popc(cuda.ballot_sync(0xFFFFFFFF, v > 0)) + cuda.laneid


def mathematics(x: Any, out: Any) -> None:
    i = cuda.grid(1)
    v = x[i]
    out[i] = math.sin(v) * math.cos(v) + math.exp(v) - math.log(v) + math.pow(v, 2.5) + math.tanh(v)
    out[i] += math.erf(v) + math.sqrt(v) + math.atan2(v, v) + math.floor(v) + math.lgamma(v)


def local_array(x: Any, out: Any) -> None:
    array = cuda.local.array(16, int32)
    for i in range(16):
        array[i] = x[i]
    out[0] = array[x[0]]


def divide(a: Any, b: Any, out: Any) -> None:
    i = cuda.grid(1)
    out[i] = a[i] // b[i] + a[i] % b[i]


def complex_numbers(a: Any, b: Any) -> None:
    i = cuda.grid(1)
    b[i] = a[i] * a[i] + abs(a[i])


def prints(x: Any) -> None:
    i = cuda.grid(1)
    print("value", i, x[i])


def compare_and_swap(x: Any, out: Any) -> None:
    out[0] = cuda.atomic.compare_and_swap(out, x[0], 5)
    cuda.threadfence()
    cuda.nanosleep(20)


def raises(x: Any) -> None:
    x[cuda.grid(1)] = 1 // x[0]


def three_dimensions(x: Any, out: Any) -> None:
    i, j, k = cuda.grid(3)
    if i < x.shape[0] and j < x.shape[1] and k < x.shape[2]:
        out[i, j, k] = x[i, j, k]


KERNELS: list[tuple[Callable[..., None], tuple[Any, ...], dict[str, bool]]] = [
    *((axpy, signature, {}) for signature in ((float32, F4, F4), (float64, F8, F8), (int64, I8, I8))),
    (axpy, (float32, F4, F4), {"lineinfo": True}),
    (axpy, (float32, F4, F4), {"fastmath": True}),
    (matmul, (float32[:, ::1],) * 3, {}),
    (matmul, (float32[:, :],) * 3, {}),
    (histogram, (I4, I4), {}),
    (histogram, (I8, F8), {}),
    (reduce_maximum, (F8, F8), {}),
    (warp_wide, (I4, I4), {}),
    (warp_wide, (F4, F4), {}),
    (mathematics, (F4, F4), {}),
    (mathematics, (F8, F8), {}),
    (mathematics, (F4, F4), {"fastmath": True}),
    (local_array, (I4, I4), {}),
    *((divide, (array,) * 3, {}) for array in (I4, I8, F8)),
    (complex_numbers, (C8, C8), {}),
    (prints, (F8,), {}),
    (compare_and_swap, (I4, I4), {}),
    (raises, (I4,), {}),
    (raises, (I4,), {"debug": True, "opt": False}),
    (three_dimensions, (float32[:, :, :],) * 2, {}),
]


def main() -> None:
    directory = Path(sys.argv[1])
    for capability in ((8, 0), (9, 0), (12, 0)):
        for number, (kernel, signature, options) in enumerate(KERNELS):
            text, _ = cuda.compile_ptx(kernel, signature, cc=capability, **options)
            name = f"{kernel.__name__}-{number}-sm_{capability[0]}{capability[1]}.ptx"
            (directory / name).write_text(text)


if __name__ == "__main__":
    main()
