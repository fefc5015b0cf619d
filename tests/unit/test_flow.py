"""Blocks, dominators and loops of small functions."""

from __future__ import annotations

from ptxtools.flow.blocks import blocks
from ptxtools.flow.definitions import Definitions
from ptxtools.flow.dominators import Dominators
from ptxtools.flow.loops import loops
from ptxtools.reader import read
from ptxtools.reader.body import Body


def body(text: str) -> Body:
    declared = ".reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>;"
    return read(f".version 8.0\n.target sm_80\n.entry k() {{ {declared} {text} }}").functions["k"].body


NESTED = """
    mov.u32 %r1, 0;
OUTER:
    mov.u32 %r2, 0;
INNER:
    add.s32 %r2, %r2, 1;
    setp.lt.s32 %p1, %r2, 4;
    @%p1 bra INNER;
    add.s32 %r1, %r1, 1;
    setp.lt.s32 %p2, %r1, 4;
    @!%p2 bra DONE;
    bra OUTER;
DONE:
    ret;
"""


def test_a_loop_in_a_loop() -> None:
    found = blocks(body(NESTED))
    dominators = Dominators(found)
    nested, irreducible = loops(found, dominators)
    assert not irreducible
    outer, inner = sorted(nested.values(), key=lambda loop: -len(loop.blocks))
    assert inner.blocks < outer.blocks
    assert inner.header in outer.blocks
    assert len(outer.back) == len(inner.back) == 1
    assert dominators.dominates(outer.header, inner.header)
    assert not dominators.dominates(inner.header, outer.header)
    (back,) = inner.back
    assert (back.guard, back.negated) == ("%p1", False)


def test_edges_say_under_which_condition_they_are_taken() -> None:
    found = blocks(body("@%p1 bra A; mov.u32 %r1, 0; @%p2 exit; mov.u32 %r1, 1; A: ret;"))
    edges = {(edge.source, edge.guard, edge.negated) for block in found for edge in block.successors}
    assert (0, "%p1", False) in edges
    assert (0, "%p1", True) in edges
    assert any(guard == "%p2" and negated for _, guard, negated in edges)


def test_a_branch_to_the_next_instruction_is_no_condition() -> None:
    found = blocks(body("@%p1 bra A; A: ret;"))
    assert [(edge.target, edge.guard) for edge in found[0].successors] == [(1, "")]


def test_unreachable_code_is_left_out() -> None:
    assert len(blocks(body("ret; mov.u32 %r1, 0; ret;"))) == 1


def test_branch_tables() -> None:
    found = blocks(body("ts: .branchtargets A, B; brx.idx %r1, ts; A: ret; B: ret;"))
    assert len(found[0].successors) == 2


def test_a_loop_with_two_entries_is_irreducible() -> None:
    found = blocks(body("@%p1 bra B; A: mov.u32 %r1, 0; B: @%p2 bra A; ret;"))
    nested, irreducible = loops(found, Dominators(found))
    assert not nested
    assert len(irreducible) == 1


def test_destinations() -> None:
    code = body(
        "ld.global.v2.u32 {%r1, %r2}, [%rd1]; st.global.u32 [%rd1], %r1; setp.eq.s32 %p1|%p2, %r1, 0; bar.sync %r3;"
        "bar.red.popc.u32 %r4, 0, %p1; atom.global.add.u32 %r5, [%rd1], 1; cp.async.ca.shared.global [%r1], [%rd1], 4;"
    ).instructions
    written = [each.written for each in code]
    assert written == [["%r1", "%r2"], [], ["%p1", "%p2"], [], ["%r4"], ["%r5"], []]


def test_definitions_before_a_place() -> None:
    text = body("mov.u32 %r1, 0; mov.u32 %r2, %r1; mov.u32 %r1, 1; ret;")
    definitions = Definitions(text, blocks(text))
    assert [definitions.before("%r1", 0, index) for index in range(4)] == [None, 0, 0, 2]
    assert definitions.only("%r2") == (0, 1)
    assert definitions.only("%r1") is None


def test_nothing_runs_behind_a_failed_assertion() -> None:
    found = blocks(
        body("""
    setp.eq.s32 %p1, %r1, 3;
    @%p1 bra HELD;
    call.uni __assertfail, (%rd1, %rd2, %r2, %rd3, %rd4);
HELD:
    ret;
""")
    )
    assert sorted(len(each.successors) for each in found) == [0, 0, 2]
    (end,) = (each for each in found if each.begin == 3)
    assert [edge.source for edge in end.predecessors] == [0]
