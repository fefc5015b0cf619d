"""A stream that waits, with more launches behind it than a driver takes, stops nobody but who launches them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.command import TESSERA_RUN, with_native
from tests.sample import sampled

POLICY = 'version: 1\ndevices: {home: 0, executors: [1]}\nrules:\n  - {match: {function: "*"}, device: 1}\n'
QUEUE = 1024
BLOCKED_S = 60


@pytest.mark.parametrize(
    ("launches", "ruled", "deferred"),
    sampled(
        [(3000, False, False), (3000, True, False), (30_000, True, False), (3000, True, True), (30_000, True, True)],
        [(3000, False, False), (30_000, True, False), (3000, True, True)],
    ),
)
def test_other_streams_go_on(launches: int, ruled: bool, deferred: bool, native_build: Path, tmp_path: Path) -> None:
    """It is the second thread that lets the first one's stream go on. 30,000 launches do not fit into a lane; deferred
    ones are held up in a thread of their own, and those of the second thread are not behind them.
    """
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    options = ["--emulate", "2", "--no-summary", *(("--policy", str(policy)) if ruled else ())]
    with subprocess.Popen(
        [str(TESSERA_RUN), *options, "--", str(native_build / "fault" / "fault_queues"), str(launches)],
        env={
            **os.environ,
            **with_native(native_build / "native"),
            "TESSERA_QUEUE": str(QUEUE),
            "TESSERA_DEFER": str(int(deferred)),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        try:
            out, errors = running.communicate(timeout=BLOCKED_S)
        except subprocess.TimeoutExpired:
            running.terminate()
            pytest.fail("the streams wait for each other")
    assert (running.returncode, out) == (0, "right\n"), errors
