"""What is told of runs while they go on: lines and tables, from two looks at them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from controlplane.base.demangle import short
from controlplane.base.tables import Part, amount, blocks, columns, duration
from controlplane.live.runs import Device, Kernel, Run
from controlplane.policy.table import Launches, Schedule
from controlplane.run import counted

KERNELS, RULES, NAME = 5, 6, 60
NOTHING = "No program of yours runs under Tessera now. One does after: tessera run [options] -- program"
UNCOUNTED = "  what it launches is told at its end; --policy, --gpus and --emulate count while it runs"


def of_all(now: Sequence[Run], before: Mapping[int, Run], elapsed_s: float) -> list[Part]:
    """before: the same runs at the last look, so many seconds ago, by their numbers."""
    if not now:
        return [NOTHING]
    return blocks([[heading(run), *of_run(run, before.get(run.pid), elapsed_s)] for run in now])


PROGRAM_COLUMNS = ("pid", "age", "GPUs", "launches", "per s", "kept home", "gain", "program")


def program(run: Run, before: Run | None, elapsed_s: float) -> tuple[str, ...]:
    """A run in a row of a table."""
    kept = None if run.counted is None else run.counted.kept_home
    schedule = None if run.counted is None else run.counted.schedule
    return (
        str(run.pid),
        _age(run),
        ", ".join(str(each.number) for each in run.devices) or "-",
        _count(_launches(run)),
        _per_second(_launches(run), _launches(before), elapsed_s),
        _count(kept),
        "-" if schedule is None else f"{schedule.gain:.2f}",
        run.command[:NAME],
    )


def heading(run: Run) -> str:
    clock = "" if run.virtual_ns is None else f", virtual time {duration(run.virtual_ns)}"
    return f"{run.pid}  {run.command[:NAME]}  ({_age(run)}{clock})"


def of_run(run: Run, before: Run | None, elapsed_s: float) -> Iterator[Part]:
    if not run.devices:
        yield UNCOUNTED
        return
    yield from columns(_devices(run, before, elapsed_s), right=(0, 2, 3, 4, 5, 6))
    if run.counted is not None:
        yield from counted.lines(run.counted)
        yield from _so_far(run.counted)
    if run.kernels:
        yield from columns([("GPU", "kernel", "launches", "time"), *map(_kernel, _longest(run))], right=(0, 2, 3))


def _devices(run: Run, before: Run | None, elapsed_s: float) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("GPU", "name", "launches", "share", "per s", "busy", "memory")]
    old = {} if before is None else {device.number: device for device in before.devices}
    passed_ns = (run.virtual_ns or 0) - ((before.virtual_ns if before is not None else None) or 0)
    for device in run.devices:
        last = old.get(device.number)
        busy = "-"
        if device.busy_ns is not None and last is not None and last.busy_ns is not None and passed_ns > 0:
            busy = f"{min(100 * (device.busy_ns - last.busy_ns) / passed_ns, 100):.0f} %"
        memory = "-" if device.memory_bytes is None else amount(device.memory_bytes)
        rate = _per_second(device.launches, None if last is None else last.launches, elapsed_s)
        counts = (_count(device.launches), _share(run, device), rate)
        rows.append((str(device.number), device.name or "-", *counts, busy, memory))
    return rows


def _launches(run: Run | None) -> int | None:
    """Of all its GPUs; None: not counted while it runs."""
    known = [] if run is None else [each.launches for each in run.devices if each.launches is not None]
    return sum(known) if known else None


def _share(run: Run, device: Device) -> str:
    """Of the run's launches."""
    total = _launches(run)
    return f"{100 * device.launches / total:.0f} %" if total and device.launches is not None else "-"


def _per_second(now: int | None, before: int | None, elapsed_s: float) -> str:
    return "-" if now is None or before is None or elapsed_s <= 0 else f"{(now - before) / elapsed_s:,.0f}"


def _count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _so_far(of: Launches) -> Iterator[str]:
    """What is of interest only while it changes."""
    if of.shared is not None:
        held = ", ".join(f"{amount(some)} on GPU {gpu}" for gpu, some in of.shared.bytes.items())
        yield f"  copies held: {held or 'none'}"
    if of.schedule is not None and of.schedule.windows:
        yield _guard(of.schedule)
    if of.rules:
        shown = [f"line {rule.line}: {rule.launches:,}" for rule in of.rules[:RULES]]
        more = [f"{len(of.rules) - RULES} more"] if len(of.rules) > RULES else []
        yield f"  launches by rule: {', '.join([*shown, *more])}"


def _guard(of: Schedule) -> str:
    return f"  guard: placing paid off in {of.won:,} of {of.windows:,} windows; {of.rested:,} launches rested at home"


def _longest(run: Run) -> list[Kernel]:
    return sorted(run.kernels, key=lambda kernel: -kernel.virtual_ns)[:KERNELS]


def _kernel(kernel: Kernel) -> tuple[str, ...]:
    return str(kernel.device), short(kernel.name, NAME), f"{kernel.launches:,}", duration(kernel.virtual_ns)


def _age(run: Run) -> str:
    minutes, rest = divmod(int(run.seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
