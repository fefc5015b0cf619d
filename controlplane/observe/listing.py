"""The launches of a trace in the order of time, as rows for people and for JSON."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controlplane.base.demangle import is_named, short
from controlplane.base.tables import LINE, Part, columns, duration
from controlplane.observe.layout import Flag, Kind
from controlplane.observe.trace import Calls, Trace, TracedProcess, calls


@dataclass(frozen=True, slots=True)
class LaunchRow:
    """One launch. at_ns: when it was called, after the first call of the trace. The fields are keys of the JSON output.

    gpu_ns and queue_ns are None where the launch was not timed, or the GPU's clock is its own.
    """

    at_ns: int
    pid: int
    thread: int
    device: int
    stream: int
    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared_bytes: int
    host_ns: int
    gpu_ns: int | None
    queue_ns: int | None
    flags: tuple[str, ...]
    result: int


def launches(trace: Trace, glob: str | None, limit: int) -> list[LaunchRow]:
    """The first ones of all processes; the glob is tried on the names as the driver and as people know them."""
    found = [(traced, calls(traced)) for traced in trace.processes]
    origin = min((int(some.start_ns.min()) for _, some in found if len(some.records)), default=0)
    places = [_matching(traced, some, glob) for traced, some in found]
    owner = np.concatenate([np.full(len(of), index) for index, of in enumerate(places)] or [np.empty(0, np.int64)])
    flat = np.concatenate(places or [np.empty(0, np.int64)])
    starts = np.concatenate([some.start_ns[of] for (_, some), of in zip(found, places, strict=True)] or [flat])
    first = np.argsort(starts, kind="stable")[:limit]
    rows = zip(owner[first].tolist(), flat[first].tolist(), strict=True)
    return [_row(found[index][0], found[index][1], place, origin) for index, place in rows]


def _matching(traced: TracedProcess, found: Calls, glob: str | None) -> NDArray[np.int64]:
    """Rows of the launches whose kernel matches."""
    chosen = found.records["kind"] == Kind.LAUNCH
    if glob is not None:
        numbers = np.unique(found.records["launch.function"][chosen]).tolist()
        names = {number: traced.function(number) for number in numbers}
        wanted = [n for n, name in names.items() if is_named(name, glob)]
        chosen &= np.isin(found.records["launch.function"], wanted)
    return np.flatnonzero(chosen).astype(np.int64)


def _row(traced: TracedProcess, found: Calls, place: int, origin: int) -> LaunchRow:
    record, timed = found.records[place], bool(found.timed[place])
    queued = int(found.gpu_start_ns[place] - found.start_ns[place])
    return LaunchRow(
        at_ns=int(found.start_ns[place]) - origin,
        pid=traced.process.pid,
        thread=int(found.thread[place]),
        device=int(record["launch.device"]),
        stream=int(record["stream"]),
        kernel=traced.function(int(record["launch.function"])),
        grid=tuple(record["launch.grid"].tolist()),
        block=tuple(record["launch.block"].tolist()),
        shared_bytes=int(record["launch.shared_bytes"]),
        host_ns=int(found.end_ns[place] - found.start_ns[place]),
        gpu_ns=int(found.gpu_ns[place]) if timed else None,
        queue_ns=queued if timed and not traced.process.own_gpu_clock else None,
        flags=tuple(flag.name.lower() for flag in Flag if flag & int(record["flags"]) and flag.name),
        result=int(record["result"]),
    )


def to_text(rows: list[LaunchRow]) -> list[Part]:
    """A table with a line per launch."""
    if not rows:
        return ["no launches"]
    several = len({row.pid for row in rows}) > 1
    heading = (
        "at",
        *(("process",) if several else ()),
        "GPU",
        "stream",
        "in call",
        "on GPU",
        "queued",
        "grid",
        "block",
    )
    cells = [_cells(row, several=several) for row in rows]
    used = sum(max(len(line[column]) for line in [heading, *cells]) + 2 for column in range(len(heading)))
    named = [
        (*line, short(row.kernel, max(LINE - used, 40)) + _remark(row)) for line, row in zip(cells, rows, strict=True)
    ]
    return columns([(*heading, "kernel"), *named], right=range(len(heading)))


def _cells(row: LaunchRow, *, several: bool) -> tuple[str, ...]:
    times = (duration(row.host_ns), duration(row.gpu_ns), duration(row.queue_ns))
    shape = ("x".join(map(str, row.grid)), "x".join(map(str, row.block)))
    stream = {1: "default", 2: "thread"}.get(row.stream, f"{row.stream:x}")
    return (f"{row.at_ns / 1e6:.4f} ms", *((str(row.pid),) if several else ()), str(row.device), stream, *times, *shape)


def _remark(row: LaunchRow) -> str:
    words = [*row.flags, *([f"CUresult {row.result}"] if row.result else [])]
    return f" ({', '.join(words)})" if words else ""
