"""Operands of cuDNN's graph API, from the descriptors that the application makes."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from tests.libraries.model import tensor
from tests.libraries.stand_ins import READ, WRITE, Marks

X, W, Y, Z, WORK = (0x7D0000000000 + i * 0x10000000 for i in range(5))
FLOAT, HALF, INT8X32 = 0, 2, 8  # cudnnDataType_t
DATA_TYPE, BOOLEAN, INT64, POINTER, DESCRIPTOR, INT32 = 1, 2, 3, 6, 15, 23  # cudnnBackendAttributeType_t
CONVOLUTION = {"w": 703, "x": 704, "y": 705}
POINTWISE = {"x": 751, "y": 753}


class Graph:
    """Descriptors are places of their own; a plan's first 8 bytes are the size of its work area, for the stand-in."""

    def __init__(self, marks: Marks) -> None:
        self.marks = marks
        self.kept: list[ctypes.c_int64] = []

    def make(self, value: int = 0) -> int:
        self.kept.append(ctypes.c_int64(value))
        made = ctypes.addressof(self.kept[-1])
        self.drop(made)  # what lay there in another test
        return made

    def set(self, descriptor: int, name: int, kind: int, values: Any) -> None:
        assert self.marks.tell("cudnnBackendSetAttribute", descriptor, name, kind, len(values), values) == 0

    def refer(self, descriptor: int, name: int, *others: int) -> None:
        self.set(descriptor, name, DESCRIPTOR, (ctypes.c_int64 * len(others))(*others))

    def drop(self, descriptor: int) -> None:
        assert self.marks.tell("cudnnBackendDestroyDescriptor", descriptor) == 0

    def tensor(self, number: int, kind: int, dims: tuple[int, ...], strides: tuple[int, ...]) -> int:
        made = self.make()
        self.set(made, 906, INT64, (ctypes.c_int64 * 1)(number))
        self.set(made, 901, DATA_TYPE, (ctypes.c_int32 * 1)(kind))
        self.set(made, 902, INT64, (ctypes.c_int64 * len(dims))(*dims))
        self.set(made, 903, INT64, (ctypes.c_int64 * len(strides))(*strides))
        return made

    def operation(self, **tensors: tuple[int, int]) -> int:
        made = self.make()
        for name, descriptor in tensors.values():
            self.refer(made, name, descriptor)
        return made

    def plan(self, *operations: int, work: int = 16, heuristic: bool = False) -> int:
        graph, engine, configuration, plan = self.make(), self.make(), self.make(), self.make(work)
        self.refer(graph, 801, *operations)
        if heuristic:
            asked, count = self.make(), ctypes.c_int64()
            self.refer(asked, 201, graph)
            given = (ctypes.c_int64 * 1)(configuration)
            assert (
                self.marks.tell("cudnnBackendGetAttribute", asked, 202, DESCRIPTOR, 1, ctypes.byref(count), given) == 0
            )
            self.drop(asked)
        else:
            self.refer(engine, 1300, graph)
            self.refer(configuration, 300, engine)
        self.refer(plan, 401, configuration)
        for each in (*operations, graph, engine, configuration):
            self.drop(each)
        return plan

    def pack(self, addresses: dict[int, int], work: int = WORK) -> int:
        made, count = self.make(), len(addresses)
        self.set(made, 1001, POINTER, (ctypes.c_int64 * count)(*addresses.values()))
        self.set(made, 1000, INT64, (ctypes.c_int64 * count)(*addresses))
        self.set(made, 1003, POINTER, (ctypes.c_int64 * 1)(work))
        return made


NHWC = ((2, 3, 4, 5), (60, 1, 15, 3))


