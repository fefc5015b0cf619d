"""The templates of a cubin's kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ptxtools.access.template import Template, Unknown
from ptxtools.machine.build import TIER, build
from ptxtools.machine.cubin import read
from ptxtools.machine.disassembler import DisassemblyError
from ptxtools.machine.listing import Listing


def templates(cubin: bytes, is_wanted: Callable[[str], bool] = lambda _: True, refusal: str = "") -> Iterator[Template]:
    """Templates of the kernels with names that are wanted, made one by one.

    Without a disassembler, or when `refusal` says why it may not run, their accesses are unknown for that reason.
    Errors: ValueError when the cubin is damaged.
    """
    described = read(cubin)
    wanted = [kernel for kernel in described.kernels.values() if is_wanted(kernel.name)]
    if not wanted:
        return
    listing = Listing(cubin, described)
    try:
        if not refusal:
            listing.want(kernel.name for kernel in wanted)
    except DisassemblyError as problem:
        refusal = str(problem)
    for kernel in wanted:
        lines = None if refusal else listing.lines(kernel.name)
        if lines is not None:
            yield build(described, kernel, lines)
        else:
            reason = refusal or "the disassembler left it out"
            yield Template(kernel.name, list(kernel.slots), unknown=[Unknown(0, reason)], tier=TIER)
