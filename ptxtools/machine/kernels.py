"""The templates of a cubin's kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ptxtools.access.template import Template, Unknown
from ptxtools.machine.build import TIER, build
from ptxtools.machine.cubin import read
from ptxtools.machine.disassembler import DisassemblyError, disassemble


def templates(cubin: bytes, is_wanted: Callable[[str], bool] = lambda _: True, refusal: str = "") -> Iterator[Template]:
    """Templates of the kernels with names that are wanted, made one by one.

    Without a disassembler, or when `refusal` says why it may not run, their accesses are unknown for that reason.
    Errors: ValueError when the cubin is damaged.
    """
    described = read(cubin)
    wanted = [kernel for kernel in described.kernels.values() if is_wanted(kernel.name)]
    if not wanted:
        return
    try:
        lines = {} if refusal else disassemble(cubin)
    except DisassemblyError as problem:
        lines, refusal = {}, str(problem)
    for kernel in wanted:
        if kernel.name in lines:
            yield build(described, kernel, lines[kernel.name])
        else:
            reason = refusal or "the disassembler left it out"
            yield Template(kernel.name, list(kernel.slots), unknown=[Unknown(0, reason)], tier=TIER)
