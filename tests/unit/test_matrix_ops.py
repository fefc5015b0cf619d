"""Matrix operations: fragments as the PTX manual lays them out, products against numpy, at every level of this CPU."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from lane_runner import Runner, build_runner
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
Registers = NDArray[np.unsignedinteger]

_BYTES = {"f16": 2, "bf16": 2, "s8": 1, "u8": 1, "e4m3": 1, "e5m2": 1, "tf32": 4, "f32": 4, "s32": 4, "f64": 8}
_NUMPY = {
    "f16": np.float16,
    "tf32": np.float32,
    "f32": np.float32,
    "f64": np.float64,
    "s8": np.int8,
    "u8": np.uint8,
    "s32": np.int32,
}
_EIGHT_BITS = {
    "e4m3": {0: 0, 1: 0x38, 2: 0x40, -1: 0xB8, -2: 0xC0},
    "e5m2": {0: 0, 1: 0x3C, 2: 0x40, -1: 0xBC, -2: 0xC0},
}


@pytest.fixture(scope="module")
def runner(native_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Runner:
    return build_runner(native_build, tmp_path_factory.mktemp("matrix"))


def _shape(key: str) -> tuple[int, int, int]:
    found = re.search(r"m(\d+)n(\d+)k(\d+)", key)
    assert found is not None
    return int(found[1]), int(found[2]), int(found[3])


def _bits(matrix: Matrix, kind: str) -> Registers:
    """The elements' patterns. Matrices here hold small integers, exact in every type."""
    if kind in _EIGHT_BITS:
        codes = np.array([_EIGHT_BITS[kind][int(value)] for value in matrix.flat], np.uint8)
        return codes.reshape(matrix.shape)
    if kind == "bf16":
        return (matrix.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return np.ascontiguousarray(matrix.astype(_NUMPY[kind])).view(np.dtype(f"u{_BYTES[kind]}"))


def _numbers(bits: Registers, kind: str) -> Matrix:
    return np.ascontiguousarray(bits).view(_NUMPY[kind]).astype(np.float64)


def _input_place(role: str, kind: str, lane: int, element: int, *, rows: int) -> tuple[int, int]:
    """(row, column) of an A or B element, from the figures of mma.sync in the manual."""
    group, thread = lane >> 2, lane & 3
    wide = max(4 // _BYTES[kind], 1)  # elements in a register
    register, part = element // wide, element % wide
    if role == "b":
        return thread * wide + part + 4 * wide * register, group
    tall = rows // 8
    return group + 8 * (register % tall), thread * wide + part + 4 * wide * (register // tall)


def _result_place(lane: int, element: int) -> tuple[int, int]:
    return (lane >> 2) + 8 * (element // 2), (lane & 3) * 2 + element % 2


def _fragment(matrix: Matrix, kind: str, role: str) -> Registers:
    """(registers, 32) of one fragment of mma.sync."""
    bits = _bits(matrix, kind)
    lanes = np.zeros((32, matrix.size // 32), bits.dtype)
    for lane, element in np.ndindex(*lanes.shape):
        if role == "c":
            place = _result_place(lane, element)
        else:
            place = _input_place(role, kind, lane, element, rows=matrix.shape[0])
        lanes[lane, element] = bits[place]
    return np.ascontiguousarray(lanes.view(np.uint64 if kind == "f64" else np.uint32).T)


def _from_fragment(registers: Registers, kind: str, shape: tuple[int, int]) -> Matrix:
    lanes = _numbers(registers.T, kind)
    result = np.zeros(shape)
    for lane, element in np.ndindex(*lanes.shape):
        result[_result_place(lane, element)] = lanes[lane, element]
    return result


def _random(shape: tuple[int, int], kind: str, random: np.random.Generator) -> Matrix:
    low, high = (0, 3) if kind == "u8" else (-2, 3)
    return random.integers(low, high, shape).astype(np.float64)


def _register_count(elements: int, kind: str) -> int:
    return elements // 32 if kind == "f64" else max(elements * _BYTES[kind] // 128, 1)


def test_mma_multiplies(runner: Runner) -> None:
    random = np.random.default_rng(1)
    keys = [key for key in runner.matrix_keys if key.startswith("mma.")]
    assert len(keys) > 50
    for key in keys:
        m, n, k = _shape(key)
        d_kind, a_kind, b_kind, c_kind = key.split(".")[-4:]
        a, b, c = _random((m, k), a_kind, random), _random((k, n), b_kind, random), _random((m, n), c_kind, random)
        sources = [_fragment(a, a_kind, "a"), _fragment(b, b_kind, "b"), _fragment(c, c_kind, "c")]
        count = _register_count(m * n, d_kind)
        registers = np.concatenate([np.zeros((count, 32), sources[0].dtype), *sources])
        for level in runner.levels:
            after = runner.run_matrix(key, registers, level=level)
            assert (_from_fragment(after[:count], d_kind, (m, n)) == a @ b + c).all(), (key, level)


@pytest.mark.parametrize("sign", [1, -1])
def test_integer_sums_saturate_only_when_asked(runner: Runner, sign: int) -> None:
    limit = 2**31 - 1 if sign > 0 else -(2**31)
    a, b, c = np.full((16, 32), 2.0), np.full((32, 8), float(sign)), np.full((16, 8), float(limit))
    sources = [_fragment(a, "s8", "a"), _fragment(b, "s8", "b"), _fragment(c, "s32", "c")]
    registers = np.concatenate([np.zeros((4, 32), np.uint32), *sources])
    for modifier, wanted in (("", limit + 64 * sign - sign * 2**32), (".satfinite", limit)):
        key = f"mma.sync.aligned.m16n8k32.row.col{modifier}.s32.s8.s8.s32"
        for level in runner.levels:
            result = _from_fragment(runner.run_matrix(key, registers, level=level)[:4], "s32", (16, 8))
            assert (result == wanted).all()


def test_levels_agree_on_rounded_products(runner: Runner) -> None:
    random = np.random.default_rng(2)
    for key in runner.matrix_keys:
        if not key.startswith(("mma.", "wmma.mma.")) or ".f64" in key:
            continue
        # Exponents in the middle of every format's range.
        registers = random.integers(0, 1 << 32, (40, 32)).astype(np.uint32)
        registers = (registers & np.uint32(0x8FFF8FFF)) | np.uint32(0x30003000)
        results = [runner.run_matrix(key, registers, level=level) for level in runner.levels]
        assert all((result == results[0]).all() for result in results), key


class _Memory:
    """Moves matrices between one buffer and wmma fragments."""

    def __init__(self, runner: Runner, shape: str, space: str, level: int) -> None:
        self._runner, self._shape, self._space, self._level = runner, shape, space, level
        self._buffer = np.zeros(1 << 14, np.uint8)

    def _move(self, what: str, layout: str, kind: str, registers: Registers, stride: int) -> Registers:
        key = ".".join(filter(None, (f"wmma.{what}.sync.aligned", layout, self._shape, self._space, kind)))
        base = 0 if self._space == "shared" else self._buffer.ctypes.data
        address = np.full(32, base, np.uint64)
        return self._runner.run_matrix(
            key, registers, level=self._level, address=address, stride=stride, shared=self._buffer
        )

    def load(self, role: str, layout: str, kind: str, matrix: Matrix) -> Registers:
        stored = matrix if layout == "row" else matrix.T
        padded = np.pad(stored, ((0, 0), (0, 8)))
        data = _bits(padded, kind).tobytes()
        self._buffer[: len(data)] = np.frombuffer(data, np.uint8)
        count = 8 if role in "ab" and kind == "f16" else _register_count(matrix.size, kind)
        empty = np.zeros((count, 32), np.uint64 if kind == "f64" else np.uint32)
        return self._move(f"load.{role}", layout, kind, empty, padded.shape[1])

    def store(self, layout: str, kind: str, registers: Registers, shape: tuple[int, int]) -> Matrix:
        rows, columns = shape if layout == "row" else shape[::-1]
        self._move("store.d", layout, kind, registers, columns + 8)
        data = self._buffer[: rows * (columns + 8) * _BYTES[kind]].view(np.dtype(f"u{_BYTES[kind]}"))
        matrix = _numbers(data, kind).reshape(rows, columns + 8)[:, :columns]
        return matrix if layout == "row" else matrix.T


def test_wmma_multiplies_through_memory(runner: Runner) -> None:
    random = np.random.default_rng(3)
    keys = [key for key in runner.matrix_keys if key.startswith("wmma.mma") and not key.endswith("satfinite")]
    keys = [key for key in keys if ".rn." not in key]
    assert len(keys) == 4 * (3 * 4 + 3 + 1 + 3 + 3 + 1)
    for number, key in enumerate(keys):
        m, n, k = _shape(key)
        a_layout, b_layout, shape, *types = key.split(".")[4:]
        a_kind, b_kind = types[1:3] if len(types) == 4 else ("f16", "f16")
        a, b, c = _random((m, k), a_kind, random), _random((k, n), b_kind, random), _random((m, n), types[-1], random)
        level = runner.levels[number % len(runner.levels)]
        memory = _Memory(runner, shape, ("", "global", "shared")[number % 3], level)
        c_layout, d_layout = ("row", "col")[number % 2], ("col", "row")[number // 2 % 2]
        sources = [
            memory.load("a", a_layout, a_kind, a),
            memory.load("b", b_layout, b_kind, b),
            memory.load("c", c_layout, types[-1], c),
        ]
        count = _register_count(m * n, types[0])
        registers = np.concatenate([np.zeros((count, 32), sources[0].dtype), *sources])
        product = runner.run_matrix(key, registers, level=level)[:count]
        assert (memory.store(d_layout, types[0], product, (m, n)) == a @ b + c).all(), key


@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_ldmatrix_and_stmatrix(runner: Runner, count: int, trans: bool) -> None:
    random = np.random.default_rng(4)
    memory = random.integers(0, 256, 1 << 12).astype(np.uint8)
    rows = random.permutation(64)[:32].astype(np.uint64) * np.uint64(16)
    tail = f"sync.aligned.m8n8.x{count}{'.trans' if trans else ''}.shared.b16"
    empty = np.zeros((count, 32), np.uint32)
    loaded = runner.run_matrix(f"ldmatrix.{tail}", empty, level=0, address=rows, shared=memory)
    for j in range(count):
        matrix = np.stack([memory[int(row) :][:16].view(np.uint16) for row in rows[8 * j : 8 * j + 8]])
        expected = matrix.T if trans else matrix
        for lane in range(32):
            low, high = expected[lane // 4, 2 * (lane % 4)], expected[lane // 4, 2 * (lane % 4) + 1]
            assert int(loaded[j, lane]) == int(low) | int(high) << 16
    written = np.zeros_like(memory)
    runner.run_matrix(f"stmatrix.{tail}", loaded, level=0, address=rows, shared=written)
    for row in rows[: 8 * count]:
        assert (written[int(row) :][:16] == memory[int(row) :][:16]).all()


def test_movmatrix_transposes(runner: Runner) -> None:
    values = np.arange(64, dtype=np.uint16)
    registers = np.stack([np.zeros(32, np.uint32), values.view(np.uint32)])
    after = runner.run_matrix("movmatrix.sync.aligned.m8n8.trans.b16", registers, level=0)
    assert (np.ascontiguousarray(after[0]).view(np.uint16).reshape(8, 8) == values.reshape(8, 8).T).all()
