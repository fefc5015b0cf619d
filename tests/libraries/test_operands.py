"""Operands of library calls against a model that touches element by element."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.libraries.model import TYPES, Gemm, Touched, tensor, vector
from tests.libraries.stand_ins import READ, WRITE, Marks, Operands, Range

A, B, C, D, WORK, ALPHA = (0x7F0000000000 + i * 0x10000000 for i in range(6))
PAGE_LOCKED = 0x1E0000001000  # where applications' page-locked memory begins (tessera/lane.h)
HOST, DEVICE = ctypes.byref(ctypes.c_int(0)), ctypes.byref(ctypes.c_int(1))  # handles: their pointer modes
SIZES = st.integers(1, 5)
TYPE = st.sampled_from(sorted(TYPES))
FLAG = st.booleans()
_BETAS = [(ctypes.c_uint8 * 16)(*[0] * zeros, *[1] * (16 - zeros)) for zeros in range(17)]
BETA = ctypes.addressof(_BETAS[0])
BITS_PAST = 0x55 << 32  # where an argument is an int, the upper half of its place means nothing


def beta(zeros: int) -> int:
    """Where a number is on the host whose first bytes are 0."""
    return ctypes.addressof(_BETAS[zeros])


def check(found: Operands, touched: Touched) -> None:
    assert (found.unknown, found.whole) == (None, set())
    assert found.reads == touched.reads
    assert found.writes == touched.writes
    assert found.overwritten == touched.overwritten
    assert found.scratch == touched.scratch


@st.composite
def gemms(draw: Any, batched: bool = False, types: Any = TYPE) -> tuple[Gemm, tuple[int, int, int]]:
    m, n, k = draw(SIZES), draw(SIZES), draw(SIZES)
    ta, tb, batches = draw(FLAG), draw(FLAG), draw(SIZES) if batched else 1
    kinds = draw(st.tuples(types, types, types))
    shapes = ((m, k) if not ta else (k, m), (k, n) if not tb else (n, k), (m, n))
    operands = []
    for address, kind, (rows, columns) in zip((A, B, C), kinds, shapes, strict=True):
        pitch = rows + draw(st.integers(0, 3))
        stride = draw(st.sampled_from([pitch * columns, pitch * columns + 7, rows, 0])) if batched else 0
        operands.append((address, TYPES[kind], pitch, stride))
    return Gemm(ta, tb, m, n, k, operands[0], operands[1], operands[2], batches), kinds


@settings(deadline=None, max_examples=25)
@given(gemms(types=st.just(0)), st.sampled_from([0, 3, 4]))
def test_sgemm(marks: Marks, drawn: tuple[Gemm, Any], zeros: int) -> None:
    g, _ = drawn
    shape = (int(g.transposed_a), int(g.transposed_b), g.m, g.n | BITS_PAST, g.k | BITS_PAST)
    operands = (ALPHA, A, g.a[2] | BITS_PAST, B, g.b[2], beta(zeros), C, g.c[2] | BITS_PAST)
    check(marks.call("cublasSgemm_v2", HOST, *shape, *operands), g.touched(zeros == 4))


@settings(deadline=None, max_examples=25)
@given(
    gemms(),
    st.sampled_from(["cublasGemmEx", "cublasGemmEx_64"]),
    st.sampled_from([64, 68, 70, 72, 74, 77, 99]),
    st.sampled_from([0, 1, 2, 4, 7, 8, 16]),
)
def test_gemm_ex(marks: Marks, drawn: tuple[Gemm, tuple[int, int, int]], name: str, compute: int, zeros: int) -> None:
    """How large beta is, the type of the computation says; of a type that nobody knows, it may be anything."""
    g, (ta, tb, tc) = drawn
    shape = (2 * int(g.transposed_a), int(g.transposed_b), g.m, g.n, g.k)
    operands = (ALPHA, A, ta, g.a[2], B, tb, g.b[2], beta(zeros), C, tc, g.c[2], compute, -1)
    parts = 2 if tc in (4, 5) else 1
    size = {64: 2, 68: 4 * parts, 70: 8 * parts, 72: 4, 74: 4 * parts, 77: 4 * parts}.get(compute, 17)
    check(marks.call(name, HOST, *shape, *operands), g.touched(zeros >= size))


@settings(deadline=None, max_examples=25)
@given(gemms(batched=True), FLAG)
def test_batches_of_gemm(marks: Marks, drawn: tuple[Gemm, tuple[int, int, int]], zero: bool) -> None:
    g, (ta, tb, tc) = drawn
    shape = (int(g.transposed_a), int(g.transposed_b), g.m, g.n, g.k)
    factors = (ALPHA, A, ta, g.a[2], g.a[3], B, tb, g.b[2], g.b[3], beta(16 * zero))
    operands = (*factors, C, tc, g.c[2], g.c[3], g.batches, 68, -1)
    check(marks.call("cublasGemmStridedBatchedEx", HOST, *shape, *operands), g.touched(zero))


@settings(deadline=None, max_examples=25)
@given(gemms(batched=True, types=st.just(1)), st.sampled_from([0, 7, 8]))
def test_batches_of_dgemm(marks: Marks, drawn: tuple[Gemm, Any], zeros: int) -> None:
    g, _ = drawn
    shape = (int(g.transposed_a), int(g.transposed_b), g.m, g.n, g.k)
    operands = (ALPHA, A, g.a[2], g.a[3], B, g.b[2], g.b[3], beta(zeros), C, g.c[2], g.c[3], g.batches)
    check(marks.call("cublasDgemmStridedBatched", HOST, *shape, *operands), g.touched(zeros == 8))


def test_what_is_not_certain_is_not_overwritten(marks: Marks) -> None:
    """A beta on the GPU, none at all, a sum of nothing, and rows of which more than the elements would be named."""
    c = tensor(C, 4, (2, 3), (1, 4))
    shape, rest = (0, 0, 2, 3, 1), (A, 4, B, 4)
    for handle, scale in ((DEVICE, WORK), (HOST, 0)):
        found = marks.call("cublasSgemm_v2", handle, *shape, ALPHA, *rest, scale, C, 4)
        assert c <= found.reads & found.writes
        assert not found.overwritten
    nothing = marks.call("cublasSgemm_v2", HOST, 0, 0, 2, 3, 0, ALPHA, *rest, beta(16), C, 4)
    check(nothing, Touched(c, c))
    many = (A, 0, 4, 8, B, 0, 4, 16, beta(16), C, 0, 4, 20, 40, 68, -1)  # 40 times 3 columns of 2 in 4
    found = marks.call("cublasGemmStridedBatchedEx", HOST, *shape, ALPHA, *many)
    assert not found.overwritten
    assert tensor(C, 4, (2, 3, 40), (1, 4, 20)) < found.writes
    in_place = marks.call("cublasSgemm_v2", HOST, 0, 0, 2, 2, 2, ALPHA, C, 2, B, 2, beta(16), C, 2)
    assert tensor(C, 4, (2, 2), (1, 2)) <= in_place.reads & in_place.overwritten  # A is where C is


INCREMENT = st.sampled_from([-3, -1, 1, 2])


@settings(deadline=None, max_examples=20)
@given(SIZES, SIZES, FLAG, INCREMENT, INCREMENT, st.integers(0, 2), FLAG)
def test_gemv_and_ger(
    marks: Marks, m: int, n: int, transposed: bool, incx: int, incy: int, extra: int, zero: bool
) -> None:
    pitch, nx, ny = m + extra, m if transposed else n, n if transposed else m
    matrix = tensor(A, 8, (m, n), (1, pitch))
    touched = Touched(set(matrix))
    for element in vector(B, 8, nx, incx):
        touched.read(*element)
    for element in vector(C, 8, ny, incy):
        (touched.overwrite if zero else touched.both)(*element)
    found = marks.call(
        "cublasDgemv_v2", HOST, int(transposed), m, n, ALPHA, A, pitch, B, incx, beta(16 * zero), C, incy
    )
    check(found, touched)
    touched = Touched(set(matrix), set(matrix))
    for element in [*vector(B, 8, m, incx), *vector(C, 8, n, incy)]:
        touched.read(*element)
    check(marks.call("cublasDger_v2", HOST, m, n, ALPHA, B, incx, C, incy, A, pitch), touched)


@settings(deadline=None, max_examples=20)
@given(SIZES, SIZES, FLAG, st.integers(0, 2))
def test_symmetric_and_triangular(marks: Marks, n: int, k: int, other: bool, extra: int) -> None:
    """One triangle of a square matrix is touched; the operand is the whole of it."""
    pitch = max(n, k) + extra
    square = tensor(C, 4, (n, n), (1, pitch))
    found = marks.call("cublasSsyrk_v2", HOST, 0, int(other), n, k, ALPHA, A, pitch, BETA, C, pitch)
    check(found, Touched(tensor(A, 4, (k, n) if other else (n, k), (1, pitch)) | square, square))
    side = k if other else n  # B is n x k
    b = tensor(B, 4, (n, k), (1, pitch))
    found = marks.call("cublasStrsm_v2", HOST, int(other), 0, 0, 0, n, k, ALPHA, A, pitch, B, pitch)
    check(found, Touched(tensor(A, 4, (side, side), (1, pitch)) | b, b))


@settings(deadline=None, max_examples=20)
@given(SIZES, INCREMENT, INCREMENT, TYPE, TYPE)
def test_vectors(marks: Marks, n: int, incx: int, incy: int, tx: int, ty: int) -> None:
    x, y = vector(A, TYPES[tx], n, incx), vector(B, TYPES[ty], n, incy)
    axpy, dot, scal = Touched(), Touched(), Touched()
    for element in x:
        axpy.read(*element)
        dot.read(*element)
        scal.both(*element)
    for element in y:
        axpy.both(*element)
        dot.read(*element)
    dot.write(D, 4)
    check(marks.call("cublasAxpyEx", HOST, n, ALPHA, 0, A, tx, incx, B, ty, incy, 0), axpy)
    check(marks.call("cublasDotEx", DEVICE, n, A, tx, incx, B, ty, incy, D, 0, 0), dot)
    check(marks.call("cublasScalEx", HOST, n, ALPHA, 0, A, tx, incx, 0), scal)


def test_sums_of_matrices(marks: Marks) -> None:
    a, b, c = (tensor(at, 4, dims, (1, 4)) for at, dims in ((A, (2, 3)), (B, (3, 2)), (C, (3, 2))))
    found = marks.call("cublasSgeam", HOST, 1, 0, 3, 2, ALPHA, A, 4, BETA, B, 4, C, 4)
    check(found, Touched(a | b, c, c))


def test_scalars_on_the_gpu_are_read(marks: Marks) -> None:
    found = marks.call("cublasDscal_v2", DEVICE, 1, ALPHA, A, 1)
    assert found.reads == set(range(ALPHA, ALPHA + 8)) | set(range(A, A + 8))
    assert found.writes == set(range(A, A + 8))


@pytest.mark.parametrize("name", ["cublasGemmBatchedEx", "cublasSgemmBatched", "cublasSgetrfBatched"])
def test_arrays_of_pointers_are_unknown(marks: Marks, name: str) -> None:
    assert marks.call(name, HOST, *range(19)).unknown == "operands that only memory names"


def test_the_work_area_is_read_and_written_until_the_stream_changes(marks: Marks) -> None:
    scal = ("cublasSscal_v2", HOST, 1, ALPHA, A, 1)
    assert marks.tell("cublasSetWorkspace_v2", HOST, WORK, 64) == 0
    work = set(range(WORK, WORK + 64))
    found = marks.call(*scal)
    assert work < found.reads
    assert work < found.writes
    assert work == found.scratch
    assert not work & marks.call("cublasSscal_v2", DEVICE, 1, ALPHA, A, 1).reads
    marks.tell("cublasSetStream_v2", HOST, 5)
    assert not work & marks.call(*scal).reads


def test_memory_of_the_library_is_read_and_written_by_its_launches(marks: Marks) -> None:
    got, gave = marks.marks.tessera_library_memory, marks.marks.tessera_library_memory_gone
    address, own = ctypes.c_uint64(WORK), set(range(WORK, WORK + 32))
    got(ctypes.c_uint64(D), ctypes.c_uint64(8))  # outside of every call: the application's own
    marks.inside = lambda: got(address, ctypes.c_uint64(32))
    first = marks.call("cublasSscal_v2", HOST, 1, ALPHA, A, 1)
    marks.inside = lambda: None
    for found in (first, marks.call("cublasSaxpy_v2", HOST, 1, ALPHA, A, 1, A, 1)):
        assert own < found.reads
        assert own < found.writes
        assert not found.scratch  # it may hold what later calls need
        assert D not in found.reads
    plan = ctypes.c_int()
    marks.tell("cufftPlan1d", ctypes.byref(plan), 4, 0x29, 1)
    assert not own & marks.call("cufftExecC2C", plan.value, A, B, 1).reads
    gave(address)
    assert not own & marks.call("cublasSscal_v2", HOST, 1, ALPHA, A, 1).reads


@pytest.mark.full
def test_memory_of_a_handle_is_its_own(marks: Marks) -> None:
    """A workspace is scratch, a small piece is left as it was found; calls of other handles use neither. Page-locked
    memory of the host is nobody's data.
    """
    got, gave = marks.marks.tessera_library_memory, marks.marks.tessera_library_memory_gone
    pool, small, handles = (WORK, 1 << 20), (D, 64), [ctypes.c_int(0), ctypes.c_int(0)]
    locked = (PAGE_LOCKED, 4)

    def make() -> None:
        for address, size in (pool, small, locked):
            got(ctypes.c_uint64(address), ctypes.c_uint64(size))

    marks.making = make
    made = ctypes.c_uint64(ctypes.addressof(handles[0]))
    assert marks.tell("cublasCreate_v2", ctypes.byref(made)) == 0
    marks.making = lambda: None
    handle = ctypes.c_void_p(made.value)
    found = marks.call("cublasSscal_v2", handle, 1, ALPHA, A, 1)
    workspace, semaphores = (set(range(address, address + size)) for address, size in (pool, small))
    assert found.scratch == workspace
    assert semaphores < found.reads
    assert not semaphores & found.writes
    assert PAGE_LOCKED not in found.reads | found.writes
    other = marks.call("cublasSscal_v2", ctypes.byref(handles[1]), 1, ALPHA, A, 1)
    assert not (workspace | semaphores) & (other.reads | other.writes)
    for address, _ in (pool, small, locked):
        gave(ctypes.c_uint64(address))
    assert not marks.call("cublasSscal_v2", handle, 1, ALPHA, A, 1).scratch


def test_what_a_call_sets_first_is_no_scratch_and_the_rest_still_is(marks: Marks) -> None:
    marks.tell("cublasSetWorkspace_v2", HOST, WORK, 64)
    work, c = set(range(WORK, WORK + 64)), tensor(C, 4, (2, 2), (1, 2))
    set_bytes, told = marks.marks.tessera_library_enqueued_bytes, list[Operands]()

    def launch(*pieces: tuple[int, int]) -> None:
        for address, size in pieces:
            set_bytes(ctypes.c_uint64(address), ctypes.c_uint64(size))
        told.append(marks.operands())
        marks.marks.tessera_library_enqueued()
        told.append(marks.operands())

    for pieces in ([(WORK + 8, 4)], [(WORK, 4), (WORK + 60, 8)], [(C, 4)], [(WORK + 8, 4)] * 9, [(A, 4)]):
        told.clear()
        marks.inside = lambda pieces=pieces: launch(*pieces)  # type: ignore[misc]
        marks.call("cublasSgemm_v2", HOST, 0, 0, 2, 2, 2, ALPHA, A, 2, B, 2, beta(16), C, 2)
        first, then = told
        was_set = {byte for address, size in pieces for byte in range(address, address + size)}
        if len(pieces) > 8:
            assert (first.scratch, first.overwritten) == (set(), set())
        else:
            assert first.scratch == work - was_set
            assert first.overwritten == (set() if c & was_set else c)
        assert work < first.reads
        assert bool(c & first.reads) == (not first.overwritten)
        assert first.writes == then.writes == work | c
        assert (then.scratch, then.overwritten) == (set(), set())
        assert first.intermediate == (work | c) - first.scratch - first.overwritten
        assert then.intermediate == work | c
    marks.inside = lambda: None
    marks.tell("cublasSetStream_v2", HOST, 0)


def test_only_a_calls_first_work_does_not_need_what_was_there(marks: Marks) -> None:
    """A product in parts: the sum of the parts is the second launch, or memory is cleared first and added to."""
    marks.tell("cublasSetWorkspace_v2", HOST, WORK, 64)
    work, c = set(range(WORK, WORK + 64)), tensor(C, 4, (2, 2), (1, 2))
    launches: list[Operands] = []

    def launch() -> None:
        for _ in range(3):
            launches.append(marks.operands())
            marks.marks.tessera_library_enqueued()

    marks.inside = launch
    for _ in range(2):
        launches.clear()
        marks.call("cublasSgemm_v2", HOST, 0, 0, 2, 2, 2, ALPHA, A, 2, B, 2, beta(16), C, 2)
        first, *others = launches
        assert (first.overwritten, first.scratch) == (c, work)
        assert not c & first.reads
        for other in others:
            assert (other.overwritten, other.scratch, other.writes) == (set(), set(), first.writes)
            assert other.reads == first.reads | c
    marks.inside = lambda: None
    assert marks.operands("tessera_library_newest").overwritten == c  # of the call as a whole
    marks.tell("cublasSetStream_v2", HOST, 0)


def test_outside_of_calls_nothing_is_known(marks: Marks) -> None:
    assert marks.operands().unknown == "no library call"
    inner: list[Operands] = []
    marks.inside = lambda: inner.append(marks.operands())
    marks.call("cublasSscal_v2", HOST, 1, ALPHA, A, 1)
    marks.inside = lambda: None
    assert inner[0].writes == set(range(A, A + 4))
    assert marks.operands("tessera_library_newest").writes == set(range(A, A + 4))


class Stated(ctypes.Structure):
    """struct tessera_library_stated (calls/calls.h)."""

    _fields_ = (
        ("call", ctypes.c_uint32),
        ("count", ctypes.c_int32),
        ("other_gpus", ctypes.c_uint32),
        ("ranges", ctypes.c_void_p),
        ("why", ctypes.c_char_p),
    )


def test_another_thread_stands_in_for_one_in_a_call(marks: Marks) -> None:
    """It is told what was known in the call, which may have ended."""
    stated, kept, library = Stated(), list[Any](), marks.marks

    def state() -> None:
        others, ranges, why = ctypes.c_uint32(), ctypes.c_void_p(), ctypes.c_char_p()
        stated.call = library.tessera_library_call()
        stated.count = library.tessera_library_operands(ctypes.byref(ranges), ctypes.byref(others), ctypes.byref(why))
        found = ctypes.string_at(ranges.value or 0, ctypes.sizeof(Range) * stated.count)
        kept.append(ctypes.create_string_buffer(found))
        stated.ranges = ctypes.addressof(kept[0])

    marks.inside = state
    expected = marks.call("cublasSgemm_v2", HOST, 0, 0, 2, 2, 2, ALPHA, A, 2, B, 2, beta(4), C, 2)
    marks.inside = lambda: None
    marks.call("cublasSscal_v2", HOST, 1, ALPHA, A, 1)
    told: list[tuple[int, Operands]] = []

    def stand_in() -> None:
        library.tessera_library_stand_in(ctypes.byref(stated))
        told.append((library.tessera_library_call(), marks.operands()))
        library.tessera_library_stand_in(None)
        told.append((library.tessera_library_call(), marks.operands()))

    thread = threading.Thread(target=stand_in)
    thread.start()
    thread.join()
    assert told[0] == (stated.call, expected)
    assert told[1] == (0, Operands("no library call", False))
    assert library.tessera_library_call() == 0


# cuBLASLt. A descriptor is a list of attributes; scripts/lab library-constants compares their numbers with the header.


class Attribute(ctypes.Structure):
    _fields_ = [("name", ctypes.c_int32), ("bytes", ctypes.c_int32), ("value", ctypes.c_uint64)]


def descriptor(*attributes: tuple[int, int, int]) -> Any:
    listed = [Attribute(name, size, value & (1 << 64) - 1) for name, size, value in (*attributes, (-1, 0, 0))]
    return (Attribute * len(listed))(*listed)


def layout(kind: int, rows: int, columns: int, pitch: int, order: int = 0, batches: int = 1, stride: int = 0) -> Any:
    fields = [(0, 4, kind), (1, 4, order), (2, 8, rows), (3, 8, columns), (4, 8, pitch), (5, 4, batches)]
    return descriptor(*fields, (6, 8, stride), (7, 8, 0))


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_matmul_reads_and_writes_its_layouts(marks: Marks, data: st.DataObject) -> None:
    touched = Touched()
    passed: list[object] = []
    batches = data.draw(st.integers(1, 3))
    for address in (A, B, C, D):
        kind, rows, columns = data.draw(TYPE), data.draw(SIZES), data.draw(SIZES)
        order, extra = data.draw(st.sampled_from([0, 1])), data.draw(st.integers(0, 2))
        inner, outer = (rows, columns) if order == 0 else (columns, rows)
        stride = (inner + extra) * outer + data.draw(st.integers(0, 3))
        passed += [address, layout(kind, rows, columns, inner + extra, order, batches, stride)]
        matrix = tensor(address, TYPES[kind], (inner, outer, batches), (1, inner + extra, stride))
        (touched.writes if address == D else touched.reads).update(matrix)
    mode, zeros = data.draw(st.sampled_from([(0, 3), (0, 4), (3, 0), (4, 4)]))
    if zeros == 4 or mode == 3:
        touched.reads -= {byte for byte in touched.reads if C <= byte < D}
        touched.overwritten |= touched.writes
    whole = {(READ, ALPHA)} if mode else set()  # a vector for each row
    work = data.draw(st.sampled_from([0, 48]))
    touched.work(WORK, work)
    operation = descriptor((1, 4, 0), (2, 4, mode), (7, 4, 1))
    found = marks.call("cublasLtMatmul", 1, operation, ALPHA, *passed[:4], beta(zeros), *passed[4:], 0, WORK, work, 0)
    assert found.whole == whole
    found.whole.clear()
    check(found, touched)


BIAS, AUX, SCALE, AMAX = (0x7E0000000000 + i * 0x10000000 for i in range(4))
ROWS, COLUMNS, PITCH = 8, 3, 128


@pytest.mark.parametrize(
    ("epilogue", "reads", "writes"),
    [
        (4, {BIAS: 2 * ROWS}, {}),  # bias
        (2 | 4 | 128, {BIAS: 2 * ROWS}, {AUX + 16 * i: 1 for i in range(COLUMNS)}),  # ReLU: a bit for each element
        (8 | 128, {AUX + 16 * i: 1 for i in range(COLUMNS)}, {}),
        (32 | 128, {}, {AUX + 2 * PITCH * i: 2 * ROWS for i in range(COLUMNS)}),  # GELU
        (64 | 128 | 16, {AUX + 2 * PITCH * i: 2 * ROWS for i in range(COLUMNS)}, {BIAS: 2 * ROWS}),
        (256, {}, {BIAS: 2 * ROWS}),
        (512, {}, {BIAS: 2 * COLUMNS}),
    ],
)
def test_epilogues(marks: Marks, epilogue: int, reads: dict[int, int], writes: dict[int, int]) -> None:
    d = layout(2, ROWS, COLUMNS, ROWS)
    attributes = [(1, 4, 2), (7, 4, epilogue), (8, 8, BIAS), (11, 8, AUX), (12, 8, PITCH), (13, 8, 0)]
    found = marks.call("cublasLtMatmul", 1, descriptor(*attributes), ALPHA, A, d, A, d, BETA, D, d, D, d, 0, 0, 0, 0)
    own = set(range(A, A + 48)) | set(range(D, D + 48))
    assert found.reads - own == {byte for at, count in reads.items() for byte in range(at, at + count)}
    assert found.writes - own == {byte for at, count in writes.items() for byte in range(at, at + count)}
    assert not found.whole


def test_scales_and_layouts_that_are_not_described(marks: Marks) -> None:
    d, tiles = layout(28, 4, 4, 4), layout(3, 4, 4, 4, order=3)
    attributes = [(1, 4, 0), (7, 4, 1), (17, 8, SCALE), (18, 8, SCALE + 64), (32, 4, 2), (21, 8, AMAX)]
    found = marks.call(
        "cublasLtMatmul", 1, descriptor(*attributes), ALPHA, A, d, B, tiles, BETA, D, d, D, d, 0, 0, 0, 0
    )
    assert set(range(SCALE, SCALE + 4)) < found.reads
    assert set(range(AMAX, AMAX + 4)) < found.writes
    assert found.whole == {(READ, B), (READ, SCALE + 64)}
    arrays = descriptor(*((a.name, a.bytes, a.value) for a in d[:-1]), (8, 4, 1))
    found = marks.call(
        "cublasLtMatmul", 1, descriptor(*attributes), ALPHA, A, arrays, B, d, BETA, D, d, D, d, 0, 0, 0, 0
    )
    assert found.unknown == "operands that only memory names"


def test_matrix_transform(marks: Marks) -> None:
    a, c = layout(0, 3, 2, 4), layout(0, 3, 2, 2, order=1)
    found = marks.call("cublasLtMatrixTransform", 1, descriptor((1, 4, 0)), ALPHA, A, a, BETA, 0, None, C, c, 0)
    c = tensor(C, 4, (3, 2), (2, 1))
    check(found, Touched(tensor(A, 4, (3, 2), (1, 4)), c, c))
    padded = layout(0, 3, 33, 96, order=2)  # 32 columns side by side, of which the second 32 have one
    found = marks.call("cublasLtMatrixTransform", 1, descriptor((1, 4, 0)), ALPHA, A, a, BETA, 0, None, C, padded, 0)
    assert not found.overwritten
    assert found.writes == set(range(C, C + 4 * 2 * 96))


# cuFFT

COMPLEX, REAL = 4, 0


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_transforms_of_many(marks: Marks, data: st.DataObject) -> None:
    """The advanced layout: element (x, y, z) of a batch is at ((x * embed[1] + y) * embed[2] + z) * stride."""
    rank, batch = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank))
    kinds = data.draw(st.sampled_from([(COMPLEX, COMPLEX), (REAL, COMPLEX), (COMPLEX, REAL)]))
    passed: list[object] = []
    regions = []
    for address, kind, other in ((A, kinds[0], kinds[1]), (B, kinds[1], kinds[0])):
        extents = [*sizes[:-1], sizes[-1] // 2 + 1 if kind == COMPLEX and other == REAL else sizes[-1]]
        embed = [extent + data.draw(st.integers(0, 2)) for extent in extents]
        stride = data.draw(st.integers(1, 3))
        steps = [stride]
        for extent in reversed(embed[1:]):
            steps.insert(0, steps[0] * extent)
        distance = steps[0] * embed[0] + data.draw(st.integers(0, 2))
        regions.append(tensor(address, TYPES[kind], (*extents, batch), (*steps, distance)))
        passed += [(ctypes.c_longlong * rank)(*embed), stride, distance, kind]
    handle = 3
    lengths = (ctypes.c_longlong * rank)(*sizes)
    assert marks.tell("cufftXtMakePlanMany", handle, rank, lengths, *passed, batch, 0, 4) == 0
    found = marks.call("cufftXtExec", handle, A, B, 1)
    assert found.unknown is None
    assert regions[0] <= found.reads
    assert regions[1] <= found.writes
    assert (min(found.reads), max(found.reads)) == (min(regions[0]), max(regions[0]))
    assert found.overwritten in (set(), regions[1])
    if rank == 1:
        assert (found.reads, found.writes) == (regions[0], regions[0] | regions[1])
        assert found.overwritten == regions[1]


@pytest.mark.parametrize(
    ("name", "arguments", "kind", "reads", "writes"),
    [
        ("cufftPlan1d", (6, 0x2A, 2), "R2C", ((6, 2), (1, 6), 4), ((4, 2), (1, 4), 8)),
        ("cufftPlan2d", (3, 6, 0x2A), "R2C", ((6, 3), (1, 6), 4), ((4, 3), (1, 4), 8)),
        ("cufftPlan3d", (2, 3, 4, 0x6C), "Z2D", ((3, 3, 2), (1, 3, 9), 16), ((4, 3, 2), (1, 4, 12), 8)),
        ("cufftPlan1d", (5, 0x29, 3), "C2C", ((5, 3), (1, 5), 8), ((5, 3), (1, 5), 8)),
    ],
)
def test_plain_transforms(marks: Marks, name: str, arguments: Any, kind: str, reads: Any, writes: Any) -> None:
    plan = ctypes.c_int()
    assert marks.tell(name, ctypes.byref(plan), *arguments) == 0
    found = marks.call(f"cufftExec{kind}", plan.value, A, B, *([1] if kind == "C2C" else []))
    inputs, outputs = (tensor(at, size, dims, steps) for at, (dims, steps, size) in ((A, reads), (B, writes)))
    check(found, Touched(inputs, inputs | outputs, outputs))


def test_a_real_transform_in_place_has_rows_of_the_complex_side(marks: Marks) -> None:
    plan = ctypes.c_int()
    marks.tell("cufftPlan2d", ctypes.byref(plan), 3, 6, 0x2A)
    found = marks.call("cufftExecR2C", plan.value, A, A)
    rows = tensor(A, 4, (6, 3), (1, 8))
    complex_side = tensor(A, 8, (4, 3), (1, 4))
    check(found, Touched(rows, rows | complex_side, complex_side))


def test_plans_have_a_work_area_and_an_end(marks: Marks) -> None:
    plan = ctypes.c_int()
    marks.tell("cufftPlan1d", ctypes.byref(plan), 4, 0x29, 1)
    marks.set_work_bytes(24)
    marks.tell("cufftSetWorkArea", plan.value, WORK)
    found = marks.call("cufftExecC2C", plan.value, A, B, 1)
    assert found.scratch == set(range(WORK, WORK + 24)) < found.reads & found.writes
    marks.tell("cufftDestroy", plan.value)
    assert marks.call("cufftExecC2C", plan.value, A, B, 1).unknown == "a plan whose sizes are not known"
    marks.tell("cufftPlan1d", ctypes.byref(plan), 4, 0x29, 1)
    marks.tell("cufftXtSetCallback", plan.value, 0, 0, 0)
    assert marks.call("cufftExecC2C", plan.value, A, B, 1).unknown == "a plan whose sizes are not known"


# cuSPARSE


def words(*values: int) -> Any:
    return (ctypes.c_int64 * len(values))(*values)


@settings(deadline=None, max_examples=20)
@given(st.sampled_from([1, 2, 3]), SIZES, SIZES, SIZES, st.integers(0, 9), st.sampled_from([1, 2]), st.integers(1, 3))
def test_sparse_times_dense(
    marks: Marks, form: int, m: int, k: int, n: int, nonzeros: int, order: int, batches: int
) -> None:
    rows, indices, values = D, D + 0x100000, D + 0x200000
    a = words(form, m, k, nonzeros, rows, indices, values, 3, 2, 0, 1)
    first = {1: 8 * (m + 1), 2: 8 * (k + 1), 3: 4 * nonzeros}[form]
    touched = Touched()
    for at, count in ((rows, first), (indices, 4 * nonzeros), (values, 4 * nonzeros)):
        touched.read(at, count)
    dense = []
    for at, high, wide in ((B, k, n), (C, m, n)):
        inner, outer = (high, wide) if order == 1 else (wide, high)
        stride = (inner + 1) * outer
        dense.append(words(high, wide, inner + 1, at, 0, order, batches, stride))
        matrix = tensor(at, 4, (inner, outer, batches), (1, inner + 1, stride))
        touched.reads |= matrix
        touched.writes |= matrix if at == C else set()
    marks.set_work_bytes(40)
    touched.work(WORK, 40)
    check(marks.call("cusparseSpMM", HOST, 0, 0, ALPHA, a, dense[0], BETA, dense[1], 0, 0, WORK), touched)


def test_what_a_preparation_left_in_the_buffer_is_no_scratch(marks: Marks) -> None:
    a, x, y = words(1, 2, 3, 4, D, D + 64, D + 128, 2, 2, 1, 1), words(3, B, 1), words(2, C, 1)
    product = (HOST, 0, ALPHA, a, x, BETA, y, 1, 0, WORK + 4096)
    marks.set_work_bytes(40)
    assert marks.call("cusparseSpMV", *product).scratch == set(range(WORK + 4096, WORK + 4096 + 40))
    assert marks.tell("cusparseSpMV_preprocess", *product) == 0
    found = marks.call("cusparseSpMV", *product)
    assert (found.scratch, found.whole) == (set(), {(READ, WORK + 4096), (WRITE, WORK + 4096)})


def test_sparse_times_vector_and_forms_that_are_not_described(marks: Marks) -> None:
    a, x, y = words(1, 2, 3, 4, D, D + 64, D + 128, 2, 2, 1, 1), words(3, B, 1), words(2, C, 1)
    found = marks.call("cusparseSpMV", HOST, 0, ALPHA, a, x, BETA, y, 1, 0, 0)
    reads = tensor(D, 4, (3,), (1,)) | tensor(D + 64, 4, (4,), (1,)) | tensor(D + 128, 8, (4,), (1,))
    outputs = tensor(C, 8, (2,), (1,))
    check(found, Touched(reads | tensor(B, 8, (3,), (1,)) | outputs, outputs))
    a[0] = 5  # blocked ELL
    assert "format" in (marks.call("cusparseSpMV", HOST, 0, ALPHA, a, x, BETA, y, 1, 0, 0).unknown or "")


# NCCL


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 11), st.integers(1, 9), st.integers(1, 4))
def test_collectives(marks: Marks, kind: int, count: int, ranks: int) -> None:
    size = [1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1][kind]
    communicator = ctypes.byref(ctypes.c_int(ranks))
    part, all_parts = count * size, count * size * ranks
    for name, arguments, reads, writes in (
        ("ncclAllReduce", (A, B, count, kind, 0, communicator, 0), {A: part}, {B: part}),
        ("ncclReduce", (A, B, count, kind, 0, 0, communicator, 0), {A: part}, {B: part}),
        ("ncclBroadcast", (A, B, count, kind, 0, communicator, 0), {A: part}, {B: part}),
        ("ncclBcast", (A, count, kind, 0, communicator, 0), {A: part}, {A: part}),
        ("ncclAllGather", (A, B, count, kind, communicator, 0), {A: part}, {B: all_parts}),
        ("ncclReduceScatter", (A, B, count, kind, 0, communicator, 0), {A: all_parts}, {B: part}),
        ("ncclSend", (A, count, kind, 0, communicator, 0), {A: part}, {}),
        ("ncclRecv", (A, count, kind, 0, communicator, 0), {}, {A: part}),
    ):
        found = marks.call(name, *arguments)
        assert found.other_gpus
        check(
            found,
            Touched(
                {b for at, n in reads.items() for b in range(at, at + n)},
                {b for at, n in writes.items() for b in range(at, at + n)},
            ),
        )


def test_a_group_is_launched_where_it_ends(marks: Marks) -> None:
    communicator = ctypes.byref(ctypes.c_int(2))
    for count in (1, 2):  # the second group has nothing of the first
        marks.tell("ncclGroupStart")
        marks.tell("ncclGroupStart")
        marks.tell("ncclSend", A, count, 0, 1, communicator, 0)
        marks.tell("ncclGroupEnd")
        marks.tell("ncclRecv", B, 4 * count, 0, 1, communicator, 0)
        check(marks.call("ncclGroupEnd"), Touched(set(range(A, A + count)), set(range(B, B + 4 * count))))


def test_calls_that_nothing_describes_are_unknown(marks: Marks) -> None:
    assert "older interface" in (marks.call("cudnnConvolutionForward", *range(13)).unknown or "")
    assert marks.call("cusparseSpSM_solve", HOST, *range(9)).unknown
