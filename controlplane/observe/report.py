"""Puts the statistics of all processes together as the report of the run."""

from collections.abc import Iterable

from controlplane.observe.layout import GPUS, call_name, pull_cause, reason_name
from controlplane.observe.memory import MemoryUse
from controlplane.observe.stats import ProcessStats, PullTally, Statistics, Tally, finish
from controlplane.report.statistics import (
    CallReport,
    CopyReport,
    FailureReport,
    GraphReport,
    KernelReport,
    LaunchReport,
    MemoryReport,
    ProgramReport,
    PullReport,
    RecordReport,
    Report,
    TraceReport,
)


class _Kernel:
    """Sums over processes of one kernel on one GPU; host and queue times in nanoseconds."""

    def __init__(self) -> None:
        self.launches = self.captured = self.timed = self.gpu_ns = self.gpu_ns_max = self.queued = self.queue_ns = 0
        self.gpu_ns_min: int | None = None
        self.host_ns: int | None = 0
        self.processes: dict[str, int] = {}

    def add(self, stats: ProcessStats, row: int) -> None:
        table = stats.table
        launches, timed = int(table.launches[row]), int(table.timed[row])
        self.launches += launches
        self.captured += int(table.captured[row])
        self.host_ns = _plus(self.host_ns, _ns(stats, int(table.host_ticks[row])))
        self.queued += int(table.queued[row])
        self.queue_ns += int(table.queue_ns[row])
        if timed:
            lowest = int(table.gpu_ns_min[row])
            self.timed += timed
            self.gpu_ns += int(table.gpu_ns[row])
            self.gpu_ns_min = lowest if self.gpu_ns_min is None else min(lowest, self.gpu_ns_min)
            self.gpu_ns_max = max(self.gpu_ns_max, int(table.gpu_ns_max[row]))
        if launches:
            pid = str(stats.process.pid)
            self.processes[pid] = self.processes.get(pid, 0) + launches

    def report(self, device: int, name: str) -> KernelReport:
        return KernelReport(
            device=device,
            name=name,
            launches=self.launches,
            captured=self.captured,
            timed=self.timed,
            gpu_ns=_estimate(self.gpu_ns, self.timed, self.launches),
            gpu_ns_min=self.gpu_ns_min,
            gpu_ns_max=self.gpu_ns_max if self.timed else None,
            host_ns=self.host_ns,
            queue_ns=_estimate(self.queue_ns, self.queued, self.launches),
            processes=self.processes,
        )


def _estimate(total: int, sample: int, count: int) -> int | None:
    return round(total * count / sample) if sample else None


def _ns(stats: ProcessStats, ticks: int) -> int | None:
    rate = stats.clock.ns_per_tick if stats.clock else None
    return 0 if ticks == 0 else None if rate is None else round(ticks * rate)


