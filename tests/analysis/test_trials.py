"""Reads that a launch does not use, and registers without a value: machine code need not do what was traced."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ptxtools.access.build import build
from ptxtools.ranges import evaluate
from ptxtools.reader import read
from tests.instruments.trials import End, Trials

TEXT = """.version 8.0
.target sm_80
.address_size 64
.visible .entry some(.param .u64 in, .param .u64 out, .param .u32 is_used) {
    .reg .pred %p<3>; .reg .b32 %r<6>; .reg .b64 %rd<7>;
    ld.param.u64 %rd1, [in];
    ld.param.u64 %rd2, [out];
    ld.param.u32 %r1, [is_used];
    mov.u32 %r2, %tid.x;
    mul.wide.u32 %rd3, %r2, 4;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd5, %rd2, %rd3;
    setp.eq.s32 %p1, %r1, 0;
    mov.u32 %r3, 7;
    LOAD
    @%p1 bra DONE;
    st.global.u32 [%rd5], %r3;
DONE:
    ret;
}
"""

pytestmark = pytest.mark.usefixtures("native")


def ends(directory: Path, code: str, known: str, uses: list[int]) -> tuple[list[End], str]:
    """What launches of a kernel show whose ranges are taken to be those of another one, and what these lacked."""
    text = directory / "some.ptx"
    text.write_text(TEXT.replace("LOAD", code))
    module = read(TEXT.replace("LOAD", known))
    template = build(module, module.kernels[0])
    trials = Trials(directory, lambda launch: evaluate(template, launch))
    shape = {"grid": [1, 1, 1], "block": [32, 1, 1], "shared": 0, "pointers": {"0": 0, "8": 1}}
    values = [(bytes(16) + is_used.to_bytes(4, "little")).hex() for is_used in uses]
    jobs = [json.dumps({"text": str(text), "function": "some", **shape, "values": each}) for each in values]
    return list(trials.ends(jobs)), trials.lacking


@pytest.mark.parametrize(("is_used", "end"), [(0, End.UNUSED), (1, End.LACKS)])
def test_reads_whose_values_decide_nothing(tmp_path: Path, is_used: int, end: End) -> None:
    found, lacking = ends(tmp_path, "ld.global.u32 %r3, [%rd4];", "", [is_used])
    assert found == [end]
    assert bool(lacking) is (end is End.LACKS)


@pytest.mark.full
def test_registers_without_a_value(tmp_path: Path) -> None:
    """The load's index has one on the way of `is_used` alone."""
    store = "st.global.u32 [%rd5], %r3;"
    code = f"@!%p1 mov.u64 %rd6, 0;\nadd.s64 %rd4, %rd4, %rd6;\nld.global.u32 %r3, [%rd4];\n{store}"
    assert ends(tmp_path, code, store, [0, 1])[0] == [End.OPEN, End.LACKS]
