"""What Prometheus is told of a run: each metric with its name, what it means, and its values, in one table.

The values are the counters that `tessera top` shows. Names follow Prometheus' conventions: base units in them, and
counters end with `_total`. This knows nothing of HTTP (exporter.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from controlplane import __version__
from controlplane.live.runs import Run
from controlplane.policy.table import Copies, Launches

Family: TypeAlias = CounterMetricFamily | GaugeMetricFamily
Values: TypeAlias = Iterator[tuple[Sequence[str], float]]
NS = 1e9
COUNTER = "_total"


@dataclass(frozen=True, slots=True)
class Metric:
    """values: of a run, each with the values of its labels; nothing where the run does not count that."""

    name: str
    labels: tuple[str, ...]
    meaning: str
    values: Callable[[Run], Values]

    @property
    def kind(self) -> str:
        return "counter" if self.name.endswith(COUNTER) else "gauge"

    def family(self, run: Run) -> Family:
        make = CounterMetricFamily if self.kind == "counter" else GaugeMetricFamily
        result: Family = make(self.name, self.meaning, labels=self.labels)
        for labels, value in self.values(run):
            result.add_metric(labels, value)
        return result


def _started(run: Run) -> Values:
    yield (), run.started_s


def _info(run: Run) -> Values:
    yield (run.command, __version__), 1


def _launches(run: Run) -> Values:
    for device in run.devices:
        if device.launches is not None:
            yield (str(device.number),), device.launches


def _virtual(run: Run) -> Values:
    if run.virtual_ns is not None:
        yield (), run.virtual_ns / NS


def _busy(run: Run) -> Values:
    for device in run.devices:
        if device.busy_ns is not None:
            yield (str(device.number),), device.busy_ns / NS


def _memory(run: Run) -> Values:
    for device in run.devices:
        if device.memory_bytes is not None:
            yield (str(device.number),), device.memory_bytes


def _counted(numbers: Callable[[Launches], Mapping[int, int] | Mapping[str, int]]) -> Callable[[Run], Values]:
    def values(run: Run) -> Values:
        found = {} if run.counted is None else numbers(run.counted)
        yield from (((str(label),), count) for label, count in found.items())

    return values


def _shared(numbers: Callable[[Copies], Mapping[int, int]]) -> Callable[[Run], Values]:
    return _counted(lambda counted: {} if counted.shared is None else numbers(counted.shared))


def _verified(counted: Launches) -> dict[str, int]:
    different = counted.different
    return {"equal": counted.verified - different, "different": different, "not_verified": counted.not_verified}


def _gain(run: Run) -> Values:
    if run.counted is not None and run.counted.schedule is not None:
        yield (), run.counted.schedule.gain


METRICS = (
    Metric("tessera_run_info", ("command", "version"), "The program that runs; always 1", _info),
    Metric("tessera_run_start_time_seconds", (), "When the run began, in seconds since 1970", _started),
    Metric("tessera_launches_total", ("gpu",), "Launches that ran on the GPU", _launches),
    Metric(
        "tessera_graph_launches_total",
        ("gpu",),
        "Launches of CUDA graphs that ran on the GPU",
        _counted(lambda counted: counted.graphs),
    ),
    Metric(
        "tessera_kept_home_launches_total",
        ("reason",),
        "Launches that a rule sent elsewhere and that stayed home",
        _counted(lambda counted: counted.kept_reasons),
    ),
    Metric(
        "tessera_rule_launches_total",
        ("line",),
        "Launches that the rule in that line of the policy decided; an edit of the policy begins anew",
        _counted(lambda counted: {rule.line: rule.launches for rule in counted.rules}),
    ),
    Metric(
        "tessera_verify_launches_total",
        ("outcome",),
        "Launches that --verify compared, or could not: equal, different, not_verified",
        _counted(_verified),
    ),
    Metric(
        "tessera_pulls_total",
        ("gpu",),
        "Copies of bytes that the GPU lacked before a launch or copy there",
        _shared(lambda shared: shared.pulls),
    ),
    Metric(
        "tessera_pulled_bytes_total", ("gpu",), "Bytes of these copies", _shared(lambda shared: shared.pulled_bytes)
    ),
    Metric(
        "tessera_memory_copies_bytes",
        ("gpu",),
        "GPU memory that copies of the program's memory take now",
        _shared(lambda shared: shared.bytes),
    ),
    Metric(
        "tessera_schedule_gain_ratio",
        (),
        "How many times as early as one GPU alone, estimated; where launches are placed one by one",
        _gain,
    ),
    Metric("tessera_gpu_memory_used_bytes", ("gpu",), "Memory in use, of emulated GPUs", _memory),
    Metric("tessera_gpu_busy_seconds_total", ("gpu",), "Virtual time that kernels ran, of emulated GPUs", _busy),
    Metric("tessera_virtual_time_seconds_total", (), "Virtual time of the emulated machine", _virtual),
)


def families(run: Run | None) -> Iterator[Family]:
    """None: the program has not started, or has ended."""
    if run is not None:
        yield from (metric.family(run) for metric in METRICS)
