"""The instructions of a cubin's kernels, disassembled when they are asked for."""

from __future__ import annotations

from collections.abc import Iterable

from ptxtools.machine.cubin import Cubin
from ptxtools.machine.disassembler import DisassemblyError, Line, disassemble
from ptxtools.machine.linking import called, linked

_SMALL_BYTES = 256 << 10  # of code: all of it takes less long than to begin once more


class Listing:
    """Of a small cubin everything is disassembled at once, of a large one what is wanted."""

    def __init__(self, data: bytes, cubin: Cubin) -> None:
        self._data, self._cubin = data, cubin
        self._is_small = sum(kernel.code_bytes for kernel in cubin.kernels.values()) <= _SMALL_BYTES
        self._lines: dict[str, list[Line]] = {}
        self._asked: set[str] = set()
        self._problem: DisassemblyError | None = None

    def want(self, names: Iterable[str]) -> None:
        """Disassembles the kernels with these names. Errors: DisassemblyError, from then on whenever it is called."""
        if self._problem is not None:
            raise self._problem
        kernels = self._cubin.kernels
        wanted = kernels.keys() & set(names) - self._asked
        if not wanted:
            return
        symbols = [kernels[name].symbol for name in wanted]
        is_part = not self._is_small and len(wanted) < len(kernels) and min(symbols) >= 0
        try:
            self._lines.update(disassemble(self._data, symbols if is_part else ()))
        except DisassemblyError as problem:
            self._problem = problem
            raise
        self._asked |= wanted if is_part else kernels.keys()
        if is_part:
            self._want_called([name for name in wanted if name in self._lines])

    def _want_called(self, names: list[str]) -> None:
        """Functions that these call, and what those call. Errors: DisassemblyError."""
        functions = self._cubin.functions
        while names:
            found = {
                called(line) for name in names for line in self._lines[name]
            } & functions.keys() - self._lines.keys()
            if not found:
                return
            self._lines.update(disassemble(self._data, [functions[name].symbol for name in found]))
            names = [name for name in found if name in self._lines]

    def lines(self, name: str) -> list[Line] | None:
        """A kernel's instructions, and behind them those of functions that it calls (`linking`); None when the
        disassembler left it out. Errors: DisassemblyError.
        """
        self.want([name])
        return linked(self._cubin, name, self._lines.get)
