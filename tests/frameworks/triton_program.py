"""Triton alone: a blocked matrix product and a reduction, PyTorch only for memory."""

import torch
import triton
import triton.language as tl
from common import Digest, torch_main


@triton.jit
def product(a, b, c, size, block: tl.constexpr):
    row, column = tl.program_id(0) * block + tl.arange(0, block), tl.program_id(1) * block + tl.arange(0, block)
    total = tl.zeros((block, block), dtype=tl.float32)
    for start in range(0, size, block):
        inner = start + tl.arange(0, block)
        left = tl.load(a + row[:, None] * size + inner[None, :])
        right = tl.load(b + inner[:, None] * size + column[None, :])
        total += tl.dot(left, right)
    tl.store(c + row[:, None] * size + column[None, :], total)


@triton.jit
def row_sums(x, out, size, block: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, block)
    values = tl.load(x + row * size + offsets, mask=offsets < size, other=0.0)
    tl.store(out + row, tl.sum(values))


def run(digest: Digest) -> None:
    size = 512
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.float16) for _ in range(2))
    c = torch.empty(size, size, device="cuda")
    sums = torch.empty(size, device="cuda")
    for _ in range(5):
        product[(size // 64, size // 64)](a, b, c, size, block=64)
        row_sums[(size,)](c, sums, size, block=512)
    digest.add_tensors(c, sums)


torch_main(run)
