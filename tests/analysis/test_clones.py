"""Kernels that models are made of, and their clones: the same bytes, and accesses where they are predicted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import with_native
from tests.instruments.pieces import pieces

ROOT = Path(__file__).parents[2]
TEXT = ROOT / "tests" / "corpus" / "ptx" / "nvcc_model.ptx"
LAUNCHES = 16  # tests/instruments/affine.py


@pytest.mark.full
def test_clones_do_what_their_kernels_do(tmp_path: Path, native_build: Path) -> None:
    corpus, report = tmp_path / "corpus" / "project", tmp_path / "report.json"
    corpus.mkdir(parents=True)
    for number, (_, text) in enumerate(pieces(TEXT.read_text())):
        (corpus / f"nvcc_model.{number:04}.ptx").write_text(text)
    subprocess.run(
        [sys.executable, ROOT / "scripts" / "lab", "clones", "--emulate", "1", "--json", report, corpus.parent],
        env=with_native(native_build / "native"),
        timeout=300,
        check=True,
        stderr=subprocess.DEVNULL,
    )
    found = json.loads(report.read_text())
    ends = found["with what is predicted"]
    assert (found["launches"], ends["right"]) == (LAUNCHES, LAUNCHES)
    assert ends["tested"] > 10000
    assert found["with nothing predicted"] == ends
