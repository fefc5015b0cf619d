"""Random programs over streams, events, copies and launches, against an interpreter: see program.h and main.c."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.command import TESSERA_RUN, with_native

ROOT = Path(__file__).parents[2]
CORPUS = sorted((ROOT / "tests" / "corpus" / "streams").glob("*.txt"))
POLICY = """version: 1
devices: {home: 0, executors: [1, 2]}
rules:
  - {match: {function: k_one}, device: 1}
  - {match: {function: k_two}, device: 2}
default: home
"""
FOLLOW = "memory: {place: follow}\n"
SEED, PROGRAMS = 20_000, 600


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY + FOLLOW)
    return path


def run(native_build: Path, options: list[str], arguments: list[str], program: str = "stream_model") -> str:
    command = [str(TESSERA_RUN), "--emulate", "3", *options, "--", str(native_build / "model" / program)]
    environment = with_native(native_build / "native")
    done = subprocess.run(
        [*command, *arguments], text=True, capture_output=True, env=environment, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.full
def test_the_emulator_agrees_with_the_interpreter(native_build: Path) -> None:
    said = run(native_build, [], ["--seed", str(SEED), "--programs", str(PROGRAMS)])
    assert f"{PROGRAMS} programs, 0 differ" in said


def test_launches_on_other_gpus_change_nothing(native_build: Path, policy: Path) -> None:
    said = run(native_build, ["--policy", str(policy)], ["--seed", str(SEED), "--programs", str(PROGRAMS)])
    assert f"{PROGRAMS} programs, 0 differ" in said
    assert re.search(r"^ +1 +[1-9]\d{3}$", said, re.MULTILINE), f"no launches ran elsewhere:\n{said}"
    assert re.search(r"followed their stream: GPU 1: \d\d", said), f"no copies ran elsewhere:\n{said}"


@pytest.mark.full
def test_memory_that_moves_all_the_time_changes_nothing(native_build: Path, tmp_path: Path) -> None:
    moving = tmp_path / "moving.yaml"
    moving.write_text(POLICY + "memory: {place: follow, move_after: 0}\n")
    said = run(native_build, ["--policy", str(moving)], ["--seed", "30000", "--programs", "150"])
    assert "150 programs, 0 differ" in said
    moves = re.search(r"(\d+) times memory moved", said)
    assert moves, said
    assert int(moves[1]) >= 50, said


def test_what_differed_once(native_build: Path, policy: Path) -> None:
    assert len(CORPUS) >= 4
    said = run(native_build, ["--policy", str(policy)], [str(path) for path in CORPUS])
    assert f"{len(CORPUS)} programs, 0 differ" in said


@pytest.mark.full
def test_more_streams_than_slots(native_build: Path, policy: Path) -> None:
    said = run(native_build, ["--policy", str(policy)], [], "many_streams")
    assert said.startswith("right\n")
    assert re.search(r"^ +1 +[1-9]\d{3}$", said, re.MULTILINE), f"no launches ran elsewhere:\n{said}"


@pytest.mark.full
@pytest.mark.parametrize("seed", range(3))
def test_threads_that_launch_by_turns_in_the_same_streams(native_build: Path, policy: Path, seed: int) -> None:
    said = run(native_build, ["--policy", str(policy)], ["40", str(seed)], "many_threads")
    assert said.startswith("right\n")
    assert re.search(r"^ +2 +[1-9]\d{3}$", said, re.MULTILINE), f"no launches ran elsewhere:\n{said}"


@pytest.mark.parametrize(
    "rest",
    [
        "",
        pytest.param("order: data\n", marks=pytest.mark.full),
        pytest.param("memory: {place: home}\n", marks=pytest.mark.full),
        pytest.param(FOLLOW, marks=pytest.mark.full),
    ],
)
def test_contexts_end_while_others_are_used(native_build: Path, tmp_path: Path, rest: str) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY + rest)
    said = ""
    for _ in range(3):  # what launches touch may not be known yet in the first run
        said = run(native_build, ["--policy", str(policy)], ["40"], "many_contexts")
        assert said.startswith("right\n")
        if re.search(r"^ +1 +[1-9]\d{3}$", said, re.MULTILINE):
            return
    pytest.fail(f"no launches ran elsewhere:\n{said}")
