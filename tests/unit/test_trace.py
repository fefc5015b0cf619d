"""Traces: what is written is read back, damage is told by its place, and exports keep the rules of their formats."""

import errno
import gzip
import json
import os
import signal
import subprocess
import sys
import threading
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_stats import CLOCK, START_NS, TICKS_PER_NS, batch, names, process, row

from controlplane.commands.main import main
from controlplane.ipc.loop import Loop
from controlplane.observe import codec, perfetto, svg, timeline, trace, tracewriter
from controlplane.observe.layout import GPUS, EntryKind, Flag, Kind, dtype
from controlplane.observe.producer import Counters, Entry, Process
from controlplane.observe.receiver import Batch
from controlplane.observe.report import report
from controlplane.observe.stats import Statistics
from controlplane.observe.tracefile import CHUNK_HEADER, FILE_HEADER, Fact, RecordsOf, TraceReader, file_header, pack
from ptxtools.errors import ConfigError
from tests import schemas
from tests.command import with_native
from tests.trace_events import check_trace_events


@pytest.fixture(autouse=True)
def _native(fake_native: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESSERA_NATIVE", str(fake_native))


@pytest.mark.full
@settings(max_examples=200, deadline=None)
@given(data=st.data(), count=st.integers(0, 40))
def test_packed_records_are_the_same_when_unpacked(data: st.DataObject, count: int) -> None:
    raw = (
        np.frombuffer(data.draw(st.binary(min_size=64 * count, max_size=64 * count)), np.uint8)
        .reshape(count, 64)
        .copy()
    )
    for place in range(count):
        raw[place, 14] = data.draw(st.sampled_from([3, 3, 6, 17, 17, 0, 255]))
    records = raw.reshape(-1).view(dtype("tsr_record"))
    assert codec.decode(codec.encode(records), count).tobytes() == records.tobytes()


def test_ordinary_launches_need_few_bytes() -> None:
    """A decode step's launches, timed, with irregular times: 10.9 bytes were measured per launch and its time."""
    random, count = np.random.default_rng(1), 8192
    records = np.zeros(count, dtype("tsr_record"))
    launches = np.arange(count) % 2 == 0
    records["kind"] = np.where(launches, Kind.LAUNCH, Kind.TIME)
    records["start"] = np.cumsum(random.integers(6000, 9000, count)).astype(np.uint64) + np.uint64(10**15)
    records["ticks"] = random.integers(2000, 4000, count)
    records["launch.function"][launches] = np.tile(np.arange(1, 170), count)[: count // 2]
    times = records[~launches]
    times["time.number"] = np.arange(count // 2) * 2
    times["time.start_ns"] = np.cumsum(random.integers(2000, 9000, count // 2)).astype(np.uint64) + np.uint64(10**13)
    times["time.ns"] = random.integers(1000, 20000, count // 2)
    records[~launches] = times
    assert len(codec.encode(records)) / (count / 2) < 14


class Writer:
    """Writes a trace as the control plane does."""

    def __init__(self, file: Path | str, one: Process | None = None) -> None:
        self.complaints: list[str] = []
        self.process = one or process()
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        self.trace = tracewriter.TraceWriter(descriptor, str(file), self.complaints.append)
        self.statistics = Statistics()
        self.trace.start(Loop())
        for sink in (self.trace, self.statistics):
            sink.begin(self.process)
            sink.ring(self.process, 0, 4711)

    def define(self, *entries: Entry) -> None:
        for sink in (self.trace, self.statistics):
            sink.define(self.process, entries)

    def add(self, *batches: Batch) -> None:
        for sink in (self.trace, self.statistics):
            sink.records(self.process, batches)

    def finish(self, **counters: Any) -> None:
        for sink in (self.trace, self.statistics):
            sink.state(self.process, CLOCK, Counters(**counters))
        self.trace.finish()


def ns(value: int) -> int:
    """Ticks at this time after the clock's first anchor."""
    return value * TICKS_PER_NS


def example(file: Path, *, own_clock: bool = False) -> Writer:
    """Two streams, timed and untimed launches, a copy, an event between the streams, allocations, another thread."""
    writer = Writer(file, process(own_clock=own_clock))
    writer.define(*names("_Z4axpyifPKfPf", "plain"), Entry(EntryKind.CONTEXT, 1, 1, 0, 0, 0, ""))
    writer.define(Entry(EntryKind.DEVICE, 1, 0, 0, 0, 0, "NVIDIA H200"))
    common: dict[str, Any] = {"context": 1, "ticks": ns(1000)}
    shape: dict[str, Any] = {"launch__device": 1, "launch__grid": (2, 1, 1), "launch__block": (32, 1, 1)}
    main_thread = [
        row(Kind.ALLOCATE, "cuMemAlloc_v2", start=ns(0), memory__address=64, memory__bytes=4096, **common),
        row(
            Kind.COPY,
            "cuMemcpyHtoDAsync_v2",
            start=ns(2000),
            stream=7,
            copy__bytes=4096,
            copy__to=2,
            copy__from=1,
            **common,
        ),
        row(Kind.LAUNCH, start=ns(4000), stream=7, launch__function=1, **shape, **common),
        row(Kind.EVENT_RECORD, "cuEventRecord", start=ns(6000), stream=7, event__event=99, **common),
        row(Kind.EVENT_WAIT, "cuStreamWaitEvent", start=ns(8000), stream=8, event__event=99, **common),
        row(Kind.LAUNCH, start=ns(10000), stream=8, launch__function=2, **shape, **common),
        row(Kind.LAUNCH, start=ns(12000), stream=8, flags=Flag.CAPTURED, launch__function=2, **shape, **common),
        row(Kind.CALL, "cuMemAlloc_v2", start=ns(14000), result=2, **common),
        row(Kind.FREE, "cuMemFree_v2", start=ns(16000), memory__address=64, **common),
    ]
    other_thread = [
        row(Kind.THREAD, "cuInit", start=ns(100), thread__id=4712),
        row(Kind.SYNCHRONIZE, "cuCtxSynchronize", start=ns(5000), ticks=ns(20000), context=1),
        row(Kind.TIME, "cuInit", time__ring=0, time__number=1, time__start_ns=START_NS + 3000, time__ns=2500),
        row(Kind.TIME, "cuInit", time__ring=0, time__number=2, time__start_ns=START_NS + 7000, time__ns=5000),
        row(Kind.TIME, "cuInit", time__ring=0, time__number=5, time__start_ns=START_NS + 12000, time__ns=300),
    ]
    writer.trace.ring(writer.process, 1, 4712)
    writer.add(batch(main_thread[:4], 0, 0))
    writer.add(batch(main_thread[4:], 0, 4), batch(other_thread, 1, 0))
    writer.finish(launches=(0, 2, *(0,) * (GPUS - 2)), captured=1)
    assert writer.complaints == []
    return writer


def test_statistics_of_a_trace_are_those_of_the_run(tmp_path: Path) -> None:
    writer = example(tmp_path / "t")
    assert report(trace.load(tmp_path / "t").statistics()) == report(writer.statistics)


def test_calls_have_their_thread_and_their_time_on_the_gpu(tmp_path: Path) -> None:
    example(tmp_path / "t")
    [traced] = trace.load(tmp_path / "t").processes
    found = trace.calls(traced)
    launches = np.flatnonzero(found.records["kind"] == Kind.LAUNCH)
    assert found.timed[launches].tolist() == [True, True, False]
    assert (found.gpu_start_ns[launches] - START_NS).tolist()[:2] == [7000, 12000]
    assert (found.start_ns[launches] - START_NS).tolist() == [4000, 10000, 12000]
    assert found.thread[launches].tolist() == [4711] * 3
    assert found.thread[found.records["kind"] == Kind.SYNCHRONIZE].tolist() == [4712]


def test_a_file_that_was_cut_off_is_read_up_to_its_last_whole_chunk(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    example(whole)
    data = whole.read_bytes()
    ends = [FILE_HEADER.size]
    while ends[-1] < len(data):
        _, size, _ = CHUNK_HEADER.unpack_from(data, ends[-1])
        ends.append(ends[-1] + CHUNK_HEADER.size + size)
    assert len(list(TraceReader(whole))) == len(ends) - 1
    for length in range(FILE_HEADER.size, len(data)):
        cut = tmp_path / "cut"
        cut.write_bytes(data[:length])
        reader = TraceReader(cut)
        kept = [end for end in ends if end <= length]
        assert len(list(reader)) == len(kept) - 1
        assert reader.cut_off == (None if length in ends else kept[-1])


@settings(max_examples=150, deadline=None)
@given(place=st.integers(0, 10**6), value=st.integers(1, 255))
def test_a_wrong_byte_is_told_with_file_offset_and_expectation(tmp_path_factory: Any, place: int, value: int) -> None:
    directory = tmp_path_factory.getbasetemp() / "wrong-byte"
    directory.mkdir(exist_ok=True)
    whole, wrong = directory / "whole", directory / "wrong"
    if not whole.exists():
        example(whole)
    data = bytearray(whole.read_bytes())
    data[place % len(data)] ^= value
    wrong.write_bytes(data)
    try:
        cut_off = trace.load(wrong).cut_off
    except ConfigError as error:
        message = str(error)
    else:
        message = f"{wrong}: offset {cut_off}: expected a trace" if cut_off is not None else ""  # a length that grew
    assert message.startswith(f"{wrong}: offset ")
    assert "expected a trace" in message


@pytest.mark.parametrize("content", [b"", b"TSRTRACE", b"\x7fELF" + bytes(100), b"TSRTRACE" + b"\xff" * 8])
def test_files_that_are_no_traces(tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "t"
    file.write_bytes(content)
    assert main(["trace", "show", str(file)]) == 2
    assert f"{file}: offset " in capsys.readouterr().err
    assert main(["trace", "show", str(tmp_path / "none")]) == 2
    assert "No such file" in capsys.readouterr().err


def test_a_chunk_with_content_of_its_own_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "t"
    for fact in (Fact("process", 0, {"x": 1}), Fact("state", 5, {}), Fact("ring", 0, {})):
        file.write_bytes(file_header() + pack(fact))
        with pytest.raises(ConfigError, match="in a way of its own"):
            trace.load(file)
    file.write_bytes(file_header() + pack(RecordsOf(3, 0, 0, batch([row(Kind.LAUNCH)]).records)))
    assert trace.load(file).processes == []


def test_a_full_disk_ends_the_trace_with_one_message() -> None:
    writer = Writer("/dev/full")
    for first in range(0, 50000, 10000):
        writer.add(batch([row(Kind.LAUNCH)] * 10000, 0, first))
    writer.finish()
    assert writer.complaints == ["--trace /dev/full: No space left on device; the trace ends here, the program goes on"]
    assert not writer.trace.report().complete
    assert report(writer.statistics).kernels[0].launches == 50000


def test_a_slow_disk_costs_records_and_not_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    write = os.write

    def slow(descriptor: int, data: Any) -> int:
        release.wait(30)
        return write(descriptor, data)

    monkeypatch.setattr(tracewriter, "WAITING_ITEMS", 4)
    monkeypatch.setattr(os, "write", slow)
    writer = Writer(tmp_path / "t")
    for first in range(0, 100000, 10000):
        writer.add(batch([row(Kind.LAUNCH)] * 10000, 0, first))
    release.set()
    writer.finish()
    left_out = writer.trace.report().left_out
    assert left_out >= 50000
    assert f"{left_out} records were left out" in writer.complaints[0]
    loaded = trace.load(tmp_path / "t")
    assert sum(len(piece.records) for piece in loaded.processes[0].pieces) == 100000 - left_out


def test_a_write_error_in_the_middle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, written = os.write, 0

    def limited(descriptor: int, data: Any) -> int:
        nonlocal written
        if written > 300:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        count = write(descriptor, bytes(data)[:100])
        written += count
        return count

    monkeypatch.setattr(os, "write", limited)
    writer = Writer(tmp_path / "t")
    writer.add(batch([row(Kind.LAUNCH)] * 10000, 0, 0))
    writer.finish()
    assert len(writer.complaints) == 1
    assert trace.load(tmp_path / "t").cut_off is not None


def exported(file: Path) -> list[dict[str, Any]]:
    text = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    events: list[dict[str, Any]] = json.loads(text)["traceEvents"]
    return events


def test_export_for_viewers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example(tmp_path / "t")
    assert main(["trace", "export", str(tmp_path / "t"), "-o", str(tmp_path / "t.json.gz")]) == 0
    assert "ui.perfetto.dev" in capsys.readouterr().out
    events = exported(tmp_path / "t.json.gz")
    check_trace_events(events)
    groups = {event["args"]["name"]: event["pid"] for event in events if event["name"] == "process_name"}
    assert list(groups) == ["app0 [100]", "GPU 1 NVIDIA H200 of app0 [100]"]
    on_gpu = [
        event for event in events if event["ph"] == "X" and event["pid"] == groups["GPU 1 NVIDIA H200 of app0 [100]"]
    ]
    assert sorted((event["name"], event["cat"], event["ts"], event["dur"]) for event in on_gpu) == [
        ("axpy", "kernel", 7.0, 5.0),
        ("copy 4.1 kB host to device", "copy", 3.0, 2.5),
        ("plain", "kernel", 12.0, 0.3),
    ]
    flows = [event for event in events if event["ph"] == "s"]
    assert sorted((event["name"], event["ts"]) for event in flows) == [
        ("event", 6.0),
        ("launch", 2.0),
        ("launch", 4.0),
        ("launch", 10.0),
    ]
    depths = [(e["ts"], e["args"]["value"]) for e in events if e["ph"] == "C" and "queue" in e["name"]]
    assert depths == [(2.0, 1), (4.0, 2), (5.5, 1), (10.0, 2), (12.0, 1), (12.3, 0)]
    memory = [(e["ts"], e["args"]["value"]) for e in events if e["ph"] == "C" and "memory" in e["name"]]
    assert memory == [(0.0, 4096), (16.0, 0)]


def test_a_clock_of_its_own_has_no_flows_to_the_host(tmp_path: Path) -> None:
    example(tmp_path / "t", own_clock=True)
    events = list(perfetto.events(timeline.build(trace.load(tmp_path / "t"))))
    check_trace_events(events)
    assert {event["name"] for event in events if event["ph"] == "s"} == {"event"}
    assert not [event for event in events if event["ph"] == "C" and "queue" in str(event["name"])]
    starts = [event["ts"] for event in events if event.get("cat") == "kernel"]
    assert sorted(map(float, map(str, starts))) == [4.0, 9.0]


@settings(max_examples=60, deadline=None)
@given(
    data=st.lists(
        st.tuples(
            st.integers(0, 2),  # ring
            st.integers(0, 200),  # start
            st.integers(0, 100),  # length of the call
            st.integers(0, 3),  # stream
            st.one_of(st.none(), st.tuples(st.integers(0, 300), st.integers(0, 100))),  # time on the GPU
        ),
        max_size=30,
    )
)
def test_any_times_give_an_export_that_keeps_the_rules(tmp_path_factory: Any, data: list[tuple[Any, ...]]) -> None:
    """Overlapping work in a stream, as programmatic launches make it, goes to a further track."""
    file = tmp_path_factory.getbasetemp() / "any-times"
    writer = Writer(file)
    rings: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for ring, start, length, stream, measured in data:
        number = len(rings[ring])
        rings[ring].append(row(Kind.LAUNCH, start=ns(start), ticks=ns(length), stream=stream))
        if measured:
            begin = START_NS + start + measured[0]
            fields = {"time__number": number, "time__ring": ring, "time__start_ns": begin, "time__ns": measured[1]}
            rings[9].append(row(Kind.TIME, **fields))
    for ring, rows in rings.items():
        writer.add(batch(rows, ring))
    writer.finish()
    events = list(perfetto.events(timeline.build(trace.load(file))))
    check_trace_events(events)
    timed = sum(measured is not None for *_, measured in data)
    assert sum(event.get("cat") == "kernel" for event in events) == timed


def test_a_picture(tmp_path: Path) -> None:
    example(tmp_path / "t")
    command = ["trace", "export", str(tmp_path / "t"), "-o", str(tmp_path / "t.svg"), "--from", "6us", "--to", "0.02ms"]
    assert main(command) == 0
    root = ElementTree.fromstring((tmp_path / "t.svg").read_text())
    titles = [element.text for element in root.iter("{http://www.w3.org/2000/svg}title")]
    assert "plain: 300 ns" in titles
    assert not [title for title in titles if title and title.startswith("copy")]
    width = svg.WIDTH
    for box in root.iter("{http://www.w3.org/2000/svg}rect"):
        left = float(box.get("x", "0"))
        assert 0 <= left <= left + float(box.get("width", "0")) <= width


@pytest.mark.parametrize(
    "arguments",
    [
        ["-o", "x.txt"],
        ["-o", "x.json", "--from", "1 parsec"],
        ["-o", "x.svg", "--from", "2ms", "--to", "1ms"],
        ["-o", "/none/x.json"],
        ["-o", "x.json", "--process", "1"],
    ],
)
def test_mistakes_of_an_export(tmp_path: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    example(tmp_path / "t")
    assert main(["trace", "export", str(tmp_path / "t"), *arguments]) == 2
    assert "expected" in capsys.readouterr().err


def test_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example(tmp_path / "t")
    assert main(["trace", "show", str(tmp_path / "t")]) == 0
    text = capsys.readouterr().out
    assert "2 launches" in text
    listed = text[text.index("in call  on GPU") :].splitlines()[1:] if "in call  on GPU" in text else text.splitlines()
    assert any("axpy" in line and "5.000 us" in line for line in listed)
    assert any("plain (captured)" in line for line in listed)
    assert main(["trace", "show", str(tmp_path / "t"), "--json", "--kernel", "*axpy*", "--limit", "5"]) == 0
    data = json.loads(capsys.readouterr().out)
    schemas.check("trace", data)
    assert data["report"]["launches"]["total"] == 2
    [launch] = data["launches"]
    assert (launch["kernel"], launch["at_ns"], launch["gpu_ns"], launch["queue_ns"]) == (
        "_Z4axpyifPKfPf",
        4000,
        5000,
        3000,
    )
    assert main(["trace", "show", str(tmp_path / "t"), "--json", "--limit", "1", "--process", "100"]) == 0
    assert len(json.loads(capsys.readouterr().out)["launches"]) == 1


def test_a_pattern_that_lists_nothing_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example(tmp_path / "t")
    assert main(["trace", "show", str(tmp_path / "t"), "--kernel", "none"]) == 0
    assert "no launch of a kernel that matches 'none' is in it" in capsys.readouterr().err
    assert main(["trace", "show", str(tmp_path / "t"), "--kernel", "*axpy*"]) == 0
    assert not capsys.readouterr().err
    assert main(["trace", "show", str(tmp_path / "t"), "--kernel", "*axpy*", "--limit", "0"]) == 0
    assert not capsys.readouterr().err


def test_ranges_of_a_trace_without_launches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another pattern would not help."""
    Writer(tmp_path / "t").finish()
    assert main(["analyze", "--trace", str(tmp_path / "t")]) == 2
    assert "t: no kernel was launched in it; expected a trace of a program that" in capsys.readouterr().err


def test_a_reader_that_has_seen_enough(tmp_path: Path, fake_native: Path) -> None:
    example(tmp_path / "t")
    start = "import sys; from controlplane.commands.main import main; sys.exit(main())"
    command = [sys.executable, "-c", start, "trace", "show", "--json", str(tmp_path / "t")]
    environment = with_native(fake_native)
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait(60) == 128 + signal.SIGPIPE


def test_a_cut_off_trace_is_shown_with_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example(tmp_path / "t")
    (tmp_path / "cut").write_bytes((tmp_path / "t").read_bytes()[:-3])
    assert main(["trace", "show", str(tmp_path / "cut")]) == 0
    assert "cut off at offset" in capsys.readouterr().err
