"""Kernels of frameworks whose pointers and sizes are in arrays of parameters, or that follow indices in memory."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from ptxtools.access.build import build
from ptxtools.access.template import AccessKind, Template
from ptxtools.machine.kernels import templates
from ptxtools.ranges import Launch, Result, evaluate
from ptxtools.reader import read
from tests.instruments.against import assemble

HERE = Path(__file__).parent
SOURCES = HERE / "sources"
TEXTS = (HERE.parent / "corpus" / "ptx" / "nvcc_lists.ptx", SOURCES / "nvcc_step.ptx", SOURCES / "nvcc_vectors.ptx")
READ, WRITE = AccessKind.READ, AccessKind.WRITE
BEGIN, APART = 1 << 32, 1 << 28
TENSORS, BLOCKS, CHUNK = 36, 320, 65536  # of an optimiser's lists


def at(number: int, offset: int = 0) -> int:
    """An address in allocation `number`."""
    return BEGIN + APART * number + offset


def allocation(address: int) -> tuple[int, int] | None:
    begin = address // APART * APART
    return (begin, begin + APART) if BEGIN <= address < at(500) else None


@pytest.fixture(scope="module", params=["ptx", "machine code"])
def kernels(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Template]:
    if request.param == "ptx":
        modules = [read(text.read_text()) for text in TEXTS]
        return {each.name: build(module, each) for module in modules for each in module.kernels}
    cubins = [assemble(text, 90, tmp_path_factory.mktemp("lists")) for text in TEXTS]
    return {each.name: each for cubin in cubins for each in templates(cubin, lambda _: True, "")}


def asked(template: Template, block: bytes, grid: tuple[int, int, int], threads: int) -> Result:
    return evaluate(template, Launch(block, grid, (threads, 1, 1), allocation))


def extents(result: Result, kind: AccessKind) -> dict[int, int]:
    """By address, where a range of the kind ends. Nothing is known only as an allocation."""
    assert not result.unknown
    assert not any(each.whole for each in result.ranges)
    return {each.begin: each.end for each in sorted(result.ranges, key=lambda each: each.end) if each.kind is kind}


@dataclass(frozen=True, slots=True)
class Part:
    """A tensor of 1 x 32 x 128 x 32 halves, of rows 64 apart, that goes to a place along the last dimension."""

    address: int
    place: int


def concatenation(most: int, parts: Sequence[Part], output: int) -> bytes:
    """The parameters of concatenate4 or concatenate64."""
    lacking = most - len(parts)
    lists = struct.pack(f"{most}Q", *[each.address for each in parts], *[0] * lacking)
    lists += struct.pack(f"{most}I", *[each.place for each in parts], *[0] * lacking)
    for number in (32, 32 * 128 * 32):  # in the last dimension, and in all
        lists += struct.pack(f"{most}I", *[number] * len(parts), *[0] * lacking)
    strides = (32 * 128 * 64, 128 * 64, 64, 1)
    lists += bytes(most) + struct.pack("8I", 1, 32, 128, 32, *strides) * most
    lists = lists.ljust(-(-len(lists) // 8) * 8, b"\0")
    return struct.pack("Q", output) + lists + struct.pack("8IiI", 1, 32, 128, 64, *strides, 3, 1)


@pytest.mark.parametrize("most", [4, 64])
def test_each_part_of_a_concatenation_has_its_own_extent(kernels: dict[str, Template], most: int) -> None:
    parts = [Part(at(1, 64), 0), Part(at(2, 4096), 32)]
    found = asked(kernels[f"concatenate{most}"], concatenation(most, parts, at(3)), (512, 2, 1), 256)
    rows = 2 * 64 * (32 * 128 - 1) + 2 * 32
    assert extents(found, READ) == {each.address: each.address + rows for each in parts}
    assert extents(found, WRITE) == {at(3): at(3) + 2 * 64 * 32 * 128}


@pytest.mark.parametrize("elements", [(1, 2048), (3, 2048), (2, 2048), (6, 4096)])
def test_what_pairs_leave_is_less_than_a_pair(kernels: dict[str, Template], elements: tuple[int, int]) -> None:
    """Rows of 64-bit elements one after the other, as torch.diff puts one in front of others: nothing beyond them."""
    first, second = elements
    whole = first + second
    lists = struct.pack("4Q", at(1, 64), at(2, 4096), 0, 0)
    for of in ((0, first), elements, elements):  # where it begins, how wide it is, how many
        lists += struct.pack("4I", *of, 0, 0)
    block = struct.pack("Q", at(3)) + lists + struct.pack("8IiI", 1, whole, 0, 0, whole, 1, 0, 0, 1, 1)
    found = asked(kernels["concatenate_pairs"], block, (8, 2, 1), 128)
    assert extents(found, READ) == {at(1, 64): at(1, 64) + 8 * first, at(2, 4096): at(2, 4096) + 8 * second}
    assert max(extents(found, WRITE).values()) == at(3) + 8 * whole


def step(tensors: int, blocks: int) -> tuple[bytes, int]:
    """The parameters of step_all for so many tensors, each of so many chunks but a number; and a tensor's bytes."""
    count, lacking = CHUNK * blocks - 5, TENSORS - tensors
    lists = b""
    for depth in range(4):
        lists += struct.pack("36Q", *[at(TENSORS * depth + number) for number in range(tensors)], *[0] * lacking)
    lists += struct.pack("36Q", *[count] * tensors, *[0] * lacking)
    lists += bytes(number for number in range(tensors) for _ in range(blocks)).ljust(BLOCKS, b"\0")
    lists += struct.pack("320i", *[*range(blocks)] * tensors, *[0] * (BLOCKS - tensors * blocks))
    return lists + struct.pack("f4xq", 0.1, CHUNK), 4 * count