@pytest.mark.parametrize("heuristic", [False, True])
def test_a_convolution_with_an_operation_behind_it(marks: Marks, heuristic: bool) -> None:
    g = Graph(marks)
    x = g.tensor(10, HALF, *NHWC)
    w = g.tensor(11, HALF, (6, 3, 1, 1), (3, 1, 3, 3))
    between = g.tensor(12, FLOAT, (2, 6, 4, 5), (120, 1, 30, 6))
    g.set(between, 907, BOOLEAN, (ctypes.c_bool * 1)(True))
    y = g.tensor(13, FLOAT, (2, 6, 4, 5), (130, 1, 32, 6))  # rows with a pitch
    first = g.operation(x=(CONVOLUTION["x"], x), w=(CONVOLUTION["w"], w), y=(CONVOLUTION["y"], between))
    second = g.operation(x=(POINTWISE["x"], between), y=(POINTWISE["y"], y))
    plan = g.plan(first, second, heuristic=heuristic)
    for each in (x, w, between, y):
        g.drop(each)  # the plan needs the application's descriptors no more
    found = marks.call("cudnnBackendExecute", 1, plan, g.pack({13: Y, 10: X, 11: W}))
    work = set(range(WORK, WORK + 16))
    inputs = tensor(X, 2, *NHWC) | tensor(W, 2, (6, 3, 1, 1), (3, 1, 3, 3))
    outputs = tensor(Y, 4, (2, 6, 4, 5), (130, 1, 32, 6))
    assert (found.unknown, found.whole) == (None, set())
    assert found.writes == outputs | work
    assert found.reads == inputs | work
    assert (found.overwritten, found.scratch) == (outputs, work)
    g.drop(plan)
    again = marks.call("cudnnBackendExecute", 1, plan, g.pack({13: Y, 10: X, 11: W}))
    assert again.whole == {(kind, at) for kind in (READ, WRITE) for at in (X, W, Y)}


@pytest.mark.parametrize(
    ("alpha_beta", "kind", "overwritten"),
    [
        (None, 0, False),  # nobody said
        ((ctypes.c_float(0), ctypes.c_float(0)), 4, True),
        ((ctypes.c_float(1), ctypes.c_float(0.5)), 4, False),
        ((ctypes.c_double(1), ctypes.c_double(0)), 5, True),
        ((ctypes.c_double(0), ctypes.c_double(2.0**-1000)), 5, False),
    ],
)
@pytest.mark.parametrize(("beta", "x", "w", "y"), [(701, 704, 703, 705), (707, 711, 709, 710), (713, 716, 717, 715)])
def test_a_convolution_adds_to_its_output_unless_beta_is_0(
    marks: Marks, alpha_beta: Any, kind: int, overwritten: bool, beta: int, x: int, w: int, y: int
) -> None:
    g = Graph(marks)
    tensors = [g.tensor(number, FLOAT, (1, 2, 4, 4), (32, 16, 4, 1)) for number in (1, 2, 3)]
    operation = g.operation(x=(x, tensors[0]), w=(w, tensors[1]), y=(y, tensors[2]))
    if alpha_beta:
        values = (type(alpha_beta[1]) * 1)(alpha_beta[1].value)
        g.set(operation, beta, kind, values)
    found = marks.call("cudnnBackendExecute", 1, g.plan(operation, work=0), g.pack({1: X, 2: W, 3: Y}, 0))
    output = tensor(Y, 4, (1, 2, 4, 4), (32, 16, 4, 1))
    assert found.writes == output
    assert found.overwritten == (output if overwritten else set())
    assert found.reads & output == (set() if overwritten else output)


