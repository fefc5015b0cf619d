"""Rules on the library call that a launch happens in."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.policy.library_calls import library_calls
from tests.command import TESSERA_RUN
from tests.policy.run import TIMEOUT_S, environment, outcome_of

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
POLICY = """version: 1
devices: {home: 0, executors: [1, 2]}
memory: {place: follow}
rules:
  - {match: {library_call: cublasGemmEx}, device: 1}
  - {match: {library_call: "cublas?gemm*"}, device: 2}
"""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    file = tmp_path / "libcublas.so.12"
    compiler = [os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "-Wl,-soname,libcublas.so.12"]
    subprocess.run([*compiler, "-o", str(file), str(HERE / "cublas_like.c")], check=True)
    return file


def test_launches_are_told_by_the_call_they_happen_in(library: Path, native_build: Path, tmp_path: Path) -> None:
    policy, report = tmp_path / "policy.yaml", tmp_path / "report.json"
    policy.write_text(POLICY)
    done = subprocess.run(
        [
            *(str(TESSERA_RUN), "--emulate", "3", "--policy", str(policy), "--json", str(report), "--"),
            *(sys.executable, str(HERE / "library_calls.py"), str(library)),
        ],
        text=True,
        capture_output=True,
        env=environment(native_build),
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["1", "7 0.25", "7", "right"]
    # A call within a call is the outer one's; what is called by its own handle is no call that could be seen.
    assert outcome_of(report).by_function == {("alpha", 1): 1, ("alpha", 2): 1, ("beta", 2): 1, ("gamma", 0): 2}
    assert json.loads(report.read_text())["launches"]["kept_home"] == 0


def test_every_entry_point_is_exported(native_build: Path) -> None:
    native = native_build / "native" / "shim"
    out = subprocess.run(
        ["nm", "-D", "--defined-only", str(native / "libtessera_calls.so")], capture_output=True, text=True, check=True
    ).stdout
    exported = set(re.findall(r" [TW] (\w+)", out))
    header = (native_build / "native" / "include" / "tessera" / "library_calls.h").read_text()
    notes = set(re.findall(r"^\s*W\(\w+, (\w+)\)", header, re.MULTILINE))
    own = {name for name in exported if name.startswith("tessera_library_")}
    assert exported - own == {*library_calls(), *notes}
    assert own == set(re.findall(r"\b(tessera_library_\w+)\(", (ROOT / "interpose" / "calls" / "calls.h").read_text()))
    assert len(library_calls()) > 100
