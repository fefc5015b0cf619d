"""The instructions of cubins' kernels, disassembled when they are asked for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from ptxtools.machine.cubin import Cubin
from ptxtools.machine.disassembler import DisassemblyError, Line, disassemble
from ptxtools.machine.excerpt import Excerpt, likeness, unmarked
from ptxtools.machine.linking import called, linked

_SMALL_BYTES = 256 << 10  # of code: all of it takes less long than to begin once more
_SECONDS_TOGETHER = 40.0  # of the 60 that an analysis may take; then each is tried alone


class Listing:
    """Of a small cubin everything is disassembled at once, of a large one what is wanted."""

    def __init__(self, data: bytes, cubin: Cubin) -> None:
        self.data, self._cubin = data, cubin
        self._is_small = sum(kernel.code_bytes for kernel in cubin.kernels.values()) <= _SMALL_BYTES
        self._lines: dict[str, list[Line]] = {}
        self._asked: set[str] = set()
        self._problem: DisassemblyError | None = None

    def want(self, names: Iterable[str]) -> None:
        """Disassembles the kernels with these names. Errors: DisassemblyError, from then on whenever it is called."""
        if self._problem is not None:
            raise self._problem
        names = list(names)
        if not self._is_small:
            want_together([(self, names)])
        kernels = self._cubin.kernels
        wanted = self.missing(names)
        if not wanted:
            return
        symbols = [kernels[name].symbol for name in wanted]
        is_part = len(wanted) < len(kernels) and min(symbols) >= 0
        try:
            self._lines.update(disassemble(self.data, symbols if is_part else ()))
        except DisassemblyError as problem:
            self._problem = problem
            raise
        self._asked |= wanted

    def lines(self, name: str) -> list[Line] | None:
        """A kernel's instructions, and behind them those of functions that it calls (`linking`); None when the
        disassembler left it out. Errors: DisassemblyError.
        """
        self.want([name])
        self._want_called(name)
        return linked(self._cubin, name, self._lines.get)

    def _want_called(self, name: str) -> None:
        """Disassembles the functions that a kernel calls, and what those call. Errors: DisassemblyError."""
        functions, names = self._cubin.functions, {name} & self._lines.keys()
        while names:
            names = {
                called(line) for each in names for line in self._lines[each]
            } & functions.keys() - self._lines.keys()
            if names:
                self._lines.update(disassemble(self.data, [functions[each].symbol for each in names]))
                names &= self._lines.keys()

    def missing(self, names: Iterable[str]) -> set[str]:
        """What is to be disassembled, when these are wanted."""
        if self._problem is not None:
            return set()
        missing = self._cubin.kernels.keys() & set(names) - self._asked
        return self._cubin.kernels.keys() - self._asked if missing and self._is_small else missing

    def take(self, name: str, lines: list[Line]) -> None:
        """A kernel's instructions, from elsewhere."""
        self._lines[name] = lines
        self._asked.add(name)


def want_together(wanted: Iterable[tuple[Listing, Iterable[str]]]) -> None:
    """Disassembles these kernels of several cubins at once. Where that fails, they are tried again when asked for."""
    alike: dict[bytes, list[tuple[Listing, set[str]]]] = defaultdict(list)
    for listing, names in wanted:
        form, missing = likeness(listing.data), listing.missing(names)
        if form is not None and missing:
            alike[form].append((listing, missing))
    for each in alike.values():
        _disassemble_together(each)


def _disassemble_together(wanted: Sequence[tuple[Listing, set[str]]]) -> None:
    excerpt = Excerpt()
    try:
        marks = {excerpt.add(listing.data, names): listing for listing, names in wanted}
        found = disassemble(excerpt.to_bytes(), seconds=_SECONDS_TOGETHER)
    except ValueError:
        return
    for marked, lines in found.items():
        name = unmarked(marked)
        listing = marks.get(marked[len(name) :])
        if listing is not None:
            listing.take(name, [Line(line.guard, line.opcode, unmarked(line.operands)) for line in lines])
