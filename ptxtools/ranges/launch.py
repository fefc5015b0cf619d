"""A launch, and what it may read and write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ptxtools.access.template import AccessKind
from ptxtools.ranges.tensor import Tensor

Allocation = Callable[[int], "tuple[int, int] | None"]


@dataclass(frozen=True, slots=True)
class Launch:
    """`parameters`: the parameter block. `allocation`: (begin, end) of the allocation that contains an address.

    Neighbouring mappings of one reservation count as one allocation. `variables`: addresses of the module's
    variables, as far as known. `tensor`: what a tensor map's 128 bytes describe; None when that is not known.
    """

    parameters: bytes
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    allocation: Allocation = lambda _: None
    variables: Mapping[str, int] = field(default_factory=dict)
    tensor: Callable[[bytes], Tensor | None] = lambda _: None


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes first to last, offsets from `base`; of these, `width` at every multiple of `stride` from first on (0: all).

    `parameter`: index of the kernel parameter that is the base, or that holds the tensor map of the tensor that is;
    `variable`: name of the module's variable that is. Without either the base is 0. `whole`: little is known but the
    allocation; first and last are its ends, or 0 and -1 when it is not known either. `overwritten`: every execution of
    the launch writes all of these bytes, whatever they held; ranges of a kind may overlap. `scratch`: what they hold
    before the launch and after it matters to nobody. `intermediate`: the library call that the launch is in has
    overwritten these bytes before, or they are scratch to the whole of it.
    """

    kind: AccessKind
    parameter: int | None
    variable: str | None
    base: int
    first: int
    last: int
    stride: int = 0
    width: int = 0
    whole: bool = False
    overwritten: bool = False
    scratch: bool = False
    intermediate: bool = False

    @property
    def begin(self) -> int:
        return self.base + self.first

    @property
    def end(self) -> int:
        """One past the last byte."""
        return self.base + self.last + 1


@dataclass(slots=True)
class Result:
    """`unknown`: (line, reason) of accesses that may be anywhere. Without any, the ranges hold every access."""

    ranges: list[Range] = field(default_factory=list)
    unknown: list[tuple[int, str]] = field(default_factory=list)

    @property
    def touched(self) -> list[Range]:
        """The ranges without those that only say which part of another one is overwritten."""
        plain = [each for each in self.ranges if not each.overwritten]
        return [each for each in self.ranges if not (each.overwritten and any(_holds(of, each) for of in plain))]


def _holds(of: Range, part: Range) -> bool:
    return of.kind is part.kind and of.begin <= part.begin and part.end <= of.end
