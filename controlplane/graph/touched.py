"""From the ranges of a launch to what it needs of earlier launches, and what it writes for later ones."""

from __future__ import annotations

from collections.abc import Iterable

from controlplane.graph.nodes import Read, Span, Why, Write
from ptxtools.access.template import AccessKind
from ptxtools.ranges import Range


def touched(ranges: Iterable[Range], scratch: Iterable[Range] = ()) -> tuple[tuple[Read, ...], tuple[Write, ...]]:
    """scratch: more ranges whose bytes matter to nobody; those of the launch that lie within them are scratch, too.

    What a launch may write and is not known to overwrite it needs as it was.
    """
    reads: dict[Read, None] = {}
    writes: dict[Write, None] = {}
    placed = [each for each in ranges if each.first <= each.last]
    spared = [span_of(each) for each in scratch if each.scratch]
    sure = [span_of(each) for each in placed if each.overwritten and each.kind is AccessKind.WRITE]
    for each in placed:
        span = span_of(each)
        is_scratch = each.scratch or any(of.first <= span.first and span.end <= of.end for of in spared)
        if each.kind is not AccessKind.WRITE:
            reads[Read(span, Why.SCRATCH if is_scratch else Why.WHOLE if each.whole else Why.READ)] = None
        elif not each.overwritten:
            for old in less(span, sure):
                reads[Read(old, Why.SCRATCH if is_scratch else Why.OLD)] = None
        if each.kind is not AccessKind.READ:
            writes[Write(span, is_scratch)] = None
    return tuple(reads), tuple(writes)


def span_of(of: Range) -> Span:
    return Span(of.begin, of.end, of.stride, of.width if of.stride else 0)


def less(span: Span, sure: Iterable[Span]) -> list[Span]:
    """The bytes of a span that are in none of the others; of strided ones, as far as that is simple."""
    left = [span]
    for other in sure:
        if other.stride and other[2:] == span[2:] and (other.first - span.first) % other.stride == 0:
            other = Span(other.first, other.end)
        if other.stride:
            continue
        pieces = []
        for each in left:
            pieces += [(each.first, min(each.end, other.first)), (max(each.first, other.end), each.end)]
        left = [_part(span, first, end) for first, end in pieces if first < end]
    return left


def _part(span: Span, first: int, end: int) -> Span:
    """Of a strided span, from a whole stride on."""
    if not span.stride:
        return Span(first, end)
    return Span(first - (first - span.first) % span.stride, end, span.stride, span.width)
