"""What commands import before they do anything: modules are counted, as milliseconds depend on the machine.

scripts/bench/startup takes the time.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import with_native

CODE = """
import contextlib, io, json, sys
before = set(sys.modules)
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    CALL
json.dump(sorted(set(sys.modules) - before), sys.stdout)
"""
RARE = {"numpy", "networkx", "pycparser", "asyncio", "unittest", "multiprocessing", "rich", "shutil", "tempfile"}
CASES = {
    "import controlplane": ("import controlplane", 20, {"argparse", "yaml", "cffi", "numpy", "dataclasses"}),
    "tessera --help": (
        "from controlplane.commands.main import main; main(['--help'])",
        65,
        {"yaml", "cffi", "numpy", "networkx", "dataclasses", "subprocess", "json"},
    ),
    "tessera run -- true": (
        "from controlplane.commands.main import main; main(['run', '--emulate', '1', '--', 'true'])",
        130,
        {*RARE, "yaml", "socket", "subprocess", "ctypes", "json", "difflib"},
    ),
    "tessera-run -- true": (
        "from controlplane.commands.run import main; main(['--', 'true'])",
        105,
        {*RARE, "yaml", "socket", "subprocess", "ctypes", "json", "difflib", "cffi", "mmap"},
    ),
}
OURS_WHEN_RUN = 31


@pytest.mark.parametrize("case", CASES)
def test_a_start_imports_little(case: str, native_build: Path) -> None:
    call, most, never = CASES[case]
    native = native_build / "native"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path += {sys.path}\n{CODE.replace('CALL', call)}"],
        text=True,
        capture_output=True,
        env={**with_native(native), "TESSERA_DRIVER": str(native / "emulator" / "libcuda.so.1")},
        check=True,
    )
    found: list[str] = json.loads(done.stdout)
    packages = {name.partition(".")[0] for name in found}
    assert packages & never == set()
    assert len(found) <= most, found
    assert sum(name.startswith(("controlplane", "ptxtools")) for name in found) <= OURS_WHEN_RUN
