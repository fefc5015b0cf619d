"""Bits that a value can have: what random expressions come to stays inside of them; a disjoint OR is a sum."""

from __future__ import annotations

import random
import struct
from collections.abc import Mapping

import pytest

from ptxtools.access.bits import Bits
from ptxtools.access.build import build
from ptxtools.access.graph import Graph
from ptxtools.access.template import AccessKind, Node, Op, Template
from ptxtools.ranges import Launch, evaluate
from ptxtools.reader import read

OPERATIONS = [Op.ADD, Op.SUB, Op.MUL, Op.AND, Op.OR, Op.XOR, Op.SHL, Op.SHR, Op.EXTRACT, Op.CONVERT, Op.MUL_WIDE]
ROWS = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry rows(.param .u64 pointer)
{
    .reg .b32 %r<9>;
    .reg .b64 %rd<9>;
    ld.param.u64 %rd1, [pointer];
    mov.u32 %r1, %tid.x;
    and.b32 %r2, %r1, 992;
    mul.lo.s32 %r3, %r2, 17;
    and.b32 %r4, %r1, 31;
    or.b32 %r5, %r3, %r4;
    mul.wide.u32 %rd2, %r5, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r1;
    ret;
}
"""


def expression(graph: Graph, chance: random.Random, depth: int, width: int) -> int:
    """A random expression of a width; of 32 bits it may be one of a register of 64."""
    if depth == 0:
        leaf = chance.choice((Op.NUMBER, Op.SPECIAL, Op.PARAMETER))
        if leaf is Op.NUMBER:
            return graph.number(chance.choice((0, 1, 4, 12, 31, 992, -1, -64, 0xFFFFFC00, chance.getrandbits(width))))
        if leaf is Op.SPECIAL:
            return graph.add(Node(Op.SPECIAL, name=chance.choice(("tid.x", "laneid", "ntid.x"))))
        return graph.add(Node(Op.PARAMETER, width=width, number=0))
    op = chance.choice(OPERATIONS)
    signed = chance.random() < 0.5
    if op in (Op.CONVERT, Op.MUL_WIDE):
        args = tuple(expression(graph, chance, depth - 1, 32) for _ in range(1 if op is Op.CONVERT else 2))
        return graph.add(Node(op, args, 32, signed))
    if op in (Op.SHL, Op.SHR, Op.EXTRACT):
        counts = [graph.number(chance.randrange(width // 2)) for _ in range(2 if op is Op.EXTRACT else 1)]
        return graph.add(Node(op, (expression(graph, chance, depth - 1, width), *counts), width, signed))
    return graph.add(Node(op, tuple(expression(graph, chance, depth - 1, width) for _ in range(2)), width, signed))


def value(graph: Graph, index: int, leaves: Mapping[str, int]) -> int:
    """What a machine computes, without an end to the left."""
    node = graph.nodes[index]
    if node.op is Op.NUMBER:
        return node.number
    if not node.args:
        return leaves[node.name] & (1 << (node.width or 32)) - 1
    args = [value(graph, arg, leaves) & (1 << node.width) - 1 for arg in node.args]
    sign = 1 << node.width - 1
    seen = [(arg ^ sign) - sign if node.signed else arg for arg in args]
    if node.op is Op.EXTRACT:
        first, count = args[1:]
        part = args[0] >> first & (1 << count) - 1
        top = 1 << count - 1 if count else 0
        return (part ^ top) - top if node.signed else part
    if node.op is Op.CONVERT:
        return seen[0]
    return {
        Op.ADD: args[0] + args[1],
        Op.SUB: args[0] - args[1],
        Op.MUL: args[0] * args[1],
        Op.MUL_WIDE: seen[0] * seen[1],
        Op.AND: args[0] & args[1],
        Op.OR: args[0] | args[1],
        Op.XOR: args[0] ^ args[1],
        Op.SHL: args[0] << min(args[1], 64),
        Op.SHR: seen[0] >> min(args[1], 64),
    }[node.op]


def test_values_have_no_other_bits() -> None:
    chance = random.Random(1)
    narrow = 0
    for _ in range(1000):
        graph = Graph(Template("k"))
        width = chance.choice((32, 64))
        index = expression(graph, chance, 3, width)
        mask = Bits(graph).of(index, width)
        narrow += mask != (1 << width) - 1
        for _ in range(8):
            leaves = {"tid.x": chance.randrange(1024), "laneid": chance.randrange(32), "ntid.x": chance.randrange(1025)}
            found = value(graph, index, {**leaves, "": chance.getrandbits(64)}) & (1 << width) - 1
            assert found & ~mask == 0, graph.nodes
    assert narrow > 250


def test_an_or_without_common_bits_is_a_sum() -> None:
    module = read(ROWS)
    template = build(module, module.functions["rows"])
    pointer = 1 << 40
    launch = Launch(pointer.to_bytes(8, "little"), (1, 1, 1), (64, 1, 1), lambda _: (pointer, pointer << 1))
    (written,) = evaluate(template, launch).touched
    assert written.kind is AccessKind.WRITE
    assert (written.first, written.last, written.stride, written.width) == (0, (17 * 32 + 32) * 4 - 1, 17 * 32 * 4, 128)


def test_bits_of_two_known_numbers_are_known() -> None:
    """A compiler tests so whether it divides by a power of two."""
    text = ROWS.replace(".param .u64 pointer", ".param .u64 pointer, .param .u64 by").replace(
        "and.b32 %r2, %r1, 992;",
        """ld.param.u64 %rd5, [by];
    add.s64 %rd6, %rd5, -1;
    and.b64 %rd7, %rd5, %rd6;
    cvt.u32.u64 %r2, %rd7;""",
    )
    module = read(text)
    values = (1 << 20).to_bytes(8, "little") + 0b1101_0110.to_bytes(8, "little")
    launch = Launch(values, (1, 1, 1), (32, 1, 1), lambda _: None)
    (found,) = evaluate(build(module, module.kernels[0]), launch).touched
    begin = (1 << 20) + 4 * 0b1101_0100 * 17
    assert (found.begin, found.end) == (begin, begin + 128)


EITHER = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry either(.param .u64 pointer, .param .u32 end)
{
    .reg .b32 %r<9>;
    .reg .b64 %rd<9>;
    .reg .pred %p<2>;
    ld.param.u64 %rd1, [pointer];
    ld.param.u32 %r1, [end];
    mov.u32 %r2, %tid.x;
    mov.b32 %r3, -20;
    mad.lo.s32 %r4, %r2, 4, %r3;
    setp.le.s32 %p1, %r4, %r1;
    @%p1 bra less;
    OPERATION
    bra join;
less:
    add.s32 %r5, %r1, 3;
join:
    mul.wide.s32 %rd2, %r4, 1;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u8 [%rd3], %r2;
    ret;
}
"""


@pytest.mark.parametrize("operation", ["or.b32 %r4, %r4, 5;", "xor.b32 %r4, %r4, 5;", "max.u32 %r4, %r4, %r1;"])
def test_what_holds_of_an_or_on_one_way_is_not_taken_to_hold_on_the_other(operation: str) -> None:
    """Its operand is not negative where it is made; on the way around, the operand may be."""
    module = read(EITHER.replace("OPERATION", operation))
    (kernel,) = module.kernels
    begin = 1 << 32
    launch = Launch(struct.pack("<QI", begin + 4096, 4), (1, 1, 1), (8, 1, 1), lambda _: (begin, begin + 8192))
    found = evaluate(build(module, kernel), launch)
    assert not found.unknown
    assert min(each.first for each in found.ranges) == -20
    assert max(each.last for each in found.ranges) < 20
