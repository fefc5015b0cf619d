"""The statistics of a run (statistics.py) as the text that tessera-run prints."""

from controlplane.base.demangle import short
from controlplane.base.tables import LINE, Part, Warned, amount, blocks, columns, duration, many
from controlplane.report.statistics import CallReport, KernelReport, Report

LARGEST_KERNELS = 20
LARGEST_ROWS = 10
CLOCKS = "times on the GPU are virtual time; those of calls and of the host's waiting are this machine's"
NOTHING = (
    "no process used CUDA where the shim could see it: the program used no GPU, or it reached the driver in a way of "
    "its own"
)
DEINITIALIZED = 4  # CUresult of calls while the process ends, which nobody misses


def to_text(report: Report, *, is_virtual: bool = False) -> list[Part]:
    """Tables of launches, kernels, copies and waiting; parts about which there is nothing to say are left out.

    is_virtual: times on the GPU are by another clock than those of calls.
    """
    if not report.processes:
        return [NOTHING]
    parts = (part(report) for part in (_launches, _kernels, _copies, _pulls, _waiting, _failures, _programs))
    return [*blocks(parts), *([f"  {CLOCKS}"] if is_virtual and report.launches.total else [])]


def _launches(report: Report) -> list[Part]:
    launches, memory, graphs = report.launches, report.memory, report.graphs
    by_device = ", ".join(f"{count} on GPU {device}" for device, count in launches.by_device.items())
    where = f": {by_device}" if len(launches.by_device) > 1 else ""
    lines: list[Part] = [f"{many(launches.total, 'launch', 'launches')}{where}"]
    if launches.captured or graphs.launches:
        lines.append(
            f"  {launches.captured} more recorded into graphs; {many(graphs.launches, 'launch', 'launches')} of graphs "
            f"with {many(graphs.kernels, 'kernel')} in them"
        )
    if launches.kept_home:
        reasons = ", ".join(f"{reason}: {count}" for reason, count in launches.kept_home_by_reason.items())
        lines.append(f"  kept home although a rule sent them elsewhere: {launches.kept_home} ({reasons})")
    if launches.total:
        times = f"in the calls {duration(launches.host_ns)}, on the GPU {duration(launches.gpu_ns)}"
        lines.append(f"  {times} ({_sample(report)})")
    if launches.tklqt_ns is not None and launches.total:
        mean = duration(launches.tklqt_ns / launches.total)
        lines.append(f"  from call to start on the GPU (TKLQT) {duration(launches.tklqt_ns)}, {mean} per launch")
    if memory.allocations:
        lines.append(
            f"  device memory: {many(memory.allocations, 'allocation')} of {amount(memory.allocated_bytes)}, at most "
            f"{amount(memory.peak_bytes)} at a time"
        )
    if report.overhead_ns_per_launch is not None:
        lines.append(f"  the shim's own part of a launch: {report.overhead_ns_per_launch:.0f} ns")
    if report.records.lost or report.records.times_lost:
        lines.append(
            Warned(
                f"  lost: {many(report.records.lost, 'record')} (launches are still counted, not by kernel), "
                f"{many(report.records.times_lost, 'time')} on the GPU"
            )
        )
    return lines


def _sample(report: Report) -> str:
    total, timed = report.launches.total, report.launches.timed
    return "not measured" if not timed else "all measured" if timed >= total else f"estimated from {timed} measured"


def _kernels(report: Report) -> list[Part]:
    if not report.kernels:
        return []
    shown = report.kernels[:LARGEST_KERNELS]
    launches = "launches (captured)" if any(kernel.captured for kernel in shown) else "launches"
    heading = ("GPU", launches, "on GPU", "share", "mean", "longest", "in call", "queued", "kernel")
    total = report.launches.gpu_ns
    rows = [_kernel_cells(kernel, total) for kernel in shown]
    used = max(sum(len(row[column]) for column in range(8)) for row in [heading, *rows]) + 2 * 9 + 10
    named = [(*row, short(kernel.name, max(LINE - used, 40))) for row, kernel in zip(rows, shown, strict=True)]
    lines = columns([heading, *named], right=range(8))
    if len(shown) < len(report.kernels):
        lines.append(f"  and {len(report.kernels) - len(shown)} more kernels")
    return lines


def _kernel_cells(kernel: KernelReport, total: int | None) -> tuple[str, ...]:
    """All but the name; times of one launch but for the sum."""
    count = kernel.launches

    def each(total_ns: int | None) -> str:
        return duration(None if total_ns is None or not count else total_ns / count)

    return (
        str(kernel.device),
        f"{count} ({kernel.captured})" if kernel.captured else str(count),
        duration(kernel.gpu_ns),
        "-" if kernel.gpu_ns is None or not total else f"{100 * kernel.gpu_ns / total:.1f} %",
        each(kernel.gpu_ns),
        duration(kernel.gpu_ns_max),
        each(kernel.host_ns),
        each(kernel.queue_ns),
    )


def _copies(report: Report) -> list[Part]:
    rows = [
        ("-" if copy.device is None else str(copy.device), copy.direction, str(copy.copies), amount(copy.copied_bytes))
        for copy in report.copies
    ]
    if report.memsets.count:
        rows.append(("-", "memset", str(report.memsets.count), amount(report.memsets.bytes)))
    return columns([("GPU", "copies", "count", "bytes"), *rows], right=(0, 2, 3)) if rows else []


def _pulls(report: Report) -> list[Part]:
    """Of memory that GPUs have copies of."""
    rows = [
        (str(pull.device), str(pull.source), pull.cause, str(pull.pulls), amount(pull.bytes), duration(pull.gpu_ns))
        for pull in report.pulls
    ]
    heading = ("GPU", "pulled from", "for", "pulls", "bytes", "waited")
    return columns([heading, *rows], right=(0, 1, 3, 4, 5)) if rows else []


def _waiting(report: Report) -> list[Part]:
    return _calls("the host waited in", report.synchronisations)


def _calls(heading: str, calls: tuple[CallReport, ...]) -> list[Part]:
    rows = [(call.call, str(call.count), duration(call.host_ns)) for call in calls[:LARGEST_ROWS]]
    return columns([(heading, "calls", "time"), *rows], right=(1, 2)) if rows else []


def _failures(report: Report) -> list[Part]:
    shown = [row for row in report.failures if row.result != DEINITIALIZED]
    rows = [(row.call, str(row.result), str(row.count)) for row in shown[:LARGEST_ROWS]]
    return columns([("call that failed", "CUresult", "count"), *rows], right=(1, 2)) if rows else []


def _programs(report: Report) -> list[Part]:
    if len(report.programs) < 2:
        return []
    rows = [
        (str(row.pid), str(row.launches), str(row.graph_launches), amount(row.peak_bytes), short(row.program, 60))
        for row in sorted(report.programs, key=lambda row: -row.launches)[:LARGEST_ROWS]
    ]
    return columns([("process", "launches", "graphs", "memory", "program"), *rows], right=(0, 1, 2, 3))
