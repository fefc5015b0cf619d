"""Kernels of models in Numba, compiled to PTX without a GPU: `numba_model.py DIR [NAME...]` makes NAME.TYPE.ptx."""

import math
import sys
from pathlib import Path

from numba import cuda, float32, float64, int32, int64

TYPES = {"f32": float32, "f64": float64, "i32": int32}


def add(x, y, out):
    i = cuda.grid(1)
    if i < out.shape[0]:
        out[i] = x[i] + y[i]


def scale_rows(x, factors, out):
    i, j = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = x[i, j] * factors[i]


def transpose(x, out):
    tile = cuda.shared.array((16, 17), float32)
    row, column = cuda.blockIdx.y * 16 + cuda.threadIdx.y, cuda.blockIdx.x * 16 + cuda.threadIdx.x
    if row < x.shape[0] and column < x.shape[1]:
        tile[cuda.threadIdx.y, cuda.threadIdx.x] = x[row, column]
    cuda.syncthreads()
    row, column = cuda.blockIdx.x * 16 + cuda.threadIdx.y, cuda.blockIdx.y * 16 + cuda.threadIdx.x
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = tile[cuda.threadIdx.x, cuda.threadIdx.y]


def matmul(a, b, c):
    row, column = cuda.grid(2)
    if row < c.shape[0] and column < c.shape[1]:
        total = a[row, 0] * b[0, column]
        for k in range(1, a.shape[1]):
            total += a[row, k] * b[k, column]
        c[row, column] = total


def strided_sum(x, out):
    total = x[0] - x[0]
    for i in range(cuda.grid(1), x.shape[0], cuda.gridsize(1)):
        total += x[i]
    cuda.atomic.add(out, 0, total)


def softmax(x, out):
    row = cuda.blockIdx.x
    largest = x[row, 0]
    for j in range(1, x.shape[1]):
        largest = max(largest, x[row, j])
    total = 0.0
    for j in range(x.shape[1]):
        total += math.exp(x[row, j] - largest)
    for j in range(cuda.threadIdx.x, x.shape[1], cuda.blockDim.x):
        out[row, j] = math.exp(x[row, j] - largest) / total


def stencil(x, out):
    i, j = cuda.grid(2)
    if 0 < i < x.shape[0] - 1 and 0 < j < x.shape[1] - 1:
        out[i, j] = x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1]


def append_rows(new, cache, position):
    head, i = cuda.blockIdx.x, cuda.threadIdx.x
    if i < new.shape[1]:
        cache[head, position, i] = new[head, i]


def gather(x, where, out):
    i = cuda.grid(1)
    if i < out.shape[0]:
        out[i] = x[where[i]]


def histogram(x, out):
    i = cuda.grid(1)
    if i < x.shape[0]:
        cuda.atomic.add(out, x[i], 1)


# Dimensions of each array, "n" for a number; "i" marks arrays of indices.
KERNELS = {
    add: (1, 1, 1),
    scale_rows: (2, 1, 2),
    transpose: (2, 2),
    matmul: (2, 2, 2),
    strided_sum: (1, 1),
    softmax: (2, 2),
    stencil: (2, 2),
    append_rows: (2, 3, "n"),
    gather: (1, "i", 1),
    histogram: ("i", "i"),
}


def signature(kinds, element):
    known = {1: element[::1], 2: element[:, ::1], 3: element[:, :, ::1], "n": int64, "i": int32[::1]}
    return tuple(known[kind] for kind in kinds)


def main():
    directory, wanted = Path(sys.argv[1]), sys.argv[2:]
    directory.mkdir(parents=True, exist_ok=True)
    for kernel, kinds in KERNELS.items():
        for name, element in TYPES.items():
            if wanted and f"{kernel.__name__}.{name}" not in wanted:
                continue
            if kernel is softmax and name == "i32":
                continue
            text, _ = cuda.compile_ptx(kernel, signature(kinds, element), cc=(8, 0))
            (directory / f"{kernel.__name__}.{name}.ptx").write_text(text)


main()
