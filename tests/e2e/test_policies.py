"""Unmodified programs under policies that spread launches over GPUs: same output, each launch where the policy says."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from controlplane.policy.decide import Decider, Launch
from controlplane.policy.read import read_policy
from tests.command import TESSERA_RUN, with_native
from tests.e2e.build import BuildError
from tests.sample import sampled

TIMEOUT_S = 120
HEAD = "version: 1\ndevices: {{home: 0, executors: [{executors}]}}\nmemory: {{place: follow}}\nrules:\n"
EVERY_SECOND = HEAD.format(executors="1") + "  - {match: {nth: {every: 2, offset: 1}}, device: 1}\n"
BY_NAME = (
    HEAD.format(executors="1, 2, 3")
    + '  - {match: {function: "*[aeiou]*", function_regex: "^_Z[0-9]+[a-k]"}, device: 3}\n'
    + '  - {match: {function_regex: "^_Z[0-9]+[l-s]"}, device: 1}\n'
)
PROGRAMS = (
    "async_copy",
    "atomics",
    "fft",
    "histogram",
    "pitched_copies",
    "scan",
    "sort_radix",
    "stream_ordered_memory",
    "streams_events",
    "transpose",
)
SAMPLE = ("sort_radix",)


def at_random(seed: int) -> str:
    """A quarter of the launches on each of four GPUs, as the seed says."""
    parts = ((1, 0.25), (2, 1 / 3), (3, 0.5))
    shares = ((gpu, f"{{fraction: {part}, seed: {seed}}}") for gpu, part in parts)
    rules = (f"  - {{match: {{share: {share}}}, device: {gpu}}}\n" for gpu, share in shares)
    return HEAD.format(executors="1, 2, 3") + "".join(rules)


class Runner:
    """Runs one program, bare and under policies."""

    def __init__(self, executable: Path | BuildError, native_build: Path, directory: Path) -> None:
        assert isinstance(executable, Path), str(executable)
        self._executable, self._directory = executable, directory
        self._environment = with_native(native_build / "native")
        self.bare, counted = self._run("--emulate", "1")
        self._made = {str(kernel["name"]): int(str(kernel["launches"])) for kernel in counted["kernels"]}

    def _run(self, *options: str) -> tuple[str, dict[str, list[dict[str, object]]]]:
        report = self._directory / "report.json"
        done = subprocess.run(
            [str(TESSERA_RUN), "--json", str(report), *options, "--", str(self._executable)],
            text=True,
            capture_output=True,
            env=self._environment,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout, json.loads(report.read_text())

    def check(self, text: str, gpus: int) -> Counter[int]:
        """Output and places are as they should be; launches by GPU."""
        file = self._directory / "policy.yaml"
        file.write_text(text)
        out, counted = self._run("--emulate", str(gpus), "--policy", str(file))
        assert out == self.bare
        policy = read_policy(file)
        decider, expected = Decider(policy), Counter[tuple[str, int]]()
        for name, count in self._made.items():
            for _ in range(count):
                place = decider.decide(Launch(name))
                expected[name, policy.default if place is None else policy.rules[place].device] += 1
        assert Counter({(k["name"], k["device"]): k["launches"] for k in counted["kernels"]}) == expected
        by_device = Counter[int]()
        for (_, gpu), count in expected.items():
            by_device[gpu] += count
        return by_device


@pytest.fixture
def runner(
    request: pytest.FixtureRequest, executables: dict[str, Path | BuildError], native_build: Path, tmp_path: Path
) -> Runner:
    return Runner(executables[request.param], native_build, tmp_path)


@pytest.mark.parametrize(
    "runner",
    sampled(PROGRAMS, SAMPLE),
    indirect=True,
)
def test_programs_under_three_policies(runner: Runner) -> None:
    assert runner.check(EVERY_SECOND, 2)[1] > 0
    runner.check(BY_NAME, 4)
    runner.check(at_random(0), 4)


@pytest.mark.full
@pytest.mark.parametrize("seeds", [6, 20])
@pytest.mark.parametrize("runner", ["sort_radix", "streams_events"], indirect=True)
def test_launches_at_random(runner: Runner, seeds: int) -> None:
    total = sum((runner.check(at_random(seed), 4) for seed in range(1, seeds + 1)), Counter[int]())
    assert all(total[gpu] > 0 for gpu in range(4))
