"""Records in words: what is shown of a call in viewers."""

from typing import Any

from controlplane.base.demangle import demangle, short
from controlplane.base.tables import amount
from controlplane.observe.layout import Flag, Kind, call_name, reason_name
from controlplane.observe.stats import direction_name
from controlplane.observe.trace import Calls, TracedProcess

LEGACY_STREAM, PER_THREAD_STREAM = 1, 2
GPU_KINDS = {Kind.LAUNCH: "kernel", Kind.GRAPH: "graph", Kind.COPY: "copy", Kind.MEMSET: "memset"}
LONGEST_NAME = 160
SHOWN_FLAGS = Flag.CAPTURED | Flag.REDIRECTED | Flag.KEPT_HOME


class Describer:
    """Of the calls of one process, by their row."""

    def __init__(self, traced: TracedProcess, found: Calls) -> None:
        self._traced, self._calls = traced, found
        self._stream_names: dict[tuple[int, int], str] = {}
        self._columns: dict[str, list[Any]] = {}
        self._details: dict[int, dict[str, str | int]] = {}

    def _of(self, name: str, row: int) -> Any:
        """The record's field; whole columns are unpacked at a time, as single fields are slow to get."""
        if name not in self._columns:
            self._columns[name] = self._calls.records[name].tolist()
        return self._columns[name][row]

    def host_name(self, row: int) -> str:
        """Of the call."""
        return call_name(self._of("call", row))

    def gpu_name(self, row: int) -> str:
        """Of what ran on the GPU; a kernel's parameters are left to the details."""
        kind = self._of("kind", row)
        if kind == Kind.LAUNCH:
            return short(self._traced.function(self._of("launch.function", row)), LONGEST_NAME)
        if kind == Kind.GRAPH:
            return f"graph of {self._of('graph.kernels', row)} kernels"
        if kind == Kind.COPY:
            return f"copy {amount(self._of('copy.bytes', row))} {self._direction(row)}"
        if kind == Kind.MEMSET:
            return f"memset {amount(self._of('memset.bytes', row))}"
        return self.host_name(row)

    def _kernel(self, row: int) -> str:
        return demangle(self._traced.function(self._of("launch.function", row)))

    def _direction(self, row: int) -> str:
        return direction_name(self._of("copy.from", row), self._of("copy.to", row))

    def category(self, row: int) -> str:
        return GPU_KINDS.get(self._of("kind", row), "other")

    def stream(self, row: int) -> str:
        """Streams are numbered as they appear; contexts are named only where a GPU has several."""
        stream, context = self._of("stream", row), self._of("context", row)
        if stream == PER_THREAD_STREAM:
            return f"default stream of thread {int(self._calls.thread[row])}"
        if (context, stream) not in self._stream_names:
            ours = sum(stream > PER_THREAD_STREAM for _, stream in self._stream_names)
            several = len(set(self._traced.contexts.values())) < len(self._traced.contexts)
            suffix = f", context {context}" if several else ""
            name = "default stream" if stream <= LEGACY_STREAM else f"stream {ours + 1}"
            self._stream_names[context, stream] = name + suffix
        return self._stream_names[context, stream]

    def details(self, row: int) -> dict[str, str | int]:
        """What the record says, as far as it says more than nothing; the same object each time."""
        if row not in self._details:
            self._details[row] = {**self._of_kind(row), **self._of_all(row)}
        return self._details[row]

    def _of_kind(self, row: int) -> dict[str, str | int]:
        kind = self._of("kind", row)
        if kind == Kind.LAUNCH:
            return {
                "kernel": self._kernel(row),
                "grid": "x".join(map(str, self._of("launch.grid", row))),
                "block": "x".join(map(str, self._of("launch.block", row))),
                "shared bytes": self._of("launch.shared_bytes", row),
                "GPU": self._of("launch.device", row),
            }
        if kind == Kind.GRAPH:
            away = self._of("flags", row) & Flag.REDIRECTED
            where = {"GPU": self._of("graph.device", row)} if away else {}
            return {"kernels": self._of("graph.kernels", row), **where}
        if kind == Kind.COPY:
            return {"bytes": self._of("copy.bytes", row), "direction": self._direction(row)}
        if kind in (Kind.ALLOCATE, Kind.FREE):
            return {"address": hex(self._of("memory.address", row)), "bytes": self._of("memory.bytes", row)}
        return {"bytes": self._of("memset.bytes", row)} if kind == Kind.MEMSET else {}

    def _of_all(self, row: int) -> dict[str, str | int]:
        stream, result, flags = self._of("stream", row), self._of("result", row), self._of("flags", row)
        details: dict[str, str | int] = {}
        if stream:
            details["stream"] = hex(stream)
        if result:
            details["CUresult"] = result
        if flags & SHOWN_FLAGS:
            details["flags"] = " ".join(flag.name.lower() for flag in Flag if flag & flags and flag.name)
        if flags & Flag.KEPT_HOME and self._of("kind", row) in (Kind.LAUNCH, Kind.GRAPH):
            kind = "launch" if self._of("kind", row) == Kind.LAUNCH else "graph"
            details["reason"] = reason_name(self._of(f"{kind}.reason", row))
        return details
