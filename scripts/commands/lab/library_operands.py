"""Calls NVIDIA's libraries on a GPU and compares what changes with what interpose/calls says that they touch.

    scripts/lab library-operands [--seed N] [--rounds N] [--marks LIBRARY]

Needs a GPU, libcublas, libcublasLt and libcufft (of the wheels nvidia-cublas and nvidia-cufft, or where the loader
finds them) and a build or an installation of Tessera. For random shapes, each call is made twice on buffers of random
bytes: every byte that changes must be among the predicted writes; and with other bytes wherever no read is predicted,
and in scratch, the writes must come out the same, all bytes of them that are called overwritten. Ends with 1 when a
call breaks that, with 2 without a GPU or the libraries.
"""

from __future__ import annotations

import ctypes
import random
import site
import sys
from collections.abc import Callable, Iterator, Sequence
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p
from dataclasses import dataclass
from pathlib import Path

from ptxtools import native
from scripts.commands.dispatch import parser_of
from tests.libraries.stand_ins import Marks, Operands

BUFFER_BYTES = 1 << 18
NAMES = {
    "cublas": ("libcublas.so.13", "libcublas.so.12"),
    "cublasLt": ("libcublasLt.so.13", "libcublasLt.so.12"),
    "cufft": ("libcufft.so.12", "libcufft.so.11"),
}
FLOAT, HALF, COMPUTE_FLOAT = 0, 2, 68
SIZE = {FLOAT: 4, HALF: 2}


class UnavailableError(Exception):
    """This machine lacks what the comparison needs."""


def load(names: tuple[str, ...]) -> ctypes.CDLL:
    """The first of these libraries that there is, in the Python wheels or where the loader looks."""
    directories = [Path(each) / "nvidia" for each in (*site.getsitepackages(), site.getusersitepackages())]
    for name in names:
        for file in [*(found for each in directories for found in each.glob(f"**/{name}")), Path(name)]:
            try:
                return ctypes.CDLL(str(file), ctypes.RTLD_GLOBAL)
            except OSError:
                continue
    raise UnavailableError(f"none of {', '.join(names)} can be loaded")


class Gpu:
    """Buffers on the GPU, through the driver."""

    def __init__(self) -> None:
        try:
            self.driver = ctypes.CDLL("libcuda.so.1")
        except OSError as problem:
            raise UnavailableError(f"no driver: {problem}") from problem
        if self.driver.cuInit(0) != 0:
            raise UnavailableError("the driver finds no GPU")
        context = c_void_p()
        self.call("cuDevicePrimaryCtxRetain", byref(context), 0)
        self.call("cuCtxSetCurrent", context)

    def call(self, name: str, *arguments: object) -> None:
        result = getattr(self.driver, name)(*arguments)
        if result:
            raise RuntimeError(f"{name}: CUresult {result}")

    def allocate(self) -> int:
        address = c_uint64()
        self.call("cuMemAlloc_v2", byref(address), c_size_t(BUFFER_BYTES))
        return address.value

    def write(self, address: int, data: bytes) -> None:
        self.call("cuMemcpyHtoD_v2", c_uint64(address), data, c_size_t(len(data)))

    def read(self, address: int) -> bytes:
        self.call("cuCtxSynchronize")
        data = ctypes.create_string_buffer(BUFFER_BYTES)
        self.call("cuMemcpyDtoH_v2", data, c_uint64(address), c_size_t(BUFFER_BYTES))
        return data.raw


@dataclass(frozen=True, slots=True)
class Case:
    """One call: its name, and how it is made; the result is the library's status."""

    name: str
    make: Callable[[], int]


