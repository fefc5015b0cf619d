"""The analysis knows of every register that an instruction writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptxtools.machine import disassembler, table
from ptxtools.machine.table import Row, Width
from tests.instruments.against import assemble
from tests.instruments.registers import missed
from tests.sample import sampled

PAIRS = Path(__file__).parent / "sources" / "pairs.ptx"
SCAN = Path(__file__).parents[1] / "corpus" / "ptx" / "nvcc_scan.ptx"


def cubin(text: Path, architecture: int, directory: Path) -> Path:
    found = directory / "code.cubin"
    found.write_bytes(assemble(text, architecture, directory))
    return found


def nvdisasm() -> Path:
    tool = disassembler.locate()
    assert tool is not None
    return tool


@pytest.mark.parametrize(
    ("text", "architecture"), sampled([(PAIRS, 80), (PAIRS, 90), (PAIRS, 120), (SCAN, 90)], [(PAIRS, 120), (SCAN, 90)])
)
def test_nvdisasm_knows_of_no_other(text: Path, architecture: int, tmp_path: Path) -> None:
    assert list(missed(nvdisasm(), cubin(text, architecture, tmp_path))) == []


def test_one_that_is_not_known_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(table.ROWS, "IMNMX", Row(Width.ONE))
    table.words.cache_clear()
    found = list(missed(nvdisasm(), cubin(PAIRS, 120, tmp_path)))
    table.words.cache_clear()
    assert found
    assert {each.text.partition(".")[0] for each in found} == {"IMNMX"}
    assert all(len(each.registers) == 1 for each in found)
