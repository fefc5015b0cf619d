"""A graph that is cut is one step of its stream to other threads, as one that is not."""

from itertools import product
from pathlib import Path

import pytest

from tests.graphs.settings import Setting, run
from tests.sample import sampled

GUEST = Path(__file__).parent / "step_guest.py"
ROUNDS = 24


@pytest.mark.parametrize(
    ("what", "order"),
    sampled(
        [*product(("kernel", "copy", "legacy", "graph"), ("data", "stream"))],
        [("copy", "stream"), ("graph", "data")],
    ),
)
def test_nothing_of_other_threads_comes_between_parts(
    what: str, order: str, native_build: Path, tmp_path: Path
) -> None:
    """The parts are elsewhere, and the events between them at home. A first run learns what they touch."""
    native, program = native_build / "native", (GUEST, ROUNDS, what)
    setting = Setting(rules="default: 1", order=order)
    run(native, tmp_path, program, setting)
    ran = run(native, tmp_path, program, setting)
    assert ran.lines == ["0"]
    assert ran.graphs["1"] > 8 * ROUNDS