@pytest.mark.parametrize(
    ("attributes", "overwritten"),
    [
        ({1520: 1, 1521: 2, 1522: 3}, True),  # a product
        ({1520: 1, 1521: 2, 1522: 3, 1525: 2}, False),  # whose rows a tensor counts
        ({751: 1, 756: 3}, True),
        ({2002: 1, 2013: 3}, True),
        ({2101: 1, 2109: 3}, True),
        ({2101: 1, 2107: 3}, False),  # the gradient of a scale: a sum
        ({1610: 1, 1611: 3}, False),
        ({2002: 1, 2011: 3}, False),  # running statistics
        ({2800: 1, 2801: 1, 2802: 1, 2803: 3, 2805: 2}, True),  # attention as one operation
        *(({2800: 1, 2801: 1, 2802: 1, 2803: 3, by: 2}, False) for by in (2806, 2807, 2809, 2810, 2820, 2821)),
        ({2800: 1, 2804: 3}, False),  # its statistics
        ({9999: 3}, False),
    ],
)
def test_outputs_of_operations(marks: Marks, attributes: dict[int, int], overwritten: bool) -> None:
    g = Graph(marks)
    tensors = {number: g.tensor(number, HALF, (2, 8), (8, 1)) for number in set(attributes.values())}
    operation = g.operation(**{str(name): (name, tensors[number]) for name, number in attributes.items()})
    addresses = {number: at for number, at in ((1, X), (2, W), (3, Y)) if number in tensors}
    found = marks.call("cudnnBackendExecute", 1, g.plan(operation, work=0), g.pack(addresses, 0))
    output = tensor(Y, 2, (2, 8), (8, 1))
    assert output <= found.writes
    assert found.overwritten == (output if overwritten else set())
    assert found.reads & output == (set() if overwritten else output)


def test_an_output_that_another_operation_reads_is_read(marks: Marks) -> None:
    g = Graph(marks)
    x, between, y = (g.tensor(number, FLOAT, (4,), (1,)) for number in (1, 2, 3))
    plan = g.plan(g.operation(x=(751, x), y=(753, between)), g.operation(x=(751, between), y=(753, y)), work=0)
    found = marks.call("cudnnBackendExecute", 1, plan, g.pack({1: X, 2: W, 3: Y}, 0))
    between_bytes = tensor(W, 4, (4,), (1,))
    assert between_bytes <= found.reads
    assert found.overwritten == between_bytes | tensor(Y, 4, (4,), (1,))


def test_tensors_of_other_layouts_are_whole(marks: Marks) -> None:
    g = Graph(marks)
    packed, reordered, ragged = (g.tensor(number, HALF, (2, 2), (2, 1)) for number in (1, 2, 3))
    g.set(packed, 901, DATA_TYPE, (ctypes.c_int32 * 1)(INT8X32))
    g.set(reordered, 909, INT32, (ctypes.c_int32 * 1)(1))
    g.refer(ragged, 913, packed)
    operation = g.operation(a=(751, packed), b=(752, reordered), c=(751, ragged))
    found = marks.call("cudnnBackendExecute", 1, g.plan(operation), g.pack({1: X, 2: W, 3: Y}))
    assert found.whole == {(READ, X), (READ, W), (READ, Y)}


def test_values_on_the_host_are_no_operands(marks: Marks) -> None:
    g = Graph(marks)
    scale = g.tensor(1, FLOAT, (1,), (1,))
    g.set(scale, 908, BOOLEAN, (ctypes.c_bool * 1)(True))
    found = marks.call("cudnnBackendExecute", 1, g.plan(g.operation(a=(751, scale)), work=0), g.pack({1: X}, 0))
    assert (found.unknown, found.whole, found.reads, found.writes) == (None, set(), set(), set())


def test_shapes_that_the_pack_overrides_are_whole(marks: Marks) -> None:
    g = Graph(marks)
    plan, pack = g.plan(g.operation(a=(751, g.tensor(1, FLOAT, (4,), (1,)))), work=0), g.pack({1: X}, 0)
    g.set(pack, 1010, INT64, (ctypes.c_int64 * 1)(1))
    assert marks.call("cudnnBackendExecute", 1, plan, pack).whole == {(READ, X), (WRITE, X)}


def test_packs_with_intermediates_or_that_nobody_saw_are_unknown(marks: Marks) -> None:
    g = Graph(marks)
    plan, pack = g.plan(g.operation(a=(751, g.tensor(1, FLOAT, (4,), (1,))))), g.pack({1: X})
    g.set(pack, 1002, POINTER, (ctypes.c_int64 * 1)(Z))
    for each in (pack, g.make()):
        assert marks.call("cudnnBackendExecute", 1, plan, each).unknown == "a variant pack that is not known"
