"""A policy tried on a trace: how many of the recorded launches each rule would have taken.

A trace has no names of modules, only their hashes, and no library calls: conditions on those hold for no launch of it.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from controlplane.observe import trace
from controlplane.observe.layout import Kind, call_name
from controlplane.policy.decide import Decider, Launch
from controlplane.policy.language import Policy

CREATED = ("cuStreamCreate", "cuStreamCreateWithPriority", "cuGreenCtxStreamCreate")
DEFAULT_STREAMS = (0, 1, 2)
UNNUMBERED = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Trial:
    """Launches by the line of the rule that takes them; those that none takes; those on GPUs that are not home."""

    by_line: dict[int, int]
    default: int
    elsewhere: int


def try_on(policy: Policy, file: Path) -> Trial:
    """Decides all launches of a trace in the order in which they were made. Raises ConfigError."""
    decider, taken = Decider(policy), Counter[int | None]()
    elsewhere = 0
    for traced in trace.load(file).processes:
        for launch, device in _launches(traced):
            if device == policy.home:
                taken[decider.decide(launch)] += 1
            else:
                elsewhere += 1
    by_line = {rule.line: taken[place] for place, rule in enumerate(policy.rules)}
    return Trial(by_line, taken[None], elsewhere)


def _launches(traced: trace.TracedProcess) -> Iterator[tuple[Launch, int]]:
    """Each launch of a process, and the GPU that the program made it on."""
    calls = trace.calls(traced)
    kinds = calls.records["kind"]
    wanted = np.flatnonzero(np.isin(kinds, (Kind.LAUNCH, Kind.STREAM)))
    streams = dict.fromkeys(DEFAULT_STREAMS, 0)
    created = 0
    program = Path(traced.process.program).name
    for row in wanted[np.argsort(calls.start_ns[wanted], kind="stable")].tolist():
        record = calls.records[row]
        if int(record["result"]):
            continue
        if int(record["kind"]) == Kind.STREAM:
            if call_name(int(record["call"])) in CREATED:
                created += 1
                streams[int(record["stream.handle"])] = created
            continue
        function = int(record["launch.function"])
        digest = traced.hashes.get(traced.modules.get(function, 0))
        launch = Launch(
            traced.function(function),
            prod(record["launch.grid"].tolist()),
            prod(record["launch.block"].tolist()),
            streams.get(int(record["stream"]), UNNUMBERED),
            (program,),
            module=() if digest is None else (f"{digest:016x}",),
            owner=(traced.process, function),
        )
        yield launch, traced.contexts.get(int(record["context"]), int(record["launch.device"]))
