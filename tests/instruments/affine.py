"""Affine kernels of the corpus (`scripts/lab corpus`), launched with the sizes and shapes that they are made for."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ptxtools.reader import Parameter, read

Shape = tuple[int, ...]


class Pointer:
    """Stands for a pointer to memory of its own."""


P = Pointer()
Argument = int | float | Pointer


def array(item_bytes: int, *shape: int) -> tuple[Argument, ...]:
    """A dense array as Numba passes it."""
    strides = [item_bytes]
    for size in reversed(shape[1:]):
        strides.insert(0, strides[0] * size)
    return (0, 0, strides[0] * shape[0] // item_bytes, item_bytes, P, *shape, *strides)


@dataclass(frozen=True, slots=True)
class Case:
    """Launches of one kernel: each a grid, a block and arguments. What the arguments do not name is 0."""

    text: str  # of the corpus, without number
    function: str  # a part of its name
    launches: Sequence[tuple[Shape, Shape, Sequence[Argument]]]
    shared: int = 32768  # bytes; what Triton's kernels need is not in their PTX

    def jobs(self, corpus: Path) -> Iterator[str]:
        """The launcher's lines. Errors: LookupError without such a kernel."""
        file, name, parameters = self.found(corpus)
        for grid, block, arguments in self.launches:
            values, pointers = block_of(parameters, arguments)
            shape = {"grid": [*grid, 1, 1][:3], "block": [*block, 1, 1][:3], "shared": self.shared}
            named = {"text": str(file), "function": name}
            yield json.dumps({**named, **shape, "pointers": pointers, "values": values.hex()})

    def found(self, corpus: Path) -> tuple[Path, str, list[Parameter]]:
        for file in sorted(corpus.glob(f"{self.text}.*.ptx")):
            kernel = read(file.read_text()).kernels[0]
            if self.function in kernel.name:
                return file, kernel.name, kernel.parameters
        raise LookupError(f"{self.text} has no {self.function}")


def block_of(parameters: Sequence[Parameter], arguments: Sequence[Argument]) -> tuple[bytes, dict[str, int]]:
    """The parameter block, and which buffer each pointer in it is to be."""
    values = bytearray(max((each.offset + each.size for each in parameters), default=0))
    pointers: dict[str, int] = {}
    for each, argument in zip(parameters, arguments, strict=False):
        if isinstance(argument, Pointer):
            pointers[str(each.offset)] = len(pointers)
        elif isinstance(argument, float):
            struct.pack_into("<f" if each.size == 4 else "<d", values, each.offset, argument)
        else:
            values[each.offset : each.offset + each.size] = argument.to_bytes(each.size, "little")
    return bytes(values), pointers


def _numba() -> Iterator[Case]:
    for kind, item in (("f32", 4), ("f64", 8)):
        one, two, three = array(item, 5000), array(item, 60, 100), array(item, 16, 9, 64)
        yield Case(f"numba/add.{kind}", "add", [((20,), (256,), (*one, *one, *one))])
        yield Case(f"numba/scale_rows.{kind}", "scale_rows", [((4, 7), (16, 16), (*two, *array(item, 60), *two))])
        yield Case(f"numba/transpose.{kind}", "transpose", [((7, 4), (16, 16), (*two, *array(item, 100, 60)))])
        yield Case(
            f"numba/matmul.{kind}",
            "matmul",
            [((4, 6), (16, 16), (*array(item, 60, 40), *array(item, 40, 90), *array(item, 60, 90)))],
        )
        yield Case(f"numba/strided_sum.{kind}", "strided_sum", [((6,), (128,), (*one, *array(item, 1)))])
        yield Case(f"numba/softmax.{kind}", "softmax", [((60,), (32,), (*two, *two))])
        yield Case(f"numba/stencil.{kind}", "stencil", [((4, 7), (16, 16), (*two, *two))])
        yield Case(f"numba/append_rows.{kind}", "append_rows", [((16,), (64,), (*array(item, 16, 64), *three, 5))])


