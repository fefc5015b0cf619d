"""The matrix: every end-to-end program on every machine under every policy, compared byte for byte with a bare run.

Launches are counted twice, by the shim and by the emulated GPUs: one that stays home without a reason is a difference.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.command import TESSERA_RUN, with_native

TIMEOUT_S = 180
SEEDS = 20

# Launches that stay home under "all on GPU 1", by reason. All others run there.
KEPT: Mapping[str, Mapping[str, int]] = {
    "constant_memory": {"variable": 1},
    "device_calls": {"code": 2},
    "device_calls_unoptimised": {"address": 2, "code": 2},
    "device_printf": {"printf": 1},
    "device_reset": {"variable": 16, "executor": 3},  # a child's executor has failed with its first launch
    "driver_functions": {"variable": 4},
    "driver_launch": {"variable": 4},
    "driver_vmm_growth": {"variable": 1},
    "graph_capture": {"capture": 6},
    "left_addresses": {"address": 5, "code": 6, "heap": 2, "variable": 4},
    "managed_memory": {"memory_managed": 2},
    "pinned_mapped": {"memory_registered": 1},
    "pointers": {"variable": 2},
}
SAME_AS = {
    "constant_memory_per_thread",
    *(f"{name}_runtime12" for name in ("graph_capture", "managed_memory", "pinned_mapped")),
}
# Launches that are given no memory, only null or wild pointers: they may run anywhere.
WITHOUT_MEMORY: Mapping[str, int] = {"device_reset": 1, "faults": 2}
# Programs with launches that end in an error: the shim counts what it sends, a GPU what runs to its end.
FAILING_LAUNCHES: Mapping[str, int] = {"device_reset": 1, "faults": 5}


@dataclass(frozen=True, slots=True)
class Machine:
    gpus: int
    peer: bool

    @property
    def name(self) -> str:
        return f"{self.gpus} GPUs" + ("" if self.peer else ", no peer access")

    def file(self, folder: Path) -> Path:
        path = folder / f"machine-{self.gpus}-{self.peer}.yaml"
        link = "" if self.peer else "link: pcie5-no-peer\n"
        path.write_text(f"devices:\n  - {{gpu: h200, count: {self.gpus}}}\n{link}")
        return path


@dataclass(frozen=True, slots=True)
class Placing:
    """A policy by name: `one`, `half`, `name`, `random-SEED` or `drawn-SEED`; `NAME+PLACE`: with memory placed so.

    random-: a share of the launches, drawn by that seed. drawn-: so are the rules themselves.
    """

    name: str

    def rules(self, gpus: int) -> list[str]:
        executors = range(1, gpus)
        rules, _, _ = self.name.partition("+")
        if rules == "one":
            return ['{match: {function: "*"}, device: 1}']
        if rules == "half":
            every = 2 * len(executors)
            return [f"{{match: {{nth: {{every: {every}, offset: {2 * k - 1}}}}}, device: {k}}}" for k in executors]
        if rules == "name":
            return [
                '{match: {function_regex: "^(_Z[0-9]*)?[a-m]"}, device: 1}',
                f'{{match: {{function: "*"}}, device: {gpus - 1}}}',
            ]
        if rules.startswith("drawn-"):
            return drawn_rules(int(rules.removeprefix("drawn-")), gpus)
        seed = int(rules.removeprefix("random-"))
        return [
            f"{{match: {{share: {{fraction: {1 / (gpus - k + 1)}, seed: {seed * 16 + k}}}}}, device: {k}}}"
            for k in executors
        ]

    def file(self, folder: Path, gpus: int) -> Path:
        path = folder / f"policy-{self.name}-{gpus}.yaml"
        rules = "".join(f"  - {rule}\n" for rule in self.rules(gpus))
        _, _, memory = self.name.partition("+")
        place = f"memory: {{place: {memory or 'follow'}}}\n"
        devices = f"devices: {{home: 0, executors: {list(range(1, gpus))}}}\n"
        path.write_text(f"version: 1\n{devices}{place}rules:\n{rules}default: home\n")
        return path


def drawn_rules(seed: int, gpus: int) -> list[str]:
    """One to three rules of any sort, and one by which some launches surely run on GPU 1."""
    rng = random.Random(seed)

    def device() -> int:
        return rng.randrange(gpus)

    def letters() -> str:
        first, last = sorted(rng.sample("abcdefghijklmnopqrstuvwxyz", 2))
        return f"[{first}-{last}]"

    sorts: list[Callable[[], str]] = [
        lambda: f"{{match: {{share: {{fraction: {rng.uniform(0.1, 0.6):.2f}, seed: {seed}}}}}, device: {device()}}}",
        lambda: f"{{match: {{nth: {{every: {2 + rng.randrange(5)}, offset: 1}}}}, device: {device()}}}",
        lambda: f'{{match: {{function_regex: "^(_Z[0-9]*)?{letters()}"}}, device: {device()}}}',
        lambda: f'{{match: {{function: "*{letters()}", nth: {{every: 2}}}}, device: by_stream}}',
        lambda: f"{{match: {{nth: {{every: 3, offset: {rng.randrange(3)}}}}}, device: by_thread}}",
    ]
    found = [rng.choice(sorts)() for _ in range(rng.randint(1, 3))]
    rest = f"{{match: {{share: {{fraction: {rng.uniform(0.2, 0.9):.2f}, seed: {seed + 1000}}}}}, device: 1}}"
    return [*found, rest]


MACHINES = tuple(Machine(gpus, peer) for gpus in (2, 4) for peer in (True, False))


def placings(seeds: int = SEEDS) -> Iterator[Placing]:
    yield from (Placing("one"), Placing("half"), Placing("name"))
    yield from (Placing(f"random-{seed}") for seed in range(1, seeds + 1))


@dataclass(frozen=True, slots=True)
class Ran:
    code: int
    output: bytes
    errors: str
    report: dict[str, Any]

    @property
    def by_gpu(self) -> list[int]:
        """Launches as the emulated GPUs count them."""
        return [int(device["launches"]) for device in self.report.get("devices", [])]


@dataclass(frozen=True, slots=True)
class Result:
    program: str
    machine: str
    policy: str
    away: int
    kept: Mapping[str, int]
    faults: list[str] = field(default_factory=list)


def run(executable: Path, machine: Machine, placing: Placing | None, native: Path | None, folder: Path) -> Ran:
    report = folder / "report.json"
    report.unlink(missing_ok=True)
    command = [str(TESSERA_RUN), "--emulate", str(machine.file(folder))]
    policy = [] if placing is None else ["--policy", str(placing.file(folder, machine.gpus))]
    environment = os.environ if native is None else with_native(native)
    try:
        done = subprocess.run(
            [*command, "--json", str(report), *policy, "--", str(executable)],
            capture_output=True,
            env=environment,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Ran(124, b"", f"no end after {TIMEOUT_S} s", {})
    data = json.loads(report.read_text()) if report.exists() else {}
    return Ran(done.returncode, done.stdout, done.stderr.decode(errors="replace"), data)


def compare(program: str, machine: Machine, placing: Placing, bare: Ran, placed: Ran) -> Result:
    """What is not as it must be."""
    launches = placed.report.get("launches", {})
    by_device = {int(gpu): int(count) for gpu, count in launches.get("by_device", {}).items()}
    reasons = dict(placed.report.get("kept_home_by_reason", {}))
    kept = {reason: count for reason, count in reasons.items() if not reason.startswith("graph_")}  # not of graphs
    away = sum(by_device.get(gpu, 0) - bare.by_gpu[gpu] for gpu in range(1, machine.gpus)) if by_device else 0
    faults = [text for text, bad in _checks(program, machine, placing, bare, placed, by_device, kept, away) if bad]
    return Result(program, machine.name, placing.name, away, kept, faults)


def _checks(
    program: str,
    machine: Machine,
    placing: Placing,
    bare: Ran,
    placed: Ran,
    by_device: dict[int, int],
    kept: dict[str, int],
    away: int,
) -> Iterator[tuple[str, bool]]:
    yield f"exit code {placed.code}, bare {bare.code}: {placed.errors[-400:]}", placed.code != bare.code
    yield f"output {placed.output[-400:]!r}, bare {bare.output[-400:]!r}", placed.output != bare.output
    yield f"launches by GPU {placed.by_gpu}, bare {bare.by_gpu}", sum(placed.by_gpu) != sum(bare.by_gpu)
    counted = [by_device.get(gpu, 0) for gpu in range(1, machine.gpus)]
    failed = [sent - ran for sent, ran in zip(counted, placed.by_gpu[1:], strict=True)]
    differ = min(failed) < 0 or sum(failed) > FAILING_LAUNCHES.get(program, 0)
    yield f"the shim counts {counted} launches on further GPUs, they themselves {placed.by_gpu[1:]}", differ
    reasons = placed.report.get("kept_home_by_reason", {})
    graphs = sum(count for reason, count in reasons.items() if reason.startswith("graph_"))
    total = placed.report.get("launches", {}).get("kept_home", 0) - graphs
    yield f"{total} launches kept home, reasons {kept}", total != sum(kept.values())
    if placing.name != "one":
        return
    at_home, ran = by_device.get(0, 0), total - kept.get("capture", 0)
    yield f"{at_home} launches at home, {ran} with a reason", at_home != ran
    base = program.removesuffix("_per_thread").removesuffix("_runtime12") if program in SAME_AS else program
    expected = KEPT.get(base, {})
    if machine.peer:
        yield f"kept home {kept}, expected {dict(expected)}", kept != expected
    else:
        yield f"{away} launches on GPUs that cannot reach their memory", away != WITHOUT_MEMORY.get(program, 0)
