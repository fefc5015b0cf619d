"""Which runs of this user there are, and their counters so far: read from the files that a run has anyway.

A run is known by what it tells its programs: paths /proc/PID/fd/N of `tessera-run` in their environment
(controlplane/ipc/memory_file.py). Nobody is asked, stopped or told; what cannot be read is left out.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controlplane.policy.language import Executor, Policy
from controlplane.policy.table import Launches, live_devices, live_memory, read_launches
from ptxtools.native import records

MACHINE, POLICY, RECORDS = "TESSERA_MACHINE", "TESSERA_POLICY", "TESSERA_RECORDS"
PLACE = re.compile(r"/proc/(\d+)/fd/\d+")
EXECUTOR = "tessera-executor"
ROW_VALID = 2
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Device:
    """launches: None: not counted while the program runs. busy_ns, memory_bytes: of emulated GPUs, virtual time."""

    number: int
    name: str
    launches: int | None
    busy_ns: int | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Kernel:
    device: int
    name: str
    launches: int
    virtual_ns: int


@dataclass(frozen=True, slots=True)
class Run:
    """pid: of tessera-run. seconds: since it began; started_s: when, since 1970. virtual_ns: None: real GPUs. counted:
    None: there is no policy.
    """

    pid: int
    command: str
    seconds: float
    virtual_ns: int | None
    devices: tuple[Device, ...]
    kernels: tuple[Kernel, ...] = ()
    counted: Launches | None = None
    started_s: float = 0.0


@dataclass(frozen=True, slots=True)
class _Process:
    pid: int
    parent: int
    command: tuple[str, ...]
    variables: Mapping[str, str]  # of those above


def runs(only: int | None = None) -> list[Run]:
    """The oldest first. only: of this tessera-run."""
    by_owner: dict[int, list[_Process]] = {}
    for process in _processes():
        found = [PLACE.fullmatch(path) for path in process.variables.values()]
        for owner in {int(each[1]) for each in found if each and only in (None, int(each[1]))}:
            by_owner.setdefault(owner, []).append(process)
    read = (_run(owner, processes) for owner, processes in by_owner.items())
    return sorted((each for each in read if each is not None), key=lambda each: (-each.seconds, each.pid))


def _processes() -> Iterator[_Process]:
    """Of this user, that were given something."""
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            environment = (folder / "environ").read_bytes()
            if b"TESSERA_" not in environment or folder.stat().st_uid != os.geteuid():
                continue
            command = tuple((folder / "cmdline").read_text(errors="replace").split("\0")[:-1])
            parent = int(_after_name(folder)[1])
        except (OSError, ValueError, IndexError):
            continue  # it has ended, or is another user's
        words = (word.partition("=") for word in environment.decode(errors="replace").split("\0"))
        variables = {name: value for name, _, value in words if name in (MACHINE, POLICY, RECORDS)}
        yield _Process(int(folder.name), parent, command, variables)


def _after_name(folder: Path) -> list[str]:
    """Of /proc/PID/stat, what comes after the program's name: state, parent, ..."""
    return (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()


def _run(owner: int, processes: list[_Process]) -> Run | None:
    guests = [each for each in processes if Path((each.command or ("",))[0]).name != EXECUTOR]
    direct = [each for each in guests if each.parent == owner]
    if not guests:
        return None
    program = (direct or guests)[0]
    variables = program.variables
    try:
        machine = _contents(variables, MACHINE)
        table = _contents(variables, POLICY)
        seconds, started_s = _age(owner)
    except OSError:
        return None  # it ends just now
    counted = None if table is None else _counted(table)
    virtual_ns, devices, kernels = (None, (), ()) if machine is None else _machine(machine)
    if not devices and counted is not None:
        devices = tuple(Device(number, "", launches) for number, launches in counted.by_device.items())
    return Run(owner, " ".join(program.command), seconds, virtual_ns, devices, kernels, counted, started_s)


def _contents(variables: Mapping[str, str], name: str) -> bytes | None:
    """Of a memory file; None: the run has none."""
    if not PLACE.fullmatch(variables.get(name, "")):
        return None
    return Path(variables[name]).read_bytes()


def _age(pid: int) -> tuple[float, float]:
    """Seconds since the process began, and from 1970 until then."""
    started = int(_after_name(Path(f"/proc/{pid}"))[19]) / TICKS_PER_S
    age = max(float(Path("/proc/uptime").read_text().split()[0]) - started, 0.0)
    return age, round(time.time() - age, 2)


def _machine(data: bytes) -> tuple[int | None, tuple[Device, ...], tuple[Kernel, ...]]:
    """Of an emulated machine's file; nothing if it is of another release."""
    record = _record("machine", data)
    if record is None:
        return None, (), ()
    ffi, _ = records.header("machine.h")
    devices = tuple(
        Device(number, _text(ffi, record.devices[number].name), live.launches, live.busy_ns, live.memory_used_bytes)
        for number, live in ((number, record.live[number]) for number in range(record.device_count))
    )
    kernels = tuple(
        Kernel(row.device, _text(ffi, row.name), row.launches, row.virtual_ns)
        for row in record.kernels
        if row.state == ROW_VALID
    )
    return int(record.virtual_ns), devices, kernels


def _record(name: str, data: bytes) -> Any:
    """As the header of that name has it; None: it is something else, or of another release."""
    ffi, text = records.header(f"{name}.h")
    if len(data) < ffi.sizeof(f"struct tsr_{name}"):
        return None
    record: Any = ffi.from_buffer(f"struct tsr_{name} *", data)
    wanted = tuple(records.constant(text, f"TSR_{name.upper()}_{each}", f"{name}.h") for each in ("MAGIC", "VERSION"))
    return record if (record.magic, record.version) == wanted else None


def _text(ffi: Any, field: Any) -> str:
    return bytes(ffi.buffer(field)).partition(b"\0")[0].decode("utf-8", "replace")


def _counted(data: bytes) -> Launches | None:
    """Of a decision table; None if it is of another release."""
    if _record("policy", data) is None:
        return None
    home, executors = live_devices(data)
    place, _ = live_memory(data)
    policy = Policy(Path(), home, tuple(Executor(gpu) for gpu, _, _ in executors), (), home, memory_place=place)
    return read_launches(policy, data)
