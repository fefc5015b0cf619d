"""Launches of one graph in two streams order all that the streams are given, wherever that runs."""

from pathlib import Path

import pytest

from tests.graphs.settings import Setting, run

IN_TURN = Path(__file__).parent / "in_turn_guest.py"
APART = Setting(
    gpus=3,
    rules=(
        'rules:\n  - {match: {function: "work"}, device: 2}\n  - {match: {function: "read"}, device: 2}\ndefault: 1\n'
    ),
)
ROUNDS = 6


@pytest.mark.parametrize(
    "what", ["", *(pytest.param(what, marks=pytest.mark.full) for what in ("capture", "destroy", "new", "threads"))]
)
def test_what_follows_comes_after_what_came_before(what: str, native_build: Path, tmp_path: Path) -> None:
    """Graph and kernels are on different GPUs. In disorder, after a run that learns what they touch."""
    native, program = native_build / "native", [IN_TURN, ROUNDS, *([what] if what else [])]
    alone = run(native, tmp_path, program)
    run(native, tmp_path, program, APART, disorder=1)
    ran = run(native, tmp_path, program, APART, disorder=2)
    assert ran.lines == alone.lines
    stay = ran.graphs.get("0", 0)
    assert (stay > 0) == (what == "new")  # during captures nobody asks whose a new stream is
    assert ran.graphs["1"] == 2 * ROUNDS - stay > ROUNDS
    assert ran.by_device["0"] == ran.by_device["1"] == 0
