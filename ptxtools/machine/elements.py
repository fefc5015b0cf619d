"""Elements of arrays in the bank of a kernel's parameters, which machine code reads with an index."""

from __future__ import annotations

from ptxtools.access import elements
from ptxtools.access.template import Node, Op
from ptxtools.machine.cubin import Kernel
from ptxtools.machine.maker import Maker

_WORD = 32


def element(make: Maker, kernel: Kernel, offset: int, index: int, bits: int, line: int, *, signed: bool = False) -> int:
    """The value of so many bits that lies `index` bytes behind an offset in the bank of the parameters."""
    at = elements.Place(make.graph, make.block, make.condition, make.select)
    begin = offset - kernel.parameter_base
    loaded = Node(Op.LOADED, width=bits, signed=signed, number=line, block=make.block)
    return elements.element(at, index, begin, kernel.parameter_size, loaded, _WORD)
