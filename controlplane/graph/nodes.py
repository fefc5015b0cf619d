"""What a program gave its GPUs, as plain values: operations in the order of the calls, and the bytes that they touch.

Nothing here knows of traces; whoever has launches with ranges and times can make a Program of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import NamedTuple

UNWRITTEN = -1  # the "writer" of bytes that nobody has written since the program began


class What(Enum):
    """What an operation is. FORGET is none: memory was allocated anew, its bytes mean nothing."""

    LAUNCH = "launch"
    COPY = "copy"
    MEMSET = "memset"
    FORGET = "forget"


class Why(IntEnum):
    """Why an operation needs the bytes that another one wrote."""

    READ = 0  # it may read them, as far as its code says
    WHOLE = 1  # it may read something in the allocation, no more is known
    OLD = 2  # it may write them, but is not known to overwrite them
    SCRATCH = 3  # an earlier launch of the same library call left them for it
    ANYTHING = 4  # it may touch anything, or the other one may have


UNSURE = frozenset({Why.WHOLE, Why.OLD, Why.ANYTHING})  # what better knowledge of a launch could take away


class Span(NamedTuple):
    """Bytes first to end - 1; of these, `width` at every multiple of `stride` from first on (stride 0: all)."""

    first: int
    end: int
    stride: int = 0
    width: int = 0


class Read(NamedTuple):
    span: Span
    why: Why = Why.READ


class Write(NamedTuple):
    span: Span
    scratch: bool = False


@dataclass(frozen=True, slots=True)
class Node:
    """One operation. `reads` holds what it needs of others, thus also the old bytes of what it only may write.

    unknown: why it may touch anything; empty if it may not. ns: how long it takes on a GPU; measured: that is from this
    very operation. after: operations that come before it by the order of streams and events; waits: operations whose
    streams the host waited for, up to them, before it called this one; returned: copies that it waited for. call: a
    number that launches of one library call share, 0 for none. from_host: its bytes come from the host. at_ns: when it
    was called, from the start of the trace.
    """

    what: What
    name: str
    ns: float
    reads: tuple[Read, ...] = ()
    writes: tuple[Write, ...] = ()
    unknown: str = ""
    measured: bool = True
    stream: str = ""
    thread: int = 0
    after: tuple[int, ...] = ()
    waits: tuple[int, ...] = ()
    returned: tuple[int, ...] = ()
    call: int = 0
    from_host: bool = False
    at_ns: int = 0


@dataclass(frozen=True, slots=True)
class Program:
    """Operations in the order of the calls, which `after` and `waits` count from 0.

    whole: launches with a range that is only known as its allocation. notes: what a reader should know of them.
    """

    nodes: Sequence[Node]
    whole: int = 0
    notes: tuple[str, ...] = ()

    @property
    def launches(self) -> int:
        return sum(node.what is What.LAUNCH for node in self.nodes)