def _triton() -> Iterator[Case]:
    for kind in ("fp16", "fp32"):
        for block in (256, 1024):
            yield Case(
                f"triton/add.{kind}x{block}",
                "add",
                [((-(-n // block),), (128,), (P, P, P, n)) for n in (4096, 10000, 777)],
            )
        for block in (128, 512):
            name = f"{kind}x{block}"
            columns = [block, 16 * (block // 16 - 1), block - 28]
            yield Case(f"triton/copy_rows.{name}", "copy_rows", [((9,), (128,), (P, P, n, 640, 1024)) for n in columns])
            yield Case(f"triton/softmax.{name}", "softmax", [((12,), (128,), (P, P, n)) for n in columns])
            yield Case(f"triton/rms_norm.{name}", "rms_norm", [((12,), (128,), (P, P, P, n)) for n in columns])
            yield Case(f"triton/sum_rows.{name}", "sum_rows", [((7,), (128,), (P, P, n)) for n in (2048, 1000)])
            yield Case(
                f"triton/append_kv.{name}",
                "append_kv",
                [((8,), (128,), (P, P, 64 * block, 8 * 64 * block, 3, position)) for position in (0, 37)],
            )
        for block in (32, 64):
            yield Case(
                f"triton/matmul.{kind}x{block}",
                "matmul",
                [
                    ((-(-m // block), -(-n // block)), (128,), (P, P, P, m, n, k))
                    for m, n, k in ((128, 128, 64), (100, 72, 96))
                ],
            )
            yield Case(
                f"triton/attention.{kind}x{block}",
                "attention",
                [((-(-length // block), 2), (128,), (P, P, P, P, length, 0.5)) for length in (128, 100)],
                shared=49152,
            )
        for block in (16, 32):
            yield Case(
                f"triton/transpose.{kind}x{block}",
                "transpose",
                [((-(-r // block), -(-c // block)), (128,), (P, P, r, c)) for r, c in ((64, 128), (50, 70))],
            )


def _model() -> Iterator[Case]:
    """tests/corpus/ptx/nvcc_model.cu."""
    launches: dict[str, list[tuple[Shape, Shape, Sequence[Argument]]]] = {
        "gelu": [((4,), (256,), (P, P, 1000))],
        "append_kv": [((6,), (64,), (P, P, 1 << 20, 1 << 15, 37, 128, 3))],
        "rotate": [((9, 4), (32,), (P, P, 4, 64))],
        "rms_norm": [((12,), (32,), (P, P, P, 96)), ((12,), (32,), (P, P, P, 100))],
        "add_bias": [((3, 5), (32, 4), (P, P, 18, 70))],
        "copy_columns": [((3,), (256,), (P, P, 20, 100, 16, 32))],
        "write_columns": [((3,), (256,), (P, P, 20, 100, 16, 32))],
        "permute": [((8,), (128,), (P, P, 2, 7, 4, 16))],
        "sum_rows": [((5,), (128,), (P, P, 18, 100)), ((5,), (128,), (P, P, 18, 96))],
        "upsample": [((2, 12, 3), (32,), (P, P, 6, 20))],
        "convolve": [((2, 15), (32,), (P, P, P, 15, 40))],
        "quantize": [((7,), (32,), (P, P, P, 70))],
        "split_sum": [((3,), (64,), (P, P, 5, 150))],
        "causal_scores": [((2, 3), (32,), (P, P, P, 50, 16))],
    }
    for name, each in launches.items():
        yield Case("project/nvcc_model", name, each)


def _programs() -> Iterator[Case]:
    """The programs of tests/e2e, and what scripts/bench times."""
    yield Case("project/vector_add", "add", [((20,), (256,), (P, P, P, 5000))])
    yield Case("project/graph_capture", "multiply_add", [((8,), (128,), (P, 2.0, 1.0, 1000))])
    yield Case("project/graph_capture", "add_into", [((8,), (128,), (P, P, 1000))])
    yield Case("project/driver_kernels", "fill", [((4,), (128,), (P, 7, 1000))])
    yield Case("project/driver_kernels", "biased", [((8,), (128,), (P, P, 1000))])
    yield Case("project/half_arithmetic", "packed_ops", [((4,), (128,), (P, P, P, 400))])
    yield Case("project/half_arithmetic", "conversions", [((4,), (128,), (P, P, 400))])
    yield Case("project/async_copy", "staged_sum", [((3,), (64,), (P, P, 7))])
    yield Case("project/layer_norm", "layer_norm", [((24,), (256,), (P, P, P, P, 777))])
    yield Case("project/softmax", "softmax", [((37,), (128,), (P, P, 1000))])
    yield Case("project/dynamic_shared", "reverse_and_sum", [((1,), (128,), (P, P, P, 5000))])
    yield Case("project/double_precision", "dot", [((1,), (128,), (P, P, P, n)) for n in (1000, 20000, 50000)])
    yield Case("project/transpose", "transpose_tiled", [((10, 7), (32, 8), (P, P, 197, 301))])
    yield Case("project/transpose", "transpose_direct", [((19, 13), (16, 16), (P, P, 197, 301))])
    yield Case("project/stencil", "step_2d", [((7, 5), (16, 16), (P, P, 100, 70))])
    yield Case("project/stencil", "step_3d", [((2, 8), (32, 4), (P, P, 40, 30, 12))])
    yield Case("project/fft", "fft", [((2,), (256,), (P, P, 1.0))])
    yield Case("project/gemm_tiled", "gemm", [((5, 7), (16, 16), (P, P, P, 100, 75, 130))])
    yield Case("project/gemm_register", "gemm", [((3, 2), (256,), (P, P, P, 192, 96))])
    yield Case("project/gemm_mma_sync", "gemm", [((2, 3), (128,), (P, P, P, 64, 128))])
    for name, m, n in (
        ("I6__halffLi16E", 16, 16),
        ("I6__halfS0_", 16, 16),
        ("I6__halffLi32E", 32, 8),
        ("I6__halffLi8E", 8, 32),
        ("I13__nv_bfloat16", 16, 16),
        ("IffLi16E", 16, 16),
        ("IaiLi16E", 16, 16),
    ):
        yield Case("project/gemm_wmma", name, [((64 // n, 64 // m), (32,), (P, P, P, 64, 64))])
    yield Case("project/attention", "attend_naive", [((61, 2), (32,), (P, P, P, P, P, 61))])
    yield Case("project/attention", "attend_online", [((16, 2), (32, 4), (P, P, P, P, 61))])
    yield Case("project/emulator_kernels", "sgemm_tiles", [((4, 4), (16, 16), (P, P, P, 64))])
    yield Case("project/emulator_kernels", "sgemm_registers", [((2, 2), (256,), (P, P, P, 128))])
    for name, blocks, size in (
        ("bench_copy", 8, 8192),
        ("bench_copy_scalar", 32, 8192),
        ("bench_triad", 4, 8192),
        ("bench_fill", 8, 8192),
        ("bench_reduce", 4, 8192),
        ("bench_transpose", 128, 4096 * 32),
        ("bench_softmax", 6, 6 * 1024),
        ("bench_strided", 2, 16384),
        ("bench_gemm", 16, 64),
    ):
        yield Case("project/clock_kernels", name, [((blocks,), (256,), (P, P, size))])


CASES = (*_model(), *_programs(), *_triton(), *_numba())