@pytest.mark.parametrize(("tensors", "blocks"), [(1, 1), (5, 2), (3, 8), (3, 20)])
def test_a_step_of_an_optimiser_touches_its_tensors(kernels: dict[str, Template], tensors: int, blocks: int) -> None:
    block, size = step(tensors, blocks)
    found = asked(kernels["step_all"], block, (tensors * blocks, 1, 1), 512)
    for kind, lists in ((READ, (0, 1, 2)), (WRITE, (0, 2))):
        ends = extents(found, kind)
        assert sorted(ends) == sorted(at(TENSORS * depth + number) for depth in lists for number in range(tensors))
        assert all(begin + size <= end <= begin + 4 * CHUNK * blocks for begin, end in ends.items())


def test_of_more_blocks_a_step_touches_the_allocations(kernels: dict[str, Template]) -> None:
    block, size = step(10, 12)
    found = asked(kernels["step_all"], block, (120, 1, 1), 512)
    assert not found.unknown
    for number in range(10):
        begin = at(number)
        assert any(each.kind is WRITE and each.begin <= begin and begin + size <= each.end for each in found.ranges)


@pytest.mark.parametrize("allow_negative", [False, True])
def test_rows_that_are_tested_are_of_the_tensor(kernels: dict[str, Template], allow_negative: bool) -> None:
    rows, pitch, size = 1000, 4096, 1024
    sizes = struct.pack("i4x4qB", 32, size, rows, pitch, size, allow_negative)
    found = asked(kernels["gather_rows"], struct.pack("3Q", at(1), at(2), at(3)) + sizes, (32, 1, 1), 64)
    assert extents(found, READ) == {at(2): at(2) + pitch * (rows - 1) + size, at(3): at(3) + 8 * 32}
    assert extents(found, WRITE) == {at(1): at(1) + 32 * size}


def test_a_sum_with_a_loaded_number_varies_in_its_loop() -> None:
    """Rows index + 0 to index + 3, each of which is tested: not one row four times."""
    text = """.version 8.0
.target sm_90
.address_size 64
.visible .entry rows(.param .u64 from, .param .u64 index, .param .u64 to, .param .u64 count) {
    .reg .b64 %r<9>; .reg .pred %p; .reg .b32 %x;
    ld.param.u64 %r1, [from]; ld.param.u64 %r2, [index]; ld.param.u64 %r3, [to]; ld.param.u64 %r4, [count];
    ld.global.u64 %r5, [%r2]; mov.u64 %r6, 0;
next:
    add.s64 %r7, %r5, %r6; setp.ge.u64 %p, %r7, %r4; @%p bra done;
    mul.lo.s64 %r8, %r7, 64; add.s64 %r8, %r8, %r1; ld.global.u32 %x, [%r8];
    mul.lo.s64 %r8, %r6, 4; add.s64 %r8, %r8, %r3; st.global.u32 [%r8], %x;
    add.s64 %r6, %r6, 1; setp.lt.s64 %p, %r6, 4; @%p bra next;
done:
    ret;
}"""
    module = read(text)
    template = build(module, module.functions["rows"])
    found = asked(template, struct.pack("4Q", at(1), at(2), at(3), 100), (1, 1, 1), 1)
    assert extents(found, READ) == {at(1): at(1) + 64 * 99 + 4, at(2): at(2) + 8}
    assert extents(found, WRITE) == {at(3): at(3) + 16}
