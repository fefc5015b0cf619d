"""The semantics table as data: what its two consumers rely on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ptxtools.isa import emit_c, matrix
from ptxtools.isa.row import Form, Kind, Part
from ptxtools.isa.semantics import ROWS, spelled
from ptxtools.isa.types import Type


@pytest.mark.parametrize(
    ("opcode", "kind", "width", "signed", "part"),
    [
        ("add.s32", Kind.ADD, 32, True, Part.LOW),
        ("sub.u64", Kind.SUB, 64, False, Part.LOW),
        ("mul.wide.s32", Kind.MUL, 32, True, Part.WIDE),
        ("mad.wide.u16", Kind.MAD, 16, False, Part.WIDE),
        ("mul.hi.u32", Kind.MUL, 32, False, Part.HIGH),
        ("shl.b64", Kind.SHL, 64, False, Part.LOW),
        ("shr.s32", Kind.SHR, 32, True, Part.LOW),
        ("cvt.s64.s32", Kind.CONVERT, 32, True, Part.LOW),
        ("cvt.u32.u64", Kind.CONVERT, 32, False, Part.LOW),
        ("selp.b64", Kind.SELECT, 64, False, Part.LOW),
        ("mov.u64", Kind.COPY, 64, False, Part.LOW),
        ("fma.rn.f32", Kind.OPAQUE, 0, False, Part.LOW),
    ],
)
def test_transfers(opcode: str, kind: Kind, width: int, signed: bool, part: Part) -> None:
    row = spelled(opcode)
    assert row is not None
    transfer = row.transfer
    assert (transfer.kind, transfer.width, transfer.signed, transfer.part) == (kind, width, signed, part)


@pytest.mark.parametrize(
    "opcode", ["", "add", "ld.global.u32", "add.rn.s32", "cvt.f32.s32", "mul.wide.u64", "setp.lo.s32"]
)
def test_what_is_no_lane_operation_has_no_row(opcode: str) -> None:
    assert spelled(opcode) is None


_SPELLINGS = """
    add.cc.u32 madc.hi.cc.u64 shf.l.wrap.b32 lop3.b32 prmt.b32.f4e dp4a.u32.s32 fma.rn.ftz.relu.f16x2 cvt.rn.bf16x2.f32
    cvt.rna.tf32.f32 cvt.rn.satfinite.e4m3x2.f32 setp.geu.and.ftz.f32 set.gt.ftz.f16x2.f16x2 div.full.ftz.f32
    min.ftz.NaN.xorsign.abs.f32 rsqrt.approx.ftz.f64 tsr.pack.b64.b16x4 tsr.sext.b64.b16
"""


@pytest.mark.parametrize("opcode", _SPELLINGS.split())
def test_spellings(opcode: str) -> None:
    row = spelled(opcode)
    assert row is not None
    assert row.key == opcode


def test_rows_are_well_formed() -> None:
    for row in ROWS:
        assert 1 <= len(row.sources) <= 4, row.key
        assert row.dst is not Type.NONE
        text = " ".join((row.value, row.second, *row.temporaries))
        missing = "ABCD"[len(row.sources) :]
        assert not missing or not re.search(rf"\b[{missing}]\b", text), f"{row.key} reads an operand it does not have"
        assert row.form is Form.MAP or row.dst.bits <= 32
        if row.transfer.kind is not Kind.OPAQUE:
            assert row.transfer.width in (1, 8, 16, 32, 64), row.key
        assert not row.combine or row.sources[-1] is Type.PRED


def test_keys_are_unique() -> None:
    keys = [row.key for row in ROWS] + [row.key for row in matrix.MATRIX_ROWS]
    assert len(keys) == len(set(keys))


def test_generated_files_are_those_that_the_build_lists(tmp_path: Path) -> None:
    emit_c.generate(tmp_path)
    listed = Path(__file__).parents[2] / "interpose" / "emulator" / "exec" / "lane" / "CMakeLists.txt"
    groups = re.search(r"set\(groups ([^)]*)\)", listed.read_text())
    assert groups is not None
    wanted = {f"lane_{name}.c" for name in groups[1].split()} | {"lane_table.c"}
    assert {path.name for path in tmp_path.iterdir()} == wanted
