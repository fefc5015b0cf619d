"""Accesses through tensor maps, and the bytes of tensors."""

from __future__ import annotations

import struct
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxtools.access import flat
from ptxtools.access.build import build
from ptxtools.access.summary import summarise
from ptxtools.access.template import AccessKind, Template
from ptxtools.ranges import Evaluator, Launch, Result, evaluate
from ptxtools.ranges.box import boxes
from ptxtools.ranges.tensor import Tensor
from ptxtools.reader import read

A, B = 0x7F0000000000, 0x7F1000000000
HEAD = ".version 8.6\n.target sm_90a\n.address_size 64\n"
LOAD = (
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [{}, {{%r2, %r3}}], [%r4];"
)
STORE = "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [{}, {{%r2, %r3}}], [%r1];"
ADD = "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [{}, {{%r2, %r3}}], [%r1];"


def template(code: str) -> Template:
    text = f"""{HEAD}.entry k(.param .align 64 .b8 a[128], .param .align 64 .b8 b[256], .param .u64 p, .param .u32 n) {{
        .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
        mov.b64 %rd1, a; mov.b64 %rd2, b; cvta.param.u64 %rd3, %rd1; cvta.param.u64 %rd4, %rd2;
        ld.param.u64 %rd5, [p]; ld.param.u32 %r5, [n]; setp.eq.s32 %p1, %r5, 0;
        {code} ret; }}"""
    module = read(text)
    return build(module, module.functions["k"])


def map_of(address: int) -> bytes:
    return struct.pack("<Q120x", address)


def result(code: str, n: int = 1) -> Result:
    tensors = {map_of(A): Tensor(A, (32, 8), (2, 256), 2)}
    allocations = {B: (B - 512, B + 4096)}
    block = map_of(A) + map_of(A) + map_of(B) + struct.pack("<QI", 0, n)
    launch = Launch(block, (1, 1, 1), (32, 1, 1), allocations.get, {}, tensors.get)
    return evaluate(template(code), launch)


@pytest.mark.parametrize(
    ("instruction", "kind"), [(LOAD, AccessKind.READ), (STORE, AccessKind.WRITE), (ADD, AccessKind.ATOMIC)]
)
def test_a_map_in_the_parameters_stands_for_its_tensor(instruction: str, kind: AccessKind) -> None:
    found = result(instruction.format("%rd3"))
    assert not found.unknown
    (each,) = found.touched
    assert (each.kind, each.parameter, each.base) == (kind, 0, A)
    assert (each.first, each.last, each.stride, each.width) == (0, 7 * 256 + 63, 256, 64)


def test_a_map_within_a_parameter_and_one_that_nobody_saw_encoded() -> None:
    found = result(STORE.format("%rd4+128"))
    (each,) = found.touched
    assert (each.parameter, each.base, each.first, each.last, each.whole) == (1, B, -512, 4095, True)
    assert not found.unknown


def test_one_of_two_maps() -> None:
    found = result("selp.b64 %rd6, %rd3, %rd4, %p1;" + LOAD.format("%rd6"))
    assert {each.parameter for each in found.ranges} == {0, 1}


def test_a_guard_that_never_holds() -> None:
    assert not result("@%p1 " + STORE.format("%rd3")).ranges
    assert len(result("@%p1 " + STORE.format("%rd3"), n=0).ranges) == 1


@pytest.mark.parametrize(
    ("code", "reasons"),
    [
        (LOAD.format("%rd5"), ["tensor map in memory"]),
        (
            "ld.global.u64 %rd6, [%rd5];" + LOAD.format("%rd6"),
            ["pointer loaded from memory", "tensor map in memory"],
        ),
        (
            "mul.wide.u32 %rd6, %r5, 128; add.s64 %rd6, %rd4, %rd6;" + LOAD.format("%rd6"),
            ["tensor map at a computed place"],
        ),
    ],
)
def test_other_maps_are_unknown(code: str, reasons: list[str]) -> None:
    assert [each for _, each in result(code).unknown] == reasons
    assert summarise(template(code)).tier == "unknown"


