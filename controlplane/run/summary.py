"""What ran where: the counters of the emulated machine and the policy after a run, as data, as JSON, for people."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from controlplane.base.demangle import short
from controlplane.base.tables import Part, amount, columns, duration
from controlplane.machine.emulated import Machine
from controlplane.machine.file import MachineFile
from controlplane.policy.table import Launches
from controlplane.run.counted import counted

if TYPE_CHECKING:
    from controlplane.report.statistics import AnalysisReport, Report
    from controlplane.run.checks import CheckReport
    from controlplane.run.planned import Outcome as PlanOutcome

LARGEST_KERNELS = 20
NAME = 70  # letters of a kernel's
NAME_BYTES = 111  # of a kernel in the machine's table


@dataclass(frozen=True, slots=True)
class DeviceLine:
    """device: number; busy_ns: virtual time its kernels ran; last_ns: virtual end of its last operation.

    local_bytes, remote_bytes: of its own and of other GPUs' memory that its kernels touched (machine/file.py).
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
) -> list[Part]:
    """The tables that tessera-run prints. waited_ns: what streams waited for pulls."""
    parts = [*_machine(summary, with_kernels=with_kernels)] if summary is not None else []
    if launches is not None:
        parts += [""] if parts else []
        heading = "where the policy sent launches" if launches.schedule is None else "where launches were placed"
        parts += [heading, *counted(launches, waited_ns)]
    return parts


def _machine(summary: Summary, *, with_kernels: bool) -> list[Part]:
    """The GPUs; of many kernels the longest-running ones."""
    lines = [
        ("GPU", "name", "launches", "kernels busy", "copies", "copied"),
        *(
            (str(d.device), d.name, str(d.launches), duration(d.busy_ns), str(c.copies), amount(c.copied_bytes))
            for d, c in zip(summary.devices, summary.copies, strict=True)
        ),
    ]
    parts = ["what ran where (emulated GPUs, virtual time)", *columns(lines, right=(0, 2, 3, 4, 5))]
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
        parts += ["", *columns([("GPU", "kernel", "launches", "time"), *rows], right=(0, 2, 3))]
        if len(shown) < len(summary.kernels):
            parts.append(f"and {len(summary.kernels) - len(shown)} more kernels")
    return parts
