"""Elements of tensors with strides: an index is taken apart by a launch's divisors, each with its reciprocal."""

from __future__ import annotations

import math
import struct
from itertools import product

import pytest

from ptxtools.access.build import build
from ptxtools.access.template import AccessKind, Template
from ptxtools.machine.kernels import templates
from ptxtools.ranges import Launch, evaluate
from ptxtools.reader import read
from tests.instruments.against import assemble

BLOCK = 128
DIMENSIONS = 3
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


# As PyTorch's IntDivider and OffsetCalculator: to, from, n, then divisor, reciprocal, shift and two strides for each.
SOURCE = f"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry copy(.param .align 8 .b8 dims[{24 + 20 * DIMENSIONS}])
{{
    .reg .b64 %a<8>; .reg .b32 %r<16>; .reg .pred %p; .reg .b16 %h;
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r2, %r1, {BLOCK}, %r2;
    ld.param.u32 %r1, [dims+16]; setp.ge.u32 %p, %r2, %r1; @%p bra done;
    mov.u32 %r3, 0; mov.u32 %r4, 0;
    {"".join(divided(number) for number in range(DIMENSIONS))}
    ld.param.u64 %a1, [dims]; ld.param.u64 %a2, [dims+8];
    cvt.u64.u32 %a3, %r3; add.u64 %a1, %a1, %a3; cvt.u64.u32 %a4, %r4; add.u64 %a2, %a2, %a4;
    ld.global.b16 %h, [%a2]; st.global.b16 [%a1], %h;
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
    count = math.prod(sizes)
    parameters = struct.pack("<QQII", TO, FROM, count, 0)
    for size, *strides in zip(sizes, to, source, strict=True):
        parameters += struct.pack("<III", *reciprocal(size)) + struct.pack("<II", *strides)

    def allocation(address: int) -> tuple[int, int] | None:
        begin = TO if address >= TO else FROM
        return (begin, begin + ROOM) if begin <= address < begin + ROOM else None

    grid = (-(-count // BLOCK), 1, 1)
    found = evaluate(template, Launch(parameters, grid, (BLOCK, 1, 1), allocation))
    assert not found.unknown
    ends = {each.kind: (each.begin, each.end) for each in found.ranges}
    assert len(found.ranges) == len(ends) == 2
    first, end = span(sizes, source)
    assert ends[AccessKind.READ] == (FROM + first, FROM + end)
    first, end = span(sizes, to)
    assert ends[AccessKind.WRITE] == (TO + first, TO + end)
    (written,) = [each for each in found.ranges if each.kind is AccessKind.WRITE]
    assert written.overwritten
