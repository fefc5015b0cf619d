"""A timeline as JSON in the Trace Event Format, which ui.perfetto.dev and chrome://tracing open.

Each group of tracks is a "process" of the format, each track a "thread". Host threads have their own numbers where
these are unique; GPUs get process numbers that no process has.
"""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from controlplane.base.progress import Progress
from controlplane.observe.timeline import Flow, Group, Slice, Timeline, Track

BATCH = 10_000  # events between looks at how far it has got
FIRST_GPU_PID = 1 << 24  # above any pid (the kernel's limit is 1 << 22)


def write(timeline: Timeline, file: Path) -> int:
    """Compressed if the name ends with .gz. The result is the number of events."""
    encode = json.JSONEncoder(separators=(",", ":")).encode
    slices = sum(len(track.slices) for group in timeline.groups for track in group.tracks)
    with _open(file) as stream, Progress("events written", slices + 2 * len(timeline.flows)) as progress:
        described = {"monotonic_ns": timeline.origin_ns, "realtime_ns": timeline.realtime_ns}
        stream.write(f'{{"displayTimeUnit":"ns","otherData":{encode(described)},"traceEvents":[\n')
        count = 0
        for event in events(timeline):
            stream.write(f"{',' if count else ''}{encode(event)}\n")
            count += 1
            if count % BATCH == 0:
                progress.step(BATCH)
        stream.write("]}\n")
    return count


def _open(file: Path) -> IO[str]:
    return gzip.open(file, "wt", compresslevel=6) if file.name.endswith(".gz") else file.open("w")


def events(timeline: Timeline) -> Iterator[dict[str, object]]:
    """Times are microseconds after the timeline's origin."""
    numbers: dict[int, tuple[int, int]] = {}  # of a track, by its identity: pid and tid
    pids: set[int] = set()
    for order, group in enumerate(timeline.groups):
        pid = _pid(group, pids, order)
        yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": group.name}}
        yield {"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": order}}
        for place, track in enumerate(group.tracks, 1):
            numbers[id(track)] = pid, place
            yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": place, "args": {"name": track.name}}
            yield {"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": place, "args": {"sort_index": place}}
            yield from (_complete(slice_, pid, place) for slice_ in track.slices)
        for counter in group.counters:
            for ns, value in counter.points:
                yield {"ph": "C", "name": counter.name, "pid": pid, "ts": _us(ns), "args": {"value": value}}
    for identifier, flow in enumerate(timeline.flows, 1):
        yield from _flow(flow, identifier, numbers)


def _pid(group: Group, taken: set[int], order: int) -> int:
    """The process' own number, if no group before has it."""
    pid = group.pid if group.device is None and group.pid not in taken else FIRST_GPU_PID + order
    taken.add(pid)
    return pid


def _us(ns: int) -> float:
    return ns / 1000


def _complete(slice_: Slice, pid: int, tid: int) -> dict[str, object]:
    times = {"ts": _us(slice_.start_ns), "dur": _us(slice_.end_ns - slice_.start_ns)}
    head = {"ph": "X", "name": slice_.name, "cat": slice_.category, "pid": pid, "tid": tid}
    return {**head, **times, "args": slice_.details}


def _flow(flow: Flow, identifier: int, numbers: dict[int, tuple[int, int]]) -> Iterator[dict[str, object]]:
    ends: tuple[tuple[str, tuple[Track, Slice]], ...] = (("s", flow.source), ("f", flow.target))
    for phase, (track, slice_) in ends:
        pid, tid = numbers[id(track)]
        event: dict[str, object] = {"ph": phase, "id": identifier, "name": flow.name, "cat": flow.name}
        event |= {"pid": pid, "tid": tid, "ts": _us(slice_.start_ns)}
        yield {**event, "bp": "e"} if phase == "f" else event
