"""Loops and indices as kernels of frameworks have them: none of their ranges is known only as its allocation."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

import pytest

from ptxtools.access.build import build
from ptxtools.access.template import AccessKind, Template
from ptxtools.machine.kernels import templates
from ptxtools.ranges import Launch, Result, evaluate
from ptxtools.reader import read
from tests.instruments.against import assemble
from tests.instruments.both import made
from tests.instruments.listing import spans

TEXT = Path(__file__).parent / "sources" / "nvcc_frameworks.ptx"
READ, WRITE = AccessKind.READ, AccessKind.WRITE
BEGIN, APART = 1 << 32, 1 << 28
HEAD = (
    ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry kernel(.param .u64 p)\n"
    "{ .reg .b32 %r<10>; .reg .b64 %rd<4>; .reg .pred %p<3>;\nld.param.u64 %rd1, [p];\nmov.u32 %r1, %tid.x;\n"
)


def at(number: int, offset: int = 0) -> int:
    """An address in allocation `number`."""
    return BEGIN + APART * number + offset


OUTPUT, INPUT = at(1, 256), at(2, 512)


def allocation(address: int) -> tuple[int, int] | None:
    begin = address // APART * APART
    return (begin, begin + APART) if BEGIN <= address < at(10) else None


@pytest.fixture(scope="module")
def machine_code(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Template]:
    cubin = assemble(TEXT, 90, tmp_path_factory.mktemp("frameworks"))
    return {each.name: each for each in templates(cubin, lambda _: True, "")}


@pytest.fixture(scope="module")
def ptx() -> dict[str, Template]:
    module = read(TEXT.read_text())
    return {each.name: build(module, each) for each in module.kernels}


def asked(template: Template, block: bytes, grid: tuple[int, ...], threads: tuple[int, ...]) -> Result:
    shapes = [tuple((*shape, 1, 1)[:3]) for shape in (grid, threads)]
    return evaluate(template, Launch(block, shapes[0], shapes[1], allocation))  # type: ignore[arg-type]


def extents(result: Result) -> set[tuple[AccessKind, int, int]]:
    """Kind, address and size of each range. Nothing is known only as its allocation."""
    assert not result.unknown
    assert not any(each.whole for each in result.ranges)
    return {(each.kind, each.begin, each.end - each.begin) for each in result.ranges}


def array(form: str, values: Iterable[int]) -> bytes:
    """An array of 25 elements of which the first ones are given."""
    given = list(values)
    return struct.pack(f"<25{form}", *given, *[0] * (25 - len(given)))


def divider(divisor: int) -> bytes:
    """What n is multiplied with and shifted by to divide it, for n below 2^31 (Granlund and Montgomery, 1994)."""
    shift = (divisor - 1).bit_length()
    return struct.pack("<3I", divisor, (((1 << shift) - divisor) << 32) // divisor + 1, shift)


BOTH = pytest.mark.parametrize("of", ["ptx", "machine_code"])


@BOTH
def test_an_index_is_a_word_of_what_a_loop_counts(of: str, request: pytest.FixtureRequest) -> None:
    kernel = request.getfixturevalue(of)["narrow_index"]
    found = asked(kernel, struct.pack("<Qi", OUTPUT, 100_000), (98,), (1024,))
    assert extents(found) == {(WRITE, OUTPUT, 400_000)}
    assert all(each.overwritten for each in found.ranges)


@BOTH
@pytest.mark.parametrize("rows", [4, 10, 13, 20, 256])
def test_an_unrolled_scan_ends_with_its_rows(of: str, rows: int, request: pytest.FixtureRequest) -> None:
    kernel = request.getfixturevalue(of)["scan_columns"]
    found = asked(kernel, struct.pack("<QQ3I", OUTPUT, INPUT, 512, 256, rows), (512,), (256,))
    size = 512 * 256 * rows * 4
    assert {(kind, begin, begin + size) for kind, begin, _ in extents(found)} <= {
        (READ, INPUT, INPUT + size),
        (WRITE, OUTPUT, OUTPUT + size),
    }
    assert max(end for _, _, end in extents(found)) == size


@BOTH
def test_an_index_is_divided_by_multiplying(of: str, request: pytest.FixtureRequest) -> None:
    sizes, strides = (8192, 64, 9), (1, 2 * 8192, 128 * 8192)
    layout = struct.pack("<i", 3) + b"".join(map(divider, sizes)) + bytes(12 * 22) + array("I", strides)
    block = struct.pack("<QQ", OUTPUT, INPUT) + layout + struct.pack("<I", 8192 * 64 * 9)
    found = asked(request.getfixturevalue(of)["divided"], block, (4608,), (256,))
    last = 8188 + sum((size - 1) * stride for size, stride in zip(sizes[1:], strides[1:], strict=True))
    assert extents(found) == {(READ, INPUT, 4 * (last + 1)), (WRITE, OUTPUT, 8192 * 64 * 9)}


@pytest.mark.parametrize("sizes", [(512, 2), (1024,)])
def test_a_layout_of_few_dimensions_is_read_from_its_last(
    machine_code: dict[str, Template], sizes: tuple[int, ...]
) -> None:
    strides = (4, 1)[: len(sizes)]
    layout = struct.pack("<Q", INPUT) + array("I", sizes) + array("I", strides) + struct.pack("<i4x", len(sizes))
    block = struct.pack("<Q", OUTPUT) + layout + struct.pack("<I", 1024)
    found = asked(machine_code["laid_out"], block, (2,), (512,))
    first = {kind: (begin, size) for kind, begin, size in extents(found)}
    assert first[WRITE] == (OUTPUT, 4096)
    begin, size = first[READ]
    assert begin == INPUT
    assert 4 * (sum((n - 1) * stride for n, stride in zip(sizes, strides, strict=True)) + 1) <= size <= 4 * 4 * 1024


@pytest.mark.parametrize("rows", [1, 5, 1024])
def test_a_gather_stays_among_the_rows_that_its_assertion_lets_through(
    machine_code: dict[str, Template], rows: int
) -> None:
    of = struct.pack("<i4x", 1) + array("Q", [at(3)]) + array("q", [rows]) + array("q", [16])
    block = struct.pack("<QQ", OUTPUT, INPUT) + of + struct.pack("<I", 1000)
    found = extents(asked(machine_code["gather"], block, (2,), (512,)))
    assert found == {(READ, INPUT, 16 * (rows - 1) + 4), (READ, at(3), 8000), (WRITE, OUTPUT, 4000)}


@BOTH
def test_what_is_kept_goes_where_the_assertion_allows(of: str, request: pytest.FixtureRequest) -> None:
    kernel = request.getfixturevalue(of)["keep"]
    found = asked(kernel, struct.pack("<QQII", OUTPUT, INPUT, 1000, 64), (1,), (64,))
    assert extents(found) == {(READ, INPUT, 4000), (WRITE, OUTPUT, 256)}


DIGITS = f"""{HEAD}
mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.s32 %r4, %r2, %r3, %r1;
shl.b32 %r5, %r4, 2; shr.u32 %r6, %r5, 13; shr.u32 %r7, %r6, 6;
shl.b32 %r8, %r7, 6; sub.s32 %r9, %r6, %r8; // what is left when the quotient is divided by 64
mul.wide.u32 %rd2, %r9, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r1; ret; }}
"""
ONCE = f"""{HEAD}
shr.u32 %r2, %r1, 5; setp.gt.u32 %p1, %r2, 31; @%p1 bra done;
mul.wide.u32 %rd2, %r2, 4; add.s64 %rd3, %rd1, %rd2; add.s32 %r3, %r2, -32;
again: st.global.u32 [%rd3], %r1; add.s64 %rd3, %rd3, 128;
add.s32 %r3, %r3, 32; setp.gt.u32 %p2, %r3, -33; @%p2 bra again;
done: ret; }}
"""


@BOTH
@pytest.mark.parametrize(
    ("source", "grid", "threads", "size"),
    [(DIGITS, 4608, 256, 256), (ONCE, 1, 1024, 128)],
    ids=["a digit of a quotient of a multiple", "a loop that counts from below zero goes round once"],
)
def test_a_kernel_writes_a_few_bytes(of: str, source: str, grid: int, threads: int, size: int, tmp_path: Path) -> None:
    found = asked(made(source, of, tmp_path), struct.pack("<Q", at(1, 4096)), (grid,), (threads,))
    assert extents(found) == {(WRITE, at(1, 4096), size)}


TWO_WAYS_BACK = f"""{HEAD}
mov.u32 %r2, 0;
again: add.s32 %r2, %r2, 1;
mul.wide.u32 %rd2, %r2, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r1;
ld.global.u32 %r4, [%rd1];
setp.eq.u32 %p1, %r4, 9; @%p1 bra done;
setp.eq.u32 %p1, %r4, 7; @%p1 bra other;
setp.ge.u32 %p2, %r2, 64; @%p2 bra again; bra done;
other: setp.lt.u32 %p2, %r2, 80; @%p2 bra again;
done: ret; }}
"""


@BOTH
def test_a_way_back_that_is_not_taken_at_first_may_be_taken_after_another(of: str, tmp_path: Path) -> None:
    """From the 64th iteration on it is, when the 80th has been the last of the other way, too."""
    found = asked(made(TWO_WAYS_BACK, of, tmp_path), struct.pack("<Q", at(1, 4096)), (1,), (1,))
    assert not found.unknown
    assert max(each.end for each in found.ranges if each.kind is WRITE) >= at(1, 4096) + 4 * 97


# Each way is there for two reasons, so that no condition says which one is taken.
TWO_WAYS = """
    S2R R0, SR_TID.X
    LDC.64 R20, c[0x0][0x210]
    LDC R6, c[0x0][0x218]
    ISETP.GE.U32.AND P0, PT, R0, R6, PT
    @P0 EXIT
    again: IMAD.WIDE.U32 R2, R0, 0x4, R20
    LDG.E R4, desc[UR36][R2.64]
    ISETP.NE.AND P1, PT, R4, RZ, PT
    ISETP.GT.AND P2, PT, R4, 0x7, PT
    @P1 BRA middle
    @P2 BRA other
    BRA one
    middle: @P2 BRA one
    BRA other
    one: IADD3 R0, R0, 0x40, RZ
    ISETP.GE.U32.AND P0, PT, R0, R6, PT
    BRA join
    other: IADD3 R0, R0, 0x40, RZ
    ISETP.GE.U32.AND P0, PT, R0, R6, PT
    join: @!P0 BRA again
    EXIT
"""
# Whether there is one says the guard, of which half is in memory.
KEPT = """
    LDC.64 R20, c[0x0][0x210]
    LDC R6, c[0x0][0x218]
    S2R R0, SR_TID.X
    LDG.E R3, desc[UR36][R20.64]
    LDG.E R5, desc[UR36][R20.64]
    ISETP.NE.AND P2, PT, R3, RZ, PT
    ISETP.LT.U32.AND P1, PT, R0, R6, P2
    SEL R24, RZ, 0x1, !P1
    @!P1 BRA end
    IADD3 R24, R3, R5, -R24
    ISETP.GE.U32.AND P0, PT, R24, R6, PT
    @P0 BRA end
    IMAD.WIDE.U32 R2, R24, 0x4, R20
    STG.E desc[UR36][R2.64], R3
    end: EXIT
"""


def test_a_step_that_both_ways_through_a_loop_take_is_one() -> None:
    assert spans(TWO_WAYS, 1000) == [(0, 3999)]


def test_a_comparison_is_made_under_the_guard_of_what_it_compares() -> None:
    assert sorted(spans(KEPT, 100)) == [(0, 3), (0, 399)]
