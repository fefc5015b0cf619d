"""Another user of the machine, in the same network namespace: finds no name to take, to meet or to connect to."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from controlplane.ipc.handover import Listener
from controlplane.ipc.loop import Loop
from controlplane.ipc.memory_file import name_of
from controlplane.machine.emulate import parse
from controlplane.machine.file import MachineFile
from controlplane.observe.receiver import Receiver
from controlplane.run.emulation import Emulation
from controlplane.run.launch import compose
from tests.command import with_native
from tests.security.running import descendants, on_gpu_1, running
from tests.security.stranger import NOBODY, ROOT_ONLY, Stranger, as_nobody

pytestmark = ROOT_ONLY

SILENT = 70


def reached(names: list[str], files: list[str]) -> list[str]:
    """Connects to each name, with many silent connections, and opens each file."""
    found, kept = set[str](), []
    for name in names + files:
        for kind in (socket.SOCK_SEQPACKET, socket.SOCK_STREAM):
            for _ in range(SILENT):
                peer = socket.socket(socket.AF_UNIX, kind)
                peer.setblocking(False)
                kept.append(peer)
                if peer.connect_ex("\0" + name[1:] if name.startswith("@") else name):
                    break
                found.add(name)
    for name in files:
        with contextlib.suppress(OSError):
            os.close(os.open(name, os.O_RDWR | os.O_NONBLOCK))
            found.add(name)
    KEPT.append(kept)
    return sorted(found)


KEPT: list[object] = []  # by a process until it ends


def sockets_of(pids: list[int]) -> list[str]:
    """Names of their sockets, as every user of the machine can read them."""
    inodes = set()
    for pid in pids:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                link = str(entry.readlink())
                if link.startswith("socket:["):
                    inodes.add(link.removeprefix("socket:[").rstrip("]"))
    lines = (line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:])
    return sorted({line[7] for line in lines if len(line) > 7 and line[6] in inodes})


def test_nothing_of_a_run_is_within_a_strangers_reach(native_build: Path, tmp_path: Path) -> None:
    with running(native_build, tmp_path, "--stats", "--trace", str(tmp_path / "trace")) as guest:
        guest.launches()
        everyone = [guest.process.pid, *descendants(guest.process.pid)]
        assert len(everyone) >= 5  # the program, the control plane, an executor and its worker
        names = sockets_of(everyone)
        files = [str(entry) for pid in everyone for entry in Path(f"/proc/{pid}/fd").iterdir()]
        assert names
        with Stranger(lambda: reached(names, files)) as stranger:
            assert stranger.says() == []
            guest.launches(20)
        report, errors = guest.end()
    assert on_gpu_1(report) == 21
    assert "no more records" not in errors
    assert "refused" not in errors


def takes(first: int) -> int:
    """Binds what an executor's name would be if it followed from the id of a process that starts soon."""
    taken = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(400)]
    for number, peer in enumerate(taken):
        peer.bind(f"\0tessera-{first + number}-1")
        peer.listen(64)
    KEPT.append(taken)
    return len(taken)


@pytest.mark.alone  # its names are what other tests look for when a program has ended
def test_names_that_follow_from_a_process_id_are_worth_nothing(native_build: Path, tmp_path: Path) -> None:
    last = int(Path("/proc/loadavg").read_text().split()[-1])
    with Stranger(lambda: takes(last)) as stranger:
        assert stranger.says() == 400
        with running(native_build, tmp_path) as guest:
            guest.launches(3)
            report, errors = guest.end()
    assert on_gpu_1(report) == 3
    assert errors == ""


def connects(path: Path) -> list[str]:
    """Five times; what each connection is answered."""
    said = []
    for _ in range(5):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as peer:
            peer.connect(str(path))
            try:
                said.append(peer.recv(64).decode())
            except ConnectionResetError:
                said.append("")
    return said


def in_the_open(folder: Path) -> socket.socket:
    """A listener that everybody reaches: for what happens if somebody gets there after all."""
    folder.chmod(0o755)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(str(folder / "open"))
    (folder / "open").chmod(0o777)
    listener.listen(16)
    return listener


def open_folder() -> Path:
    """One whose path anybody may go."""
    return Path(tempfile.mkdtemp(prefix="open-", dir="/tmp"))


