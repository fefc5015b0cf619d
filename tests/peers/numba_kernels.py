"""Unmodified Numba kernels: shared memory, atomics, device functions, matmul, streams. Exit status 0 when right."""

import math
import sys
import warnings

import numpy as np
from numba import cuda, float32, int32

warnings.simplefilter("ignore")
TILE = 16


@cuda.jit
def axpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] += a * x[i]


@cuda.jit
def block_sums(x, sums):
    part = cuda.shared.array(128, float32)
    i = cuda.grid(1)
    t = cuda.threadIdx.x
    part[t] = x[i] if i < x.size else 0
    cuda.syncthreads()
    step = 64
    while step > 0:
        if t < step:
            part[t] += part[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        sums[cuda.blockIdx.x] = part[0]


@cuda.jit
def histogram(values, counts, largest):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.add(counts, values[i], 1)
        cuda.atomic.max(largest, 0, values[i])


@cuda.jit(device=True)
def smooth(x):
    return math.exp(-x * x) / (1 + math.sqrt(abs(x)))


@cuda.jit
def apply_smooth(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = smooth(x[i])


@cuda.jit
def matmul(a, b, c):
    sa = cuda.shared.array((TILE, TILE), float32)
    sb = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for tile in range((a.shape[1] + TILE - 1) // TILE):
        column, row = tx + tile * TILE, ty + tile * TILE
        sa[ty, tx] = a[y, column] if y < a.shape[0] and column < a.shape[1] else 0
        sb[ty, tx] = b[row, x] if x < b.shape[1] and row < b.shape[0] else 0
        cuda.syncthreads()
        for k in range(TILE):
            total += sa[ty, k] * sb[k, tx]
        cuda.syncthreads()
    if y < c.shape[0] and x < c.shape[1]:
        c[y, x] = total


@cuda.jit
def warp_reverse(x, y):
    lane = cuda.laneid
    y[cuda.grid(1)] = cuda.shfl_sync(0xFFFFFFFF, x[cuda.grid(1)], 31 - lane)


@cuda.jit
def local_sort(x):
    mine = cuda.local.array(8, int32)
    base = cuda.grid(1) * 8
    for i in range(8):
        mine[i] = x[base + i]
    for i in range(8):
        for j in range(7 - i):
            if mine[j] > mine[j + 1]:
                mine[j], mine[j + 1] = mine[j + 1], mine[j]
    for i in range(8):
        x[base + i] = mine[i]


def main() -> int:
    random = np.random.default_rng(5)
    wrong = []

    def check(name, got, want, tolerance=0.0):
        if not np.allclose(got, want, rtol=tolerance, atol=tolerance):
            wrong.append(name)

    x, y = random.random(3001), random.random(3001)
    want = y + 2.5 * x
    axpy[24, 128](2.5, x, y)
    check("axpy", y, want, 1e-15)

    x = random.random(2000).astype(np.float32)
    sums = np.zeros(16, np.float32)
    block_sums[16, 128](x, sums)
    check("block sums", sums.sum(), x.sum(dtype=np.float64), 1e-5)

    values = random.integers(0, 50, 4000).astype(np.int32)
    counts, largest = np.zeros(50, np.int32), np.zeros(1, np.int32)
    histogram[32, 128](values, counts, largest)
    check("histogram", counts, np.bincount(values, minlength=50))
    check("maximum", largest[0], values.max())

    x = random.normal(size=5000)
    y = np.zeros_like(x)
    apply_smooth[4, 64](x, y)
    check("device function", y, np.exp(-x * x) / (1 + np.sqrt(np.abs(x))), 1e-14)

    a, b = random.random((45, 70)).astype(np.float32), random.random((70, 33)).astype(np.float32)
    device_c = cuda.device_array((45, 33), np.float32)
    matmul[(3, 3), (TILE, TILE)](cuda.to_device(a), cuda.to_device(b), device_c)
    check("matmul", device_c.copy_to_host(), a.astype(np.float64) @ b, 1e-5)

    x = np.arange(64, dtype=np.int32)
    y = np.zeros_like(x)
    warp_reverse[2, 32](x, y)
    check("shuffle", y, x.reshape(2, 32)[:, ::-1].ravel())

    x = random.integers(0, 1000, 64 * 8).astype(np.int32)
    want = np.sort(x.reshape(-1, 8), axis=1).ravel()
    local_sort[2, 32](x)
    check("local memory", x, want)

    stream = cuda.stream()
    before, after = cuda.event(), cuda.event()
    before.record(stream)
    device_x = cuda.to_device(np.ones(100), stream=stream)
    axpy[1, 128, stream](3.0, device_x, device_x)
    after.record(stream)
    stream.synchronize()
    check("stream", device_x.copy_to_host(), np.full(100, 4.0))
    if not cuda.event_elapsed_time(before, after) > 0:
        wrong.append("events")
    print("wrong: " + ", ".join(wrong) if wrong else "right")
    return len(wrong)


if __name__ == "__main__":
    sys.exit(main())
