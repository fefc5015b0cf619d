"""Random programs (program.h) with launches on other GPUs, against the same without: scripts/lab random-programs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from tests.command import TESSERA_RUN

PATIENCE_PER_PROGRAM, LEAST_SECONDS = 1 / 15, 120.0  # on average a program takes a fraction of the patience
ALONE = 3  # times that a seed which failed is run alone
PROGRAM_LINE = re.compile(r"^(\d+) ([0-9a-f]{16})$", re.MULTILINE)
DONE_LINE = re.compile(r"^done:(.*)$", re.MULTILINE)
NO_ROOM = "has no room for more copies"
BAD_LINE = re.compile(r"^(\d+) ((?:error|hang).*)$", re.MULTILINE)
NONE = "none"
CHECKED_NOTHING = 3  # exit status of tessera-run


@dataclass(frozen=True, slots=True)
class Policy:
    """Rules, a line of YAML each, and the machine they are for; no rules: the program runs without a policy.

    `far_gib`: memory of the GPUs other than home; 0: as much as they have.
    """

    name: str
    gpus: int = 2
    rules: tuple[str, ...] = ()
    memory: str = "follow"
    options: tuple[str, ...] = ()
    link: str = ""
    far_gib: float = 0.0
    limit: str = ""  # of memory of each executor
    order: str = "stream"

    def files(self, folder: Path) -> list[str]:
        machine = folder / f"{self.name}-machine.yaml"
        link = f"link: {self.link}\n" if self.link else ""
        far = f", memory_gib: {self.far_gib}" if self.far_gib else ""
        gpus = f"  - {{gpu: h200, count: 1}}\n  - {{gpu: h200, count: {self.gpus - 1}{far}}}\n"
        machine.write_text(f"devices:\n{gpus}{link}")
        arguments = ["--emulate", str(machine), *self.options]
        if self.rules:
            policy = folder / f"{self.name}.yaml"
            limit = f", memory_limit: {self.limit}" if self.limit else ""
            executors = ", ".join(f"{{gpu: {gpu}{limit}}}" for gpu in range(1, self.gpus))
            rules = "".join(f"  - {rule}\n" for rule in self.rules)
            policy.write_text(
                f"version: 1\ndevices: {{home: 0, executors: [{executors}]}}\n"
                f"memory: {{place: {self.memory}}}\norder: {self.order}\nrules:\n{rules}default: home\n"
            )
            arguments += ["--policy", str(policy)]
        return arguments


DEVICE = re.compile(r"device: (\d+)")
VARIANT = re.compile(r"([a-z-]+)(?:\+([a-z0-9]+))?(?:@(\d))?((?::[a-z-]+)*)")
MACHINES: dict[str, dict[str, Any]] = {  # what is special about one, after the policy's name
    "no-peer": {"link": "pcie5-no-peer"},
    "pcie": {"link": "pcie5"},
    "full": {"far_gib": 0.0625},
    "limited": {"limit": "80MiB"},
}


def named(name: str) -> Policy | None:
    """`NAME[+PLACE][@GPUS][:MACHINE...]`: the policy with another place of memory, on so many GPUs; None: none is."""
    parts = VARIANT.fullmatch(name)
    machines = parts[4].split(":")[1:] if parts else []
    policy = POLICIES.get(parts[1]) if parts else None
    if parts is None or policy is None or (not policy.rules and (parts[2] or parts[3])):
        return None
    if not set(machines) <= set(MACHINES):
        return None
    changes = {key: value for each in machines for key, value in MACHINES[each].items()}
    gpus = int(parts[3] or policy.gpus)
    if gpus < 2:
        return None
    rules = tuple(DEVICE.sub(lambda found: f"device: {1 + (int(found[1]) - 1) % (gpus - 1)}", r) for r in policy.rules)
    return replace(policy, name=name, gpus=gpus, rules=rules, memory=parts[2] or policy.memory, **changes)


def _share(fraction: float, seed: int, device: int) -> str:
    return f"{{match: {{share: {{fraction: {fraction}, seed: {seed}}}}}, device: {device}}}"


ALL = '{match: {function: "*"}, device: 1}'
GIVEN = '{match: {function: "*"}, device: by_stream}'
BY_NAME = (
    "{match: {function: mix_a}, device: 1}",
    "{match: {function: mix_b}, device: 2}",
    '{match: {function: "[a-k]*"}, device: 1}',
    "{match: {function: peek}, device: 2}",
)
NTH = ("{match: {nth: {every: 3, offset: 1}}, device: 1}", "{match: {nth: {every: 3, offset: 2}}, device: 2}")
BY_STREAM = (
    "{match: {stream: default}, device: 1}",
    "{match: {stream: 1}, device: 2}",
    "{match: {stream: 3}, device: 1}",
    "{match: {stream: 5}, device: 2}",
)
SHARES = (_share(0.25, 1, 1), _share(0.33, 2, 2), _share(0.5, 3, 3))
POOL = "copies, pool: true, reserve: 143707MiB"  # 64 MiB of each GPU are in the pool
ALL_SHOWN = ("--show", "all")  # programs use the second GPU themselves, too
POLICIES = {
    policy.name: policy
    for policy in (
        Policy("all", rules=(ALL,)),
        Policy("name", 3, BY_NAME),
        Policy("nth", 3, NTH),
        Policy("share", 4, SHARES),
        Policy("stream", 3, BY_STREAM),
        Policy("moving", 3, NTH, "follow, move_after: 0"),
        Policy("moving-share", 4, SHARES, "follow, move_after: 0"),
        Policy("home", 2, (_share(0.5, 5, 1),), "home"),
        Policy("there", 3, (_share(0.5, 6, 1), _share(0.5, 7, 2)), "1"),
        Policy("copies", 2, ("{match: {nth: {every: 2, offset: 1}}, device: 1}",), "copies"),
        Policy("copies-nth", 3, NTH, "copies"),
        Policy("copies-share", 4, SHARES, "copies"),
        Policy("copies-stream", 3, BY_STREAM, "copies"),
        Policy("given", 3, (GIVEN,)),
        Policy("given-threads", 2, (GIVEN.replace("by_stream", "by_thread"),), "follow, move_after: 0"),
        Policy("copies-given", 3, (GIVEN,), "copies"),
        Policy("data", 2, ("{match: {nth: {every: 2, offset: 1}}, device: 1}",), "copies", order="data"),
        Policy("data-nth", 3, NTH, "copies", order="data"),
        Policy("data-share", 4, SHARES, "copies", order="data"),
        Policy("data-name", 3, BY_NAME, "copies", order="data"),
        Policy("data-limited", 3, NTH, "copies", limit="80MiB", order="data"),
        Policy("data-no-peer", 3, NTH, "copies", link="pcie5-no-peer", order="data"),
        Policy("pool", 3, NTH, POOL, order="data", options=ALL_SHOWN),
        Policy("pool-share", 4, SHARES, POOL, order="data", options=ALL_SHOWN),
        Policy("pool-stream", 3, BY_STREAM, POOL, options=ALL_SHOWN),
        Policy("copies-full", 3, NTH, "copies", far_gib=0.0625),
        Policy("copies-limited", 3, NTH, "copies", limit="80MiB"),
        Policy("no-peer", 2, (ALL,), link="pcie5-no-peer"),
        Policy("pcie", 3, NTH, link="pcie5"),
        Policy("verify", 2, (_share(0.7, 8, 1),), options=("--verify=5",)),
        Policy("copies-verify", 3, NTH, "copies", options=("--verify=5",)),
        Policy("check-writes", 2, (_share(0.5, 9, 1),), options=("--check-writes=20",)),
        Policy("stats", 3, NTH, options=("--stats=/dev/null",)),
        Policy("shim", options=("--shim",)),
        Policy(NONE),
    )
}


@dataclass(frozen=True, slots=True)
class Setting:
    """What runs of one campaign have in common."""

    build: Path  # a build tree with tests
    folder: Path
    without: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)  # of runs with a policy
    patience_s: int = 30

    @property
    def program(self) -> Path:
        return self.build / "random" / "random_programs"


@dataclass(slots=True)
class Ran:
    """One process: digests of the programs that ended, in order, and how it ended."""

    digests: list[tuple[int, str]]
    bad: str  # empty: all went well
    output: str
    report: dict[str, Any] = field(default_factory=dict)

    @property
    def never_began(self) -> bool:
        return not self.digests and self.bad.startswith("exit code") and not self.checked_nothing

    @property
    def checked_nothing(self) -> bool:
        """All programs ended well, and none had a launch that --verify or --check-writes looked at."""
        return self.bad == f"exit code {CHECKED_NOTHING}"


def run(setting: Setting, policy: Policy, arguments: Sequence[str], programs: int) -> Ran:
    """Runs the C program; its own hangs it ends itself."""
    limit_s = setting.patience_s + max(LEAST_SECONDS, PATIENCE_PER_PROGRAM * setting.patience_s * programs)
    late = False
    with tempfile.TemporaryDirectory(dir=setting.folder) as place:
        report = Path(place) / "report.json"
        command = [str(TESSERA_RUN), "--json", str(report), "--no-summary", *policy.files(Path(place)), "--"]
        without = ["--without", setting.without] if setting.without else []
        variables = {} if policy.name == NONE else setting.variables
        process = subprocess.Popen(
            [*command, str(setting.program), "--patience", str(setting.patience_s), *without, *arguments],
            env={**os.environ, "TESSERA_NATIVE": str(setting.build / "native"), **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            output, errors = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            late = True
            os.killpg(process.pid, signal.SIGKILL)
            output, errors = process.communicate()
        data: dict[str, Any] = json.loads(report.read_text() or "{}") if report.exists() else {}
    digests = [(int(seed), digest) for seed, digest in PROGRAM_LINE.findall(output)]
    bad = "" if process.returncode == 0 else f"exit code {process.returncode}"
    if late:
        bad += f" after {limit_s:.0f} s"
    if said := BAD_LINE.search(output):
        bad = said[2]
    return Ran(digests, bad, output + errors, data)


@dataclass(frozen=True, slots=True)
class Failure:
    seed: int
    policy: str
    what: str
    alone: int  # how often it failed again, run alone ALONE times
    chunk: int  # first seed of the process in which it failed
    output: str


@dataclass(slots=True)
class Row:
    """Sums of one policy."""

    programs: int = 0
    failed: int = 0
    launches: int = 0
    away: int = 0
    pulls: int = 0
    brought_home: int = 0
    unknown: int = 0
    full: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class Chunk:
    """`unknown`: launches that stayed home because it is not known what they touch. `full`: processes in which a GPU
    had no room for copies. `done`: what programs did, how often (run_report in tests/random/run.c).
    """

    programs: int
    failures: list[Failure]
    launches: int
    away: int
    pulls: int
    brought_home: int
    unknown: int
    full: int
    done: Counter[str]
    seconds: float


def _runs(setting: Setting, policy: Policy, first: int, programs: int) -> Iterator[tuple[int, Ran]]:
    """Processes until all programs were run: a bad one ends with the seed at fault, the next begins after it."""
    at = first
    while at < first + programs:
        ran = run(setting, policy, ["--seed", str(at), "--programs", str(first + programs - at)], programs)
        yield at, ran
        if ran.never_began:
            return
        at = ran.digests[-1][0] + 2 if ran.digests and ran.bad else at + 1 if ran.bad else first + programs


def fails_again(setting: Setting, policy: Policy, seed: int, digest: str) -> int:
    """How often the program fails alone."""
    failed = 0
    for _ in range(ALONE):
        ran = run(setting, policy, ["--seed", str(seed)], 1)
        failed += bool(ran.bad and not ran.checked_nothing) or ran.digests != [(seed, digest)]
    return failed


def run_chunk(setting: Setting, policy: Policy, first: int, programs: int) -> Chunk:
    started = time.monotonic()
    right: dict[int, str] = {}
    failures: list[Failure] = []
    for at, ran in _runs(setting, POLICIES[NONE], first, programs):
        right.update(ran.digests)
        if ran.bad:
            seed = ran.digests[-1][0] + 1 if ran.digests else at
            failures.append(Failure(seed, NONE, ran.bad, 0, at, ran.output[-2000:]))
    counted = away = pulls = brought_home = done = unknown = full = 0
    did = Counter[str]()
    for at, ran in _runs(setting, policy, first, programs):
        by_device = ran.report.get("launches", {}).get("by_device", {})
        counted += sum(by_device.values())
        away += sum(count for device, count in by_device.items() if device != "0")
        copies = ran.report.get("memory_copies") or {}
        pulls += sum(copies.get("pulls", {}).values())
        brought_home += copies.get("brought_home", 0)
        unknown += ran.report.get("kept_home_by_reason", {}).get("ranges", 0)
        full += NO_ROOM in ran.output
        for line in DONE_LINE.findall(ran.output):
            did.update({what: int(count) for what, count in (each.split("=") for each in line.split())})
        done += len(ran.digests)
        wrong = [
            (seed, f"{digest}, not {right[seed]}") for seed, digest in ran.digests if right.get(seed, digest) != digest
        ]
        if ran.bad:
            wrong.append((ran.digests[-1][0] + 1 if ran.digests else at, ran.bad))
        for seed, what in wrong:
            again = fails_again(setting, policy, seed, right.get(seed, ""))
            failures.append(Failure(seed, policy.name, what, again, at, ran.output[-2000:]))
    seconds = time.monotonic() - started
    return Chunk(done, failures, counted, away, pulls, brought_home, unknown, full, did, seconds)


@dataclass(slots=True)
class Campaign:
    rows: dict[str, Row] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)

    def add(self, policy: Policy, chunk: Chunk) -> None:
        row = self.rows.setdefault(policy.name, Row())
        row.programs += chunk.programs
        row.failed += len(chunk.failures)
        row.launches += chunk.launches
        row.away += chunk.away
        row.pulls += chunk.pulls
        row.brought_home += chunk.brought_home
        row.unknown += chunk.unknown
        row.full += chunk.full
        self.done += chunk.done
        row.seconds += chunk.seconds
        self.failures += chunk.failures

    @property
    def programs(self) -> int:
        return sum(row.programs for row in self.rows.values())


def run_campaign(
    setting: Setting,
    policies: Sequence[Policy],
    seeds: range,
    *,
    chunk: int = 100,
    jobs: int = 1,
    progress: Callable[[Campaign, list[Failure]], None] | None = None,
) -> Campaign:
    """Each program under one of the policies, in turn by chunks."""
    campaign = Campaign()
    pieces = [(policies[i % len(policies)], seeds[at : at + chunk]) for i, at in enumerate(range(0, len(seeds), chunk))]
    with ThreadPoolExecutor(jobs) as pool:
        chunks = pool.map(lambda piece: run_chunk(setting, piece[0], piece[1].start, len(piece[1])), pieces)
        for (policy, _), done in zip(pieces, chunks, strict=True):
            campaign.add(policy, done)
            if progress:
                progress(campaign, done.failures)
    return campaign


# Making a failing program small.

PARTS_AT_ONCE = 16
SAID = re.compile(r"^# (\d+\.\d+\.\d+) ", re.MULTILINE)


@dataclass(slots=True)
class Shrinker:
    """Leaves out operations as long as the program still fails in the same way in one of `tries` runs."""

    setting: Setting
    policy: Policy
    seed: int
    tries: int
    how: str = ""  # of the first failure: other bytes, hang, or an error's name

    def operations(self) -> list[str]:
        """Those that do something, in a run without a policy."""
        said = run(self.setting, POLICIES[NONE], ["--seed", str(self.seed), "--print"], 1).output
        most = int(run(self.setting, POLICIES[NONE], ["--seed", str(self.seed), "--describe"], 1).output.split()[6])
        return [name for name in dict.fromkeys(SAID.findall(said)) if int(name.split(".")[2]) < most]

    def fails(self, parts: Sequence[Sequence[str]]) -> int | None:
        """The first part that fails."""
        right = self._run(POLICIES[NONE], parts, 1)
        if right.bad:
            raise RuntimeError(f"without a policy: {right.bad}")
        for i, part in enumerate(parts):
            ran = self._run(self.policy, [part], self.tries)
            how = " ".join(ran.bad.split()[:2])
            if not how and any(digest != right.digests[i][1] for _, digest in ran.digests):
                how = "other bytes"
            self.how = self.how or how
            if how and how == self.how:
                return i
        return None

    def _run(self, policy: Policy, parts: Sequence[Sequence[str]], tries: int) -> Ran:
        only = [argument for part in parts for argument in ("--only", ",".join(part))]
        arguments = ["--seed", str(self.seed), "--repeat", str(tries), *only]
        return run(self.setting, policy, arguments, len(parts) * tries)

    def shrink(self, progress: Callable[[list[str]], None]) -> list[str] | None:
        """What is left; None: the whole does not fail."""
        left = self.operations()
        if self.fails([left]) is None:
            return None
        size = max(1, len(left) // 2)
        while True:
            smaller = self._without_some(left, size)
            if smaller is not None:
                left = smaller
                progress(left)
                size = min(size, max(1, len(left) // 2))
            elif size == 1:
                return left
            else:
                size //= 2

    def _without_some(self, left: list[str], size: int) -> list[str] | None:
        candidates = (left[:at] + left[at + size :] for at in range(0, len(left), size))
        while parts := list(islice(candidates, PARTS_AT_ONCE)):
            if (failing := self.fails(parts)) is not None:
                return parts[failing]
        return None
