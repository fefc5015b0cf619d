"""A process that writes records, in Python: what the shim does, as far as readers can tell."""

import fcntl
import mmap
import os
import socket
import struct
import time
from typing import Any, cast

from cffi import FFI

from controlplane.ipc.memory_file import F_ADD_SEALS, F_SEAL_SEAL, F_SEAL_SHRINK
from controlplane.observe.layout import HEADER, EntryKind, Kind, Message, constant, driver_functions
from ptxtools.native import records

TICKS_PER_NS = 2


def ticks_now() -> int:
    return time.monotonic_ns() * TICKS_PER_NS


class File:
    """A memory file with a struct at its start."""

    def __init__(self, name: str, size: int, kind: str) -> None:
        self.ffi: FFI = records.header(HEADER)[0]
        self.descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.descriptor, size)
        fcntl.fcntl(self.descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL)
        self.map = mmap.mmap(self.descriptor, size)
        content = self.ffi.from_buffer(self.map, require_writable=True)
        self.record: Any = cast("Any", self.ffi.cast(f"struct {kind} *", content))
        self.record.magic = constant("TSR_RECORDS_MAGIC")
        self.record.version = constant("TSR_RECORDS_VERSION")
        self.record.bytes = self.ffi.sizeof(f"struct {kind}")


class FakeRing(File):
    """The ring of one thread."""

    def __init__(self, number: int, thread: int) -> None:
        self.offset, self.capacity = constant("TSR_RING_RECORDS_OFFSET"), constant("TSR_RING_RECORDS")
        super().__init__("ring", self.offset + 64 * self.capacity, "tsr_ring")
        self.number = number
        self.record.number, self.record.thread = number, thread

    def add(self, kind: int, call: str = "cuLaunchKernel", **fields: Any) -> int:
        """Writes one record, or counts it as lost; fields of the union are named member__field. Returns its number."""
        number = int(self.record.tail)
        if number - self.record.head >= self.capacity:
            self.record.lost += 1
            return number
        place = self.offset + number % self.capacity * 64
        self.map[place : place + 64] = bytes(64)
        view = memoryview(self.map)[place : place + 64]
        record: Any = self.ffi.cast("struct tsr_record *", self.ffi.from_buffer(view))
        record.start, record.ticks, record.kind = ticks_now(), 4000, kind
        record.call = driver_functions().index(call)
        for name, value in fields.items():
            if "__" in name:
                member, part = name.split("__")
                setattr(getattr(record.u, member), part, value)
            else:
                setattr(record, name, value)
        self.record.tail = number + 1
        return number

    def launch(self, function: int, device: int = 0, **fields: Any) -> int:
        """A kernel launch that the driver accepted, counted as the shim counts it."""
        if fields.get("flags", 0) & 1:
            self.record.captured += 1
        else:
            self.record.launches[device] += 1
        fields = {"launch__grid": [2, 1, 1], "launch__block": [128, 1, 1], **fields}
        return self.add(Kind.LAUNCH, launch__function=function, launch__device=device, **fields)


class FakeProcess:
    """A process that has initialised CUDA."""

    def __init__(self, program: str = "/usr/bin/app", pid: int = 0, *, own_clock: bool = False) -> None:
        self.journal = File("journal", constant("TSR_JOURNAL_ENTRIES_OFFSET") + (1 << 20), "tsr_journal")
        header = self.journal.record
        header.pid, header.parent, header.program = pid or os.getpid(), 1, program.encode()
        header.gpu_clock, header.driver_version = int(own_clock), 13000
        self.anchor("first")
        self.anchor("last")
        self.peer: socket.socket | None = None
        self.rings: list[FakeRing] = []

    def anchor(self, name: str, ns: int | None = None) -> None:
        ns = time.monotonic_ns() if ns is None else ns
        anchor = getattr(self.journal.record, name)
        anchor.ticks, anchor.monotonic_ns, anchor.realtime_ns = ns * TICKS_PER_NS, ns, ns + 10**18

    def connect(self, name: str) -> None:
        self.peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.peer.connect(name)
        self.send(Message.HELLO, 0, [self.journal.descriptor])

    def send(
        self,
        kind: int,
        number: int,
        descriptors: list[int],
        magic: int | None = None,
        version: int = 0,
        code: tuple[int, int, int, int] = (0, 0, 0, 0),
    ) -> None:
        """code: hash, hash of what it is linked into, offset and size."""
        assert self.peer is not None
        magic = constant("TSR_RECORDS_MAGIC") if magic is None else magic
        version = version or constant("TSR_RECORDS_VERSION")
        message = struct.pack("<QIIII4Q", magic, version, kind, os.getpid(), number, *code)
        socket.send_fds(self.peer, [message], descriptors)

    def ring(self, thread: int = 0) -> FakeRing:
        ring = FakeRing(len(self.rings), thread or os.getpid())
        self.rings.append(ring)
        if self.peer is not None:
            self.send(Message.RING, ring.number, [ring.descriptor])
        return ring

    def define(self, kind: EntryKind, number: int, text: str = "", parent: int = 0, size: int = 0) -> int:
        data = text.encode() + b"\0"
        data += bytes(-len(data) % 8)
        head = struct.pack("<IIIIQQQ", 40 + len(data), kind, number, parent, 0, 0, size)
        self.write_entry(head + data)
        return number

    def write_entry(self, data: bytes) -> None:
        header = self.journal.record
        place = constant("TSR_JOURNAL_ENTRIES_OFFSET") + header.used
        self.journal.map[place : place + len(data)] = data
        header.used += len(data)

    def close(self) -> None:
        if self.peer is not None:
            self.peer.close()
