"""The soundness harness itself: what a wrong prediction looks like to it, and a launch that leaves its buffer."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from ptxtools.access.build import build
from ptxtools.reader import read
from tests.command import with_native
from tests.instruments.campaign import judged
from tests.instruments.oracle import Oracle, Verdict
from tests.instruments.pack import pack

ROOT = Path(__file__).parents[2]
STEPS = """.version 8.0
.target sm_80
.address_size 64
.visible .entry steps(.param .u64 p, .param .u32 step) {
    .reg .b32 %r<3>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [step];
    mov.u32 %r2, %tid.x;
    mul.wide.u32 %rd2, %r1, %r2;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r2;
    ret;
}
"""
INSIDE, OUTSIDE = 64, 1 << 26  # a step; 31 of the second leave the buffer


def launched(directory: Path, native: Path, steps: Sequence[int], believed: str = STEPS) -> list[Verdict]:
    """Launches of STEPS with 32 threads, judged as if its text was the believed one."""
    text = directory / "steps.ptx"
    text.write_text(STEPS)
    oracle, module = Oracle(), read(believed)
    oracle.keep(STEPS, "steps", build(module, module.functions["steps"]))
    shape = {"grid": [1, 1, 1], "block": [32, 1, 1], "shared": 0}
    launch = {"text": str(text), "function": "steps", **shape, "pointers": {"0": 1}}
    jobs = [json.dumps({**launch, "values": struct.pack("<QI", 0, step).hex()}) for step in steps]
    return list(judged(jobs, directory, {"TESSERA_NATIVE": str(native / "native")}, oracle))


def test_a_launch_that_leaves_its_buffer_is_a_stray(tmp_path: Path, native_build: Path) -> None:
    inside, outside = launched(tmp_path, native_build, [INSIDE, OUTSIDE])
    assert inside.complete
    assert inside.stray is None
    assert not inside.missed
    assert inside.predicted_bytes == inside.traced_bytes == 4 * 32
    assert not outside.complete
    assert outside.stray is not None
    assert outside.stray.write
    assert not outside.missed


@pytest.mark.parametrize(
    "wrong", [("%r1, %r2;\n", "%r1, 1;\n"), ("[%rd3], %r2", "[%rd3+256], %r2")], ids=["too_little", "elsewhere"]
)
def test_a_wrong_prediction_is_a_violation(tmp_path: Path, native_build: Path, wrong: tuple[str, str]) -> None:
    """Wherever the access is: in the buffer, or where there is no memory."""
    inside, outside = launched(tmp_path, native_build, [INSIDE, OUTSIDE], STEPS.replace(*wrong))
    assert inside.complete
    assert inside.missed
    assert outside.missed
    assert outside.stray is None


@pytest.mark.full
def test_a_run_goes_on_where_it_stopped(tmp_path: Path, native_build: Path) -> None:
    corpus = tmp_path / "corpus" / "here"
    corpus.mkdir(parents=True)
    (corpus / "steps.0000.ptx").write_text(STEPS)
    packed = tmp_path / "corpus.tar.xz"
    pack(corpus.parent, packed)
    for launches, goal in ((100, 1), (300, 201)):
        told = tmp_path / "told.json"
        command = [sys.executable, str(ROOT / "scripts" / "lab"), "soundness", "--corpus", str(packed), "--jobs", "1"]
        command += ["--state", str(tmp_path / "state"), "--launches", str(goal), "--json", str(told)]
        subprocess.run(command, check=True, capture_output=True, env=with_native(native_build / "native"))
        summary = json.loads(told.read_text())
        assert summary["launches"] == launches
        assert summary["violations"] == 0
