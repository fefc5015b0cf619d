"""Numba: kernels, shared memory, atomics, streams, device functions."""

import numpy as np
from common import Digest, main

if not hasattr(np, "row_stack"):  # NumPy has it no more, numba-cuda still asks for it
    np.row_stack = np.vstack
from numba import cuda, float32


@cuda.jit
def block_sums(x, out):
    shared = cuda.shared.array(256, float32)
    i = cuda.grid(1)
    shared[cuda.threadIdx.x] = x[i] if i < x.size else 0.0
    cuda.syncthreads()
    step = 128
    while step:
        if cuda.threadIdx.x < step:
            shared[cuda.threadIdx.x] += shared[cuda.threadIdx.x + step]
        cuda.syncthreads()
        step //= 2
    if cuda.threadIdx.x == 0:
        out[cuda.blockIdx.x] = shared[0]


@cuda.jit
def count(x, bins):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(bins, x[i] % bins.size, 1)


def run(digest: Digest) -> None:
    random = np.random.default_rng(5)
    x = random.standard_normal(1 << 16).astype(np.float32)
    sums = cuda.device_array(x.size // 256, np.float32)
    block_sums[x.size // 256, 256](cuda.to_device(x), sums)
    numbers = random.integers(0, 1000, 1 << 16).astype(np.int32)
    bins = cuda.to_device(np.zeros(64, np.int32))
    streams = [cuda.stream() for _ in range(4)]
    for part, stream in zip(np.split(numbers, 16), streams * 4, strict=True):
        count[part.size // 256, 256, stream](cuda.to_device(part, stream), bins)
    cuda.synchronize()
    digest.add(sums.copy_to_host(), bins.copy_to_host())


main(run)
