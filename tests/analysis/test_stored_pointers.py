"""Pointers that launches leave in memory, and what launches may touch that load them."""

from __future__ import annotations

import struct
from functools import cache

from controlplane.analysis.allocations import Allocations
from controlplane.analysis.pointers import Kernel, Pointers
from ptxtools.access import flat
from ptxtools.access.build import build
from ptxtools.access.template import AccessKind
from ptxtools.ranges import Launch, Result
from ptxtools.reader import read

TABLE, A, B, C = (number << 40 for number in (1, 2, 3, 4))
SIZE, ROWS, WORD = 4096, 4, 8
HEAD = ".version 8.6\n.target sm_90a\n.address_size 64\n"
REGISTERS = ".reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %a<20>;"
FILL = """mov.u32 %r1, %tid.x; mul.wide.u32 %a2, %r1, 8; mul.wide.u32 %a3, %r1, 256;
    ld.param.u64 %a4, [p]; add.u64 %a4, %a4, %a2; ld.param.u64 %a5, [q]; add.u64 %a5, %a5, %a3;
    st.global.u64 [%a4], %a5;"""
SECOND = "ld.param.u64 %a6, [r]; add.u64 %a6, %a6, %a2; ld.param.u64 %a7, [s]; st.global.u64 [%a6], %a7;"
# From an index in memory at q: reads through the table at p.
INDEX = "ld.param.u64 %a1, [q]; ld.global.u32 %r1, [%a1]; mul.wide.u32 %a2, %r1, 8;"
USE = INDEX + "ld.param.u64 %a3, [p]; add.u64 %a3, %a3, %a2; ld.global.u64 %a4, [%a3]; ld.global.u32 %r2, [%a4];"
FIRST = "ld.param.u64 %a3, [p]; ld.global.u64 %a4, [%a3+8]; ld.global.u32 %r2, [%a4];"
OWN = "mov.u32 %r3, 0; ld.param.u64 %a9, [p]; st.global.u32 [%a9], %r3;"
COPY_MAP = "ld.param.u64 %a1, [p]; " + "".join(
    f"ld.param.u64 %a2, [map+{at}]; st.global.u64 [%a1+{at}], %a2;" for at in range(0, 128, 8)
)
STORE_TENSOR = """ld.param.u64 %a1, [p]; mov.u32 %r1, 0;
    cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%a1, {%r1, %r1}], [%r1];"""


@cache
def kernel(code: str) -> Kernel:
    values = ", ".join(f".param .u64 {name}" for name in "pqrs")
    text = f"{HEAD}.entry k({values}, .param .align 64 .b8 map[128]) {{ {REGISTERS} {code} ret; }}"
    module = read(text.replace(";", ";\n"))  # loads are told apart by their lines
    return Kernel(flat.write(build(module, module.functions["k"])), needs_parameters=True)


class Memory:
    """What is known of the words of a process with four allocations."""

    def __init__(self) -> None:
        self.allocations, self.pointers = Allocations(), Pointers()
        for begin in (TABLE, A, B, C):
            self.allocations.add(begin, SIZE)

    def run(self, code: str, *values: int, tensor: int = 0, threads: int = 1) -> Result:
        words = [*values, *[0] * (4 - len(values))]
        # A map holds more than an address: sizes and strides, which are no pointers.
        block = struct.pack("<4Q", *words) + bytes(32) + struct.pack("<Q", tensor) + b"\x7f" * 120
        launch = Launch(block, (1, 1, 1), (threads, 1, 1), self.allocations)
        found = self.pointers.followed(kernel(code), launch, self.allocations)
        self.pointers.after(kernel(code), launch, found)
        return found

    def fill(self, place: int, target: int, threads: int = ROWS) -> None:
        assert not self.run(FILL, place, target, threads=threads).unknown


def reached(found: Result, kind: AccessKind = AccessKind.READ) -> set[int]:
    """The allocations behind the table that are touched."""
    assert not found.unknown
    return {each.begin for each in found.ranges if each.kind is kind} & {A, B, C}


def test_an_index_from_memory_reaches_all_that_one_launch_stored() -> None:
    memory = Memory()
    assert memory.run(USE, TABLE, C).unknown
    memory.fill(TABLE, A)
    assert reached(memory.run(USE, TABLE, C)) == {A, C}


def test_an_array_that_two_launches_filled_is_one() -> None:
    memory = Memory()
    memory.fill(TABLE, A)
    memory.fill(TABLE + WORD * ROWS, B)
    assert reached(memory.run(USE, TABLE, C)) == {A, B, C}
    assert reached(memory.run(USE, TABLE, C, TABLE + WORD * ROWS)) == {A, B, C}


def test_two_arrays_of_one_launch_are_told_apart_by_who_has_both() -> None:
    memory = Memory()
    second = TABLE + WORD * ROWS
    assert not memory.run(FILL + SECOND, TABLE, A, second, B, threads=ROWS).unknown
    assert reached(memory.run(USE, TABLE, C)) == {A, B, C}
    assert reached(memory.run(USE, TABLE, C, second)) == {A, C}
    assert reached(memory.run(USE, second, C, second)) == {B, C}


def test_a_place_that_is_known_is_the_only_one() -> None:
    memory = Memory()
    memory.fill(TABLE, A)
    memory.fill(TABLE + WORD, B, threads=1)
    assert reached(memory.run(FIRST, TABLE)) == {B}


def test_what_is_overwritten_is_forgotten() -> None:
    memory = Memory()
    for begin, end in ((TABLE + 3, TABLE + 4), (0, 1 << 64), (TABLE - 8, TABLE + 1)):
        memory.fill(TABLE, A)
        memory.pointers.forget(begin, end)
        assert memory.run(USE, TABLE, C).unknown
    memory.fill(TABLE, A)
    memory.pointers.forget(TABLE + WORD * ROWS, TABLE + SIZE)
    assert reached(memory.run(USE, TABLE, C)) == {A, C}
    memory.run(OWN, TABLE)
    assert memory.run(USE, TABLE, C).unknown


def test_a_launch_that_writes_what_it_loads_is_unknown() -> None:
    memory = Memory()
    memory.fill(TABLE, A)
    assert [reason for _, reason in memory.run(OWN + USE, TABLE, C).unknown] == ["pointer loaded from memory"]


def test_a_launch_that_may_touch_anything_leaves_nothing() -> None:
    memory = Memory()
    memory.fill(TABLE, A)
    assert memory.run(USE, B, C).unknown
    assert memory.pointers.is_empty


def test_pointers_to_memory_that_is_gone_are_not_followed() -> None:
    memory = Memory()
    memory.fill(TABLE, A)
    memory.allocations.remove(A)
    assert memory.run(USE, TABLE, C).unknown


def test_a_tensor_map_that_a_launch_left_is_of_its_first_word() -> None:
    memory = Memory()
    assert memory.run(STORE_TENSOR, TABLE).unknown
    assert not memory.run(COPY_MAP, TABLE, tensor=B).unknown
    assert reached(memory.run(STORE_TENSOR, TABLE), AccessKind.WRITE) == {B}
