"""Random launches of any kernel: shapes, and values for its parameters by what the analysis says of them."""

from __future__ import annotations

import json
import random
import re
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

from ptxtools.access.build import build
from ptxtools.access.summary import summarise
from ptxtools.access.template import Template
from ptxtools.reader import Function, Parameter, read

_DIRECTIVE = re.compile(r"\.(reqntid|maxntid)\s+([\d\s,]+)")
_BLOCKS = ((32,), (64,), (96,), (128,), (256,), (33,), (1,), (8, 8), (16, 16), (32, 4), (4, 4, 4))
_SIZES = (0, 1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 200)
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
