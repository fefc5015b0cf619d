"""Every byte that a launch touches on the emulated driver lies in its predicted ranges. `scripts/lab soundness` does
more.
"""

from __future__ import annotations

from pathlib import Path

from tests.instruments.campaign import verdicts
from tests.instruments.plan import kernels
from tests.instruments.table import Table

ROOT = Path(__file__).parents[2]
TEXTS = [
    *sorted((ROOT / "tests" / "corpus" / "ptx").glob("*.ptx")),
    ROOT / "scripts" / "bench" / "emulator_kernels.ptx",
]
WAITS = {"_Z12scan_chainedPKjPjiS1_PVjS3_"}  # for numbers in memory that another block of the right launch writes


def test_random_launches_stay_in_their_ranges(tmp_path: Path, native_build: Path) -> None:
    wanted = [kernel for text in TEXTS for kernel in kernels(text) if kernel.name not in WAITS]
    assert len(wanted) >= 15
    table = Table()
    environment = {"TESSERA_NATIVE": str(native_build / "native")}
    table.add("", verdicts(wanted, 2, 7, tmp_path, environment))
    summary = table.summary()
    assert summary["violations"] == 0, "\n".join(table.lines())
    assert summary["kernels"] == len({kernel.name for kernel in wanted})
    assert summary["known"] == summary["kernels"]
