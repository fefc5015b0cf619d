"""Elements of arrays among a kernel's parameters, which code reads with an index: structs of pointers and sizes.

Which element it is decides the index when a launch is evaluated: a chain of comparisons leads to one of the first
elements, as far as the index can be it. What lies behind those is any value that memory may hold.
"""

from __future__ import annotations

from ptxtools.access.template import BEYOND, Node, Op
from ptxtools.machine.cubin import Kernel
from ptxtools.machine.maker import Maker

_MOST = 16  # as many pointers as a range may begin with


def element(make: Maker, kernel: Kernel, offset: int, index: int, bits: int, line: int) -> int:
    """The value of so many bits that lies `index` bytes behind an offset in the bank of the parameters."""
    size = bits // 8
    value = make.loaded(bits, False, line)
    count, step, added = _steps(make, index)
    if step % size:
        count, step, added = index, 1, 0
    begin = offset + added - kernel.parameter_base
    if begin < 0 or begin % size:
        return value
    stride = max(step, size)
    value = make.graph.fresh(make.graph.nodes[value]._replace(name=BEYOND))
    room = (kernel.parameter_size - begin - size) // stride + 1
    for number in reversed(range(min(max(room, 0), _MOST))):
        before = make.node(Op.COMPARE, (count, make.number((number + 1) * stride // step)), 32, False, "lt")
        there = make.graph.add(Node(Op.PARAMETER, width=bits, number=begin + number * stride))
        value = make.select(before, there, value, bits)
    return value


def _steps(make: Maker, index: int) -> tuple[int, int, int]:
    """(count, step, added) of an index that is count * step + added; a step of 1 when it is no such product."""
    node, added = make.graph.nodes[make.graph.resolve(index)], 0
    while node.op is Op.ADD and (number := make.of(node.args[1])) is not None:
        index, added = node.args[0], added + number
        node = make.graph.nodes[make.graph.resolve(index)]
    if node.op in (Op.MUL, Op.SHL) and (number := make.of(node.args[1])) is not None:
        step = number if node.op is Op.MUL else 1 << min(number, 31)
        if 0 < step < 1 << 16:
            return make.graph.resolve(node.args[0]), step, added
    return make.graph.resolve(index), 1, added
