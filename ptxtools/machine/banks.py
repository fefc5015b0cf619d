"""Constant banks: 0 holds parameters and the launch's shape, 3 the program's constants, 4 addresses of variables."""

from __future__ import annotations

from collections.abc import Callable

from ptxtools.access.template import Node, Op, Template
from ptxtools.access.tensors import BLOCK
from ptxtools.access.values import WINDOW
from ptxtools.machine.cubin import Cubin, Kernel
from ptxtools.machine.maker import Maker
from ptxtools.machine.operand import Operand

_AXES = ("x", "y", "z")
# By the place of the parameters, which the file names: where the launch's shape and the window of local memory lie.
_BEFORE_BLACKWELL = {
    **{4 * n: f"ntid.{axis}" for n, axis in enumerate(_AXES)},
    **{12 + 4 * n: f"nctaid.{axis}" for n, axis in enumerate(_AXES)},
}
_BLACKWELL = {
    **{0x360 + 4 * n: f"ntid.{axis}" for n, axis in enumerate(_AXES)},
    **{0x370 + 4 * n: f"nctaid.{axis}" for n, axis in enumerate(_AXES)},
}
_SHAPES = {0x160: _BEFORE_BLACKWELL, 0x210: _BEFORE_BLACKWELL, 0x380: _BLACKWELL}
_WINDOWS = {0x160: 0x20, 0x210: 0x20}
_BLOCKS = {0x210: 0x198, 0x380: 0x348}  # where the parameter block's generic address lies
PARAMETERS, _CONSTANTS, _ADDRESSES = 0, 3, 4
SMALL = {"U8": (8, False), "S8": (8, True), "U16": (16, False), "S16": (16, True)}


class Banks:
    """What loads from constant banks give."""

    def __init__(self, cubin: Cubin, kernel: Kernel, template: Template) -> None:
        self.cubin, self.kernel, self.template = cubin, kernel, template
        self._shape = _SHAPES.get(kernel.parameter_base, {})
        self._window = _WINDOWS.get(kernel.parameter_base, -8)
        self._block = _BLOCKS.get(kernel.parameter_base, -8)

    def word(self, make: Maker, operand: Operand, position: int, register: Callable[[str], int]) -> int:
        """A word of a constant operand."""
        offset = operand.number + 4 * position
        if operand.name:
            number = make.of(register(operand.name))
            if number is None:
                return make.loaded(32, False, 0)
            offset += number
        return self.at(make, operand.bank, offset)

    def at(self, make: Maker, bank: int, offset: int, bits: int = 32, signed: bool = False) -> int:
        if bank == PARAMETERS:
            return self._system(make, offset, bits, signed)
        if bank == _ADDRESSES and bits == 32:
            for begin, half in ((offset, make.low), (offset - 4, make.high)):
                if begin in self.cubin.addresses:
                    name, addend = self.cubin.addresses[begin]
                    return half(make.add(self.symbol(make, name), make.number(addend), 64))
        numbers = self.cubin.numbers.get((self.kernel.name, bank), b"")
        if bits == 32 and 0 <= offset <= len(numbers) - 4:
            return make.number(int.from_bytes(numbers[offset : offset + 4], "little"))
        return make.loaded(bits, signed, 0) if bank in (_CONSTANTS, -1) else make.any(bits)

    def _system(self, make: Maker, offset: int, bits: int, signed: bool) -> int:
        inside = offset - self.kernel.parameter_base
        if 0 <= inside < self.kernel.parameter_size:
            return make.graph.add(Node(Op.PARAMETER, width=bits, signed=signed, number=inside))
        if offset in self._shape and bits in (16, 32):
            return make.graph.add(Node(Op.SPECIAL, name=self._shape[offset]))
        if offset in (self._window, self._window + 4) and bits == 32:
            window = self.window(make)
            return make.low(window) if offset == self._window else make.high(window)
        if offset in (self._block, self._block + 4) and bits == 32:
            block = self.block(make)
            return make.low(block) if offset == self._block else make.high(block)
        return make.any(bits)

    def small(self, make: Maker, operand: Operand, part: str) -> int:
        """A byte or half of a constant bank."""
        bits, signed = SMALL[part]
        if operand.name or operand.bank != PARAMETERS:
            return make.loaded(bits, signed, 0)
        return self.at(make, operand.bank, operand.number, bits, signed)

    def symbol(self, make: Maker, name: str) -> int:
        """The address of a variable of the module."""
        if name in self.cubin.sizes:
            self.template.sizes[name] = self.cubin.sizes[name]
        return make.graph.add(Node(Op.SYMBOL, name=name))

    def window(self, make: Maker) -> int:
        """Where private memory begins among generic addresses."""
        self.template.private.add(WINDOW)
        return make.graph.add(Node(Op.SYMBOL, name=WINDOW))

    def block(self, make: Maker) -> int:
        """The generic address of the parameter block."""
        self.template.private.add(BLOCK)
        return make.graph.add(Node(Op.SYMBOL, name=BLOCK))

    def half_of_address(self, make: Maker, operand: Operand) -> int:
        name = operand.name
        if name not in self.cubin.sizes:
            return make.any()
        whole = make.add(self.symbol(make, name), make.number(operand.number), 64)
        return make.low(whole) if operand.part == "lo" else make.high(whole)

    def constants(self, operand: Operand) -> list[tuple[str, int]]:
        """The variables in bank 3 that an operand may read, and where the operand's offset lies from their beginning.

        With a register it may be any of them; ranges are cut off at each variable's ends.
        """
        if operand.bank != _CONSTANTS:
            return []
        return [
            (name, operand.number - begin)
            for begin, end, name in self.cubin.constants
            if operand.name or begin <= operand.number < end
        ]
