"""What a launch inside a library call touches, from its code and from the call together.

Each of the two is an over-approximation, except that a call does not name variables of the module; so a launch touches
only what is in both. interpose/launch/call_ranges.c does the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ptxtools.access.template import AccessKind
from ptxtools.ranges import Range, Result


def refined(by_code: Result, by_call: Result) -> Result:
    """The ranges of the code, those known only as allocations as the call's operands there, and with what the call says
    of them: scratch, what it overwrites, what it therefore does not read.
    """
    if by_code.unknown or by_call.unknown:
        return by_code
    found = [narrow for each in by_code.ranges for narrow in _narrowed(each, by_call.ranges)]
    output = [each for each in by_call.ranges if each.overwritten and any(_is_written(each, own) for own in found)]
    needed = [_marked(each, by_call.ranges) for each in found if not _is_left_over(each, by_call.ranges)]
    return Result([*needed, *output], [])


def _narrowed(own: Range, operands: list[Range]) -> Iterator[Range]:
    """The operands in the allocation; the allocation where there is none."""
    kind = AccessKind.READ if own.kind is AccessKind.READ else AccessKind.WRITE
    inside = [each for each in operands if each.kind is kind and _meet(own, each)]
    if not own.whole or own.variable is not None or not inside:
        yield own
        return
    for each in inside:
        place = replace(each, kind=own.kind, parameter=own.parameter, base=own.base, overwritten=False)
        moved = each.base - own.base
        yield replace(place, first=each.first + moved, last=each.last + moved)


def _marked(own: Range, operands: list[Range]) -> Range:
    holding = [each for each in operands if own.variable is None and _holds(each, own)]
    scratch, intermediate = any(each.scratch for each in holding), any(each.intermediate for each in holding)
    return replace(own, scratch=scratch, intermediate=intermediate) if scratch or intermediate else own


def _is_left_over(own: Range, operands: list[Range]) -> bool:
    """Read by the code, but not when it is called like this."""
    if own.kind is not AccessKind.READ or own.variable is not None or own.whole:
        return False
    outputs = any(each.overwritten and _holds(each, own) for each in operands)
    return outputs and not any(each.kind is AccessKind.READ and _meet(each, own) for each in operands)


def _is_written(output: Range, own: Range) -> bool:
    return own.kind is AccessKind.WRITE and own.variable is None and _meet(output, own)


def _meet(a: Range, b: Range) -> bool:
    return a.begin < b.end and b.begin < a.end


def _holds(a: Range, b: Range) -> bool:
    return a.begin <= b.begin and b.end <= a.end