class Comparison:
    """Runs cases on buffers A, B, C and a work area."""

    def __init__(self, marks: Marks, gpu: Gpu, draw: random.Random) -> None:
        self.marks, self.gpu, self.draw = marks, gpu, draw
        self.buffers = [gpu.allocate() for _ in range(4)]

    def check(self, case: Case) -> list[str]:
        """What is wrong with a case."""
        before = [self.floats() for _ in self.buffers]
        after, operands = self.run(case, before)
        if operands.unknown is not None or operands.whole:
            return [f"{case.name}: operands are not exact: {operands.unknown or operands.whole}"]
        problems = []
        for address, old, new in zip(self.buffers, before, after, strict=True):
            changed = {address + i for i in range(BUFFER_BYTES) if old[i] != new[i]}
            if changed - operands.writes:
                problems.append(f"{case.name}: {len(changed - operands.writes)} bytes changed that no write names")
        other = [self.mixed(address, old, operands) for address, old in zip(self.buffers, before, strict=True)]
        again, _ = self.run(case, other)
        contents = zip(self.buffers[:3], before, other, after, again, strict=False)
        surely = operands.overwritten - operands.reads
        for address, old, mixed, new, repeated in contents:
            named = (each - address for each in operands.writes if 0 <= each - address < BUFFER_BYTES)
            written = (i for i in named if i + address in surely or old[i] != new[i] or mixed[i] != repeated[i])
            if any(new[i] != repeated[i] for i in written):
                problems.append(f"{case.name}: the result depends on bytes that no read names")
        return problems

    def floats(self) -> bytes:
        """Random bytes that are small numbers, in single and in half precision."""
        made = bytearray(b"\x00\x3c" * (BUFFER_BYTES // 2))
        made[::2] = self.draw.randbytes(BUFFER_BYTES // 2)
        return bytes(made)

    def mixed(self, address: int, old: bytes, operands: Operands) -> bytes:
        made = bytearray(self.floats())
        for place in (each - address for each in operands.reads - operands.scratch):
            if 0 <= place < BUFFER_BYTES:
                made[place] = old[place]
        return bytes(made)

    def run(self, case: Case, contents: list[bytes]) -> tuple[list[bytes], Operands]:
        for address, data in zip(self.buffers, contents, strict=True):
            self.gpu.write(address, data)
        status = case.make()
        if status:
            raise RuntimeError(f"{case.name}: status {status}")
        operands = self.marks.operands("tessera_library_newest")
        return [self.gpu.read(address) for address in self.buffers], operands


def gemms(of: Comparison, handle: c_void_p) -> Iterator[Case]:
    """Matrix products of several entry points."""
    draw, tell = of.draw, of.marks.tell
    a, b, c, _ = of.buffers
    one, beta = byref(ctypes.c_float(1)), byref(ctypes.c_float(draw.choice([0, 1])))
    m, n, k, ta, tb = *(draw.randint(1, 24) for _ in range(3)), draw.randint(0, 1), draw.randint(0, 1)
    lda, ldb, ldc = (draw.randint(24, 32) for _ in range(3))
    shape = (handle, ta, tb, m, n, k)
    yield Case("cublasSgemm_v2", lambda: tell("cublasSgemm_v2", *shape, one, a, lda, b, ldb, beta, c, ldc))
    half = (one, a, HALF, lda, b, HALF, ldb, beta, c, HALF, ldc, COMPUTE_FLOAT, -1)
    yield Case("cublasGemmEx", lambda: tell("cublasGemmEx", *shape, *half))
    steps, count = [32 * 32 + draw.randint(0, 9) for _ in range(3)], draw.randint(1, 4)
    factors = (one, a, FLOAT, lda, steps[0], b, FLOAT, ldb, steps[1])
    batch = (*factors, beta, c, FLOAT, ldc, steps[2], count, COMPUTE_FLOAT, -1)
    yield Case("cublasGemmStridedBatchedEx", lambda: tell("cublasGemmStridedBatchedEx", *shape, *batch))
    axpy = (handle, m, one, a, draw.choice([-2, 1, 3]), c, draw.choice([-1, 2]))
    yield Case("cublasSaxpy_v2", lambda: tell("cublasSaxpy_v2", *axpy))
    sums = (handle, ta, tb, m, n, one, a, lda, one, b, ldb, c, ldc)
    yield Case("cublasSgeam", lambda: tell("cublasSgeam", *sums))


def matmuls(of: Comparison, lt: ctypes.CDLL, handle: c_void_p) -> Iterator[Case]:
    """cublasLtMatmul with a bias, half precision."""
    draw = of.draw
    m, n, k = (8 * draw.randint(1, 6) for _ in range(3))
    layouts = []
    for rows, columns in ((m, k), (k, n), (m, n)):
        made = c_void_p()
        lt.cublasLtMatrixLayoutCreate(byref(made), HALF, c_uint64(rows), c_uint64(columns), ctypes.c_int64(rows + 8))
        layouts.append(made)
    operation = c_void_p()
    lt.cublasLtMatmulDescCreate(byref(operation), COMPUTE_FLOAT, FLOAT)
    a, b, c, work = of.buffers
    bias = b + BUFFER_BYTES // 2
    lt.cublasLtMatmulDescSetAttribute(operation, 7, byref(c_int(4)), c_size_t(4))
    lt.cublasLtMatmulDescSetAttribute(operation, 8, byref(c_uint64(bias)), c_size_t(8))
    one, beta = byref(ctypes.c_float(1)), byref(ctypes.c_float(draw.choice([0, 1])))
    operands = (one, a, layouts[0], b, layouts[1], beta, c, layouts[2], c, layouts[2], None, work, 1 << 16, None)
    yield Case("cublasLtMatmul", lambda: of.marks.tell("cublasLtMatmul", handle, operation, *operands))


def transforms(of: Comparison) -> Iterator[Case]:
    """Fourier transforms, by plans with the plain and the advanced layout."""
    draw, tell = of.draw, of.marks.tell
    a, _, c, _ = of.buffers
    size, batch = draw.randint(2, 40), draw.randint(1, 5)
    plans = [c_int(), c_int()]
    tell("cufftPlan1d", byref(plans[0]), size, 0x2A, batch)
    yield Case("cufftExecR2C", lambda: tell("cufftExecR2C", plans[0].value, a, c))
    sizes, embed = (c_int * 2)(size, 6), (c_int * 2)(size, 6 + draw.randint(0, 3))
    distance = 2 * size * 9 + draw.randint(0, 5)
    tell("cufftPlanMany", byref(plans[1]), 2, sizes, embed, 2, distance, embed, 2, distance, 0x29, batch)
    yield Case("cufftExecC2C", lambda: tell("cufftExecC2C", plans[1].value, a, c, -1))
    for plan in plans:
        tell("cufftDestroy", plan.value)


def compare(seed: int, rounds: int, marks_file: Path) -> list[str]:
    gpu = Gpu()
    libraries = {name: load(names) for name, names in NAMES.items()}
    of = Comparison(Marks(marks_file, None), gpu, random.Random(seed))
    handle, lt_handle = c_void_p(), c_void_p()
    of.marks.tell("cublasCreate_v2", byref(handle))
    of.marks.tell("cublasLtCreate", byref(lt_handle))
    of.marks.tell("cublasSetWorkspace_v2", handle, of.buffers[3], BUFFER_BYTES)
    problems: list[str] = []
    for _ in range(rounds):
        for cases in (gemms(of, handle), matmuls(of, libraries["cublasLt"], lt_handle), transforms(of)):
            for case in cases:
                problems += of.check(case)
    return problems


def main(words: Sequence[str]) -> int:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--marks", type=Path, help="libtessera_calls.so")
    options = parser.parse_args(words)
    try:
        problems = compare(options.seed, options.rounds, options.marks or native.file("shim/libtessera_calls.so"))
    except UnavailableError as problem:
        print(f"library-operands: {problem}", file=sys.stderr)
        return 2
    print("\n".join(problems) if problems else f"{options.rounds} rounds: every call touched what it names")
    return 1 if problems else 0
