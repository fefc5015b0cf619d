"""The map of last writers against a dictionary of bytes, and what ranges become."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.graph.nodes import UNWRITTEN, Node, Program, Read, Span, What, Why, Write
from controlplane.graph.rows import common, count, covers, overlap, rows_of
from controlplane.graph.streams import LEGACY, NON_BLOCKING, Order
from controlplane.graph.touched import less, touched
from controlplane.graph.versions import dependencies
from ptxtools.access.template import AccessKind
from ptxtools.ranges import Range

END = 160


def bytes_of(span: Span) -> set[int]:
    if not span.stride:
        return set(range(span.first, span.end))
    return {byte for byte in range(span.first, span.end) if (byte - span.first) % span.stride < span.width}


@st.composite
def spans(draw: st.DrawFn) -> Span:
    first = draw(st.integers(0, END - 2))
    end = draw(st.integers(first + 1, END))
    stride = draw(st.sampled_from([0, 0, 4, 8, 12]))
    return Span(first, end, stride, draw(st.integers(1, stride)) if stride else 0)


NODES = st.lists(
    st.tuples(
        st.lists(spans(), max_size=2),
        st.lists(spans(), max_size=2),
        st.sampled_from(["", "", "", "", "unknown", "forget"]),
    ),
    max_size=12,
)


@dataclass
class Naive:
    """By byte: who wrote it last, and who has read it since."""

    writer: dict[int, int] = field(default_factory=dict)
    readers: defaultdict[int, set[int]] = field(default_factory=lambda: defaultdict(set))


@settings(max_examples=150, deadline=None)
@given(drawn=NODES)
def test_edges_are_those_of_a_dictionary_of_bytes(drawn: list[tuple[list[Span], list[Span], str]]) -> None:
    """Strided bytes of different strides may be taken to overlap, and no dependency may be missing."""
    nodes, naive = [], Naive()
    raw, war, waw = ([set[int]() for _ in drawn] for _ in range(3))
    for number, (reads, writes, special) in enumerate(drawn):
        what = What.FORGET if special == "forget" else What.LAUNCH
        unknown = "why not" if special == "unknown" else ""
        needs = tuple(Read(span) for span in reads)
        nodes.append(Node(what, "f", 1.0, needs, tuple(Write(span) for span in writes), unknown))
        if unknown:
            naive = Naive(dict.fromkeys(range(END), number))
        elif what is What.FORGET:
            for byte in {byte for span in writes for byte in bytes_of(Span(span.first, span.end))}:
                naive.writer.pop(byte, None)
                naive.readers[byte].clear()
        else:
            for byte in {byte for span in reads for byte in bytes_of(span)}:
                raw[number] |= {naive.writer[byte]} if byte in naive.writer else set()
                naive.readers[byte].add(number)
            for byte in {byte for span in writes for byte in bytes_of(span)}:
                war[number] |= naive.readers[byte] - {number}
                waw[number] |= {naive.writer[byte]} - {number} if byte in naive.writer else set()
                naive.writer[byte] = number
                naive.readers[byte] = set()
    nodes = [node if node.what is not What.FORGET else forgetting(node) for node in nodes]
    found = dependencies(Program(nodes))
    is_simple = len({span.stride for reads, writes, _ in drawn for span in (*reads, *writes) if span.stride}) <= 1
    for number, node in enumerate(nodes):
        if node.unknown or node.what is What.FORGET:
            continue
        real = {writer for writer, why in found.raw[number] if why is Why.READ}
        assert raw[number] <= real
        assert waw[number] <= set(found.waw[number])
        assert war[number] <= set(found.war[number])
        if is_simple:
            assert real == raw[number]


def forgetting(node: Node) -> Node:
    writes = tuple(Write(Span(write.span.first, write.span.end)) for write in node.writes)
    return Node(What.FORGET, "", 0.0, writes=writes)


@pytest.mark.full
@settings(max_examples=300, deadline=None)
@given(one=spans(), other=spans())
def test_rows_are_the_bytes_that_they_stand_for(one: Span, other: Span) -> None:
    first, end = max(one.first, other.first), min(one.end, other.end)
    if first >= end:
        return
    inside = set(range(first, end))
    some, more = bytes_of(one) & inside, bytes_of(other) & inside
    a, b = rows_of(one), rows_of(other)
    assert count(a, first, end) == len(some)
    assert overlap(a, b) or not some & more
    assert not covers(a, b, first, end) or more <= some
    assert common(a, b, first, end) >= len(some & more)
    if a is None or b is None or a[0] == b[0]:
        assert common(a, b, first, end) == len(some & more)


def launch(*reads: Read, writes: tuple[Span, ...] = (), unknown: str = "", call: int = 0) -> Node:
    return Node(What.LAUNCH, "f", 1.0, reads, tuple(Write(span) for span in writes), unknown, call=call)


def test_bytes_are_told_by_cause() -> None:
    nodes = [
        launch(writes=(Span(0, 100),)),
        launch(Read(Span(50, 80)), Read(Span(60, 90), Why.WHOLE), Read(Span(0, 10), Why.OLD), writes=(Span(0, 10),)),
        launch(Read(Span(0, 20)), writes=(Span(0, 100),)),
    ]
    found = dependencies(Program(nodes))
    assert found.raw[1] == {(0, Why.READ): 30, (0, Why.WHOLE): 10, (0, Why.OLD): 10}
    assert found.raw[2] == {(1, Why.READ): 10, (0, Why.READ): 10}
    assert found.war[2] == Counter({1: 40})
    assert found.waw[2] == Counter({0: 90, 1: 10})


def test_an_unknown_launch_needs_all_and_all_need_it() -> None:
    nodes = [
        launch(writes=(Span(0, 8),)),
        launch(writes=(Span(8, 16),)),
        launch(unknown="x"),
        launch(Read(Span(0, 8))),
        launch(),
    ]
    found = dependencies(Program(nodes))
    assert set(found.raw[2]) == {(0, Why.ANYTHING), (1, Why.ANYTHING)}
    assert set(found.raw[3]) == {(2, Why.READ)}
    assert set(found.raw[4]) == {(2, Why.ANYTHING)}


def test_scratch_chains_only_launches_of_one_call() -> None:
    scratch = Read(Span(0, 64), Why.SCRATCH)
    nodes = [launch(scratch, writes=(Span(0, 64),), call=call) for call in (1, 1, 2)]
    found = dependencies(Program(nodes))
    assert [set(edges) for edges in found.raw] == [set(), {(0, Why.SCRATCH)}, set()]


def test_columns_of_a_matrix_that_two_launches_write_are_apart() -> None:
    left, right = Span(0, 6400, 64, 32), Span(32, 6400, 64, 32)
    nodes = [launch(writes=(left,)), launch(writes=(right,)), launch(Read(left)), launch(Read(Span(0, 6400)))]
    found = dependencies(Program(nodes))
    assert not found.waw[1]
    assert found.raw[2] == {(0, Why.READ): 3200}
    assert found.raw[3] == {(0, Why.READ): 3200, (1, Why.READ): 3200}


def test_what_is_written_once_and_read_throughout_is_a_constant() -> None:
    weights = Node(What.COPY, "copy from host", 1.0, writes=(Write(Span(0, 64)),), from_host=True)
    others = [launch(Read(Span(0, 64)), writes=(Span(1000 + 8 * n, 1008 + 8 * n),)) for n in range(8)]
    found = dependencies(Program([weights, *others]))
    assert found.constant_writers == {0}
    assert found.is_constant(0, 5)
    again = dependencies(Program([weights, *others, launch(writes=(Span(0, 64),))]))
    assert not again.constant_writers


def a_range(kind: AccessKind, first: int, last: int, **flags: bool) -> Range:
    return Range(kind, None, None, 0, first, last, **flags)


def test_what_a_launch_may_write_it_needs_unless_it_overwrites_it() -> None:
    write, read = AccessKind.WRITE, AccessKind.READ
    reads, writes = touched([a_range(write, 0, 99), a_range(write, 20, 59, overwritten=True)])
    assert reads == (Read(Span(0, 20), Why.OLD), Read(Span(60, 100), Why.OLD))
    assert {each.span for each in writes} == {Span(0, 100), Span(20, 60)}
    assert touched([a_range(write, 0, 9, overwritten=True)])[0] == ()
    assert touched([a_range(AccessKind.ATOMIC, 0, 9)])[0] == (Read(Span(0, 10)),)
    assert touched([a_range(read, 0, 9, whole=True)])[0] == (Read(Span(0, 10), Why.WHOLE),)
    assert touched([a_range(read, 0, -1, whole=True)]) == ((), ())
    workspace = [a_range(write, 0, 99, scratch=True)]
    reads, writes = touched([a_range(write, 10, 19), a_range(read, 10, 19)], workspace)
    assert {each.why for each in reads} == {Why.SCRATCH}
    assert writes == (Write(Span(10, 20), scratch=True),)


@settings(max_examples=300, deadline=None)
@given(span=spans(), sure=st.lists(spans(), max_size=3))
def test_what_is_left_of_a_span_has_all_that_is_not_overwritten(span: Span, sure: list[Span]) -> None:
    left = {byte for each in less(span, sure) for byte in bytes_of(each)}
    assert bytes_of(span) - {byte for each in sure for byte in bytes_of(each)} <= left <= bytes_of(span)


def test_the_order_of_streams_events_and_the_host() -> None:
    order = Order()
    order.created(8, NON_BLOCKING)
    one, other, legacy = order.key(1, 7, 0), order.key(1, 8, 0), order.key(1, LEGACY, 0)

    def enqueue(number: int, key: tuple[int, int, int], *, blocking: bool = False) -> tuple[tuple[int, ...], ...]:
        return tuple(order.enqueue(number, key, blocking=blocking, thread=1))

    assert enqueue(0, one) == ((), (), ())
    assert enqueue(1, other) == ((), (), ())
    assert enqueue(2, legacy) == ((0,), (), ())  # the non-blocking stream is not waited for
    assert enqueue(3, one) == ((0, 2), (), ())
    order.record(99, other)
    order.wait(99, one)
    assert enqueue(4, one, blocking=True) == ((1, 2, 3), (), ())
    order.synchronize_event(99, 1)
    assert enqueue(5, other) == ((1,), (1,), (4,))
    order.synchronize_context(1, 1)
    assert enqueue(6, other)[1] == (2, 4, 5)


@pytest.mark.parametrize("writer", [UNWRITTEN, 0])
def test_a_constant_is_old(writer: int) -> None:
    found = dependencies(Program([launch(writes=(Span(0, 8),))]))
    assert found.is_constant(writer, 3001)
    assert found.is_constant(writer, 3000) == (writer == UNWRITTEN)
