"""Instructions that nobody wrote on purpose: known, unknown or a PtxError with its place, and nothing else."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from controlplane.commands.main import main
from ptxtools.access.effects import effects, is_harmless
from tests.fuzz.analysis_target import check
from tests.fuzz.instructions import odd_kernel, opcodes


def test_opcodes_that_are_cut_off() -> None:
    cut = set()
    for opcode, _ in opcodes():
        parts = opcode.split(".")
        cut |= {".".join(parts[:end]) for end in range(1, len(parts) + 1)}
        cut |= {".".join(parts[:at] + parts[at + 1 :]) for at in range(len(parts))}
    assert len(cut) > 1000
    for opcode in sorted(cut):
        is_harmless(opcode)
        for operands in range(5):
            effects(opcode, operands)


@pytest.mark.full
def test_odd_instructions() -> None:
    ends = {check(odd_kernel(random.Random(number)).encode()) for number in range(1500)}
    assert ends == {"damaged", "analysed"}


ODD = {
    "wmma %r1, %r2;": "line 6: wmma is cut off",
    "wmma.load [%rd1];": "line 6: wmma.load is cut off",
    "wmma.load.a.sync.aligned.row.m16n16k8.tf32 {%r1}, [%rd1], ;": "line 6: '' is no operand",
    f"wmma.load.a.sync.aligned.row.m{'1' * 4400}n1k1.f16 {{%r1}}, [%rd1];": "line 6: wmma of a type below a byte",
    f"st.global.u{'9' * 4400} [%rd1], %r1;": "has no type",
}


@pytest.mark.parametrize("number", range(len(ODD)))
def test_the_command_says_what_it_does_not_understand(
    number: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    instruction, said = list(ODD.items())[number]
    file = tmp_path / "odd.ptx"
    file.write_text(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p) {\n"
        f".reg .b32 %r<9>; .reg .b64 %rd<9>; ld.param.u64 %rd1, [p];\n{instruction}\nret; }}\n"
    )
    assert main(["analyze", str(file)]) == 0
    assert said in capsys.readouterr().out.replace("unknown, ", "")
