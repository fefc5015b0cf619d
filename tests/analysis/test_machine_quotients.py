"""Routines that divide numbers of 64 bits are known by what they compute, whatever ptxas calls them."""

from __future__ import annotations

import random
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from ptxtools.access.template import Op
from ptxtools.machine.cubin import read
from ptxtools.machine.listing import Listing
from ptxtools.machine.quotients import Inputs, Recognised, recognised, routines
from ptxtools.ranges import Launch, evaluate
from tests.instruments.against import Code, assemble
from tests.instruments.numeric import Numbers, seen

TEXT = """
.version 7.8
.target sm_75
.address_size 64
.visible .entry k(.param .u64 p, .param .u64 n, .param .u64 m)
{{
    .reg .b64 %rd<9>;
    .reg .b32 %r<2>;
    ld.param.u64 %rd1, [p];
    ld.param.u64 %rd2, [n];
    ld.param.u64 %rd3, [m];
    cvta.to.global.u64 %rd1, %rd1;
    mov.u32 %r1, %tid.x;
    cvt.u64.u32 %rd4, %r1;
    add.u64 %rd4, %rd4, %rd2;
    {operation} %rd5, %rd4, %rd3;
    add.u64 %rd6, %rd1, %rd5;
    st.global.u8 [%rd6], %r1;
    ret;
}}
"""
BUFFER = 0x7F00_0000_0000
AWKWARD = [1, 2, 3, (1 << 32) - 1, 1 << 32, (1 << 32) + 1, (1 << 40) + 12345, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]


def assembled(operation: str, architecture: int, directory: Path, *options: str) -> bytes:
    path = directory / "text.ptx"
    path.write_text(TEXT.format(operation=operation))
    return assemble(path, architecture, directory, *options)


def expected(operation: str, a: int, b: int) -> int:
    signed = operation.endswith("s64")
    x, y = seen(a, 64, signed), seen(b, 64, signed)
    quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
    return (quotient if operation.startswith("div") else x - y * quotient) & (1 << 64) - 1


@pytest.mark.full
@pytest.mark.parametrize("architecture", [80, 120])
@pytest.mark.parametrize("operation", ["div.u64", "div.s64", "rem.u64", "rem.s64"])
def test_what_a_routine_gives_is_the_quotient(operation: str, architecture: int, tmp_path: Path) -> None:
    """Computed as machine code does, of numbers for which estimates are furthest away, too."""
    data = assembled(operation, architecture, tmp_path)
    inputs, found = only_routine(data)
    assert (found.op, found.signed) == (Op.DIV if operation.startswith("div") else Op.REM, operation.endswith("s64"))
    assert {half for *_, half in found.words} == {0, 1}
    chance = random.Random(5)
    divisors = [*AWKWARD, *(chance.getrandbits(chance.randrange(1, 65)) | 1 for _ in range(6))]
    for b in divisors:
        for a in (chance.getrandbits(64), b * chance.randrange(1 << 20) - 1, b - 1, b):
            pair = (a & (1 << 64) - 1, b)
            words = [word >> shift & (1 << 32) - 1 for word in pair for shift in (0, 32)]
            numbers = Numbers(inputs.graph, dict(zip(found.roles, words, strict=True)))
            for _, register, half in found.words:
                result = numbers.of(inputs.result(register)) & (1 << 32) - 1
                assert result == expected(operation, *pair) >> 32 * half & (1 << 32) - 1, (operation, pair)


def only_routine(data: bytes) -> tuple[Inputs, Recognised]:
    cubin = read(data)
    kernel = cubin.kernels["k"]
    lines = Listing(data, cubin).lines("k")
    assert lines is not None
    (routine,) = routines(lines, kernel, cubin.routines["k"])
    inputs = Inputs(routine, cubin, kernel)
    found = recognised(inputs)
    assert found is not None
    return inputs, found


@pytest.mark.parametrize(("architecture", "options"), [(90, ("-c",)), (120, ())])
def test_ranges_behind_a_division(architecture: int, options: tuple[str, ...], tmp_path: Path) -> None:
    """Of a routine inside of the kernel, and of a function of the file."""
    code = Code(assembled("div.u64", architecture, tmp_path, *options))
    template = code.template("k")
    assert template is not None
    values = struct.pack("<QQQ", BUFFER, 10 << 36, 1 << 36)
    result = evaluate(template, Launch(values, (1, 1, 1), (64, 1, 1), lambda _: (BUFFER, BUFFER + (1 << 20))))
    assert not result.unknown
    assert [(each.first, each.last) for each in result.ranges] == [(10, 10)]


def test_other_routines_are_nothing_that_is_known(tmp_path: Path) -> None:
    """Like a division, but for one instruction."""
    data = assembled("div.u64", 80, tmp_path)
    cubin = read(data)
    lines = Listing(data, cubin).lines("k")
    assert lines is not None
    steps = [index for index, line in enumerate(lines) if line.operands.endswith(",0x1,RZ")]
    assert len(steps) == 2
    for index in steps:  # where the quotient was too small, it is one more
        twice = replace(lines[index], operands=lines[index].operands.replace(",0x1,", ",0x2,"))
        (routine,) = routines([*lines[:index], twice, *lines[index + 1 :]], cubin.kernels["k"], cubin.routines["k"])
        assert recognised(Inputs(routine, cubin, cubin.kernels["k"])) is None
