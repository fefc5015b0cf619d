"""A policy tried on a trace: how many of the recorded launches each rule would have taken.

A trace has no names of modules, only their hashes, and no library calls: conditions on those hold for no launch of it.
It does not say either when a thread ended: rules that give threads a GPU count it as long as the trace lasts.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from controlplane.observe import trace
from controlplane.observe.layout import Flag, Kind, call_name
from controlplane.policy.assign import Assigner
from controlplane.policy.decide import Decider, Launch
from controlplane.policy.language import BY_STREAM, GIVEN, Policy

CREATED = ("cuStreamCreate", "cuStreamCreateWithPriority", "cuGreenCtxStreamCreate")
DESTROYED = ("cuStreamDestroy", "cuStreamDestroy_v2")
DEFAULT_STREAMS = (0, 1, 2)
PER_THREAD = 2
UNNUMBERED = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Trial:
    """Launches by the line of the rule that takes them; those that none takes; those on GPUs that are not home.

    given: of rules that give streams or threads a GPU, by line, those that run on each GPU; None: of such a default.
    """

    by_line: dict[int, int]
    default: int
    elsewhere: int
    given: dict[int | None, dict[int, int]]


@dataclass(frozen=True, slots=True)
class _Made:
    """A launch of a trace, and the GPU that the program made it on; or, without one, the end of a stream."""

    launch: Launch | None
    device: int
    stream: object
    thread: int
    start_ns: int
    captured: bool


def try_on(policy: Policy, file: Path) -> Trial:
    """Decides all launches of a trace in the order in which they were made. Raises ConfigError."""
    decider, taken, elsewhere = Decider(policy), Counter[int | None](), 0
    devices = {rule.line: rule.device for rule in policy.rules} | {None: policy.default}
    given = {line: dict.fromkeys(policy.gpus, 0) for line, device in devices.items() if device in GIVEN.values()}
    for traced in trace.load(file).processes:
        assigner = Assigner(policy.gpus)
        for made in _made(traced):
            if made.launch is None:
                assigner.end(made.stream)
                continue
            if made.device != policy.home:
                elsewhere += 1
                continue
            place = decider.decide(made.launch)
            line = None if place is None else policy.rules[place].line
            taken[line] += 1
            if line in given and not made.captured:
                owner = made.stream if devices[line] == BY_STREAM else made.thread
                given[line][assigner.gpu_of(owner, made.start_ns)] += 1
    return Trial({rule.line: taken[rule.line] for rule in policy.rules}, taken[None], elsewhere, given)


def _made(traced: trace.TracedProcess) -> Iterator[_Made]:
    """Each launch of a process, and each end of a stream."""
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
            elif call_name(int(record["call"])) in DESTROYED:
                yield _Made(None, 0, ("stream", int(record["stream.handle"])), 0, 0, False)
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
        stream, thread = int(record["stream"]), int(calls.thread[row])
        where = traced.contexts.get(int(record["context"]), int(record["launch.device"]))
        yield _Made(
            launch,
            where,
            ("own", thread) if stream == PER_THREAD else ("stream", 0 if stream in DEFAULT_STREAMS else stream),
            thread,
            int(calls.start_ns[row]),
            bool(int(record["flags"]) & Flag.CAPTURED),
        )
