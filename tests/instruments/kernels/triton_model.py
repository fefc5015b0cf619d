"""Kernels of models in Triton, compiled to PTX without a GPU: `triton_model.py DIR [NAME...]` makes NAME.KIND.ptx."""

import itertools
import sys
from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

TARGET = GPUTarget("cuda", 80, 32)


@triton.jit
def add(x, y, out, count, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < count
    tl.store(out + i, tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside), mask=inside)


@triton.jit
def copy_rows(x, out, columns, from_pitch, to_pitch, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    values = tl.load(x + row * from_pitch + i, mask=i < columns)
    tl.store(out + row * to_pitch + i, values, mask=i < columns)


@triton.jit
def transpose(x, out, rows, columns, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = (i[:, None] < rows) & (j[None, :] < columns)
    values = tl.load(x + i[:, None] * columns + j[None, :], mask=inside)
    tl.store(out + j[None, :] * rows + i[:, None], values, mask=inside)


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + i, mask=i < columns, other=-float("inf")).to(tl.float32)
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * columns + i, powers / tl.sum(powers, axis=0), mask=i < columns)


@triton.jit
def rms_norm(x, weight, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    inside = i < columns
    values = tl.load(x + row * columns + i, mask=inside, other=0.0).to(tl.float32)
    scale = 1 / tl.sqrt(tl.sum(values * values, axis=0) / columns + 1e-5)
    tl.store(out + row * columns + i, values * scale * tl.load(weight + i, mask=inside), mask=inside)


@triton.jit
def sum_rows(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        i = start + tl.arange(0, BLOCK)
        total += tl.load(x + row * columns + i, mask=i < columns, other=0.0)
    tl.store(out + row, tl.sum(total, axis=0))


@triton.jit
def matmul(a, b, c, m, n, k, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inner = tl.arange(0, 32)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, k, 32):
        step = start + inner
        left = tl.load(a + rows[:, None] * k + step[None, :], mask=(rows[:, None] < m) & (step[None, :] < k), other=0.0)
        inside = (step[:, None] < k) & (columns[None, :] < n)
        total += tl.dot(left, tl.load(b + step[:, None] * n + columns[None, :], mask=inside, other=0.0))
    tl.store(c + rows[:, None] * n + columns[None, :], total, mask=(rows[:, None] < m) & (columns[None, :] < n))


@triton.jit
def attention(q, k, v, out, length, scale, BLOCK: tl.constexpr):
    """One head of 32 numbers per program on axis 1."""
    head = tl.program_id(1) * length * 32
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    d = tl.arange(0, 32)
    here = tl.load(q + head + rows[:, None] * 32 + d[None, :], mask=rows[:, None] < length, other=0.0)
    total = tl.zeros((BLOCK, 32), dtype=tl.float32)
    largest = tl.full((BLOCK,), -float("inf"), dtype=tl.float32)
    weights = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, length, BLOCK):
        there = start + tl.arange(0, BLOCK)
        inside = there[:, None] < length
        keys = tl.load(k + head + there[:, None] * 32 + d[None, :], mask=inside, other=0.0)
        scores = tl.dot(here, tl.trans(keys)) * scale
        scores = tl.where(there[None, :] < length, scores, -float("inf"))
        above = tl.maximum(largest, tl.max(scores, 1))
        powers = tl.exp(scores - above[:, None])
        old = tl.exp(largest - above)
        values = tl.load(v + head + there[:, None] * 32 + d[None, :], mask=inside, other=0.0)
        total = total * old[:, None] + tl.dot(powers.to(values.dtype), values)
        weights = weights * old + tl.sum(powers, 1)
        largest = above
    tl.store(out + head + rows[:, None] * 32 + d[None, :], total / weights[:, None], mask=rows[:, None] < length)


@triton.jit
def append_kv(new, cache, head_stride, slot_stride, slot, position, BLOCK: tl.constexpr):
    head = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    tl.store(cache + slot * slot_stride + head * head_stride + position * BLOCK + i, tl.load(new + head * BLOCK + i))


@triton.jit
def embed(tokens, table, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    token = tl.load(tokens + row)
    tl.store(out + row * columns + i, tl.load(table + token * columns + i, mask=i < columns), mask=i < columns)


# Types of the parameters: "*" the element's pointer, others as Triton spells them.
KERNELS = {
    add: ("*", "*", "*", "i32"),
    copy_rows: ("*", "*", "i32", "i32", "i32"),
    transpose: ("*", "*", "i32", "i32"),
    softmax: ("*", "*", "i32"),
    rms_norm: ("*", "*", "*", "i32"),
    sum_rows: ("*", "*fp32", "i32"),
    matmul: ("*", "*", "*fp32", "i32", "i32", "i32"),
    attention: ("*", "*", "*", "*", "i32", "fp32"),
    append_kv: ("*", "*", "i64", "i64", "i32", "i32"),
    embed: ("*i64", "*", "*", "i32"),
}
BLOCKS = {add: (256, 1024), matmul: (32, 64), attention: (32, 64), transpose: (16, 32)}


def compiled(kernel, types, element, block):
    names = [name for name in kernel.arg_names if name != "BLOCK"]
    signature = {name: f"*{element}" if kind == "*" else kind for name, kind in zip(names, types, strict=True)}
    source = ASTSource(kernel, {**signature, "BLOCK": "constexpr"}, constexprs={"BLOCK": block})
    return triton.compile(source, target=TARGET).asm["ptx"]


def main():
    directory, wanted = Path(sys.argv[1]), sys.argv[2:]
    directory.mkdir(parents=True, exist_ok=True)
    for kernel, types in KERNELS.items():
        for element, block in itertools.product(("fp16", "fp32"), BLOCKS.get(kernel, (128, 512))):
            name = f"{kernel.fn.__name__}.{element}x{block}"
            if not wanted or name in wanted:
                (directory / f"{name}.ptx").write_text(compiled(kernel, types, element, block))


main()
