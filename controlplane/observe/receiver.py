"""The service that receives records: accepts processes on the records' socket, drains their rings, feeds sinks.

A process that breaks the protocol is dropped, with a message; what it had written until then is kept. Sinks decide
where records go; each gets everything about a process in this order: begin, then any mixture of ring, define, code,
records and state, and end.
"""

import os
import socket
import stat
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np

from controlplane.ipc.handover import user_of
from controlplane.ipc.loop import Loop
from controlplane.observe.layout import GPUS, Message, Records, constant, dtype
from controlplane.observe.producer import Clock, Counters, Entry, Journal, Process, Ring
from ptxtools.errors import WireError

RINGS_PER_PROCESS = 65536
ACCEPTED_AT_ONCE = 256
LARGEST_CODE = 64 << 20  # more is never handed over
STATE_SECONDS = 1.0
GATHER_SECONDS = 0.1  # for which records may wait in a ring that has room
FULL_SHARE = 0.125  # of a ring: from there on they do not wait
# Share of a ring that is full, and in how many seconds the next turn is due from there on. At 400,000 records a second
# a ring is full after 40 ms.
TURNS = ((0.25, 0.002), (0.02, 0.010), (0.0, 0.020))
EXECUTOR_LOST = 6  # enum tsr_reason
SUMMED = ("lost", "captured", "graph_launches", "graph_kernels")
OF_JOURNAL = ("overhead_samples", "overhead_ticks", "timed_launches", "times_lost")


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive records of one ring; `first` is the number of the first one in its ring."""

    ring: int
    first: int
    records: Records


@dataclass(frozen=True, slots=True)
class HandedOver:
    """Code that a process has loaded: `size` bytes of a file from `offset` on; see struct tsr_records_message.

    `descriptor` is valid only during the call; whoever needs it longer makes a copy. `path`: of the file that it is;
    empty: a memory file. `module`: the number of its definition; 0: it is linked into the image `linked_into`.
    """

    module: int
    hash: int
    linked_into: int
    descriptor: int
    offset: int
    size: int
    path: str


class Sink(Protocol):
    """Somebody who wants records. Definitions come before the records that refer to them."""

    def begin(self, process: Process) -> None: ...
    def ring(self, process: Process, number: int, thread: int) -> None: ...
    def define(self, process: Process, entries: Sequence[Entry]) -> None: ...
    def records(self, process: Process, batches: Sequence[Batch]) -> None: ...
    def code(self, process: Process, code: HandedOver) -> None: ...
    def state(self, process: Process, clock: Clock, counters: Counters) -> None: ...
    def end(self, process: Process) -> None: ...


class _Connection:
    """One process: its socket, and its files once they came."""

    def __init__(self, peer: socket.socket) -> None:
        self.peer = peer
        self.journal: Journal | None = None
        self.process: Process | None = None
        self.rings: dict[int, Ring] = {}

    def counters(self) -> Counters:
        rings = self.rings.values()
        launches = _added(ring.counters("launches") for ring in rings) or (0,) * GPUS
        reasons = _added(ring.counters("kept_reasons") for ring in rings)
        if self.journal is not None and reasons:
            launches, reasons = _came_back(self.journal, launches, reasons)
        sums = {name: sum(ring.counter(name) for ring in rings) for name in SUMMED}
        own = {} if self.journal is None else {name: self.journal.counter(name) for name in OF_JOURNAL}
        return Counters(launches=launches, kept_home=sum(reasons), kept_reasons=reasons, **sums, **own)


def _added(counters: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(sum(counts) for counts in zip(*counters, strict=True))


def _came_back(
    journal: Journal, launches: tuple[int, ...], reasons: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """With the launches that ran at home after all, because the executor that was to run them was lost."""
    back, home = journal.counters("came_back"), journal.counter("home")
    where = [count - gone for count, gone in zip(launches, back, strict=True)]
    where[home % GPUS] += sum(back)
    why = list(reasons)
    why[EXECUTOR_LOST] += sum(back)
    return tuple(where), tuple(why)


class Receiver:
    """A service of the control plane. The listening socket is SOCK_SEQPACKET and was bound by whoever started us."""

    def __init__(self, listener: socket.socket, sinks: Sequence[Sink], complain: Callable[[str], None]) -> None:
        self._listener, self._sinks, self._complain = listener, sinks, complain
        self._connections: list[_Connection] = []
        self._processes = 0
        self._state_due = self._read_due = 0.0
        self._loop: Loop | None = None
        self._paused = self._refused = False

    def start(self, loop: Loop) -> None:
        self._loop = loop
        self._listener.setblocking(False)
        loop.watch(self._listener, self._accept)

    def tick(self) -> float | None:
        """Reads the rings if one is filling or it is time. When the next turn is due follows from how full they are."""
        rings = [ring for connection in self._connections for ring in connection.rings.values()]
        if not rings:
            return None
        now = time.monotonic()
        share = max(ring.unread() / ring.capacity for ring in rings)
        if share >= FULL_SHARE or now >= self._read_due:
            self._read_due = now + GATHER_SECONDS
            for connection in list(self._connections):
                self._receive(connection)  # what code is linked from comes before whoever uses it
                self._drain(connection)
        if now >= self._state_due:
            self._state_due = now + STATE_SECONDS
            for connection in self._connections:
                self._report_state(connection)
        return next((seconds for least, seconds in TURNS if share >= least), TURNS[-1][1])

    def finish(self) -> None:
        """Takes in what has been sent by now, from processes that are gone and from those that go on."""
        self._accept()
        for connection in list(self._connections):
            self._receive(connection)
        for connection in list(self._connections):
            self._end(connection)

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                peer, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                self._pause(error)
                return
            user = user_of(peer)
            if user != os.geteuid():
                self._refuse(peer, user)
                continue
            connection = _Connection(peer)
            peer.setblocking(False)
            self._connections.append(connection)
            if self._loop is not None:
                self._loop.watch(peer, partial(self._receive, connection))

    def _refuse(self, peer: socket.socket, user: int) -> None:
        """Another user, who learns nothing and fills no terminal."""
        peer.close()
        if not self._refused:
            self._complain(f"a process of user {user} wanted to connect and was refused; more are, without a word")
        self._refused = True

    def _pause(self, error: OSError) -> None:
        """No descriptors are left: who wants to connect waits in the queue until another process has ended."""
        if not self._paused:
            self._complain(f"processes wait to be connected: {error.strerror}")
        self._paused = True
        if self._loop is not None:
            self._loop.forget(self._listener)

    def _receive(self, connection: _Connection) -> None:
        """Takes all messages that are there."""
        while connection in self._connections:
            try:
                data, descriptors, _, _ = socket.recv_fds(connection.peer, 256, 4, socket.MSG_CMSG_CLOEXEC)
            except BlockingIOError:
                return
            except OSError:
                data, descriptors = b"", []
            if not data:
                self._end(connection)
                return
            try:
                self._message(connection, data, descriptors)
            except (WireError, OSError, ValueError) as error:
                self._give_up(connection, str(error))
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)

    def _message(self, connection: _Connection, data: bytes, descriptors: list[int]) -> None:
        """Empties the list of descriptors that it takes over."""
        message = _parse(data)
        kind, number = int(message["kind"]), int(message["number"])
        if len(descriptors) != 1:
            raise WireError(f"a message came with {len(descriptors)} descriptors")
        if kind == Message.HELLO and connection.journal is None:
            connection.journal = Journal(descriptors.pop())
            connection.process = process = connection.journal.process(self._processes)
            self._processes += 1
            for sink in self._sinks:
                sink.begin(process)
        elif kind == Message.RING and connection.process is not None and number not in connection.rings:
            ring = Ring(descriptors[0])
            if ring.number != number or len(connection.rings) == RINGS_PER_PROCESS:
                raise WireError(f"ring {number} calls itself {ring.number}")
            connection.rings[number] = ring
            for sink in self._sinks:
                sink.ring(connection.process, number, ring.thread)
        elif kind == Message.CODE and connection.process is not None:
            code = _handed_over(message, descriptors[0])
            for sink in self._sinks:
                sink.code(connection.process, code)
        else:
            raise WireError(f"message {kind} is out of turn")

    def _drain(self, connection: _Connection) -> None:
        """Reads what is new."""
        process, journal = connection.process, connection.journal
        if process is None or journal is None:
            return
        batches: list[Batch] = []
        failure: WireError | None = None
        try:
            for ring in connection.rings.values():
                first = ring.read_so_far
                records = ring.read()
                if len(records):
                    batches.append(Batch(ring.number, first, records))
        except WireError as error:
            failure = error
        try:
            # After the records, so that it holds all that they refer to.
            entries = journal.new_entries()
        except WireError as error:
            failure, entries = error, []
        for sink in self._sinks:
            if entries:
                sink.define(process, entries)
            if batches:
                sink.records(process, batches)
        if failure is not None:
            self._give_up(connection, str(failure))

    def _report_state(self, connection: _Connection) -> None:
        if connection.process is not None and connection.journal is not None:
            clock, counters = connection.journal.clock(), connection.counters()
            for sink in self._sinks:
                sink.state(connection.process, clock, counters)

    def _end(self, connection: _Connection) -> None:
        self._drain(connection)
        self._forget(connection)

    def _give_up(self, connection: _Connection, why: str) -> None:
        if connection not in self._connections:
            return
        name = "a process" if connection.process is None else f"process {connection.process.pid}"
        self._complain(f"no more records of {name}: {why}")
        self._forget(connection)

    def _forget(self, connection: _Connection) -> None:
        if connection not in self._connections:
            return
        self._report_state(connection)
        if connection.process is not None:
            for sink in self._sinks:
                sink.end(connection.process)
        self._connections.remove(connection)
        if self._loop is not None:
            self._loop.forget(connection.peer)
        connection.peer.close()
        if connection.journal is not None:
            connection.journal.close()
        if self._paused and self._loop is not None:
            self._paused = False
            self._loop.watch(self._listener, self._accept)


def _parse(data: bytes) -> np.void:
    layout = dtype("tsr_records_message")
    if len(data) != layout.itemsize:
        raise WireError(f"a message has {len(data)} bytes")
    message: np.void = np.frombuffer(data, layout)[0]
    if int(message["magic"]) != constant("TSR_RECORDS_MAGIC"):
        raise WireError("a message is none of ours")
    if int(message["version"]) != constant("TSR_RECORDS_VERSION"):
        raise WireError(f"it speaks version {int(message['version'])} of records")
    return message


def _handed_over(message: np.void, descriptor: int) -> HandedOver:
    offset, size, hash_value = (int(message[name]) for name in ("offset", "bytes", "hash"))
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or not 0 < size <= LARGEST_CODE or not hash_value:
        raise WireError(f"code of {size} bytes is not in a file")
    path = str(Path(f"/proc/self/fd/{descriptor}").readlink())
    named = "" if path.startswith("/memfd:") else path
    return HandedOver(int(message["number"]), hash_value, int(message["linked_into"]), descriptor, offset, size, named)
