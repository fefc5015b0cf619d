"""Elements of tensors with strides: an index is taken apart by a launch's divisors, each with its reciprocal."""

from __future__ import annotations

import math
import struct
from itertools import product

import pytest

from ptxtools.access.build import build
from ptxtools.access.template import AccessKind, Template
from ptxtools.machine.kernels import templates
from ptxtools.ranges import Launch, Range, evaluate
from ptxtools.reader import read
from tests.instruments.against import assemble

BLOCK = 128
DIMENSIONS = 3
COPIES = 4  # of the loop's body
FROM, TO = 1 << 40, 1 << 42
ROOM = 1 << 32


def divided(number: int) -> str:
    """What is left of r2 is divided; the remainder times each stride is added to the offsets."""
    at = 24 + 20 * number
    return f"""
        ld.param.u32 %r10, [dims+{at}]; ld.param.u32 %r11, [dims+{at + 4}]; ld.param.u32 %r12, [dims+{at + 8}];
        mul.hi.u32 %r13, %r2, %r11; add.u32 %r13, %r13, %r2; shr.u32 %r13, %r13, %r12;
        mul.lo.u32 %r14, %r13, %r10; sub.u32 %r14, %r2, %r14; mov.u32 %r2, %r13;
        ld.param.u32 %r15, [dims+{at + 12}]; mad.lo.u32 %r3, %r14, %r15, %r3;
        ld.param.u32 %r15, [dims+{at + 16}]; mad.lo.u32 %r4, %r14, %r15, %r4;
    """


def copied(number: int) -> str:
    """An element for each thread, so many blocks further."""
    return f"""
        add.u32 %r2, %r6, {number * BLOCK}; setp.ge.u32 %p, %r2, %r1; @%p bra done;
        mov.u32 %r3, 0; mov.u32 %r4, 0;
        {"".join(divided(dimension) for dimension in range(DIMENSIONS))}
        cvt.u64.u32 %a3, %r3; add.u64 %a3, %a1, %a3; cvt.u64.u32 %a4, %r4; add.u64 %a4, %a2, %a4;
        ld.global.b16 %h, [%a4]; st.global.b16 [%a3], %h;
    """


# As PyTorch's IntDivider and OffsetCalculator: to, from, n, then divisor, reciprocal, shift and two strides for each.
SOURCE = f"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry copy(.param .align 8 .b8 dims[{24 + 20 * DIMENSIONS}])
{{
    .reg .b64 %a<8>; .reg .b32 %r<16>; .reg .pred %p; .reg .b16 %h;
    mov.u32 %r1, %ctaid.x; mov.u32 %r6, %tid.x; mad.lo.u32 %r6, %r1, {COPIES * BLOCK}, %r6;
    ld.param.u32 %r1, [dims+16]; ld.param.u64 %a1, [dims]; ld.param.u64 %a2, [dims+8];
    {"".join(copied(number) for number in range(COPIES))}
done:
    ret;
}}
"""


def reciprocal(divisor: int) -> tuple[int, int, int]:
    shift = (divisor - 1).bit_length()
    return divisor, ((1 << 32) * ((1 << shift) - divisor)) // divisor + 1, shift


@pytest.fixture(scope="module", params=["ptx", "machine code"])
def template(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Template:
    if request.param == "ptx":
        module = read(SOURCE)
        return build(module, module.functions["copy"])
    place = tmp_path_factory.mktemp("dimensions")
    (place / "copy.ptx").write_text(SOURCE)
    (made,) = templates(assemble(place / "copy.ptx", 90, place), lambda _: True, "")
    return made


def span(sizes: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, int]:
    """First byte and the end."""
    corners = product(*[(0, (size - 1) * stride) for size, stride in zip(sizes, strides, strict=True)])
    return 0, max(sum(corner) for corner in corners) + 2


def ranges(template: Template, sizes: tuple[int, ...], to: tuple[int, ...], source: tuple[int, ...]) -> list[Range]:
    """Of the copy of a tensor with these sizes, with strides in bytes."""
    count = math.prod(sizes)
    parameters = struct.pack("<QQII", TO, FROM, count, 0)
    for size, *strides in zip(sizes, to, source, strict=True):
        parameters += struct.pack("<III", *reciprocal(size)) + struct.pack("<II", *strides)

    def allocation(address: int) -> tuple[int, int] | None:
        begin = TO if address >= TO else FROM
        return (begin, begin + ROOM) if begin <= address < begin + ROOM else None

    grid = (-(-count // (COPIES * BLOCK)), 1, 1)
    found = evaluate(template, Launch(parameters, grid, (BLOCK, 1, 1), allocation))
    assert not found.unknown
    return found.ranges


@pytest.mark.full
@pytest.mark.parametrize(
    ("sizes", "to", "source"),
    [
        ((768, 1500, 4), (2, 1536, 2304000), (3000, 2, 2304000)),  # each is transposed
        ((1500, 768, 4), (2, 3000, 2304000), (0, 2, 0)),  # a bias of 768
        ((1500, 768, 4), (2, 3000, 2304000), (1536, 2, 0)),
        ((64, 24, 154), (2, 128, 3072), (2, 544000, 128)),
        ((7, 5, 3), (2, 14, 70), (30, 6, 2)),
    ],
)
def test_what_a_copy_with_strides_touches(
    template: Template, sizes: tuple[int, ...], to: tuple[int, ...], source: tuple[int, ...]
) -> None:
    found = ranges(template, sizes, to, source)
    ends = {each.kind: (each.begin, each.end) for each in found}
    assert len(found) == len(ends) == 2
    first, end = span(sizes, source)
    assert ends[AccessKind.READ] == (FROM + first, FROM + end)
    first, end = span(sizes, to)
    assert ends[AccessKind.WRITE] == (TO + first, TO + end)
    (written,) = [each for each in found if each.kind is AccessKind.WRITE]
    assert written.overwritten


@pytest.mark.parametrize("sizes", [(64, 154, 72), (64, 512, 5)])
def test_rows_that_are_apart(template: Template, sizes: tuple[int, ...]) -> None:
    """Such as a small tensor that is copied beside a large one: rows do not begin where blocks do."""
    row = 2 * sizes[0] * sizes[1]
    stride = 20 * row
    found = ranges(template, sizes, (2, 2 * sizes[0], stride), (2, 2 * sizes[0], row))
    written = {(each.begin, each.end, each.stride, each.width) for each in found if each.kind is AccessKind.WRITE}
    assert written == {(TO, TO + stride * (sizes[2] - 1) + row, stride, row)}
    assert all(each.overwritten for each in found if each.kind is AccessKind.WRITE)