def test_the_control_plane_refuses_other_users_with_one_line() -> None:
    folder, complaints = open_folder(), list[str]()
    loop = Loop()
    with in_the_open(folder) as listener:
        receiver = Receiver(listener, [], complaints.append)
        receiver.start(loop)
        with Stranger(lambda: connects(folder / "open")) as stranger:
            while not complaints:
                loop.wait(1.0)
            for _ in range(5):
                loop.wait(0.1)
            assert stranger.says() == [""] * 5
        receiver.finish()
    (folder / "open").unlink()
    folder.rmdir()
    assert len(complaints) == 1
    assert f"user {NOBODY}" in complaints[0]


def test_an_executor_refuses_other_users_with_one_line(native_build: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    native = native_build / "native"
    monkeypatch.setenv("TESSERA_NATIVE", str(native))
    folder = open_folder()
    emulation = Emulation("2")
    environment = compose([emulation.change()], with_native(native))
    with in_the_open(folder) as listener:
        options = ["--device", "1", "--listener", str(listener.fileno()), "--owner", str(os.getpid())]
        with subprocess.Popen(
            [str(native / "executor" / "tessera-executor"), *options],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            pass_fds=[listener.fileno()],
            text=True,
        ) as executor:
            assert as_nobody(lambda: connects(folder / "open")) == [""] * 5
            _, errors = executor.communicate("")
    (folder / "open").unlink()
    folder.rmdir()
    assert executor.returncode == 0
    assert errors == "tessera-executor: another user's process was refused; more of them are, without a word\n"


def hears(path: Path, ready: int) -> int:
    """How many bytes it gets of who connects."""
    os.umask(0)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(path))
        listener.listen(4)
        os.write(ready, b"\n")
        listener.settimeout(30)
        other, _ = listener.accept()
        with other:
            return len(other.recv(256))


def test_a_program_tells_nothing_to_another_users_control_plane(
    native_build: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the number of a process that is gone were another user's now."""
    monkeypatch.setenv("TESSERA_NATIVE", str(native_build / "native"))
    folder = open_folder()
    folder.chmod(0o777)
    program = "import sys; sys.path.append(sys.argv[1]); from tests.e2e.guests import gpu; print(gpu.squares())"
    listening, ready = os.pipe()
    with Stranger(lambda: hears(folder / "theirs", ready)) as stranger:
        assert os.read(listening, 1) == b"\n"
        native = native_build / "native"
        machine = MachineFile(parse("1"))
        done = subprocess.run(
            [sys.executable, "-c", program, str(Path(__file__).parents[2])],
            env={
                **with_native(native),
                "LD_PRELOAD": str(native / "shim" / "libcuda.so.1"),
                "TESSERA_DRIVER": str(native / "emulator" / "libcuda.so.1"),
                "TESSERA_MACHINE": machine.path,
                "TESSERA_RECORDS": str(folder / "theirs"),
                "TESSERA_CODE": "1",
            },
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.returncode, done.stdout) == (0, "10416\n"), done.stderr
        assert stranger.says() == 0
    os.close(listening)
    os.close(ready)
    (folder / "theirs").unlink()
    folder.rmdir()


def test_a_file_of_another_user_is_not_opened(native_build: Path) -> None:
    """As if the number of a process that is gone were another user's now: its decision table is not ours."""
    folder = open_folder()
    folder.chmod(0o777)
    assert as_nobody(lambda: (folder / "table").write_bytes(bytes(1 << 20))) == 1 << 20
    native = native_build / "native"
    program = "import sys; sys.path.append(sys.argv[1]); from tests.e2e.guests import gpu; print(gpu.squares())"
    done = subprocess.run(
        [sys.executable, "-c", program, str(Path(__file__).parents[2])],
        env={
            **with_native(native),
            "LD_PRELOAD": str(native / "emulator" / "libcuda.so.1"),
            "TESSERA_MACHINE": str(folder / "table"),
        },
        capture_output=True,
        text=True,
        timeout=60,
    )
    (folder / "table").unlink()
    folder.rmdir()
    assert done.returncode != 0
    assert "cannot be opened" in done.stderr


def test_a_listener_leaves_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)  # longer than the name of a socket may be
    deep.mkdir(parents=True)
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    listener = Listener(4)
    assert list(deep.iterdir()) == []
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as peer:
        peer.connect(listener.name)
        accepted, _ = listener.socket.accept()
        accepted.close()
    assert listener.name.startswith(name_of(0).removesuffix("0"))
    listener.close()
