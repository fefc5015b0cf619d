"""How programs that launch graphs are run: alone, under policies, or placed one by one."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.command import TESSERA_RUN, with_native

HERE = Path(__file__).parent
RANDOM, REPLAY = HERE / "random_guest.py", HERE / "replay_guest.py"
ALL = ("--gpus", "all")


@dataclass(frozen=True, slots=True)
class Way:
    """rules: of a policy with copies of memory; none: `options` alone. The GPUs are 0 to gpus - 1."""

    gpus: int = 2
    rules: tuple[str, ...] = ()
    order: str = "data"
    options: tuple[str, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)


HALF = "rules: [{match: {share: {fraction: 0.5, seed: 3}}, device: 1}]"
THIRDS = (
    "rules:\n  - {match: {share: {fraction: 0.33, seed: 5}}, device: 1}\n"
    "  - {match: {share: {fraction: 0.5, seed: 6}}, device: 2}"
)
PLACED = {"TESSERA_LEAD": "0"}
WAYS = {
    "away": Way(rules=("default: 1",)),
    "half": Way(rules=(HALF,)),
    "half in stream order": Way(rules=(HALF,), order="stream"),
    "thirds": Way(gpus=3, rules=(THIRDS,)),
    "streams": Way(gpus=4, rules=("default: by_stream",)),
    "placed": Way(options=ALL, variables=PLACED),
    "placed on four": Way(gpus=4, options=ALL, variables=PLACED),
}


@dataclass(frozen=True, slots=True)
class Ran:
    lines: list[str]
    report: dict[str, Any]

    @property
    def virtual_ns(self) -> int:
        ns: int = self.report["virtual_ns"]
        return ns

    @property
    def graphs(self) -> dict[str, int]:
        """Their launches, by GPU."""
        counts: dict[str, int] = self.report.get("graph_launches", {})
        return counts

    @property
    def away(self) -> int:
        return sum(count for gpu, count in self.graphs.items() if gpu != "0")


def run(
    native: Path, place: Path, program: list[str], way: Way | None = None, machine: str = "", disorder: int = 0
) -> Ran:
    """way: None: on one GPU, without a policy. machine: what a GPU has other than the catalogue's."""
    way = way or Way()
    described, policy, report = place / "machine.yaml", place / "policy.yaml", place / "report.json"
    described.write_text(f"devices:\n  - {{gpu: h200, count: {way.gpus}{machine}}}\nlink: nvlink4\n")
    executors = ", ".join(map(str, range(1, way.gpus)))
    policy.write_text(
        f"version: 1\ndevices: {{home: 0, executors: [{executors}]}}\nmemory: {{place: copies}}\norder: {way.order}\n"
        + "\n".join(way.rules)
    )
    words = ["--emulate", str(described), "--json", str(report), "--no-summary", *way.options]
    words += ["--policy", str(policy)] if way.rules else []
    done = subprocess.run(
        [str(TESSERA_RUN), *words, "--", sys.executable, *program],
        text=True,
        capture_output=True,
        env={
            **os.environ,
            **with_native(native),
            "XDG_CACHE_HOME": str(place / "cache"),
            "TESSERA_DISORDER": str(disorder),
            **way.variables,
        },
        timeout=300,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-2000:])
    return Ran(done.stdout.splitlines(), json.loads(report.read_text()))
