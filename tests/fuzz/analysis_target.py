"""What the analysis promises for any input: PTX, a fat binary, a cubin, an executable, or something like them."""

from __future__ import annotations

from contextlib import suppress

from ptxtools.access.build import build
from ptxtools.access.summary import summarise
from ptxtools.access.template import Template
from ptxtools.clone import rewrite
from ptxtools.errors import PtxError
from ptxtools.image import best, texts
from ptxtools.ranges import Launch, Result, evaluate
from ptxtools.reader import Function, Module, read

_ARCHITECTURE = 1000  # any
_TEXTS, _KERNELS = 4, 4  # looked at
_LARGEST_BLOCK = 4096
_POINTER = 0x7F0000000000
SHAPES = (((1, 1, 1), (1, 1, 1)), ((7, 3, 1), (33, 2, 1)), ((1 << 31, 65535, 65535), (1024, 1, 1)))


def check(data: bytes) -> str:
    """How far the analysis came: "refused", "damaged" or "analysed". Every error is a finding."""
    try:
        found = best(texts(data), _ARCHITECTURE)
    except ValueError:
        return "refused"
    return max([_text(each.text) for each in found[:_TEXTS]], default="refused", key=("damaged", "analysed").index)


def _text(text: str) -> str:
    try:
        module = read(text)
        for kernel in module.kernels[:_KERNELS]:
            _kernel(text, module, kernel)
    except PtxError as problem:
        if problem.line is None or problem.column is None:
            raise ValueError("an error without a place") from problem
        return "damaged"
    return "analysed"


def _kernel(text: str, module: Module, kernel: Function) -> None:
    template = build(module, kernel)
    assert summarise(template).tier in ("ptx", "unknown")
    size = min(max((slot.offset + slot.size for slot in template.slots), default=0), _LARGEST_BLOCK)
    for number, (grid, block) in enumerate(SHAPES):
        words = b"".join((_POINTER + 4096 * each * number).to_bytes(8, "little") for each in range(size // 8 + 1))
        launch = Launch(words[:size], grid, block, lambda address: (address & ~0xFFFFF, (address | 0xFFFFF) + 1))
        _result(template, evaluate(template, launch))
    with suppress(ValueError, PtxError):  # why there is none
        rewrite(text, module, kernel.name)


def _result(template: Template, result: Result) -> None:
    assert result.unknown or not template.unknown
    for each in result.ranges:
        assert each.whole or each.first <= each.last
