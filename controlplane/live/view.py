"""What `tessera top` shows of runs: lines of text, from two looks at them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from controlplane.base.demangle import short
from controlplane.base.tables import amount, duration, table
from controlplane.live.runs import Kernel, Run
from controlplane.policy import Launches
from controlplane.policy.reasons import told

KERNELS, RULES, NAME = 5, 6, 60
NOTHING = "No program of yours runs under Tessera now. One does after: tessera run [options] -- program"


def lines(now: Sequence[Run], before: Mapping[int, Run], elapsed_s: float) -> list[str]:
    """before: the same runs at the last look, so many seconds ago, by their numbers."""
    if not now:
        return [NOTHING]
    found: list[str] = []
    for run in now:
        found += [*_run(run, before.get(run.pid), elapsed_s), ""]
    return found[:-1]


def _run(run: Run, before: Run | None, elapsed_s: float) -> Iterator[str]:
    clock = "" if run.virtual_ns is None else f", virtual time {duration(run.virtual_ns)}"
    yield f"{run.pid}  {run.command[:NAME]}  ({_age(run.seconds)}{clock})"
    if not run.devices:
        yield "  what it launches is told at its end; --policy, --gpus and --emulate count while it runs"
        return
    yield from table(_devices(run, before, elapsed_s), right=(0, 2, 3, 4, 5))
    if run.counted is not None:
        yield from _counted(run.counted)
    if run.kernels:
        yield from table([("GPU", "kernel", "launches", "time"), *map(_kernel, _longest(run))], right=(0, 2, 3))


def _devices(run: Run, before: Run | None, elapsed_s: float) -> list[tuple[str, ...]]:
    heading = ("GPU", "name", "launches", "per s", "busy", "memory")
    old = {} if before is None else {device.number: device for device in before.devices}
    passed_ns = (run.virtual_ns or 0) - ((before.virtual_ns if before is not None else None) or 0)
    rows: list[tuple[str, ...]] = [heading]
    for device in run.devices:
        last = old.get(device.number)
        rate = "-" if last is None or elapsed_s <= 0 else _rate(device.launches, last.launches, elapsed_s)
        busy = "-"
        if device.busy_ns is not None and last is not None and last.busy_ns is not None and passed_ns > 0:
            busy = f"{min(100 * (device.busy_ns - last.busy_ns) / passed_ns, 100):.0f} %"
        memory = "-" if device.memory_bytes is None else amount(device.memory_bytes)
        rows.append((str(device.number), device.name or "-", _count(device.launches), rate, busy, memory))
    return rows


def _rate(now: int | None, before: int | None, elapsed_s: float) -> str:
    return "-" if now is None or before is None else f"{(now - before) / elapsed_s:,.0f}"


def _count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _counted(counted: Launches) -> Iterator[str]:
    if counted.kept_home:
        yield f"  kept home although a rule sent them elsewhere: {counted.kept_home:,}"
        yield from (f"    {each}" for each in told(counted.kept_reasons))
    if counted.shared is not None and counted.shared.pulled_bytes:
        pulled = ", ".join(f"{amount(count)} to GPU {gpu}" for gpu, count in counted.shared.pulled_bytes.items())
        held = ", ".join(f"{amount(count)} on GPU {gpu}" for gpu, count in counted.shared.bytes.items())
        yield f"  pulled: {pulled}; copies held: {held or 'none'}"
    if counted.schedule is not None:
        yield f"  placed one by one: estimated gain {counted.schedule.gain:.2f}"
    if counted.verified or counted.not_verified:
        yield f"  verified: {counted.verified:,}, of which {counted.different:,} gave other bytes"
    if counted.rules:
        shown = [f"line {rule.line}: {rule.launches:,}" for rule in counted.rules[:RULES]]
        more = [f"{len(counted.rules) - RULES} more"] if len(counted.rules) > RULES else []
        yield f"  launches by rule: {', '.join([*shown, *more])}"


def _longest(run: Run) -> list[Kernel]:
    return sorted(run.kernels, key=lambda kernel: -kernel.virtual_ns)[:KERNELS]


def _kernel(kernel: Kernel) -> tuple[str, ...]:
    return str(kernel.device), short(kernel.name, NAME), f"{kernel.launches:,}", duration(kernel.virtual_ns)


def _age(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
