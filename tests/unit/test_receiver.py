"""The reader of records: nothing is lost while there is room, and no producer can break it, whatever it writes."""

import gc
import os
import random
import resource
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from fake_producer import FakeProcess
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controlplane.ipc.handover import Listener
from controlplane.ipc.loop import Loop
from controlplane.observe import receiver
from controlplane.observe.layout import EntryKind, Kind, Message, constant
from controlplane.observe.producer import Clock, Counters, Entry, Process
from controlplane.observe.receiver import Batch, HandedOver, Receiver
from controlplane.observe.report import report
from controlplane.observe.stats import Statistics


class Notes:
    """A sink that keeps what it is told."""

    def __init__(self) -> None:
        self.processes: list[Process] = []
        self.rings: list[tuple[int, int, int]] = []
        self.entries: list[Entry] = []
        self.batches: list[Batch] = []
        self.counters: dict[int, Counters] = {}
        self.code_read: list[tuple[HandedOver, bytes]] = []
        self.ended: list[int] = []

    def begin(self, process: Process) -> None:
        self.processes.append(process)

    def ring(self, process: Process, number: int, thread: int) -> None:
        self.rings.append((process.index, number, thread))

    def define(self, process: Process, entries: Sequence[Entry]) -> None:  # noqa: ARG002
        self.entries += entries

    def records(self, process: Process, batches: Sequence[Batch]) -> None:  # noqa: ARG002
        self.batches += batches

    def state(self, process: Process, clock: Clock, counters: Counters) -> None:  # noqa: ARG002
        self.counters[process.index] = counters

    def code(self, process: Process, code: HandedOver) -> None:  # noqa: ARG002
        self.code_read.append((code, os.pread(code.descriptor, code.size, code.offset)))

    def end(self, process: Process) -> None:
        self.ended.append(process.index)


class Rig:
    """A receiver on its own loop, turned by hand."""

    def __init__(self) -> None:
        self.listener = Listener(16)
        self.name = self.listener.name
        self.notes, self.statistics, self.complaints = Notes(), Statistics(), list[str]()
        self.receiver = Receiver(self.listener.socket, [self.statistics, self.notes], self.complaints.append)
        self.loop = Loop()
        self.receiver.start(self.loop)
        self.producers: list[FakeProcess] = []

    def process(self, program: str = "/usr/bin/app", pid: int = 0) -> FakeProcess:
        producer = FakeProcess(program, pid)
        producer.connect(self.name)
        self.producers.append(producer)
        return producer

    def turn(self) -> float | None:
        for _ in range(4):  # accepting makes a connection readable
            self.loop.wait(0)
        return self.receiver.tick()


