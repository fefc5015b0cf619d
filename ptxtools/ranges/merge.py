"""Ranges of one kind and base that touch each other, as one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ptxtools.ranges.launch import Range


def merged(ranges: Iterable[Range]) -> list[Range]:
    """The same bytes, or a few more at the ends of strided ranges, in fewer ranges."""
    groups: dict[object, list[Range]] = {}
    for each in ranges:
        key = (each.kind, each.parameter, each.variable, each.base, each.whole)
        groups.setdefault(key, []).append(each)
    result = []
    for group in groups.values():
        strided: dict[int, list[Range]] = {}
        for each in group:
            strided.setdefault(each.stride, []).append(each)
        dense = strided.pop(0, [])
        kept: list[Range] = []
        for stride, members in strided.items():
            for each in _steps(stride, members):
                (kept if each.stride else dense).append(each)
        dense = _intervals(dense)
        result += dense
        result += [s for s in kept if not any(d.first <= s.first and s.last <= d.last for d in dense)]
    return result


def _steps(stride: int, members: list[Range]) -> list[Range]:
    """Of one stride: neighbours within a step become one, and dense when they fill it."""
    found: list[Range] = []
    for each in sorted(members, key=lambda each: (each.first, -each.width)):
        last = found[-1] if found else None
        if last is not None and last.stride and each.first <= last.first + last.width:
            width = max(last.width, each.first - last.first + each.width)
            joined = replace(last, width=width, last=max(last.last, each.last))
            found[-1] = joined if width < stride else replace(joined, stride=0, width=0)
        else:
            found.append(each)
    return found


def _intervals(members: list[Range]) -> list[Range]:
    found: list[Range] = []
    for each in sorted(members, key=lambda each: (each.first, each.last)):
        if found and each.first <= found[-1].last + 1:
            found[-1] = replace(found[-1], last=max(found[-1].last, each.last))
        else:
            found.append(each)
    return found
