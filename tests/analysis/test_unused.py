"""Reads that a launch does not use, and registers without a value: machine code need not do what was traced."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ptxtools.access.build import build
from ptxtools.ranges import evaluate
from ptxtools.reader import read
from tests.analysis.trials import End, Trials

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
LOADS = TEXT.replace("LOAD", "ld.global.u32 %r3, [%rd4];")


@pytest.mark.parametrize(("is_used", "end"), [(0, End.UNUSED), (1, End.LACKS)])
def test_reads_whose_values_decide_nothing(
    tmp_path: Path, native_build: Path, monkeypatch: pytest.MonkeyPatch, is_used: int, end: End
) -> None:
    monkeypatch.setenv("TESSERA_NATIVE", str(native_build / "native"))
    text = tmp_path / "some.ptx"
    text.write_text(LOADS)
    without = read(TEXT.replace("LOAD", ""))
    template = build(without, without.kernels[0])
    trials = Trials(tmp_path, lambda launch: evaluate(template, launch))
    values = bytes(16) + is_used.to_bytes(4, "little")
    shape = {"grid": [1, 1, 1], "block": [32, 1, 1], "shared": 0}
    job = {"text": str(text), "function": "some", **shape, "pointers": {"0": 0, "8": 1}, "values": values.hex()}
    assert list(trials.ends([json.dumps(job)])) == [end]
    assert bool(trials.lacking) is (end is End.LACKS)


def test_registers_without_a_value(tmp_path: Path, native_build: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The load's index has one on the way of `is_used` alone."""
    monkeypatch.setenv("TESSERA_NATIVE", str(native_build / "native"))
    text = tmp_path / "some.ptx"
    where = "@!%p1 mov.u64 %rd6, 0;\nadd.s64 %rd4, %rd4, %rd6;\nld.global.u32 %r3, [%rd4];\nst.global.u32 [%rd5], %r3;"
    text.write_text(TEXT.replace("LOAD", where))
    without = read(TEXT.replace("LOAD", "st.global.u32 [%rd5], %r3;"))
    template = build(without, without.kernels[0])
    trials = Trials(tmp_path, lambda launch: evaluate(template, launch))
    shape = {"grid": [1, 1, 1], "block": [32, 1, 1], "shared": 0, "pointers": {"0": 0, "8": 1}}
    values = [(bytes(16) + is_used.to_bytes(4, "little")).hex() for is_used in (0, 1)]
    jobs = [json.dumps({"text": str(text), "function": "some", **shape, "values": each}) for each in values]
    assert list(trials.ends(jobs)) == [End.OPEN, End.LACKS]
