"""Python programs on an emulated machine, alone or under a policy: what they print, and what tessera-run reports."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.command import TESSERA_RUN, with_native

ALL_GPUS = ("--gpus", "all")
TRIES = 3  # other work on the machine makes a run look slower
LEARNING = 6  # runs at most until what a program loads is analysed: on a busy machine it may end before


@dataclass(frozen=True, slots=True)
class Machine:
    """gpu: what each has that its model has not, beside: another GPU, both as YAML; link, model: of the catalogue."""

    gpus: int = 2
    gpu: str = ""
    link: str = "nvlink4"
    beside: str = ""
    model: str = "h200"

    def text(self) -> str:
        more = f", {self.gpu}" if self.gpu else ""
        beside = f"  - {self.beside}\n" if self.beside else ""
        return f"devices:\n  - {{gpu: {self.model}, count: {self.gpus}{more}}}\n{beside}link: {self.link}\n"


@dataclass(frozen=True, slots=True)
class Ran:
    output: str
    errors: str
    report: dict[str, Any]

    @property
    def lines(self) -> list[str]:
        return self.output.splitlines()

    @property
    def virtual_ns(self) -> int:
        return int(self.report["virtual_ns"])

    @property
    def by_device(self) -> dict[str, int]:
        """Launches by GPU."""
        counts: dict[str, int] = self.report["launches"]["by_device"]
        return counts

    @property
    def graphs(self) -> dict[str, int]:
        """Launches of graphs by GPU."""
        counts: dict[str, int] = self.report.get("graph_launches", {})
        return counts

    @property
    def graphs_away(self) -> int:
        return sum(count for gpu, count in self.graphs.items() if gpu != "0")

    @property
    def knew_all(self) -> bool:
        """What its functions touch was known from the beginning. An earlier run may have ended before it was found."""
        analysis = self.report["analysis"]
        return bool(analysis["cached"] == analysis["functions"])

    @property
    def pulled_bytes(self) -> int:
        return sum(self.report["memory_copies"]["pulled_bytes"].values())

    @property
    def remote_bytes(self) -> int:
        return sum(device["remote_bytes"] for device in self.report["devices"])


def is_analysed(report: dict[str, Any]) -> bool:
    """All functions of the run: the next one knows them from the beginning."""
    analysis = report["analysis"]
    return bool(analysis["known"] + analysis["unknown"] == analysis["functions"])


def until_analysed(run: Callable[[], Ran]) -> Ran:
    """The first run at whose end all of its functions are known, or in which nobody asks for that."""
    for _ in range(LEARNING):
        ran = run()
        if "memory_copies" not in ran.report or is_analysed(ran.report):
            return ran
    raise AssertionError(f"not analysed after {LEARNING} runs: {ran.report['analysis']}")


def until_known(run: Callable[[], Ran], lines: Sequence[str]) -> Ran:
    """The first run that knew all of its functions from the beginning. All print these lines."""
    for _ in range(LEARNING):
        ran = run()
        assert ran.lines == lines
        if ran.knew_all:
            return ran
    raise AssertionError(f"not known after {LEARNING} runs: {ran.report['analysis']}")


def rules_of(rules: Sequence[str]) -> str:
    """A policy's rules, a line of YAML each."""
    return "rules:\n" + "".join(f"  - {rule}\n" for rule in rules)


def with_copies(gpus: int, rules: str, order: str = "data", first: str = "1") -> str:
    """A policy under which each GPU has copies of memory; first: how it names the first executor."""
    executors = ", ".join([first, *map(str, range(2, gpus))])
    head = f"version: 1\ndevices: {{home: 0, executors: [{executors}]}}\n"
    return f"{head}memory: {{place: copies}}\norder: {order}\n{rules}"


def command(place: Path, machine: Machine, program: Sequence[object], options: Sequence[str], policy: str) -> list[str]:
    """program: a Python file and its arguments; policy: its text, or "": none. Writes to the place what it names."""
    (place / "machine.yaml").write_text(machine.text())
    words = ["--emulate", str(place / "machine.yaml"), "--json", str(place / "report.json"), *options]
    if policy:
        (place / "policy.yaml").write_text(policy)
        words += ["--policy", str(place / "policy.yaml")]
    return [str(TESSERA_RUN), *words, "--", sys.executable, *map(str, program)]


def environment(native: Path, place: Path, variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """What is analysed in one run is known in the next one of the same place."""
    return {**with_native(native), "XDG_CACHE_HOME": str(place / "cache"), **(variables or {})}


def run(
    native: Path,
    place: Path,
    machine: Machine,
    program: Sequence[object],
    options: Sequence[str] = (),
    *,
    policy: str = "",
    variables: Mapping[str, str] | None = None,
    summary: bool = False,
    timeout_s: float = 100,
) -> Ran:
    """Raises RuntimeError with what it said if it does not end well."""
    done = subprocess.run(
        command(place, machine, program, [*([] if summary else ["--no-summary"]), *options], policy),
        text=True,
        capture_output=True,
        env=environment(native, place, variables),
        timeout=timeout_s,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{program[0]} ended with {done.returncode}:\n{done.stderr[-4000:]}")
    return Ran(done.stdout, done.stderr, json.loads((place / "report.json").read_text()))
