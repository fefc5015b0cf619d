"""Every lane operation at every instruction-set level of this CPU: against the exact model, each other, under masks."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path

import lane_model
import numpy as np
import pytest
from exact_numbers import FORMATS
from lane_runner import ALL, LEVELS, Operation, Register, Runner, build_runner, width
from numpy.typing import NDArray

_SPECIAL_INTEGERS = (
    0,
    1,
    2,
    3,
    5,
    7,
    8,
    15,
    16,
    17,
    31,
    32,
    33,
    63,
    64,
    65,
    127,
    128,
    255,
    256,
    0x7FFF,
    0x8000,
    0xFFFF,
    0x10000,
    0x7FFFFF,
    0x800000,
    0xFFFFFF,
    0x7FFFFFFF,
    0x80000000,
    0x80000001,
    0xFFFFFFFE,
    0xFFFFFFFF,
    0x100000000,
    0x1FFFFFFFF,
    0x20000000000001,
    0x7FFFFFFFFFFFFFFF,
    0x8000000000000000,
    0xFFFFFFFFFFFFFFFF,
    0xFFFFFFFFFFFFFF80,
    0xFFFFFFFFFFFF8000,
    0xFFFFFFFF80000000,
)


@pytest.fixture(scope="module")
def runner(native_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Runner:
    return build_runner(native_build, tmp_path_factory.mktemp("lanes"))


@cache
def _special(kind: str) -> Register:
    if kind in FORMATS:
        return np.array(_special_floats(kind), np.uint64)
    return np.array([value & (1 << width(kind)) - 1 for value in _SPECIAL_INTEGERS], np.uint64)


def _special_floats(kind: str) -> list[int]:
    fmt = FORMATS[kind]
    one = fmt.bias << fmt.fraction
    positive = [
        0,
        1,
        2,
        fmt.smallest_normal - 1,
        fmt.smallest_normal,
        fmt.smallest_normal + 1,
        one,
        one + 1,
        one - 1,
        one + (1 << fmt.fraction),
        one - (1 << fmt.fraction),
        one | 1 << (fmt.fraction - 1),
        fmt.infinity - 1,
        fmt.infinity,
        fmt.infinity | 1,
        fmt.infinity | 1 << (fmt.fraction - 1),
        fmt.infinity | 0x5,
    ]
    # Numbers near the limits of the other formats and of the integers.
    for exponent in (
        -150,
        -149,
        -126,
        -25,
        -24,
        -15,
        -14,
        -2,
        -1,
        1,
        3,
        7,
        8,
        11,
        15,
        16,
        23,
        24,
        31,
        32,
        52,
        62,
        63,
        64,
        126,
        127,
    ):
        if -fmt.bias < exponent <= fmt.bias:
            base = (exponent + fmt.bias) << fmt.fraction
            positive += [
                base,
                base + 1,
                max(base - 1, 0),
                base | 1 << (fmt.fraction - 1),
                base + (1 << fmt.fraction) - 1,
            ]
    return [bits | sign for bits in positive for sign in (0, fmt.sign_bit)]


def _samples(kind: str, random: np.random.Generator, count: int) -> Register:
    """Interesting and random bit patterns of a type."""
    if kind == "pred":
        return random.integers(0, 2, count, np.uint64)
    bits = width(kind)
    ones = (1 << bits) - 1
    anything = random.integers(0, ones, count, np.uint64, endpoint=True)
    if kind in FORMATS:
        fmt = FORMATS[kind]
        near = (anything & np.uint64(fmt.sign_bit | (1 << fmt.fraction) - 1)) | (
            random.integers(max(fmt.bias - 30, 0), min(fmt.bias + 30, 2 * fmt.bias + 1), count).astype(np.uint64)
            << np.uint64(fmt.fraction)
        )
        anything = np.where(random.random(count) < 0.5, near, anything)
    elif kind in ("f16x2", "bf16x2"):
        halves = [_samples(kind[:-2], random, count) for _ in range(2)]
        return halves[0] | halves[1] << np.uint64(16)
    else:
        # Halves packed into integer registers, small numbers, and numbers of every length.
        anything = np.where(
            random.random(count) < 0.3, anything >> random.integers(0, bits, count).astype(np.uint64), anything
        )
    chosen = random.choice(_special(kind), count)
    return np.where(random.random(count) < 0.5, chosen, anything)


def _batches(op: Operation, count: int, salt: str = "") -> Iterator[tuple[list[Register], int]]:
    """Registers for the sources, and the immediate of lop3 with a predicate."""
    random = np.random.default_rng(zlib.crc32((op.key + salt).encode()))
    for _ in range(count):
        sources = [_samples(kind, random, 32) for kind in op.sources]
        if op.key == "lop3.b32":
            sources[3] = np.full(32, random.integers(0, 256), np.uint64)
        if len(sources) == 2 and random.random() < 0.2 and op.sources[0] == op.sources[1]:
            sources[1] = sources[0].copy()
        yield sources, int(random.integers(0, 256))


def _run(runner: Runner, op: Operation, sources: list[Register], level: int, **more: int) -> tuple[Register, Register]:
    result = runner.run(op, sources, level=level, **more)
    assert result is not None
    return result


def _show(op: Operation, lane: int, sources: list[Register], got: int, wanted: int) -> str:
    operands = ", ".join(hex(int(values[lane])) for values in sources)
    return f"{op.key}({operands}) = {got:#x}, the model says {wanted:#x}"


def _model_disagreements(
    op: Operation, sources: list[Register], immediate: int, got: tuple[Register, Register]
) -> Iterator[str]:
    for lane in range(32):
        operands = [int(values[lane]) for values in sources]
        if op.key in ("lop3.or.b32", "lop3.and.b32"):
            operands.insert(3, immediate)
        try:
            wanted, second = lane_model.expected(op.key, operands)
        except lane_model.NotModelledError:
            continue
        if int(got[0][lane]) != wanted:
            yield _show(op, lane, sources, int(got[0][lane]), wanted)
        if op.second and second is not None and int(got[1][lane]) != second:
            yield "second: " + _show(op, lane, sources, int(got[1][lane]), second)


# Of 32 lanes each, for every operation.
BATCHES = [1, pytest.param(8, marks=pytest.mark.full)]


@pytest.mark.full
@pytest.mark.parametrize("batches", BATCHES)
def test_results_are_exact(runner: Runner, batches: int) -> None:
    wrong = []
    for op in runner.operations:
        for sources, immediate in _batches(op, batches):
            got = _run(runner, op, sources, runner.levels[-1], immediate=immediate)
            wrong += list(_model_disagreements(op, sources, immediate, got))[:1]
    assert not wrong, f"{len(wrong)} operations:\n" + "\n".join(wrong[:200])


@pytest.mark.parametrize("batches", BATCHES)
def test_levels_agree(runner: Runner, batches: int) -> None:
    """The best level is compared with the model above; the others with it."""
    *others, best_level = runner.levels
    wrong = []
    for op in runner.operations:
        for sources, immediate in _batches(op, batches):
            best = _run(runner, op, sources, best_level, immediate=immediate)
            for level in others:
                other = _run(runner, op, sources, level, immediate=immediate)
                lanes = np.flatnonzero((best[0] != other[0]) | (best[1] != other[1]))[:1]
                wrong += [
                    f"{LEVELS[level]}: {_show(op, int(n), sources, int(other[0][n]), int(best[0][n]))}" for n in lanes
                ]
    assert not wrong, f"{len(wrong)} disagree with {LEVELS[best_level]}:\n" + "\n".join(wrong[:50])


@pytest.mark.full
def test_inactive_lanes_keep_their_value(runner: Runner) -> None:
    random = np.random.default_rng(5)
    for op in runner.operations:
        for (sources, immediate), level in product(_batches(op, 1), runner.levels):
            mask = int(random.integers(1, ALL))
            old = int(random.integers(0, 1 << 16))
            full = _run(runner, op, sources, level, immediate=immediate)
            part = _run(runner, op, sources, level, mask=mask, old=old, immediate=immediate)
            active = np.array([mask >> n & 1 for n in range(32)], bool)
            for whole, some, kind in zip(full, part, (op.dst, "pred"), strict=True):
                kept = old & 1 if kind == "pred" else old
                if kind == "pred" and some is part[1] and not op.second:
                    continue
                assert (some == np.where(active, whole, np.uint64(kept))).all(), (op.key, LEVELS[level])


# What PTX documents: relative error, or absolute where a second number is given (for arguments up to it).
_BOUNDS = {
    "rcp": (2.0**-23, None),
    "sqrt": (2.0**-23, None),
    "rsqrt": (2.0**-22.9, None),
    "ex2": (2.0**-22, None),
    "tanh": (2.0**-11, None),
    "sin": (2.0**-20.5, 2 * np.pi),
    "cos": (2.0**-20.5, 2 * np.pi),
    "lg2": (2.0**-22, None),
}


def _reference(name: str, x: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(all="ignore"):
        if name == "rcp":
            return 1 / x
        if name == "rsqrt":
            return 1 / np.sqrt(x)
        named = {"ex2": "exp2", "lg2": "log2"}.get(name, name)
        return np.asarray(getattr(np, named)(x), np.float64)


def _floats(values: Register) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return values.astype(np.uint32).view(np.float32).astype(np.float64)


def _within(name: str, x: NDArray[np.float64], got: NDArray[np.float64]) -> NDArray[np.bool_]:
    wanted = _reference(name, x)
    bound, absolute_up_to = _BOUNDS[name]
    with np.errstate(all="ignore"):
        limit = np.full(32, bound) if absolute_up_to else bound * np.abs(wanted) + 2.0**-149
        if name == "lg2":
            limit = np.where((x >= 0.5) & (x <= 2), bound, limit)
        fine = (np.abs(got - wanted) <= limit) | (got == wanted) | (np.isnan(got) & np.isnan(wanted))
        fine |= np.isinf(got) & (np.abs(wanted) > 3.4e38)
        if absolute_up_to:
            fine |= np.abs(x) > absolute_up_to
    return np.asarray(fine)


def test_approximations_stay_within_the_documented_error(runner: Runner) -> None:
    names = set()
    for op in runner.operations:
        name, *modifiers = op.key.split(".")
        if modifiers != ["approx", "f32"] or name not in _BOUNDS:
            continue
        names.add(name)
        for (sources, _), level in product(_batches(op, 40), runner.levels):
            x = _floats(sources[0])
            got = _floats(_run(runner, op, sources, level)[0])
            fine = _within(name, x, got)
            assert fine.all(), (op.key, x[~fine], got[~fine])
    assert names == set(_BOUNDS)


@pytest.mark.parametrize(
    ("key", "operands", "result"),
    [
        ("rcp.approx.ftz.f32", (0x00000001,), 0x7F800000),
        ("rcp.approx.f32", (0x80000000,), 0xFF800000),
        ("sqrt.approx.f32", (0x80000000,), 0x80000000),
        ("sqrt.approx.f32", (0xBF800000,), 0x7FFFFFFF),
        ("rsqrt.approx.f32", (0x80000000,), 0xFF800000),
        ("sin.approx.f32", (0x80000000,), 0x80000000),
        ("sin.approx.f32", (0x7F800000,), 0x7FFFFFFF),
        ("cos.approx.f32", (0x00000000,), 0x3F800000),
        ("lg2.approx.f32", (0x80000000,), 0xFF800000),
        ("lg2.approx.f32", (0xBF800000,), 0x7FFFFFFF),
        ("lg2.approx.ftz.f32", (0x00000001,), 0xFF800000),
        ("ex2.approx.f32", (0xFF800000,), 0x00000000),
        ("ex2.approx.f32", (0x80000001,), 0x3F800000),
        ("ex2.approx.ftz.f32", (0xC3000000,), 0x00000000),
        ("ex2.approx.f32", (0xC3000000,), 0x00200000),
        ("tanh.approx.f32", (0xFF800000,), 0xBF800000),
        ("div.approx.f32", (0x3F800000, 0x7E800000), 0x00800000),
        ("div.approx.f32", (0x3F800000, 0x7E800001), 0x00000000),
        ("div.approx.f32", (0x7F800000, 0x7E800001), 0x7FFFFFFF),
        ("div.full.f32", (0x3F800000, 0x00000000), 0x7F800000),
    ],
)
def test_special_values_of_approximations(runner: Runner, key: str, operands: tuple[int, ...], result: int) -> None:
    op = next(op for op in runner.operations if op.key == key)
    sources = [np.full(32, value, np.uint64) for value in operands]
    for level in runner.levels:
        assert hex(int(_run(runner, op, sources, level)[0][7])) == hex(result)
