"""The scripts: each sub-command answers --help, the index is current, scripts that are named anywhere exist."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.commands.dispatch import names, purposes, run
from tests.command import with_native

ROOT = Path(__file__).parents[2]
ROOMS = ("lab", "hardware", "gen")
COMMANDS = [(room, name) for room in ROOMS for name in names(room)]
NAMED = re.compile(r"scripts/(lab|hardware|gen) ([a-z][a-z0-9-]*)")
PATH = re.compile(r"(?<![\w./])scripts/([\w./-]*\w)")


def script(*words: str, native: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = None if native is None else with_native(native)
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=False, env=environment)


def said() -> dict[str, str]:
    """Texts in which scripts are named; what changed once stands in the changelog as it was."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, text=True, capture_output=True, check=True)
    files = [name for name in listed.stdout.split() if name != "CHANGELOG.md"]
    read = (name for name in files if (ROOT / name).is_file() and not name.startswith("tests/corpus/"))
    return {name: (ROOT / name).read_text(errors="replace") for name in read}


@pytest.mark.parametrize(("room", "name"), COMMANDS, ids=[" ".join(each) for each in COMMANDS])
def test_a_command_says_how_it_is_used(room: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run(room, name, ["--help"])
    assert ended.value.code == 0
    assert f"usage: scripts/{room} {name}" in capsys.readouterr().out


@pytest.mark.parametrize("room", ROOMS)
def test_a_script_lists_its_commands(room: str) -> None:
    asked, bare, wrong = script(f"scripts/{room}", "--help"), script(f"scripts/{room}"), script(f"scripts/{room}", "no")
    assert (asked.returncode, bare.returncode, wrong.returncode) == (0, 2, 2)
    assert asked.stdout == bare.stdout
    assert "no such command: no" in wrong.stderr
    for name, text in purposes(room).items():
        assert text
        assert re.search(rf"^  {name} +{re.escape(text)}$", asked.stdout, re.MULTILINE)


def test_a_folder_stands_for_all_that_gpus_confirm() -> None:
    assert "usage: scripts/hardware all" in script("scripts/hardware", "build/", "--help").stdout


def test_the_index_is_current() -> None:
    assert script("scripts/gen", "index", "--check").returncode == 0, "scripts/gen index"


def test_scripts_that_are_named_exist() -> None:
    known = {f"{room} {name}" for room, name in COMMANDS}
    wrong = []
    for file, text in said().items():
        commands = {f"{room} {name}" for room, name in NAMED.findall(text)} - known
        places = {place for place in PATH.findall(text) if not (ROOT / "scripts" / place).exists()}
        wrong += [f"{file}: scripts/{each}" for each in sorted(commands | places)]
    assert wrong == []


@pytest.mark.full
def test_the_evaluators_benchmark_builds_and_runs(tmp_path: Path, native_build: Path) -> None:
    result = tmp_path / "times.json"
    words = ("--random", "1", "--repeat", "1", "--build", str(native_build), "--json", str(result))
    done = script("scripts/bench/evaluator", *words, "tests/corpus/ptx/nvcc_scan.ptx")
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(json.loads(result.read_text())) == {"memo", "no memo", "no memo, warm", "in the shim", "in a later run"}


def test_the_schedules_benchmark_tells_the_ways_apart(tmp_path: Path, native_build: Path) -> None:
    """Requests that are chains, written to the same memory: round robin and the rule win, by as much."""
    chain = [
        [0, 20.0, "code", [["read", at, at + 64, False], ["write", at + 64, at + 128, False]]]
        for at in range(0, 6400, 64)
    ]
    first = [0, 20.0, "code", [["write", 0, 64, False]]]
    request = [first, *chain]
    recorded = {"functions": ["k"], "markers": [101 * turn for turn in range(21)], "launches": request * 20 + [first]}
    file, result = tmp_path / "requests.json", tmp_path / "rows.json"
    file.write_text(json.dumps(recorded))
    words = ("--gpus", "2", "--json", str(result), str(file))
    done = script("scripts/bench/schedule", *words, native=native_build / "native")
    assert done.returncode == 0, done.stdout + done.stderr
    for row in json.loads(result.read_text()):
        assert row["gains"]["home"] == 1.0
        assert row["gains"]["robin"] > 1.9
        assert row["gains"]["rule"] > 1.8
        assert row["least"] > 0.93
