"""Events behind, or before, all streams of a context cover what runs elsewhere."""

from pathlib import Path

import pytest

from tests.emulated import Machine, run
from tests.sample import sampled

GUEST = Path(__file__).with_name("context_events_guest.py")
RULES = 'rules:\n  - {match: {function: "*"}, device: 1}\n'
POLICY = "version: 1\ndevices: {home: 0, executors: [1]}\nmemory: {place: home}\n" + RULES


@pytest.mark.parametrize("context", sampled(["green", "whole"], ["green"]))
def test_a_context_s_event_covers_what_runs_elsewhere(context: str, native_build: Path, tmp_path: Path) -> None:
    native, program = native_build / "native", (GUEST, context)
    alone = run(native, tmp_path, Machine(1), program, timeout_s=60)
    ran = run(native, tmp_path, Machine(2), program, policy=POLICY, timeout_s=60)
    assert ran.lines == alone.lines
    assert ran.by_device["1"] == 3
