"""Random launches of any kernel: shapes, and values for its parameters by what the analysis says of them."""

from __future__ import annotations

import json
import random
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ptxtools.access.build import build
from ptxtools.access.summary import summarise
from ptxtools.access.template import Template
from ptxtools.reader import Function, Parameter, read

_DIRECTIVE = re.compile(r"\.(reqntid|maxntid)\s+([\d\s,]+)")
_BLOCKS = ((32,), (64,), (96,), (128,), (256,), (33,), (1,), (8, 8), (16, 16), (32, 4), (4, 4, 4))
_SIZES = (0, 1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 200)
_TAME_SIZES = (0, 0, 0, 1, 2, 8, 32, 64, 64, 128)
_TAME_GRIDS = ([1, 1, 1], [1, 1, 1], [2, 1, 1], [1, 2, 1])
_MOST_SHARED = 160 << 10
_REALS = ("f32", "f64")
_EVEN_SIZES = (0, 4, 8, 16, 16, 32, 48, 64, 96, 128, 256)


class Kernel:
    """A kernel of a text file, and how its parameters may be filled."""

    def __init__(self, text: Path, function: Function, template: Template, source: str) -> None:
        self.text, self.name = text, function.name
        self.template, self.source = template, source
        self.parameters = function.parameters
        self.pointers = sorted(summarise(template).pointers)
        self.blocks = _blocks(function, source)

    @staticmethod
    def read(text: Path) -> Kernel:
        """The first kernel of a file. Errors: PtxError."""
        source = text.read_text()
        module = read(source)
        function = module.kernels[0]
        return Kernel(text, function, build(module, function), source)

    def job(self, chance: random.Random) -> str:
        """A launch as a line of the launcher's list."""
        grid = [chance.choice((1, 1, 2, 3, 4, 7)), chance.choice((1, 1, 1, 2, 3)), chance.choice((1, 1, 1, 1, 2))]
        block = [*chance.choice(self.blocks), 1, 1][:3]
        values = bytearray(max((each.offset + each.size for each in self.parameters), default=0))
        sizes = chance.choice((_SIZES, _EVEN_SIZES, _EVEN_SIZES))  # often such that addresses are aligned
        for each in self.parameters:
            values[each.offset : each.offset + each.size] = _value(each, sizes, chance)
        pointers = {str(offset): number % 6 for number, offset in enumerate(self.pointers)}
        shape = {"grid": grid, "block": block, "shared": chance.choice((0, 4096, 16384))}
        named = {"text": str(self.text), "function": self.name}
        return json.dumps({**named, **shape, "pointers": pointers, "values": values.hex()})

    def aligned_job(self, chance: random.Random) -> str:
        """One with sizes that are multiples of 16: wmma may not load rows that lie elsewhere."""
        return self._changed(self.job(chance), lambda size, value: value & 0xF0 if size == 4 else value)

    def tamed(self, job: str, chance: random.Random) -> str:
        """A launch much like another, and likelier to come to its end: in few blocks, of the shape that the kernel was
        made for, with all the shared memory that there is, and with sizes that more kernels take.
        """
        share = chance.choice((0.2, 0.5, 0.8))
        tame = self._changed(job, lambda _, value: chance.choice(_TAME_SIZES) if chance.random() < share else value)
        entry = json.loads(tame)
        block = chance.choice((entry["block"], [*self.blocks[-1], 1, 1][:3]))
        return json.dumps({**entry, "grid": chance.choice(_TAME_GRIDS), "block": block, "shared": _MOST_SHARED})

    def _changed(self, job: str, change: Callable[[int, int], int]) -> str:
        """The job with other integers. `change`: of a size in bytes and a value the new one."""
        entry = json.loads(job)
        values = bytearray(bytes.fromhex(entry["values"]))
        for each in self.parameters:
            if each.type in _REALS or each.offset in self.pointers:
                continue
            step = each.size if each.size in (1, 2, 4, 8) else 4
            for place in range(each.offset, each.offset + each.size // step * step, step):
                if place not in self.pointers and place - 4 not in self.pointers:
                    value = int.from_bytes(values[place : place + step], "little")
                    values[place : place + step] = change(step, value).to_bytes(step, "little")
        return json.dumps({**entry, "values": values.hex()})


def _blocks(function: Function, source: str) -> Sequence[tuple[int, ...]]:
    """Block shapes that the kernel's directives allow."""
    directives = dict(_DIRECTIVE.findall(source[function.header : function.begin]))
    sizes = {name: tuple(int(part) for part in text.split(",")) for name, text in directives.items()}
    if "reqntid" in sizes:
        return [sizes["reqntid"]]
    if "maxntid" not in sizes:
        return _BLOCKS
    most = sizes["maxntid"]
    smaller = [shape for shape in _BLOCKS if _product(shape) <= _product(most)]
    return [*smaller, *[most] * len(smaller)]  # often the one that the kernel was made for


def _product(shape: Sequence[int]) -> int:
    result = 1
    for part in shape:
        result *= part
    return result


def _value(parameter: Parameter, sizes: Sequence[int], chance: random.Random) -> bytes:
    """A small size, a number, or words of both for a struct."""
    if parameter.type == "f32":
        return struct.pack("<f", chance.uniform(-2, 2))
    if parameter.type == "f64":
        return struct.pack("<d", chance.uniform(-2, 2))
    if parameter.size in (1, 2, 4, 8):
        number: int = chance.choice(sizes) % (1 << (8 * parameter.size))
        return number.to_bytes(parameter.size, "little")
    words = b"".join(chance.choice(sizes).to_bytes(4, "little") for _ in range(parameter.size // 4 + 1))
    return words[: parameter.size]


def kernels(text: Path) -> Iterator[Kernel]:
    """The kernels of a PTX file whose accesses are understood."""
    source = text.read_text()
    module = read(source)
    for function in module.kernels:
        template = build(module, function)
        if summarise(template).tier != "unknown":
            yield Kernel(text, function, template, source)


def understood(text: Path) -> list[str]:
    """Why the accesses of a file's first kernel are not all understood: nothing when they are. Errors: PtxError."""
    module = read(text.read_text())
    return sorted({reason for _, reason in summarise(build(module, module.kernels[0])).unknown})
