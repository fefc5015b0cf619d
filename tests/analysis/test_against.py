"""Where machine code does not say what PTX says, and yet is no different."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptxtools.access.build import build
from ptxtools.ranges import Launch
from ptxtools.reader import read
from tests.instruments.against import Code, assemble, verdicts
from tests.instruments.undefined import divides_by_zero

DIVIDED = """.version 8.0
.target sm_80
.address_size 64
.visible .entry divided(.param .u64 in, .param .u64 out, .param .u32 by, .param .u32 skip) {
    .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<3>;
    ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; ld.param.u32 %r1, [by]; ld.param.u32 %r5, [skip];
    setp.gt.u32 %p1, %r5, 128;
    @%p1 bra DONE;
    mov.u32 %r2, %tid.x;
    div.u32 %r3, %r2, %r1;
    and.b32 %r3, %r3, 1023;
    mul.wide.u32 %rd3, %r3, 4;
    add.u64 %rd4, %rd1, %rd3;
    ld.global.u32 %r4, [%rd4];
    st.global.u32 [%rd2], %r4;
DONE:
    ret;
}
"""


ADDED = """.version 8.0
.target sm_80
.address_size 64
.visible .entry added(.param .u64 out) {
    .reg .b32 %r<3>; .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [out];
    mov.b32 %r1, 0x3c003c00;
    atom.add.noftz.f16x2 %r2, [%rd1], %r1;
    ret;
}
"""


@pytest.mark.full
@pytest.mark.parametrize(("by", "skip", "divides"), [(0, 0, True), (3, 0, False), (0, 129, False)])
def test_only_divisions_that_are_reached_count(by: int, skip: int, divides: bool) -> None:
    module = read(DIVIDED)
    values = bytes(16) + by.to_bytes(4, "little") + skip.to_bytes(4, "little")
    launch = Launch(values, (1, 1, 1), (32, 1, 1), lambda _: None)
    assert divides_by_zero(build(module, module.kernels[0]), launch) is divides


@pytest.mark.usefixtures("native")
def test_machine_code_that_has_the_quotient_of_a_division_by_zero_is_equal(tmp_path: Path) -> None:
    source = DIVIDED.replace("ld.param.u32 %r1, [by];", "mov.u32 %r1, 0;")
    text = tmp_path / "divided.ptx"
    text.write_text(source)
    (found,) = verdicts(source, text, Code(assemble(text, 80, tmp_path)), 3)
    assert found.is_equal
    assert found.open > 0


@pytest.mark.full
def test_an_atomic_operation_that_is_made_of_loads_is_equal(tmp_path: Path) -> None:
    text = tmp_path / "added.ptx"
    text.write_text(ADDED.replace("[%rd1]", "[%rd1+4]"))
    code = Code(assemble(text, 80, tmp_path))
    (right,) = verdicts(text.read_text(), text, code, 1)
    assert right.is_equal
    (wrong,) = verdicts(ADDED, text, code, 1)
    assert not wrong.is_equal
