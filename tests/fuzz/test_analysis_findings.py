"""What `scripts/lab fuzz-analysis` found once stays mended."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from tests.fuzz.analysis_inputs import Inputs
from tests.fuzz.analysis_target import check

pytestmark = pytest.mark.usefixtures("native")

CORPUS = Path(__file__).parents[1] / "corpus"
FOUND = sorted((CORPUS / "damaged").glob("*.ptx"))
SECONDS = 10


@pytest.mark.parametrize("file", FOUND, ids=[file.stem for file in FOUND])
def test_findings(file: Path) -> None:
    begin = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    assert check(file.read_bytes()) in ("damaged", "analysed")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - begin < SECONDS


@pytest.mark.full
def test_damaged_inputs() -> None:
    """A few of what the fuzzer makes: some of each kind of end."""
    inputs = Inputs([*(CORPUS / "ptx").glob("*.ptx"), *(CORPUS / "image").glob("*.*in")], 5)
    ends = {check(inputs.make(number)) for number in range(15)}
    assert ends == {"refused", "damaged", "analysed"}
