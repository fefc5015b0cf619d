"""Values behind loops that a test before them goes around: counted together."""

from __future__ import annotations

import struct

import pytest

from ptxtools.ranges import Launch, evaluate
from tests.analysis.test_ranges import template

P = 0x7F0000000000
SIZE = 1 << 20
LOOP = """
    mov.u32 %r9, %r5; mul.wide.u32 %rd3, %r5, 4; add.s64 %rd4, %rd1, %rd3; add.s32 %r10, %r9, 32;
    {skip}
LOOP:
    add.s32 %r9, %r9, 16; add.s64 %rd4, %rd4, 64; add.s32 %r10, %r9, 32;
    setp.le.s32 %p2, %r10, %r1; @%p2 bra LOOP;
TAIL:
    {guard}
    st.global.u32 [%rd4], %r1;
END:
"""
TESTED = "setp.gt.s32 %p1, %r10, %r1; @%p1 bra TAIL;"
GUARDED = "setp.ge.s32 %p3, %r9, %r1; @%p3 bra END;"


def one(code: str, n: int) -> tuple[int, int]:
    """First and last byte of the only range of 64 threads, from p on."""
    launch = Launch(struct.pack("<QQII", P, 0, n, 0), (1, 1, 1), (64, 1, 1), lambda _: (P - SIZE, P + SIZE))
    (found,) = evaluate(template(code), launch).touched
    return found.begin - P, found.end - P - 1


@pytest.mark.parametrize(
    ("n", "guard", "first", "last"),
    [
        (20, GUARDED, 0, 19),  # no thread comes into the loop
        (60, GUARDED, 29, 59),  # those up to 28 do
        (60, "", 29, 63),
        (1000, GUARDED, 969, 984),  # all do
        (1000, "", 969, 984),
    ],
)
def test_a_pointer_is_as_far_as_the_index_beside_it(n: int, guard: str, first: int, last: int) -> None:
    assert one(LOOP.format(skip=TESTED, guard=guard), n) == (4 * first, 4 * last + 3)


def test_with_a_number_added_on_both_ways() -> None:
    code = LOOP.format(skip=TESTED.replace("TAIL", "AROUND"), guard=GUARDED)
    code = code.replace("TAIL:", "add.s64 %rd4, %rd4, 8; TAIL:")
    code = code.replace("END:", "bra END; AROUND: add.s64 %rd4, %rd4, 8; bra TAIL; END:")
    assert one(code, 60) == (4 * 29 + 8, 4 * 59 + 3 + 8)


def test_what_holds_behind_the_loop_is_not_taken_to_hold_around_it() -> None:
    """Threads with an odd number go around it: they are where they began, up to element 63."""
    odd = "and.b32 %r11, %r5, 1; setp.eq.s32 %p1, %r11, 1; @%p1 bra TAIL;"
    first, last = one(LOOP.format(skip=odd, guard=""), 40)
    assert first <= 4
    assert last >= 4 * 78 + 3  # a thread that comes into the loop goes a step in any case


def test_a_step_that_changes_is_not_multiplied() -> None:
    """The pointer moves by the index, which grows."""
    code = LOOP.format(skip=TESTED, guard="").replace("%rd4, 64;", "%rd4, %rd9;")
    code = code.replace("LOOP:\n", "LOOP: cvt.u64.u32 %rd9, %r9;\n")
    first, last = one(code, 100)
    ends = []
    for index in range(64):
        at, pointer = index, 4 * index
        while at + 32 <= 100:
            at, pointer = at + 16, pointer + at
        ends.append(pointer)
    assert first <= min(ends)
    assert last >= max(ends) + 3


def test_a_last_iteration_that_does_something_else_is_not_counted_as_a_step() -> None:
    """Only where the loop goes on is what the pointer becomes its step further."""
    code = """
        mov.u64 %rd4, %rd1; mov.u32 %r9, 0;
        setp.gt.s32 %p1, 0, %r1; @%p1 bra TAIL;
    LOOP:
        add.s32 %r9, %r9, 1; setp.lt.s32 %p2, %r9, %r1;
        add.s64 %rd5, %rd4, 4096; selp.b64 %rd6, %rd4, %rd5, %p2; add.s64 %rd4, %rd6, 64;
        @%p2 bra LOOP;
    TAIL:
        st.global.u32 [%rd4], %r1;
    """
    first, last = one(code, 10)
    assert first <= 9 * 64 + 4096 + 64 <= last - 3
