"""Records in words: what is shown of a call in viewers."""

from controlplane.demangle import demangle
from controlplane.observe.layout import Flag, Kind, call_name, reason_name
from controlplane.observe.stats import direction_name
from controlplane.observe.trace import Calls, TracedProcess
from controlplane.tables import amount

LEGACY_STREAM, PER_THREAD_STREAM = 1, 2
GPU_KINDS = {Kind.LAUNCH: "kernel", Kind.GRAPH: "graph", Kind.COPY: "copy", Kind.MEMSET: "memset"}


class Describer:
    """Of the calls of one process, by their row."""

    def __init__(self, traced: TracedProcess, found: Calls) -> None:
        self._traced, self._calls = traced, found
        self._stream_names: dict[tuple[int, int], str] = {}

    def gpu_name(self, row: int) -> str:
        """Of what ran on the GPU."""
        record = self._calls.records[row]
        kind = int(record["kind"])
        if kind == Kind.LAUNCH:
            return demangle(self._traced.function(int(record["launch.function"])))
        if kind == Kind.GRAPH:
            return f"graph of {int(record['graph.kernels'])} kernels"
        if kind == Kind.COPY:
            direction = direction_name(int(record["copy.from"]), int(record["copy.to"]))
            return f"copy {amount(int(record['copy.bytes']))} {direction}"
        if kind == Kind.MEMSET:
            return f"memset {amount(int(record['memset.bytes']))}"
        return call_name(int(record["call"]))

    def category(self, row: int) -> str:
        kind = int(self._calls.records["kind"][row])
        return GPU_KINDS[Kind(kind)] if kind in GPU_KINDS else "other"

    def stream(self, row: int) -> str:
        """Streams are numbered as they appear; contexts are named only where a GPU has several."""
        record = self._calls.records[row]
        stream, context = int(record["stream"]), int(record["context"])
        if (context, stream) not in self._stream_names:
            ours = sum(stream > PER_THREAD_STREAM for _, stream in self._stream_names)
            several = len(set(self._traced.contexts.values())) < len(self._traced.contexts)
            suffix = f", context {context}" if several else ""
            name = "default stream" if stream <= LEGACY_STREAM else f"stream {ours + 1}"
            self._stream_names[context, stream] = name + suffix
        if stream == PER_THREAD_STREAM:
            return f"default stream of thread {int(self._calls.thread[row])}"
        return self._stream_names[context, stream]

    def details(self, row: int) -> dict[str, str | int]:
        """What the record says, as far as it says more than nothing."""
        record = self._calls.records[row]
        kind, result, flags = int(record["kind"]), int(record["result"]), int(record["flags"])
        details: dict[str, str | int] = {}
        if kind == Kind.LAUNCH:
            details["kernel"] = demangle(self._traced.function(int(record["launch.function"])))
            details["grid"] = "x".join(map(str, record["launch.grid"].tolist()))
            details["block"] = "x".join(map(str, record["launch.block"].tolist()))
            details["shared bytes"] = int(record["launch.shared_bytes"])
            details["GPU"] = int(record["launch.device"])
        elif kind == Kind.GRAPH:
            details["kernels"] = int(record["graph.kernels"])
        elif kind == Kind.COPY:
            details["bytes"] = int(record["copy.bytes"])
            details["direction"] = direction_name(int(record["copy.from"]), int(record["copy.to"]))
        elif kind in (Kind.ALLOCATE, Kind.FREE):
            details["address"], details["bytes"] = hex(int(record["memory.address"])), int(record["memory.bytes"])
        elif kind == Kind.MEMSET:
            details["bytes"] = int(record["memset.bytes"])
        if record["stream"]:
            details["stream"] = hex(int(record["stream"]))
        if result:
            details["CUresult"] = result
        if flags & (Flag.CAPTURED | Flag.REDIRECTED | Flag.KEPT_HOME):
            details["flags"] = " ".join(flag.name.lower() for flag in Flag if flag & flags and flag.name)
        if flags & Flag.KEPT_HOME and kind == Kind.LAUNCH:
            details["reason"] = reason_name(int(record["launch.reason"]))
        return details
