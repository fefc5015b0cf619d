"""Where registers are defined: which instructions write them, in which block, and in what order."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from ptxtools.flow.blocks import Block
from ptxtools.reader.body import Body

_NOWHERE: dict[int, list[int]] = {}


class Definitions:
    """`before` finds the instruction in a block that gives a register its value at a place."""

    def __init__(self, body: Body, blocks: Sequence[Block]) -> None:
        self._places: dict[str, dict[int, list[int]]] = {}
        self._only: dict[str, tuple[int, int]] = {}  # names that a single instruction writes: its block and index
        for number, block in enumerate(blocks):
            for index in range(block.begin, block.end):
                for name in body.instructions[index].written:
                    self._note(name, number, index)

    def _note(self, name: str, block: int, index: int) -> None:
        places = self._places.get(name)
        if places is None:
            self._places[name] = {block: [index]}
            self._only[name] = (block, index)
            return
        self._only.pop(name, None)
        places.setdefault(block, []).append(index)

    def before(self, name: str, block: int, index: int) -> int | None:
        """The last instruction of the block before `index` that writes the register."""
        blocks = self._places.get(name)
        places = None if blocks is None else blocks.get(block)
        if places is None:
            return None
        position = bisect_left(places, index)
        return places[position - 1] if position else None

    def last(self, name: str, block: int) -> int | None:
        """The last instruction of the block that writes the register."""
        places = self._places.get(name, _NOWHERE).get(block)
        return places[-1] if places else None

    def only(self, name: str) -> tuple[int, int] | None:
        """(block, instruction) when a single instruction of the function writes the register."""
        return self._only.get(name)
