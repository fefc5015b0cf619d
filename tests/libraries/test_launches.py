"""Launches inside calls, on an emulated GPU: the bytes that are touched are those that the call names."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.command import TESSERA_RUN
from tests.libraries.guest import CALLS
from tests.libraries.stand_ins import build
from tests.policy.run import TIMEOUT_S, environment

HERE = Path(__file__).parent
POLICY = """version: 1
devices: {home: 0, executors: [1]}
rules:
  - {match: {library_call: "cublas*"}, device: home}
"""


def bytes_of(intervals: list[tuple[int, int]]) -> set[int]:
    return {byte for begin, end in intervals for byte in range(begin, end)}


def test_launches_touch_the_operands_of_their_calls(native_build: Path, tmp_path: Path) -> None:
    policy, trace = tmp_path / "policy.yaml", tmp_path / "accesses"
    policy.write_text(POLICY)
    build(tmp_path, (native_build / "native" / "include" / "tessera" / "library_calls.h").read_text())
    done = subprocess.run(
        [
            *(str(TESSERA_RUN), "--emulate", "2", "--policy", str(policy), "--"),
            *(sys.executable, str(HERE / "guest.py"), str(tmp_path)),
        ],
        text=True,
        capture_output=True,
        env={**environment(native_build), "TESSERA_ACCESS_TRACE": str(trace)},
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    predicted = [json.loads(line) for line in done.stdout.splitlines()]
    traced = [json.loads(line) for line in trace.read_text().splitlines()]
    assert len(predicted) == len(traced) == CALLS
    for named, touched in zip(predicted, traced, strict=True):
        work = set(range(*named["work"]))
        for kind in ("reads", "writes"):
            assert bytes_of(touched[kind]) <= set(named[kind])
            assert bytes_of(touched[kind]) - work == set(named[kind]) - work
        assert work <= set(named["writes"])
        assert not touched["atomics"]
