"""Statistics against a naive sum over the same records, and what is said where something is not known."""

import tracemalloc
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.base.demangle import demangle, short
from controlplane.base.screen import plain
from controlplane.observe import stats
from controlplane.observe.layout import GPUS, EntryKind, Flag, Kind, driver_functions, dtype
from controlplane.observe.producer import Anchor, Clock, Counters, Entry, Process
from controlplane.observe.receiver import Batch
from controlplane.observe.report import report as make_report
from controlplane.observe.stats import HISTORY, Statistics
from controlplane.report import statistics
from controlplane.report import text as report_text
from ptxtools.errors import WireError

TICKS_PER_NS = 3
START_NS = 10**12
CLOCK = Clock(Anchor(0, START_NS, 0), Anchor(10**9 * TICKS_PER_NS, START_NS + 10**9, 0))


@pytest.fixture(autouse=True)
def _native(fake_native: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESSERA_NATIVE", str(fake_native))


def process(index: int = 0, *, own_clock: bool = False) -> Process:
    return Process(index, 100 + index, 1, f"/bin/app{index}", 13000, own_clock)


def row(kind: Kind, call: str = "cuLaunchKernel", **fields: Any) -> dict[str, Any]:
    return {"kind": kind, "call": driver_functions().index(call), "ticks": 30, **fields}


def batch(rows: Sequence[dict[str, Any]], ring: int = 0, first: int = 0) -> Batch:
    result = np.zeros(len(rows), dtype("tsr_record"))
    for place, values in enumerate(rows):
        for name, value in values.items():
            result[name.replace("__", ".")][place] = value
    return Batch(ring, first, result)


def names(*functions: str) -> list[Entry]:
    return [Entry(EntryKind.FUNCTION, number, 0, 0, 0, 0, text) for number, text in enumerate(functions, 1)]


def run(batches: Sequence[Batch], *functions: str, own_clock: bool = False, **counters: Any) -> statistics.Report:
    statistics, one = Statistics(), process(own_clock=own_clock)
    statistics.begin(one)
    statistics.define(one, names(*functions))
    for some in batches:
        statistics.records(one, [some])
    statistics.state(one, CLOCK, Counters(**counters))
    return make_report(statistics)


LAUNCHES = st.lists(
    st.tuples(
        st.integers(0, 4),  # function
        st.integers(0, 2),  # GPU
        st.booleans(),  # captured
        st.integers(0, 1000),  # ticks of the call
        st.one_of(st.none(), st.tuples(st.integers(0, 10**6), st.integers(1, 10**6))),  # queue time, time on the GPU
    ),
    max_size=60,
)


@settings(max_examples=100, deadline=None)
@given(launches=LAUNCHES, cut=st.integers(0, 60))
def test_sums_are_those_of_a_naive_version(launches: list[tuple[Any, ...]], cut: int) -> None:
    functions = ("", "f1", "f2", "f3", "f4")
    expected: dict[tuple[int, str], dict[str, Any]] = defaultdict(
        lambda: {"launches": 0, "captured": 0, "ticks": 0, "times": [], "queued": []}
    )
    rows, times = [], []
    for number, (function, device, captured, ticks, measured) in enumerate(launches):
        start_ns = 1000 * number
        rows.append(
            row(
                Kind.LAUNCH,
                start=start_ns * TICKS_PER_NS,
                ticks=ticks,
                flags=Flag.CAPTURED if captured else 0,
                launch__function=function,
                launch__device=device,
            )
        )
        of = expected[device, functions[function] or "(unknown)"]
        of["captured" if captured else "launches"] += 1
        of["ticks"] += 0 if captured else ticks
        if measured and not captured:
            queued, ns = measured
            of["times"].append(ns)
            of["queued"].append(queued)
            called = START_NS + start_ns
            times.append(row(Kind.TIME, time__number=number, time__start_ns=called + queued, time__ns=ns))
    batches = [batch(rows[:cut], 0, 0), batch(rows[cut:], 0, cut), batch(times, 1, 0)]
    result = run([some for some in batches if len(some.records)], *functions[1:])
    found = {(kernel.device, kernel.name): kernel for kernel in result.kernels}
    assert set(found) == set(expected)
    for key, of in expected.items():
        kernel = found[key]
        assert (kernel.launches, kernel.captured, kernel.timed) == (of["launches"], of["captured"], len(of["times"]))
        assert kernel.host_ns == round(of["ticks"] / TICKS_PER_NS)
        if of["times"]:
            assert (kernel.gpu_ns_min, kernel.gpu_ns_max) == (min(of["times"]), max(of["times"]))
            assert kernel.gpu_ns == round(sum(of["times"]) * of["launches"] / len(of["times"]))
            assert kernel.queue_ns is not None
            assert abs(kernel.queue_ns - sum(of["queued"]) * of["launches"] / len(of["queued"])) <= of["launches"] + 1
        else:
            assert (kernel.gpu_ns, kernel.gpu_ns_min, kernel.gpu_ns_max, kernel.queue_ns) == (None, None, None, None)
    assert result.launches.timed == sum(len(of["times"]) for of in expected.values())


def test_tklqt_is_start_on_the_gpu_less_start_of_the_call() -> None:
    rows = [row(Kind.LAUNCH, start=n * 1000 * TICKS_PER_NS, launch__function=1) for n in range(4)]
    times = [
        row(Kind.TIME, time__number=n, time__start_ns=START_NS + n * 1000 + 5000 * (n + 1), time__ns=10) for n in (0, 1)
    ]
    result = run([batch(rows), batch(times, 1)], "f", launches=(4, *(0,) * (GPUS - 1)))
    assert result.launches.tklqt_ns == 4 * 7500
    assert "TKLQT) 30.000 us, 7.500 us per launch" in plain(report_text.to_text(result))
    assert "estimated from 2 measured" in plain(report_text.to_text(result))
    assert "virtual" not in plain(report_text.to_text(result))
    assert plain(report_text.to_text(result, is_virtual=True)).endswith(
        "times on the GPU are virtual time; those of calls and of the host's waiting are this machine's"
    )


def test_a_gpu_clock_of_its_own_gives_no_queue_time() -> None:
    rows = [row(Kind.LAUNCH, launch__function=1), row(Kind.TIME, time__number=0, time__start_ns=5, time__ns=10)]
    result = run([batch(rows)], "f", own_clock=True)
    assert (result.kernels[0].gpu_ns, result.kernels[0].queue_ns, result.launches.tklqt_ns) == (10, None, None)


def test_a_time_that_comes_too_late_is_counted() -> None:
    launches = [batch([row(Kind.LAUNCH, launch__function=1)] * HISTORY, 0, first) for first in (0, HISTORY)]
    times = [row(Kind.TIME, time__number=number, time__ns=7) for number in (0, HISTORY)]
    result = run([*launches, batch([*times, row(Kind.TIME, time__ring=5)], 1)], "f")
    assert (result.kernels[0].timed, result.records.times_lost) == (1, 2)


def test_copies_by_direction_and_the_contexts_gpu() -> None:
    statistics, one = Statistics(), process()
    statistics.begin(one)
    statistics.define(one, [Entry(EntryKind.CONTEXT, 1, 3, 0, 0, 0, "")])
    to_device = row(Kind.COPY, "cuMemcpyHtoDAsync_v2", context=1, copy__bytes=2**40, copy__to=2, copy__from=1)
    untold = row(Kind.COPY, "cuMemcpyAsync", context=9, copy__bytes=5)
    failed = row(Kind.COPY, "cuMemcpyAsync", result=1, copy__bytes=5)
    statistics.records(one, [batch([to_device, to_device, untold, failed, row(Kind.MEMSET, memset__bytes=6)])])
    result = make_report(statistics)
    assert [(copy.device, copy.direction, copy.copies, copy.copied_bytes) for copy in result.copies] == [
        (None, "by address", 1, 5),
        (3, "host to device", 2, 2**41),
    ]
    assert (result.memsets.count, result.memsets.bytes) == (1, 6)
    assert [(row.call, row.result, row.count) for row in result.failures] == [("cuMemcpyAsync", 1, 1)]


def test_memory_peaks_in_the_order_of_time() -> None:
    def allocate(start: int, address: int, size: int) -> dict[str, Any]:
        return row(Kind.ALLOCATE, "cuMemAlloc_v2", start=start, memory__address=address, memory__bytes=size)

    def free(start: int, address: int) -> dict[str, Any]:
        return row(Kind.FREE, "cuMemFree_v2", start=start, memory__address=address)

    statistics, one = Statistics(), process()
    statistics.begin(one)
    first, second = [allocate(1, 16, 100), allocate(4, 16, 50)], [free(3, 16), free(9, 32)]
    statistics.records(one, [batch(first, 0), batch(second, 1)])
    statistics.records(one, [batch([allocate(8, 32, 1000)], 0, 2)])  # its free was seen before it
    memory = make_report(statistics).memory
    assert (memory.allocations, memory.frees, memory.allocated_bytes, memory.peak_bytes) == (3, 2, 1150, 100)


def test_processes_are_put_together_by_name_and_gpu() -> None:
    statistics = Statistics()
    for index, function in ((0, "same"), (1, "other"), (2, "same")):
        one = process(index)
        statistics.begin(one)
        statistics.define(one, names(function))
        statistics.records(one, [batch([row(Kind.LAUNCH, launch__function=1)] * (index + 1))])
        statistics.state(one, CLOCK, Counters(launches=(index + 1, *(0,) * (GPUS - 1)), kept_home=index))
    result = make_report(statistics)
    assert {kernel.name: kernel.processes for kernel in result.kernels} == {
        "same": {"100": 1, "102": 3},
        "other": {"101": 2},
    }
    assert (result.launches.total, result.launches.kept_home) == (6, 3)
    assert "102" in plain(report_text.to_text(result))


def test_the_report_survives_json() -> None:
    result = run([batch([row(Kind.LAUNCH, launch__function=1), row(Kind.SYNCHRONIZE, "cuCtxSynchronize")])], "f")
    assert statistics.from_json(result.to_json()) == result
    with pytest.raises(WireError):
        statistics.from_json("{}")


def test_overhead_and_reasons() -> None:
    kept = row(Kind.LAUNCH, flags=Flag.KEPT_HOME, launch__function=1, launch__reason=16)
    reasons = (*(0,) * 16, 2)
    result = run([batch([kept, kept])], "f", overhead_samples=4, overhead_ticks=1200, kept_home=2, kept_reasons=reasons)
    assert (result.overhead_ns_per_launch, result.launches.kept_home_by_reason) == (100.0, {"memory managed": 2})
    assert "memory managed: 2" in plain(report_text.to_text(result))


def test_nothing_is_said_about_nothing() -> None:
    assert "no process used CUDA" in plain(report_text.to_text(make_report(Statistics())))


def test_names_for_people() -> None:
    assert demangle("_Z4axpyifPKfPf") == "axpy(int, float, float const*, float*)"
    assert short("_Z4axpyifPKfPf", 80) == "axpy"
    assert short("_ZN2at6native7vec_addIfEEvPT_", 80) == "at::native::vec_add<float>"
    assert short("_ZN4main4axpyB2v1Ef", 80) == "main::axpy"
    assert short("plain", 80) == "plain"
    assert short("_Zbroken", 80) == "_Zbroken"
    assert short("a" * 100, 9) == "aaaaa…aaa"


def test_every_key_is_documented() -> None:
    """Keys of the JSON output are a promise; a new one needs its line."""
    text = (Path(__file__).parents[2] / "docs" / "observing.md").read_text()
    kinds = [kind for kind in vars(statistics).values() if isinstance(kind, type) and is_dataclass(kind)]
    assert len(kinds) > 5
    for kind in kinds:
        for field in fields(kind):
            assert f"`{field.name}`" in text, f"{kind.__name__}.{field.name}"


def test_times_do_not_wait_for_a_clock_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "MOST_WAITING", 10)
    statistics, one = Statistics(), process()
    statistics.begin(one)
    for first in range(0, 40, 4):
        rows = [row(Kind.LAUNCH)] * 2 + [row(Kind.TIME, time__number=first + n, time__ns=7) for n in range(2)]
        statistics.records(one, [batch(rows, 0, first)])
        assert sum(len(rows) for rows, _, _ in statistics.processes[0].waiting) <= 10
    assert make_report(statistics).kernels[0].timed == 20


@pytest.mark.parametrize(("name", "most_bytes"), [("kernel", 40), ("kernel {}", 700)])
def test_what_is_kept_of_a_module_that_is_loaded(name: str, most_bytes: int) -> None:
    """Modules come and go: a kernel that is loaded again takes a few bytes; another one, little more than its name."""
    statistics, one, count = Statistics(), process(), 10_000
    statistics.begin(one)
    tracemalloc.start()
    try:
        for number in range(1, count + 1):
            if number == 1000:  # what there is one of is there
                before, _ = tracemalloc.get_traced_memory()
            statistics.define(one, [Entry(EntryKind.FUNCTION, number, 0, 0, 0, 0, name.format(number))])
            if number % 100 == 0:
                numbers = range(number - 99, number + 1)
                launched = [row(Kind.LAUNCH, launch__function=each, launch__device=each % 2) for each in numbers]
                statistics.records(one, [batch(launched, first=number)])
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) / (count - 1000) < most_bytes
    statistics.state(one, CLOCK, Counters(launches=(count, *(0,) * (GPUS - 1))))
    statistics.end(one)
    found = make_report(statistics).kernels
    assert sum(each.launches for each in found) == count
    assert len(found) == (2 if name == "kernel" else count)