def test_an_address_outside_of_every_allocation_is_unknown() -> None:
    block = map_of(0x1234) + bytes(256) + struct.pack("<QI", 0, 1)
    launch, made = Launch(block, (1, 1, 1), (32, 1, 1)), template(STORE.format("%rd3"))
    assert [reason for _, reason in evaluate(made, launch).unknown] == ["tensor map of an unknown tensor"]


def test_the_summary_names_the_parameters_with_maps() -> None:
    summary = summarise(template(LOAD.format("%rd3") + STORE.format("%rd4") + ADD.format("%rd4+128")))
    assert summary.tier == "ptx"
    first, second, pointer, _ = summary.parameters
    assert (first.reads, first.writes, first.atomics) == (True, False, False)
    assert (second.reads, second.writes, second.atomics) == (False, True, True)
    assert (pointer.reads, pointer.writes) == (False, False)


def test_prefetches_of_maps_and_tensors_touch_nothing() -> None:
    code = "prefetch.tensormap [%rd3]; cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd3, {%r2, %r3}];"
    assert result(code) == Result()


AXES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 40)), max_size=4)


def bytes_of(axes: list[tuple[int, int]], element: int) -> set[int]:
    offsets = {0} if prod(size for size, _ in axes) else set()
    for size, stride in axes:
        offsets = {offset + i * stride for offset in offsets for i in range(size)}
    return {offset + byte for offset in offsets for byte in range(element)}


def bytes_found(axes: list[tuple[int, int]], element: int) -> set[int]:
    found: set[int] = set()
    for first, last, stride, width in boxes([size for size, _ in axes], [stride for _, stride in axes], element):
        for start in range(first, last + 1, stride) if stride else (first,):
            found |= set(range(start, min(start + width, last + 1) if stride else last + 1))
    return found


@given(AXES, st.sampled_from([1, 2, 4]))
def test_boxes_hold_every_element(axes: list[tuple[int, int]], element: int) -> None:
    real, found = bytes_of(axes, element), bytes_found(axes, element)
    assert real <= found
    assert bool(real) == bool(found)
    if real:
        assert (min(found), max(found)) == (0, max(real))


@pytest.mark.parametrize(
    "axes",
    [
        [(64, 2), (8, 128)],  # dense
        [(60, 2), (8, 128)],  # rows with a pitch
        [(60, 2), (8, 128), (4, 1024)],  # batches that go on with the pitch
        [(60, 2), (8, 128), (4, 4096)],  # batches further apart
        [(8, 128), (60, 2)],  # the other way round
        [(3, 4), (2, 64), (4, 1000), (2, 9000)],
        [(7, 2), (9, 0)],  # the same element again
        [(7, 6), (9, 100)],  # gaps between the elements of a row
    ],
)
def test_boxes_of_tensors_are_exact(axes: list[tuple[int, int]]) -> None:
    assert bytes_found(axes, 2) == bytes_of(axes, 2)


def test_many_rows_of_gaps_are_rows() -> None:
    found = list(boxes([7, 100, 100], [6, 100, 20_000], 2))
    assert found == [(0, 99 * 20_000 + 99 * 100 + 37, 20_000, 99 * 100 + 38)]


def test_tensors_survive_in_flat_templates() -> None:
    made = template(LOAD.format("%rd3") + "@%p1 " + ADD.format("%rd4+128"))
    assert flat.read(flat.write(made)).tensors == made.tensors
    assert len(made.tensors) == 2


def test_more_tensors_than_there_is_time_for_are_all_taken() -> None:
    made = template("@%p1 " + STORE.format("%rd3") + STORE.format("%rd4"))
    block = map_of(A) + map_of(A) + bytes(128) + struct.pack("<QI", 0, 1)
    tensors = {map_of(A): Tensor(A, (32, 8), (2, 256), 2)}
    found = Evaluator(made, steps=1).evaluate(Launch(block, (1, 1, 1), (32, 1, 1), tensor=tensors.get))
    assert {each.parameter for each in found.ranges} == {0, 1}
