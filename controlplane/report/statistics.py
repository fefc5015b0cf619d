"""The statistics of a run as data: what the control plane process works out and tessera-run prints and writes.

The names of all fields are keys of the JSON output and stay. Times are nanoseconds; None is "not known". Estimated:
the mean of the launches that were timed, times the number of launches.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from ptxtools.errors import WireError


@dataclass(frozen=True, slots=True)
class LaunchReport:
    """Launches by call, not those inside graphs. total, by_device, kept_home and its reasons are exact even if records
    were lost. kept_home: those that a rule sent elsewhere and that stayed, captured ones, too.

    captured: recorded into graphs instead of run, not part of total. timed: how many were timed on the GPU.
    host_ns: in the calls. gpu_ns: on the GPUs, estimated. tklqt_ns: total kernel launch and queuing time,
    estimated.
    """

    total: int
    by_device: dict[str, int]
    kept_home: int
    kept_home_by_reason: dict[str, int]
    captured: int
    timed: int
    host_ns: int | None
    gpu_ns: int | None
    tklqt_ns: int | None


@dataclass(frozen=True, slots=True)
class KernelReport:
    """One kernel on one GPU. gpu_ns is estimated; queue_ns is its part of TKLQT; processes: launches by pid."""

    device: int
    name: str
    launches: int
    captured: int
    timed: int
    gpu_ns: int | None
    gpu_ns_min: int | None
    gpu_ns_max: int | None
    host_ns: int | None
    queue_ns: int | None
    processes: dict[str, int]


@dataclass(frozen=True, slots=True)
class CopyReport:
    """Copies of one direction, by the device of the context that asked for them."""

    device: int | None
    direction: str
    copies: int
    copied_bytes: int
    host_ns: int | None


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """Allocations of memory. peak_bytes: sum over the processes, each at its own peak."""

    allocations: int
    frees: int
    allocated_bytes: int
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class CallReport:
    """Calls of one driver function, or of one sort; waited_ns: host time in them."""

    call: str
    count: int
    bytes: int
    host_ns: int | None


@dataclass(frozen=True, slots=True)
class GraphReport:
    """Launches of graphs, and the kernels in them."""

    launches: int
    kernels: int
    host_ns: int | None


@dataclass(frozen=True, slots=True)
class PullReport:
    """Bytes that a GPU pulled from another one's copy of memory, for one cause. gpu_ns: what the streams that they were
    pulled in waited for them, estimated.
    """

    device: int
    source: int
    cause: str
    pulls: int
    bytes: int
    timed: int
    gpu_ns: int | None


@dataclass(frozen=True, slots=True)
class FailureReport:
    """Calls that returned this CUresult."""

    call: str
    result: int
    count: int


@dataclass(frozen=True, slots=True)
class RecordReport:
    """lost: records that found no room. times_lost: timed launches whose time could not be had."""

    lost: int
    times_lost: int


@dataclass(frozen=True, slots=True)
class ProgramReport:
    """One process that used CUDA."""

    pid: int
    parent: int
    program: str
    driver_version: int
    launches: int
    graph_launches: int
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class TraceReport:
    """The trace that was written. left_out: records that the file was too slow for; complete: it did not fail."""

    file: str
    bytes: int
    launches: int
    left_out: int
    complete: bool


@dataclass(frozen=True, slots=True)
class AnalysisReport:
    """What the analysis knew when the program ended: functions that it was to know; of these, those whose launches'
    ranges are known, and those that may touch anything. cached, analysed: where the answers came from. reasons: why
    functions are unknown, and which.
    """

    functions: int
    known: int
    unknown: int
    cached: int
    analysed: int
    reasons: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Report:
    """One run. overhead_ns_per_launch: what the shim added to a launch on the calling thread, mean of a sample.

    memory is that of GPUs, host_memory is page-locked.
    """

    processes: int
    launches: LaunchReport
    kernels: tuple[KernelReport, ...]
    copies: tuple[CopyReport, ...]
    memsets: CallReport
    memory: MemoryReport
    host_memory: MemoryReport
    graphs: GraphReport
    synchronisations: tuple[CallReport, ...]
    failures: tuple[FailureReport, ...]
    records: RecordReport
    overhead_ns_per_launch: float | None
    programs: tuple[ProgramReport, ...]
    pulls: tuple[PullReport, ...] = ()
    trace: TraceReport | None = None
    analysis: AnalysisReport | None = None

    @property
    def waited_ns(self) -> int | None:
        """What streams waited for pulls, all together; None if no pull was timed."""
        known = [pull.gpu_ns for pull in self.pulls if pull.gpu_ns is not None]
        return sum(known) if known or not self.pulls else None

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def from_json(text: str) -> Report:
    """The inverse of Report.to_json. Raises WireError."""
    try:
        data: Mapping[str, object] = json.loads(text)
        return _report(data)
    except (ValueError, TypeError, KeyError) as error:
        raise WireError(f"the control plane's report cannot be read: {error}") from error


def _report(data: Mapping[str, object]) -> Report:
    single = {"launches": LaunchReport, "memsets": CallReport, "memory": MemoryReport, "graphs": GraphReport}
    single = {**single, "host_memory": MemoryReport, "records": RecordReport}
    several = {
        "kernels": KernelReport,
        "copies": CopyReport,
        "synchronisations": CallReport,
        "failures": FailureReport,
        "programs": ProgramReport,
        "pulls": PullReport,
    }
    parts: dict[str, object] = dict(data)
    for name, kind in single.items():
        parts[name] = kind(**data[name])  # type: ignore[arg-type]
    for name, kind in several.items():
        parts[name] = tuple(kind(**row) for row in data[name])  # type: ignore[attr-defined]
    if data["trace"] is not None:
        parts["trace"] = TraceReport(**data["trace"])  # type: ignore[arg-type]
    if data["analysis"] is not None:
        parts["analysis"] = AnalysisReport(**data["analysis"])  # type: ignore[arg-type]
    return Report(**parts)  # type: ignore[arg-type]
