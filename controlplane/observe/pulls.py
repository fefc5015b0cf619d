"""Pulls of a trace: what each is called, which launch wrote what it brought, and which call it was for."""

import numpy as np
from numpy.typing import NDArray

from controlplane.base.tables import amount
from controlplane.observe.layout import Kind, pull_cause
from controlplane.observe.trace import Calls

LEGACY_STREAM, PER_THREAD_STREAM = 1, 2


class PullSlices:
    """Of one process. records: the pulls; the readers are rows of the calls, -1 where that is not known.

    A pull's record names the stream that wrote its bytes and the last digits of the number that the writer has among
    that stream's work; the writer is the last launch before the pull that has these, on the GPU that they came from.
    """

    def __init__(self, calls: Calls, pulls: Calls, readers: NDArray[np.intp]) -> None:
        self.records, self._readers = pulls, readers
        self._writers = _writers(calls, pulls)

    def describe(self, row: int) -> tuple[str, dict[str, str | int]]:
        """Its name, and what is shown with it."""
        record = self.records.records[row]
        size, source = int(record["pull.bytes"]), int(record["pull.from"])
        details: dict[str, str | int] = {
            "bytes": size,
            "from GPU": source,
            "for": pull_cause(int(record["pull.cause"])),
            "address": hex(int(record["pull.address"])),
            "stream": hex(int(record["stream"])),
        }
        if record["pull.through_host"]:
            details["way"] = "through host memory"
        return f"pull {amount(size)} from GPU {source}", details

    def writer(self, row: int) -> int:
        """The launch that wrote the first of the bytes last."""
        return int(self._writers[row])

    def reader(self, row: int) -> int:
        """The call that the bytes were pulled for."""
        return int(self._readers[row])


def _writers(calls: Calls, pulls: Calls) -> NDArray[np.intp]:
    """For each pull a row of the calls, or -1."""
    result = np.full(len(pulls.records), -1, np.intp)
    launches = np.flatnonzero((calls.records["kind"] == Kind.LAUNCH) & (calls.records["launch.ticket"] != 0))
    launches = launches[np.argsort(calls.start_ns[launches], kind="stable")]
    of_work: dict[tuple[int, int, int], list[int]] = {}
    for row, *key in zip(
        launches.tolist(),
        calls.records["stream"][launches].tolist(),
        calls.records["launch.ticket"][launches].tolist(),
        calls.records["launch.device"][launches].tolist(),
        strict=True,
    ):
        stream, ticket, device = key
        of_work.setdefault((_queue(stream), ticket, device), []).append(row)
    columns = [pulls.records[f"pull.{name}"].tolist() for name in ("writer", "ticket", "from")]
    for row, (writer, ticket, source) in enumerate(zip(*columns, strict=True)):
        candidates = of_work.get((writer, ticket, source), []) if writer else []
        before = [one for one in candidates if calls.start_ns[one] <= pulls.start_ns[row]]
        if before:
            result[row] = before[-1]
    return result


def _queue(stream: int) -> int:
    """Default streams of threads count as the legacy one, as in pulls."""
    return LEGACY_STREAM if stream <= PER_THREAD_STREAM else stream
