"""A GPU that copies of memory have filled: what the program allocates there itself finds room all the same."""

from itertools import product
from pathlib import Path

import pytest

from tests.emulated import Machine
from tests.fault.fault_driver import build
from tests.placement.staged_guest import ROUNDS
from tests.placement.test_copies import guest
from tests.placement.test_pairs import NO_PEER

STAGED = Path(__file__).with_name("staged_guest.py")
WAYS, LINKS = ("alloc", "pitch", "async", "pool", "create"), ("pcie5", NO_PEER)
FULL = Path(__file__).with_name("full_guest.py")
AWAY = 'rules:\n  - {match: {function: "*"}, device: 1}\n'


def beside(memory_mib: int) -> Machine:
    """A GPU with so little memory beside home."""
    return Machine(1, beside=f"{{gpu: h200, count: 1, memory_gib: {memory_mib / 1024}}}")


@pytest.mark.full
@pytest.mark.parametrize(("how", "link"), [*product(WAYS, LINKS)])
def test_the_program_allocates_where_copies_are(how: str, link: str, native_build: Path, tmp_path: Path) -> None:
    """Only the copies hold what was written; they go, one after the other, and nothing is lost."""
    native, machine, program = native_build / "native", beside(64), [str(FULL), how, "13", str(8 << 20), "4"]
    guest(native, tmp_path, "copies", AWAY, program, link, machine=machine)  # learns what launches touch
    ran = guest(native, tmp_path, "copies", AWAY, program, link, machine=machine)
    assert ran.output == "4 True True\n"
    assert ran.report["launches"]["by_device"]["1"] >= 13
    assert ran.report["memory_copies"]["bytes"].get("1", 0) <= 32 << 20


@pytest.mark.full
@pytest.mark.parametrize(
    ("memory", "copy"),
    [*product(("home", "copies"), ("HtoD", "plain", "2D"))],
)
def test_what_is_copied_from_the_host_is_there_for_a_launch_elsewhere(
    memory: str, copy: str, native_build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver keeps such bytes for a while; a GPU without room for copies pulls nothing, and so waits for nothing."""
    native = native_build / "native"
    program, executor, asked = [str(STAGED), copy], "{gpu: 1, memory_limit: 1MiB}", ["--analyze"]
    guest(native, tmp_path, memory, AWAY, program, executor=executor, asked=asked)  # learns what launches touch
    monkeypatch.setenv("TESSERA_FAULT_DRIVER", str(native / "emulator" / "libcuda.so.1"))
    monkeypatch.setenv("TESSERA_STAGED_US", "20000")
    tree = build(native, native_build / "cuda-headers", tmp_path)
    ran = guest(tree, tmp_path, memory, AWAY, program, executor=executor, asked=asked)
    assert all(pair["ok"] for pair in ran.report.get("memory_copies", {}).get("pairs", ()))
    assert ran.report["launches"]["by_device"]["1"] == ROUNDS
    assert ran.output == f"{ROUNDS}\n"


@pytest.mark.full
def test_copies_leave_a_gpu_s_driver_some_memory(native_build: Path, tmp_path: Path) -> None:
    """It may have to load code, or need local memory for a launch, which would fail."""
    native, mebibytes = native_build / "native", 1024
    machine = beside(mebibytes)
    program = [str(FULL), "left", str(mebibytes // 4 + 4)]
    guest(native, tmp_path, "copies", AWAY, program, NO_PEER, machine=machine)  # learns what launches touch
    left = int(guest(native, tmp_path, "copies", AWAY, program, NO_PEER, machine=machine).output)
    assert mebibytes // 64 <= left >> 20 < mebibytes // 64 + 16
