"""Operands of library calls and tensor maps in traces, and what coverage makes of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.analysis.operands import LibraryCall, Operand, tensors
from controlplane.analysis.traced import launches, used
from controlplane.commands.main import main
from controlplane.observe import trace
from ptxtools.access.template import AccessKind
from ptxtools.machine.consent import Consent
from ptxtools.ranges.tensor import Tensor
from tests.command import TESSERA_RUN
from tests.libraries.stand_ins import build
from tests.libraries.traced import COLUMNS, PITCH, ROWS
from tests.policy.run import TIMEOUT_S, environment

GUEST = Path(__file__).with_name("traced.py")
MATRIX_BYTES = 64


@pytest.fixture(scope="module")
def traced(native_build: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int | str]]:
    """A trace of the guest, and what it printed."""
    place = tmp_path_factory.mktemp("traced")
    build(place, (native_build / "native" / "include" / "tessera" / "library_calls.h").read_text())
    file = place / "run.trace"
    command = [str(TESSERA_RUN), "--emulate", "1", "--no-summary", "--trace", str(file), "--trace-parameters"]
    done = subprocess.run(
        [*command, "--", sys.executable, str(GUEST), str(place)],
        text=True,
        capture_output=True,
        env={**environment(native_build), "XDG_CACHE_HOME": str(place)},
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return file, json.loads(done.stdout)


def calls_of(file: Path) -> list[LibraryCall | None]:
    (process,) = trace.load(file).processes
    return [launch.library for launch, _ in launches(used(process, Consent.OPEN))]


def test_a_trace_has_the_operands_of_the_calls_around_launches(traced: tuple[Path, dict[str, int | str]]) -> None:
    file, said = traced
    product, after_memset, batched, outside, with_map = calls_of(file)
    assert product is not None
    assert after_memset is not None
    assert (product.name, product.problem, product.other_gpus) == ("cublasSgemm_v2", "", False)
    a = int(said["data"])
    c, work, read, write = a + 2 * MATRIX_BYTES, a + 1024, AccessKind.READ, AccessKind.WRITE
    inputs = {Operand(read, at, at + MATRIX_BYTES - 1, 0, 0) for at in (a, a + MATRIX_BYTES)}
    output = Operand(write, c, c + MATRIX_BYTES - 1, 0, 0, overwritten=True)
    area = {Operand(kind, work, work + 63, 0, 0, scratch=True) for kind in (read, write)}
    assert set(product.operands) == inputs | area | {output}
    assert after_memset.operands == product.operands  # what it sets is none of them
    assert batched is not None
    assert batched.reason == "cublasSgemmBatched: operands that only memory names"
    assert outside is None
    assert with_map is None


def test_a_trace_has_the_tensors_that_maps_describe(traced: tuple[Path, dict[str, int | str]]) -> None:
    file, said = traced
    (process,) = trace.load(file).processes
    tensor_map = bytes.fromhex(str(said["map"]))
    found = tensors(used(process, Consent.OPEN).records)
    assert found == {tensor_map: Tensor(int(said["data"]), (COLUMNS, ROWS), (2, 2 * PITCH), 2)}
    *_, (launch, _) = launches(used(process, Consent.OPEN))
    assert launch.parameters == tensor_map


def test_coverage_takes_what_code_does_not_say_from_the_calls(
    traced: tuple[Path, dict[str, int | str]],
    tmp_path: Path,
    native_build: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("TESSERA_NATIVE", str(native_build / "native"))
    assert main(["analyze", "--trace", str(traced[0]), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    total = found["coverage"]
    assert total["by_tier"] == {"ptx": 1, "library": 2, "unknown": 2}
    assert total["by_reason"] == {
        "cublasSgemmBatched: operands that only memory names": 1,
        "pointer loaded from memory": 1,
    }
    (through,) = [each for each in found["functions"] if each["name"] == "through"]
    assert (through["launches"], through["known_launches"], through["tier"]) == (4, 2, "unknown")
