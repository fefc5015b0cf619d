"""What ran where: the counters of the emulated machine and the policy after a run, as data, as JSON, for people."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from controlplane.base.demangle import short
from controlplane.base.tables import amount, duration, table
from controlplane.machine.emulate import Machine
from controlplane.machine.file import MachineFile
from controlplane.policy import Launches
from controlplane.policy.reasons import told
from controlplane.policy.table import Copies, Pool, Schedule

if TYPE_CHECKING:
    from controlplane.report.statistics import AnalysisReport, Report
    from controlplane.run.checks import CheckReport
    from controlplane.run.planned import Outcome as PlanOutcome

LARGEST_KERNELS = 20
NAME = 70  # letters of a kernel's
LEAST_GAIN = 0.02
MUCH_UNKNOWN = 0.05
PULLS = {
    "launch": "launches",
    "copy": "copies",
    "unknown": "work of which nothing is known",
    "given": "memory that others are given",
    "directory": "want of room to tell who holds what",
    "constant": "launches to come",
}
SHOWN_RULES = 10
NAME_BYTES = 111  # of a kernel in the machine's table


@dataclass(frozen=True, slots=True)
class DeviceLine:
    """device: number; busy_ns: virtual time its kernels ran; last_ns: virtual end of its last operation.

    local_bytes, remote_bytes: of its own and of other GPUs' memory that its kernels touched (controlplane/machine.py).
    """

    device: int
    name: str
    launches: int
    busy_ns: int
    last_ns: int
    local_bytes: int
    remote_bytes: int


@dataclass(frozen=True, slots=True)
class KernelLine:
    """virtual_ns: sum over the launches."""

    device: int
    name: str
    launches: int
    virtual_ns: int


@dataclass(frozen=True, slots=True)
class CopyLine:
    """Copies and memsets that a device took part in."""

    device: int
    copies: int
    copied_bytes: int


@dataclass(frozen=True, slots=True)
class Summary:
    """One run. The names of these fields, and of those of the lines, are the keys of the JSON output and stay."""

    processes: int
    virtual_ns: int
    devices: tuple[DeviceLine, ...]
    kernels: tuple[KernelLine, ...]
    copies: tuple[CopyLine, ...]


def collect(machine: Machine, file: MachineFile) -> Summary:
    """Kernels come in the order of device, then falling virtual time."""
    uses = file.devices()
    names = [gpu.name for gpu in machine.devices]
    kernels = sorted(file.kernels(), key=lambda row: (row.device, -row.virtual_ns, row.name))
    return Summary(
        file.processes,
        file.virtual_ns,
        tuple(
            DeviceLine(i, names[i], use.launches, use.busy_ns, use.last_ns, use.local_bytes, use.remote_bytes)
            for i, use in enumerate(uses)
        ),
        tuple(KernelLine(row.device, row.name, row.launches, row.virtual_ns) for row in kernels),
        tuple(CopyLine(i, use.copies, use.copied_bytes) for i, use in enumerate(uses)),
    )


def to_json(
    summary: Summary | None,
    launches: Launches | None,
    report: Report | None,
    checks: CheckReport | None,
    analysis: AnalysisReport | None,
    plan: PlanOutcome | None = None,
) -> str:
    """One object: the summary's keys, if the GPUs were emulated, and the report's, if there were statistics.

    A key that both have is the report's; its kernels get the virtual time of the emulated machine. `launches` is the
    policy's if there is no report.
    """
    data: dict[str, object] = {} if summary is None else dict(asdict(summary))
    if report is not None:
        data.update(asdict(report))
        if summary is not None:
            data["kernels"] = _with_virtual_time(report, summary)
    elif launches is not None:
        by_device = {str(device): count for device, count in launches.by_device.items()}
        data["launches"] = {
            "total": sum(launches.by_device.values()),
            "by_device": by_device,
            "kept_home": launches.kept_home,
        }
    if report is None and analysis is not None:
        data["analysis"] = asdict(analysis)
    if launches is not None:
        data["placement"] = {
            "created_bytes": {str(device): count for device, count in launches.created_bytes.items()},
            "moved": launches.moved,
            "moved_bytes": launches.moved_bytes,
        }
        if launches.shared is not None:
            waited_ns = None if report is None else report.waited_ns
            data["memory_copies"] = {**asdict(launches.shared), "waited_ns": waited_ns}
        if launches.schedule is not None:
            schedule = launches.schedule
            data["schedule"] = {**asdict(schedule), "gain": schedule.gain, "promised": schedule.promised}
        if launches.pool is not None:
            data["pool"] = asdict(launches.pool)
        if launches.given_streams or launches.given_threads:
            data["given"] = {"streams": launches.given_streams, "threads": launches.given_threads}
        if launches.graphs:
            data["graph_launches"] = {str(device): count for device, count in launches.graphs.items()}
        data["kept_home_by_reason"] = launches.kept_reasons
        data["rules"] = [asdict(rule) for rule in launches.rules]
        data["verify"] = {
            "verified": launches.verified,
            "different": launches.different,
            "not_verified": launches.not_verified,
        }
    if plan is not None:
        data["plan"] = plan.to_json()
    if checks is not None:
        data["check"] = asdict(checks)
    return json.dumps(data, indent=2) + "\n"


def _with_virtual_time(report: Report, summary: Summary) -> list[dict[str, object]]:
    """The emulated machine cuts long names."""
    times = {(row.device, row.name): row.virtual_ns for row in summary.kernels}
    return [
        {**asdict(row), "virtual_ns": times.get((row.device, row.name.encode()[:NAME_BYTES].decode("utf-8", "ignore")))}
        for row in report.kernels
    ]


def to_text(
    summary: Summary | None, launches: Launches | None, *, with_kernels: bool, waited_ns: int | None = None
) -> str:
    """The tables that tessera-run prints. waited_ns: what streams waited for pulls."""
    parts = [*_machine(summary, with_kernels=with_kernels)] if summary is not None else []
    if launches is not None:
        parts += [""] if parts else []
        rows = [("GPU", "launches"), *((str(d), str(n)) for d, n in launches.by_device.items())]
        parts += ["where the policy sent launches", *table(rows, right=(0, 1))]
        reasons = ", ".join(f"{reason}: {count}" for reason, count in launches.kept_reasons.items())
        because = f" ({reasons})" if reasons else ""
        parts.append(f"  kept home although a rule sent them elsewhere: {launches.kept_home}{because}")
        parts += [f"    {each}" for each in told(launches.kept_reasons)]
        if launches.graphs:
            where = ", ".join(f"GPU {gpu}: {count}" for gpu, count in launches.graphs.items())
            parts.append(f"  launches of graphs: {where}")
        if launches.schedule is not None:
            parts.append(f"  {gained(launches.schedule)}")
        parts += [f"  {each}" for each in _given(launches)]
        parts += [f"  {each}" for each in _idle_rules(launches)]
        if launches.copies:
            followed = ", ".join(f"GPU {gpu}: {count}" for gpu, count in launches.copies.items())
            parts.append(f"  copies and memsets that followed their stream: {followed}")
        if launches.created_bytes or launches.moved:
            created = ", ".join(f"{amount(count)} on GPU {gpu}" for gpu, count in launches.created_bytes.items())
            parts.append(
                f"  memory away from home: {created or 'none'} when it was allocated; {launches.moved} times memory "
                f"moved to another GPU, {amount(launches.moved_bytes)}"
            )
        if launches.pool is not None:
            parts += _pool(launches.pool)
        if launches.why_no_copies:
            parts.append(f"  GPUs have no copies of memory: {launches.why_no_copies}")
        if launches.shared is not None:
            parts += _copies(launches.shared, waited_ns)
        if launches.verified or launches.not_verified:
            parts.append(
                f"  verified, run at home too: {launches.verified}, of which {launches.different} gave other bytes; "
                f"could not be verified: {launches.not_verified}"
            )
    return "\n".join(parts) + "\n"


PAIRS = {
    "wrong": "copies arrive wrong, so these GPUs are used without peer access",
    "failed": "whether copies arrive right could not be found out; they are taken to",
}


def _pool(pool: Pool) -> Iterator[str]:
    shares = ", ".join(f"GPU {part.gpu}: {amount(part.most_owned_bytes)} of {amount(part.bytes)}" for part in pool.gpus)
    left = amount(pool.reserve_bytes)
    yield f"  the program's memory in the pool, at most: {shares}; of each GPU, {left} are left to copies"
    if pool.split:
        yield f"  allocations that lie on several GPUs, because none had room for all: {pool.split}"
    if pool.passed:
        yield f"  memory that went to another GPU, for balance: {pool.passed} times, {amount(pool.passed_bytes)}"
    if pool.given_back:
        yield f"  copies that made room for something else: {pool.given_back}, {amount(pool.given_back_bytes)}"
    if pool.refused:
        yield f"  allocations that found no room in the pool: {pool.refused}"


def _copies(copies: Copies, waited_ns: int | None) -> Iterator[str]:
    pulled = ", ".join(
        f"{amount(count)} in {copies.pulls[gpu]} on GPU {gpu}" for gpu, count in copies.pulled_bytes.items()
    )
    yield f"  pulled from other GPUs' copies of memory: {pulled or 'nothing'}; waits for another stream: {copies.waits}"
    if copies.ties:
        yield f"  a stream's work on one GPU waited for its work on another: {copies.ties}"
    if copies.pulled_bytes and waited_ns is not None:
        yield f"  what streams waited for that, all together: {duration(waited_ns)}"
    if len(copies.pulled_for) > 1:
        parts = (f"{PULLS[cause]} {amount(count)}" for cause, count in copies.pulled_for.items())
        yield f"  of that for {', '.join(parts)}"
    if copies.brought_home:
        yield (
            f"  of that all brought home for work of which nothing is known: {copies.brought_home} times, "
            f"{amount(copies.brought_home_bytes)}"
        )
    if copies.through_host_bytes:
        through = ", ".join(f"{amount(count)} to GPU {gpu}" for gpu, count in copies.through_host_bytes.items())
        yield f"  of that through host memory, between GPUs without peer access: {through}"
    for pair in copies.pairs:
        if pair.why in PAIRS:
            yield f"  GPU {pair.source} to GPU {pair.target}: {PAIRS[pair.why]}"


def gained(schedule: Schedule) -> str:
    """What was gained, or why nothing was; one line."""
    share = schedule.unknown / schedule.launches
    if schedule.gain > 1 + LEAST_GAIN:
        return f"estimated gain: {schedule.gain:.2f} times as early as the program's own GPU alone"
    if share > MUCH_UNKNOWN:
        return (
            f"nothing was gained: of {share:.0%} of the launches it is not known what they touch; they wait for all "
            "others. The next run may know more"
        )
    if schedule.promised > 1 + LEAST_GAIN:
        return (
            f"nothing was gained yet, {schedule.promised:.2f} times as early would be possible: the run was short, or "
            "GPUs wait for the program's host"
        )
    return "nothing is to be gained: launches depend on each other, or GPUs wait for the program's host"


def _given(launches: Launches) -> Iterator[str]:
    for what, counts in (("streams", launches.given_streams), ("threads", launches.given_threads)):
        if counts:
            shares = ", ".join(f"GPU {gpu}: {count}" for gpu, count in counts.items())
            yield f"{what} that rules gave a GPU: {shares}"


def _idle_rules(launches: Launches) -> Iterator[str]:
    """Rules that decided nothing: of many only how many they are."""
    idle = [rule for rule in launches.rules if not rule.launches]
    for rule in idle[:SHOWN_RULES]:
        hint = f"; did you mean {' or '.join(rule.nearest)}?" if rule.nearest else ""
        yield f"the rule in line {rule.line} matched no launch{hint}"
    if len(idle) > SHOWN_RULES:
        yield f"and {len(idle) - SHOWN_RULES} more rules matched none"


def _machine(summary: Summary, *, with_kernels: bool) -> list[str]:
    """The GPUs; of many kernels the longest-running ones."""
    lines = [
        ("GPU", "name", "launches", "kernels busy", "copies", "copied"),
        *(
            (str(d.device), d.name, str(d.launches), duration(d.busy_ns), str(c.copies), amount(c.copied_bytes))
            for d, c in zip(summary.devices, summary.copies, strict=True)
        ),
    ]
    parts = ["what ran where (emulated GPUs, virtual time)", *table(lines, right=(0, 2, 3, 4, 5))]
    if any(device.remote_bytes for device in summary.devices):
        touched = "; ".join(
            f"GPU {d.device}: {amount(d.local_bytes)} of its own, {amount(d.remote_bytes)} of others'"
            for d in summary.devices
            if d.local_bytes or d.remote_bytes
        )
        parts.append(f"  memory that kernels touched: {touched}")
    if summary.kernels and with_kernels:
        shown = sorted(summary.kernels, key=lambda row: -row.virtual_ns)[:LARGEST_KERNELS]
        shown.sort(key=lambda row: row.device)
        rows = [(str(row.device), short(row.name, NAME), str(row.launches), duration(row.virtual_ns)) for row in shown]
        parts += ["", *table([("GPU", "kernel", "launches", "time"), *rows], right=(0, 2, 3))]
        if len(shown) < len(summary.kernels):
            parts.append(f"and {len(summary.kernels) - len(shown)} more kernels")
    return parts
