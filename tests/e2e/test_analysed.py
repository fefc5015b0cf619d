"""What kernels read and write, from the code that a program loads to the shim's table and to a trace's coverage."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from controlplane.commands.main import main
from controlplane.observe import trace
from controlplane.observe.layout import Flag, Kind
from controlplane.run.unchecked import EXIT_CODE
from tests.command import TESSERA_RUN
from tests.e2e.build import BuildError

GUEST = Path(__file__).parent / "guests" / "understood.py"
TIMEOUT_S = 120


@pytest.fixture(autouse=True)
def _surroundings(tmp_path: Path, native_build: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TESSERA_NATIVE", str(native_build / "native"))


def run(
    place: Path, command: list[str | Path], *options: str, code: int = 0, gpus: str = "1"
) -> tuple[dict[str, Any], Path]:
    """The statistics, and the trace."""
    stats, file = place / "stats.json", place / "run.trace"
    asked = ["--emulate", gpus, "--no-summary", f"--stats={stats}", "--trace", str(file), "--trace-parameters"]
    whole = [TESSERA_RUN, *asked, *options, "--", *command]
    done = subprocess.run(whole, env=dict(os.environ), timeout=TIMEOUT_S, check=False)
    assert done.returncode == code
    return json.loads(stats.read_text()), file


@pytest.mark.full
def test_unlike_gpus_have_each_their_own_templates(tmp_path: Path) -> None:
    for _ in range(2):  # the second time from the cache, at once
        _, file = run(tmp_path, [sys.executable, GUEST], "--analyze", gpus="h100,l40s")
    assert any(known for launches in understood(file).values() for known in launches)


def coverage(file: Path, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["analyze", "--trace", str(file), "--json", *options]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def understood(file: Path) -> dict[str, list[bool]]:
    """Of each function's launches in their order, whether the shim had its template."""
    (process,) = trace.load(file).processes
    found: dict[str, list[bool]] = {}
    for record in trace.calls(process).records:
        if int(record["kind"]) == Kind.LAUNCH:
            name = process.function(int(record["launch.function"]))
            found.setdefault(name, []).append(bool(int(record["flags"]) & Flag.UNDERSTOOD))
    return found


def test_templates_reach_the_shim_while_the_program_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for turn in range(2):
        stats, file = run(tmp_path, [sys.executable, GUEST], "--analyze")
        known = {"functions": 2, "known": 2, "unknown": 0, "reasons": {}}
        assert stats["analysis"] == {**known, "cached": 2 * turn, "analysed": 2 - 2 * turn}
        assert understood(file) == dict.fromkeys(("loaded", "linked"), [turn == 1] + [True] * 5)
    found = coverage(file, capsys)
    assert {each["name"]: each["evaluated"] for each in found["functions"]} == {"loaded": 1, "linked": 1}
    assert [each["predicted_bytes"] for each in found["functions"]] == [400, 400]
    assert [each["overwritten_bytes"] for each in found["functions"]] == [400, 400]
    assert (found["coverage"]["share"], found["coverage"]["overwritten_share"]) == (1.0, 1.0)
    assert found["coverage"]["cached"] == 2


@pytest.mark.full
@pytest.mark.skipif(os.geteuid() != 0, reason="only root has files of another user")
def test_a_cache_of_another_user_is_not_used_and_said_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run(tmp_path, [sys.executable, GUEST], "--analyze")
    before = {file: file.read_bytes() for file in (tmp_path / "cache").rglob("*") if file.is_file()}
    for each in (tmp_path / "cache").rglob("*"):
        os.chown(each, 65534, 65534)
    capfd.readouterr()
    stats, file = run(tmp_path, [sys.executable, GUEST], "--analyze")
    assert (stats["analysis"]["cached"], stats["analysis"]["known"]) == (0, 2)
    assert not understood(file)["loaded"][0]
    (said,) = capfd.readouterr().err.splitlines()
    assert said == (
        f"tessera-run: the cache of analyses {tmp_path}/cache/tessera/analysis is not used: "
        "'tessera' belongs to user 65534"
    )
    assert before == {file: file.read_bytes() for file in (tmp_path / "cache").rglob("*") if file.is_file()}


@pytest.mark.full
@pytest.mark.parametrize("name", ["softmax", "gemm_tiled"])
def test_launches_of_programs_are_known(
    name: str, executables: dict[str, Path | BuildError], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    executable = executables[name]
    assert isinstance(executable, Path), str(executable)
    _, file = run(tmp_path, [executable])
    picture = tmp_path / "coverage.svg"
    found = coverage(file, capsys, "--svg", str(picture))
    assert found["coverage"]["share"] >= 0.99
    assert found["coverage"]["launches"] == sum(each["launches"] for each in found["functions"]) > 0
    assert all(each["evaluated"] for each in found["functions"])
    assert picture.read_text().count("<g>") == len(found["functions"])
    assert main(["analyze", "--trace", str(file), "--coverage"]) == 0
    assert "launches have known ranges (100 %)" in capsys.readouterr().out


@pytest.mark.full
def test_accesses_of_programs_with_line_numbers_are_tested(
    executables: dict[str, Path | BuildError], tmp_path: Path
) -> None:
    """The first run leaves its analyses to the second."""
    executable = executables["scan_line_numbers"]
    assert isinstance(executable, Path), str(executable)
    for code in (EXIT_CODE, 0):
        stats, _ = run(tmp_path, [executable], "--check-accesses", code=code)
    check = stats["check"]
    assert check["untested"] == {}
    assert check["checked"] == check["tested_launches"] == check["known"] > 0
    assert check["tested"] > 1000


@pytest.mark.full
def test_code_in_a_file_is_not_copied_and_its_changes_are_noticed(
    executables: dict[str, Path | BuildError], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    built = executables["vector_add"]
    assert isinstance(built, Path), str(built)
    executable = Path(shutil.copy(built, tmp_path / "program"))
    _, file = run(tmp_path, [executable])
    loaded = trace.load(file)
    (place,) = loaded.processes[0].code.values()
    assert (place.path, loaded.code) == (str(executable), {})
    content = bytearray(executable.read_bytes())
    content[place.offset + place.size // 2] ^= 1
    executable.write_bytes(content)
    assert list(coverage(file, capsys)["coverage"]["by_reason"]) == [
        "the analysis failed: ValueError('the file with the code has changed')"
    ]
    executable.unlink()
    assert main(["analyze", "--clear-cache"]) == 0
    assert list(coverage(file, capsys)["coverage"]["by_reason"]) == ["its code's file has gone or changed"]
