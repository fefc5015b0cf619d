#!/usr/bin/env python3
"""triton_kernels.py DIRECTORY: writes the PTX that Triton makes of typical kernels. Needs triton, no GPU."""
# mypy: ignore-errors
# ruff: noqa: N803

import sys
from itertools import product
from pathlib import Path
from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def add(x, y, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    inside = i < n
    tl.store(o + i, tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside), mask=inside)


@triton.jit
def softmax(o, x, stride, columns, B: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, B)
    v = tl.load(x + row * stride + c, mask=c < columns, other=-float("inf"))
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(o + row * stride + c, e / tl.sum(e, axis=0), mask=c < columns)


@triton.jit
def layer_norm(x, y, w, b, stride, columns, eps, B: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, B)
    inside = c < columns
    v = tl.load(x + row * stride + c, mask=inside, other=0.0).to(tl.float32)
    d = tl.where(inside, v - tl.sum(v, axis=0) / columns, 0.0)
    scale = tl.rsqrt(tl.sum(d * d, axis=0) / columns + eps)
    out = d * scale * tl.load(w + c, mask=inside) + tl.load(b + c, mask=inside)
    tl.store(y + row * stride + c, out, mask=inside)


@triton.jit
def matmul(a, b, c, m, n, k, sa, sb, sc, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    pa = a + rows[:, None] * sa + inner[None, :]
    pb = b + inner[:, None] * sb + columns[None, :]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(0, k, BK):
        left = tl.load(pa, mask=inner[None, :] < k - step, other=0.0)
        right = tl.load(pb, mask=inner[:, None] < k - step, other=0.0)
        total = tl.dot(left, right, total)
        pa += BK
        pb += BK * sb
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c + rows[:, None] * sc + columns[None, :], total.to(c.dtype.element_ty), mask=inside)


@triton.jit
def attention(q, k, v, o, stride, n, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    depth = tl.arange(0, D)
    queries = tl.load(q + rows[:, None] * stride + depth[None, :])
    largest = tl.full((BM,), -float("inf"), tl.float32)
    norm = tl.zeros((BM,), tl.float32)
    total = tl.zeros((BM, D), tl.float32)
    for j in range(0, n, BN):
        others = j + tl.arange(0, BN)
        scores = tl.dot(queries, tl.load(k + others[None, :] * stride + depth[:, None]))
        values = tl.load(v + others[:, None] * stride + depth[None, :])
        larger = tl.maximum(largest, tl.max(scores, 1))
        p = tl.math.exp2(scores - larger[:, None])
        shrink = tl.math.exp2(largest - larger)
        norm = norm * shrink + tl.sum(p, 1)
        total = tl.dot(p.to(values.dtype), values, total * shrink[:, None])
        largest = larger
    tl.store(o + rows[:, None] * stride + depth[None, :], (total / norm[:, None]).to(o.dtype.element_ty))


@triton.jit
def miscellany(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.atomic_add(o + i % 7, tl.cumsum(v, 0))
    tl.atomic_max(o + 8 + i % 3, tl.sort(v))
    tl.store(o + i + 64, tl.rand(42, i).to(tl.float32) + tl.sin(v) + tl.sqrt(tl.abs(v)))
    tl.device_print("v", v)


@triton.jit
def histogram(x, o, B: tl.constexpr):
    v = tl.load(x + tl.arange(0, B))
    tl.store(o + tl.arange(0, 64), tl.histogram(v, 64))
    tl.atomic_cas(o, 0, 1)
    tl.store(o + 64, tl.argmax(v, 0))


@triton.jit
def integer_dot(a, b, c, B: tl.constexpr):
    place = tl.arange(0, B)[:, None] * B + tl.arange(0, B)[None, :]
    tl.store(c + place, tl.dot(tl.load(a + place), tl.load(b + place)))


@triton.jit
def convert(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.load(x + i).to(tl.float32).to(o.dtype.element_ty))


Case = tuple[Any, dict[str, str], dict[str, int]]


def cases(arch: int) -> list[Case]:
    found: list[Case] = []
    for t in ("*fp32", "*fp16", "*bf16"):
        found.append((add, {"x": t, "y": t, "o": t, "n": "i32"}, {"B": 1024}))
        found.append((softmax, {"o": t, "x": t, "stride": "i32", "columns": "i32"}, {"B": 2048}))
        pointers = dict.fromkeys(("x", "y", "w", "b"), t)
        found.append((layer_norm, {**pointers, "stride": "i32", "columns": "i32", "eps": "fp32"}, {"B": 1024}))
        sizes = dict.fromkeys(("m", "n", "k", "sa", "sb", "sc"), "i32")
        found += [
            (matmul, {"a": t, "b": t, "c": t, **sizes}, {"BM": bm, "BN": bn, "BK": bk})
            for bm, bn, bk in ((64, 64, 32), (128, 128, 32), (16, 16, 64))
        ]
    for t in ("*fp16", "*bf16"):
        signature = {**dict.fromkeys(("q", "k", "v", "o"), t), "stride": "i32", "n": "i32"}
        found.append((attention, signature, {"D": 64, "BM": 64, "BN": 64}))
    found.append((miscellany, {"x": "*fp32", "o": "*fp32"}, {"B": 256}))
    found.append((histogram, {"x": "*i32", "o": "*i32"}, {"B": 256}))
    found.append((integer_dot, {"a": "*i8", "b": "*i8", "c": "*i32"}, {"B": 64}))
    types = ["*fp32", "*fp16", "*bf16", "*fp64", "*i8", "*i32", "*fp8e5"] + (["*fp8e4nv"] if arch >= 89 else [])
    found += [(convert, {"x": x, "o": o}, {"B": 256}) for x, o in product(types, types) if x != o]
    return found


def main() -> None:
    directory = Path(sys.argv[1])
    for arch in (80, 90, 120):
        for number, (kernel, signature, constants) in enumerate(cases(arch)):
            names = {**signature, **dict.fromkeys(constants, "constexpr")}
            values = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
            source = ASTSource(fn=kernel, signature=names, constexprs=values)
            compiled = triton.compile(source, target=GPUTarget("cuda", arch, 32))
            (directory / f"{kernel.fn.__name__}-{number}-sm_{arch}.ptx").write_text(compiled.asm["ptx"])


if __name__ == "__main__":
    main()
