"""What an executor makes of messages and records that no shim sends: an error for it, and the next is served."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import re
import socket
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.ipc.handover import Listener
from controlplane.ipc.memory_file import F_ADD_SEALS, F_SEAL_GROW, F_SEAL_SEAL, F_SEAL_SHRINK, memory_file
from controlplane.run.emulation import Emulation
from controlplane.run.launch import compose
from tests.command import ROOT, with_native

HEADER = (ROOT / "interpose" / "include" / "tessera" / "lane.h").read_text()
VERSION = int(re.findall(r"#define TSR_LANE_VERSION (\d+)u", HEADER)[0])
LANE, HOST = 0x1FFFF0000000, 0x1E0000000000
LANE_BYTES = int(re.findall(r"#define TSR_LANE_SPACING \((\d+)ull << 20\)", HEADER)[0]) << 20
RING = int(re.findall(r"#define TSR_LANE_FRONT_BYTES \((\d+)u << 10\)", HEADER)[0]) << 10  # the first one of the lane
RECORDS = RING + 256  # of struct tsr_lane_ring
KINDS = re.findall(r"^    TSR_MESSAGE_(\w+)", HEADER, re.MULTILINE)
SUCCESS, INVALID_VALUE = 0, 1
F_SEAL_WRITE = 8


def message(
    kind: str, *, address: int = 0, size: int = 0, identity: int = 0, parent: int = 0, text: bytes = b""
) -> bytes:
    return struct.pack("<IIIIQQii", KINDS.index(kind), VERSION, identity, parent, address, size, 0, 0) + text + b"\0"


class Executor:
    """One process of GPU 1 and whoever talks to it."""

    def __init__(self, native: Path) -> None:
        self._listener, self._emulation = Listener(64), Emulation("2")
        inherited = self._listener.socket.fileno()
        options = ["--device", "1", "--listener", str(inherited), "--owner", str(os.getpid())]
        self.process = subprocess.Popen(
            [str(native / "executor" / "tessera-executor"), *options],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=compose([self._emulation.change()], with_native(native)),
            pass_fds=[inherited],
        )

    @contextlib.contextmanager
    def guest(self) -> Iterator[socket.socket]:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as peer:
            peer.settimeout(30)
            peer.connect(self._listener.name)
            yield peer

    def close(self) -> str:
        _, errors = self.process.communicate(b"", timeout=30)
        self._listener.close()
        assert self.process.returncode == 0
        return errors.decode()


@pytest.fixture
def executor(native_build: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Executor]:
    monkeypatch.setenv("TESSERA_NATIVE", str(native_build / "native"))
    made = Executor(native_build / "native")
    yield made
    errors = made.close()
    assert "Sanitizer" not in errors, errors


def asked(peer: socket.socket, packet: bytes, *descriptors: int) -> int:
    """The result that it is answered."""
    socket.send_fds(peer, [packet], descriptors)
    reply = peer.recv(64)
    assert len(reply) == 16
    return int(struct.unpack("<iIQ", reply)[0])


@contextlib.contextmanager
def lane(size: int = LANE_BYTES) -> Iterator[int]:
    file = memory_file("lane", size)
    os.pwrite(file, struct.pack("<I", VERSION), 0)
    yield file
    os.close(file)


def is_served(executor: Executor) -> bool:
    """A guest that does nothing wrong."""
    with executor.guest() as peer, lane() as file:
        return asked(peer, message("HELLO", address=LANE, size=LANE_BYTES), file) == SUCCESS


def test_a_lane_is_sealed_and_where_it_belongs(executor: Executor) -> None:
    unsealed = os.memfd_create("lane", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(unsealed, LANE_BYTES)
    hello = message("HELLO", address=LANE, size=LANE_BYTES)
    with lane() as file, lane(4096) as small:
        wrong: list[tuple[bytes, tuple[int, ...]]] = [
            (hello, ()),
            (hello, (unsealed,)),
            (hello, (small,)),
            (hello, (file, file)),
            (message("HELLO", address=LANE + 4096, size=LANE_BYTES), (file,)),
            (message("HELLO", address=LANE + 15 * LANE_BYTES, size=LANE_BYTES), (file,)),
            (message("HELLO", address=0x400000, size=LANE_BYTES), (file,)),
            (message("HELLO", address=LANE, size=4096), (file,)),
            (message("HELLO", address=LANE, size=1 << 60), (file,)),
        ]
        for packet, descriptors in wrong:
            with executor.guest() as peer:
                assert asked(peer, packet, *descriptors) == INVALID_VALUE, packet[:40]
    os.close(unsealed)
    assert is_served(executor)


def test_files_and_addresses_of_messages_are_checked(executor: Executor) -> None:
    page = 2 << 20
    image = os.memfd_create("image", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(image, b".version 7.0\n.target sm_70\n.address_size 64\n\0")
    size = os.fstat(image).st_size
    with executor.guest() as peer, lane() as file, lane(page) as host:
        assert asked(peer, message("HELLO", address=LANE, size=LANE_BYTES), file) == SUCCESS
        assert asked(peer, message("MODULE", identity=1, size=size), image) == INVALID_VALUE
        fcntl.fcntl(image, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)
        for identity, claimed, descriptors in (
            (1, size + 1, [image]),
            (1, 0, [image]),
            (0, size, [image]),
            (1, size, []),
        ):
            assert asked(peer, message("MODULE", identity=identity, size=claimed), *descriptors) == INVALID_VALUE
        assert asked(peer, message("MODULE", identity=1, size=size), image) == SUCCESS
        assert asked(peer, message("MODULE", identity=1, size=size), image) == INVALID_VALUE
        for address, claimed in (
            (HOST, page + 1),
            (HOST, 0),
            (HOST - page, page),
            (HOST + (1 << 40) - page + 4096, page),
        ):
            assert asked(peer, message("HOST", address=address, size=claimed), host) == INVALID_VALUE
        assert asked(peer, message("HOST", address=HOST, size=page)) == INVALID_VALUE
        assert asked(peer, message("HOST", address=HOST, size=page), host) == SUCCESS
        assert asked(peer, message("MAP", address=0x200000000000, size=page)) == INVALID_VALUE
        assert asked(peer, message("FUNCTION", identity=0, parent=1)) != SUCCESS
    os.close(image)
    assert is_served(executor)


def test_no_message_ends_the_executor(executor: Executor) -> None:
    source = random.Random(5)
    values = (0, 1, 2, 64, LANE, HOST, 0x200000000000, 1 << 40, (1 << 64) - 1, 1 << 63, 2 << 20)
    with executor.guest() as peer, lane() as file:
        assert asked(peer, message("HELLO", address=LANE, size=LANE_BYTES), file) == SUCCESS
        for _ in range(400):
            kind = source.choice([*range(len(KINDS)), 99, (1 << 32) - 1])
            address, size = source.choice(values), source.choice(values)
            numbers = (kind, VERSION, source.choice((0, 1, 5000)), source.choice((0, 1)), address, size)
            tail = struct.pack("<ii", source.choice((-1, 0, 1, 3, 77)), source.choice((-1, 0, 1, 2)))
            text = source.randbytes(source.choice((0, 5, 300)))
            packet = struct.pack("<IIIIQQ", *numbers) + tail + text
            asked(peer, packet, *([file] if source.random() < 0.5 else []))
    assert executor.process.poll() is None
    assert is_served(executor)


@pytest.mark.parametrize("seed", range(6))
def test_no_record_ends_the_executor(executor: Executor, seed: int) -> None:
    """The lane is given up with an error, and its guest is told."""
    source = random.Random(seed)
    with executor.guest() as peer, lane() as file:
        assert asked(peer, message("HELLO", address=LANE, size=LANE_BYTES), file) == SUCCESS
        size = source.choice((0, 7, 64, 128, 1 << 16, (1 << 20) + 64, (1 << 32) - 64))
        header = struct.pack("<IIII", source.randrange(8), size, source.choice((0, 3, 1024, 1 << 31)), 1)
        os.pwrite(file, header + source.randbytes(104), RECORDS + 8)
        os.pwrite(file, struct.pack("<Q", 1), RECORDS)  # the stamp
        assert asked(peer, message("UNLOAD", identity=9)) != SUCCESS  # once what is on the lane has been taken
    assert executor.process.poll() is None
    assert is_served(executor)
