"""What ran where: the counters of the emulated machine and the policy after a run, as data, as JSON, for people."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from controlplane.emulate import Machine
from controlplane.machine import MachineFile
from controlplane.policy import Launches

LARGEST_KERNELS = 20


@dataclass(frozen=True, slots=True)
class DeviceLine:
    """device: number; busy_ns: virtual time its kernels ran; last_ns: virtual end of its last operation."""

    device: int
    name: str
    launches: int
    busy_ns: int
    last_ns: int


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
        tuple(DeviceLine(i, names[i], use.launches, use.busy_ns, use.last_ns) for i, use in enumerate(uses)),
        tuple(KernelLine(row.device, row.name, row.launches, row.virtual_ns) for row in kernels),
        tuple(CopyLine(i, use.copies, use.copied_bytes) for i, use in enumerate(uses)),
    )


def to_json(summary: Summary | None, launches: Launches | None) -> str:
    """Keys of the summary, if the GPUs were emulated, and `launches`, if there was a policy."""
    data: dict[str, object] = {} if summary is None else dict(asdict(summary))
    if launches is not None:
        by_device = {str(device): count for device, count in launches.by_device.items()}
        data["launches"] = {
            "total": sum(launches.by_device.values()),
            "by_device": by_device,
            "kept_home": launches.kept_home,
        }
    return json.dumps(data, indent=2) + "\n"


def to_text(summary: Summary | None, launches: Launches | None) -> str:
    """The tables that tessera-run prints."""
    parts = [*_machine(summary)] if summary is not None else []
    if launches is not None:
        parts += [""] if parts else []
        rows = [("GPU", "launches"), *((str(d), str(n)) for d, n in launches.by_device.items())]
        parts += ["where the policy sent launches", *_table(rows, right=(0, 1))]
        parts.append(f"  kept home although a rule sent them elsewhere: {launches.kept_home}")
    return "\n".join(parts) + "\n"


def _machine(summary: Summary) -> list[str]:
    """The GPUs; of many kernels the longest-running ones."""
    lines = [
        ("GPU", "name", "launches", "kernels busy", "copies", "copied"),
        *(
            (str(d.device), d.name, str(d.launches), _time(d.busy_ns), str(c.copies), _bytes(c.copied_bytes))
            for d, c in zip(summary.devices, summary.copies, strict=True)
        ),
    ]
    parts = ["what ran where (emulated GPUs, virtual time)", *_table(lines, right=(0, 2, 3, 4, 5))]
    if summary.kernels:
        shown = sorted(summary.kernels, key=lambda row: -row.virtual_ns)[:LARGEST_KERNELS]
        shown.sort(key=lambda row: row.device)
        rows = [(str(row.device), row.name, str(row.launches), _time(row.virtual_ns)) for row in shown]
        parts += ["", *_table([("GPU", "kernel", "launches", "time"), *rows], right=(0, 2, 3))]
        if len(shown) < len(summary.kernels):
            parts.append(f"and {len(summary.kernels) - len(shown)} more kernels")
    return parts


def _table(rows: Sequence[tuple[str, ...]], right: Sequence[int]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  "
        + "  ".join(c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        for row in rows
    ]


def _time(ns: int) -> str:
    for unit, size in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if ns >= size:
            return f"{ns / size:.3f} {unit}"
    return f"{ns} ns"


def _bytes(count: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"