def _plus(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def _known(values: Iterable[int | None]) -> int | None:
    """The sum of what is known; None when nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def report(statistics: Statistics, trace: TraceReport | None = None) -> Report:
    """To be called once, at the end. Kernels come in the order of falling time on the GPU, then of launches."""
    all_stats = list(statistics.processes.values())
    for stats in all_stats:
        finish(stats)
    kernels = _kernels(all_stats)
    return Report(
        processes=len(all_stats),
        launches=_launches(all_stats, kernels),
        kernels=kernels,
        copies=_copies(all_stats),
        memsets=_call("memsets", [(stats, stats.memsets) for stats in all_stats]),
        memory=_memory([stats.memory for stats in all_stats]),
        host_memory=_memory([stats.host_memory for stats in all_stats]),
        graphs=GraphReport(
            sum(stats.counters.graph_launches for stats in all_stats),
            sum(stats.counters.graph_kernels for stats in all_stats),
            _host_ns([(stats, stats.graphs) for stats in all_stats]),
        ),
        synchronisations=_synchronisations(all_stats),
        failures=_failures(all_stats),
        records=RecordReport(
            sum(stats.counters.lost for stats in all_stats),
            sum(stats.counters.times_lost + stats.late_times for stats in all_stats),
        ),
        overhead_ns_per_launch=_overhead(all_stats),
        programs=tuple(_program(stats) for stats in all_stats),
        pulls=_pulls(all_stats),
        trace=trace,
    )


def _memory(uses: list[MemoryUse]) -> MemoryReport:
    return MemoryReport(
        sum(use.allocations for use in uses),
        sum(use.frees for use in uses),
        sum(use.allocated_bytes for use in uses),
        sum(use.peak_bytes for use in uses),
    )


def _kernels(all_stats: list[ProcessStats]) -> tuple[KernelReport, ...]:
    found: dict[tuple[int, str], _Kernel] = {}
    for stats in all_stats:
        table = stats.table
        for row in (table.launches + table.captured + table.timed).nonzero()[0].tolist():
            name, device = table.kernels[row]
            found.setdefault((device, name), _Kernel()).add(stats, row)
    reports = [kernel.report(*key) for key, kernel in found.items()]
    return tuple(sorted(reports, key=lambda row: (-(row.gpu_ns or 0), -row.launches, row.name, row.device)))


def _launches(all_stats: list[ProcessStats], kernels: tuple[KernelReport, ...]) -> LaunchReport:
    by_device = [sum(stats.counters.launches[device] for stats in all_stats) for device in range(GPUS)]
    reasons: dict[str, int] = {}
    for stats in all_stats:
        for reason, count in enumerate(stats.counters.kept_reasons):
            if not count:
                continue
            name = reason_name(reason).replace("_", " ")
            reasons[name] = reasons.get(name, 0) + count
    return LaunchReport(
        total=sum(by_device),
        by_device={str(device): count for device, count in enumerate(by_device) if count},
        kept_home=sum(stats.counters.kept_home for stats in all_stats),
        kept_home_by_reason=reasons,
        captured=sum(stats.counters.captured for stats in all_stats),
        timed=sum(kernel.timed for kernel in kernels),
        host_ns=_known(kernel.host_ns for kernel in kernels),
        gpu_ns=_known(kernel.gpu_ns for kernel in kernels),
        tklqt_ns=_known(kernel.queue_ns for kernel in kernels),
    )


def _host_ns(tallies: list[tuple[ProcessStats, Tally]]) -> int | None:
    total: int | None = 0
    for stats, tally in tallies:
        total = _plus(total, _ns(stats, tally.ticks))
    return total


def _call(name: str, tallies: list[tuple[ProcessStats, Tally]]) -> CallReport:
    count, size = sum(tally.count for _, tally in tallies), sum(tally.bytes for _, tally in tallies)
    return CallReport(name, count, size, _host_ns(tallies))


def _copies(all_stats: list[ProcessStats]) -> tuple[CopyReport, ...]:
    found: dict[tuple[int, str], list[tuple[ProcessStats, Tally]]] = {}
    for stats in all_stats:
        for key, tally in stats.copies.items():
            found.setdefault(key, []).append((stats, tally))
    rows = []
    for (device, direction), tallies in sorted(found.items()):
        call = _call(direction, tallies)
        rows.append(CopyReport(None if device < 0 else device, direction, call.count, call.bytes, call.host_ns))
    return tuple(rows)


def _pulls(all_stats: list[ProcessStats]) -> tuple[PullReport, ...]:
    found: dict[tuple[int, int, int], list[PullTally]] = {}
    for stats in all_stats:
        for key, tally in stats.pulls.items():
            found.setdefault(key, []).append(tally)
    rows = []
    for (device, source, cause), tallies in sorted(found.items()):
        count, timed = sum(tally.count for tally in tallies), sum(tally.timed for tally in tallies)
        gpu_ns = _estimate(sum(tally.gpu_ns for tally in tallies), timed, count)
        size = sum(tally.bytes for tally in tallies)
        rows.append(PullReport(device, source, pull_cause(cause), count, size, timed, gpu_ns))
    return tuple(rows)


def _synchronisations(all_stats: list[ProcessStats]) -> tuple[CallReport, ...]:
    found: dict[str, list[tuple[ProcessStats, Tally]]] = {}
    for stats in all_stats:
        for call, tally in stats.synchronisations.items():
            found.setdefault(call_name(call), []).append((stats, tally))
    return tuple(sorted((_call(*item) for item in found.items()), key=lambda row: -(row.host_ns or 0)))


def _failures(all_stats: list[ProcessStats]) -> tuple[FailureReport, ...]:
    found: dict[tuple[str, int], int] = {}
    for stats in all_stats:
        for (call, result), count in stats.failures.items():
            key = (call_name(call), result)
            found[key] = found.get(key, 0) + count
    rows = (FailureReport(call, result, count) for (call, result), count in found.items())
    return tuple(sorted(rows, key=lambda row: (-row.count, row.call)))


def _overhead(all_stats: list[ProcessStats]) -> float | None:
    samples = sum(stats.counters.overhead_samples for stats in all_stats)
    total = _host_ns([(stats, Tally(ticks=stats.counters.overhead_ticks)) for stats in all_stats])
    return round(total / samples, 1) if samples and total is not None else None


def _program(stats: ProcessStats) -> ProgramReport:
    process, counters = stats.process, stats.counters
    return ProgramReport(
        process.pid,
        process.parent,
        process.program,
        process.driver_version,
        sum(counters.launches),
        counters.graph_launches,
        stats.memory.peak_bytes,
    )
