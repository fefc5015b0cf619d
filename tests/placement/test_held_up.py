"""A program gives memory back while work elsewhere waits for what it does only afterwards."""

from itertools import product
from pathlib import Path

import pytest

from tests import emulated
from tests.sample import sampled

GUEST = Path(__file__).with_name("held_up_guest.py")
HEAD = "version: 1\ndevices: {home: 0, executors: [1]}\nmemory: {place: home}\n"
RULES = HEAD + 'rules:\n  - {match: {function: "*"}, device: 1}\n'
TIMEOUT_S = 60


@pytest.mark.parametrize(
    ("way", "held"),
    sampled([*product(("unmap", "free", "host"), ("wait", "kernel"))], [("unmap", "kernel"), ("free", "wait")]),
)
def test_what_is_held_up_holds_up_nothing_else(way: str, held: str, native_build: Path, tmp_path: Path) -> None:
    native, program = native_build / "native", (GUEST, held, way)
    alone = emulated.run(native, tmp_path, emulated.Machine(1), program, timeout_s=TIMEOUT_S)
    ran = emulated.run(native, tmp_path, emulated.Machine(2), program, policy=RULES, timeout_s=TIMEOUT_S)
    assert ran.output == alone.output
    assert ran.by_device["1"] > 0


@pytest.mark.alone
def test_a_lane_goes_on_while_a_module_is_unloaded(native_build: Path, tmp_path: Path) -> None:
    """The driver waits for a kernel, and that for a later launch."""
    native, program = native_build / "native", (Path(__file__).with_name("held_unload_guest.py"),)
    ran = emulated.run(native, tmp_path, emulated.Machine(2), program, policy=RULES, timeout_s=TIMEOUT_S)
    assert ran.output == "right\n"
    assert ran.by_device["0"] == 0