@pytest.fixture
def rig(fake_native: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    monkeypatch.setenv("TESSERA_NATIVE", str(fake_native))
    monkeypatch.setattr(receiver, "GATHER_SECONDS", 0.0)
    result = Rig()
    yield result
    result.receiver.finish()
    for producer in result.producers:
        producer.close()
    result.listener.close()


def test_all_records_arrive_in_order_over_the_rings_end(rig: Rig) -> None:
    ring = rig.process().ring(thread=77)
    total = 3 * ring.capacity + 5
    for number in range(total):
        ring.launch(number)
        if number % (ring.capacity - 1) == 0:
            rig.turn()
    rig.turn()
    assert rig.notes.rings == [(0, 0, 77)]
    functions = [value for batch in rig.notes.batches for value in batch.records["launch.function"].tolist()]
    assert functions == list(range(total))
    firsts = [(batch.first, len(batch.records)) for batch in rig.notes.batches]
    assert [first for first, _ in firsts[1:]] == [first + count for first, count in firsts[:-1]]
    assert ring.record.lost == 0


def test_a_full_ring_counts_what_it_loses(rig: Rig) -> None:
    ring = rig.process().ring()
    for _ in range(ring.capacity + 10):
        ring.launch(1)
    rig.turn()
    rig.receiver.finish()
    result = report(rig.statistics)
    assert (result.launches.total, result.records.lost) == (ring.capacity + 10, 10)
    assert sum(kernel.launches for kernel in result.kernels) == ring.capacity


def test_definitions_come_before_the_records_that_use_them(rig: Rig) -> None:
    producer = rig.process()
    ring = producer.ring()
    rig.turn()
    producer.define(EntryKind.FUNCTION, 1, "k" * 5000)
    ring.launch(1)
    rig.turn()
    assert [(entry.kind, entry.number, entry.text) for entry in rig.notes.entries] == [
        (EntryKind.FUNCTION, 1, "k" * 5000)
    ]
    assert len(rig.notes.batches) == 1


def test_what_a_dead_process_wrote_is_kept(rig: Rig) -> None:
    """Also if it lived so shortly that nobody had accepted it."""
    producer = rig.process("/bin/short")
    producer.ring().launch(1)
    producer.close()
    rig.receiver.finish()
    assert [(process.program, process.pid) for process in rig.notes.processes] == [("/bin/short", os.getpid())]
    assert sum(len(batch.records) for batch in rig.notes.batches) == 1


def test_a_pid_that_comes_again_is_another_process(rig: Rig) -> None:
    for program in ("/bin/a", "/bin/b"):
        producer = rig.process(program, pid=4711)
        producer.ring().launch(1)
        rig.turn()
        producer.close()
        rig.turn()
    assert [(process.index, process.program) for process in rig.notes.processes] == [(0, "/bin/a"), (1, "/bin/b")]
    assert rig.notes.ended == [0, 1]
    assert report(rig.statistics).launches.total == 2


def test_turns_follow_the_load(rig: Rig) -> None:
    assert rig.turn() is None
    ring = rig.process().ring()
    waits = []
    for launches in (1, ring.capacity // 16, ring.capacity // 2):
        for _ in range(launches):
            ring.launch(1)
        waits.append(rig.turn() or 0.0)
    assert waits[0] > waits[1] > waits[2] > 0


def test_records_wait_for_others_unless_the_ring_fills(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    ring = rig.process().ring()
    ring.launch(1)
    rig.turn()
    monkeypatch.setattr(receiver, "GATHER_SECONDS", 1000.0)
    for _ in range(2):  # the first one still reads, and says when the next is due
        ring.launch(1)
        rig.turn()
    assert ring.record.head == 2
    for _ in range(ring.capacity // 4):
        ring.launch(1)
    rig.turn()
    assert ring.record.head == ring.record.tail


def test_code_arrives_with_the_file_that_it_lies_in(rig: Rig, tmp_path: Path) -> None:
    producer = rig.process()
    file = tmp_path / "library.so"
    file.write_bytes(b"before the image behind")
    with file.open("rb") as opened:
        producer.send(Message.CODE, 3, [opened.fileno()], code=(77, 0, 7, 9))
    memory = os.memfd_create("code")
    os.write(memory, b"linked")
    producer.send(Message.CODE, 0, [memory], code=(78, 77, 0, 6))
    rig.turn()
    (first, data), (second, linked) = rig.notes.code_read
    assert (first.module, first.hash, first.path, data) == (3, 77, str(file), b"the image")
    assert (second.module, second.linked_into, second.path, linked) == (0, 77, "", b"linked")
    assert rig.complaints == []
    for wrong in ((79, 0, 0, 1 << 40), (0, 0, 0, 6), (79, 0, 0, 0)):
        other = rig.process()
        other.send(Message.CODE, 1, [memory], code=wrong)
        rig.turn()
    os.close(memory)
    assert len(rig.complaints) == 3
    assert len(rig.notes.code_read) == 2


def test_descriptors_are_given_back(rig: Rig) -> None:
    gc.collect()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        producer = FakeProcess()
        producer.connect(rig.name)
        rings = [producer.ring() for _ in range(3)]
        rig.turn()
        producer.close()
        for file in [producer.journal, *rings]:
            os.close(file.descriptor)
        del producer, rings, file
        rig.turn()
    gc.collect()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_without_descriptors_processes_wait_until_another_has_ended(rig: Rig) -> None:
    first = rig.process("/bin/first")
    first.ring().launch(1)
    rig.turn()
    used = max(int(entry.name) for entry in Path("/proc/self/fd").iterdir())
    second = FakeProcess("/bin/second")
    ring = second.ring()
    second.peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    rig.producers.append(second)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    fillers = [os.open("/dev/null", os.O_RDONLY) for _ in range(64)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(used, *fillers) + 1, hard))
    try:
        while True:
            try:
                fillers.append(os.dup(0))
            except OSError:
                break
        second.peer.connect(rig.name)
        second.send(Message.HELLO, 0, [second.journal.descriptor])
        second.send(Message.RING, 0, [ring.descriptor])
        for _ in range(3):
            rig.turn()
        assert rig.complaints == ["processes wait to be connected: Too many open files"]
        assert len(rig.notes.processes) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for filler in fillers:
            os.close(filler)
    first.close()
    ring.launch(1)
    rig.turn()
    rig.turn()
    assert [process.program for process in rig.notes.processes] == ["/bin/first", "/bin/second"]
    assert rig.statistics.processes[1].table.launches.sum() == 1


WRONG_MESSAGES: dict[str, Callable[[FakeProcess], object]] = {
    "magic": lambda p: p.send(Message.HELLO, 0, [p.journal.descriptor], magic=1),
    "version": lambda p: p.send(Message.HELLO, 0, [p.journal.descriptor], version=99),
    "kind": lambda p: p.send(99, 0, [p.journal.descriptor]),
    "no descriptor": lambda p: p.send(Message.RING, 0, []),
    "two descriptors": lambda p: p.send(Message.RING, 0, [p.journal.descriptor, p.journal.descriptor]),
    "hello twice": lambda p: p.send(Message.HELLO, 0, [p.journal.descriptor]),
    "journal as ring": lambda p: p.send(Message.RING, 0, [p.journal.descriptor]),
    "short": lambda p: p.peer and p.peer.send(b"short"),
    "ring twice": lambda p: p.send(Message.RING, 0, [p.ring().descriptor]),
}


@pytest.mark.parametrize("name", WRONG_MESSAGES)
def test_a_process_that_breaks_the_protocol_is_given_up_and_others_go_on(rig: Rig, name: str) -> None:
    wrong, right = rig.process("/bin/wrong"), rig.process("/bin/right")
    wrong.define(EntryKind.FUNCTION, 1, "k")
    rig.turn()
    WRONG_MESSAGES[name](wrong)
    right.ring().launch(1)
    rig.turn()
    assert len(rig.complaints) == 1
    assert f"no more records of process {os.getpid()}" in rig.complaints[0]
    assert sum(len(batch.records) for batch in rig.notes.batches) == 1


def test_files_that_could_shrink_are_refused(rig: Rig, tmp_path: Path) -> None:
    producer = rig.process()
    with (tmp_path / "file").open("w+b") as file:
        file.truncate(4096 + 64 * constant("TSR_RING_RECORDS"))
        producer.send(Message.RING, 0, [file.fileno()])
        rig.turn()
    assert "sealed" in rig.complaints[0]
    ring = rig.process().ring()
    rig.turn()
    with pytest.raises(PermissionError):
        os.ftruncate(ring.descriptor, 4096)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_content_breaks_the_reader(rig: Rig, data: st.DataObject) -> None:
    """Random bytes in header, records and journal: another process' records still arrive, and a report is made."""
    wrong, right = rig.process("/bin/wrong"), rig.process("/bin/right")
    ring, journal = wrong.ring(), wrong.journal
    rig.turn()
    places = st.tuples(st.integers(0, 255), st.binary(min_size=1, max_size=64))
    number = data.draw(st.integers(0, 300))
    source = random.Random(data.draw(st.integers(0)))  # so many bytes are too many to draw one by one
    offset = constant("TSR_RING_RECORDS_OFFSET")
    for place in range(number):
        ring.map[offset + 64 * place : offset + 64 * place + 64] = source.randbytes(64)
        ring.map[offset + 64 * place + 14] = source.choice([*Kind, 0, 99])
        ring.map[offset + 64 * place + 16 : offset + 64 * place + 18] = b"\0\0"
    ring.record.tail = number
    wrong.write_entry(data.draw(st.binary(max_size=300)))
    for file, where in ((ring, places), (journal, places)):
        if data.draw(st.booleans()):
            start, content = data.draw(where)
            file.map[start : start + len(content)] = content
    before = sum(len(batch.records) for batch in rig.notes.batches if batch.records["ticks"][0] == 4000)
    right.ring().launch(1)
    rig.turn()
    rig.turn()
    arrived = sum(len(batch.records) for batch in rig.notes.batches if batch.records["ticks"][0] == 4000)
    assert arrived == before + 1
    wrong.close()
    right.close()
    rig.turn()
    report(rig.statistics)


def test_a_turn_is_cheap_when_nothing_happens(rig: Rig) -> None:
    """Processor time; 20 us were measured for 8 threads."""
    producer = rig.process()
    for _ in range(8):
        producer.ring()
    rig.turn()
    before = time.process_time()
    for _ in range(200):
        rig.receiver.tick()
    assert (time.process_time() - before) / 200 < 0.002
