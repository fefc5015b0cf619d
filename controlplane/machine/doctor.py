"""What Tessera needs of a machine, and which of it is there: collect() reads the facts, diagnose() only judges them."""

import ctypes
import mmap
import os
import platform
import resource
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata
from pathlib import Path

from controlplane.ipc.handover import Listener, user_of
from controlplane.machine import driver, gpus
from controlplane.machine.parts import SPLIT, parts_of, told
from controlplane.machine.visible import unhidden
from ptxtools import native
from ptxtools.errors import ConfigError

PACKAGES = ("cffi", "networkx", "numpy", "PyYAML", "rich")
ANALYSIS = {
    "nvidia-cuda-nvdisasm": "what machine code reads and writes stays unknown: pip install nvidia-cuda-nvdisasm",
    "zstandard": "what kernels in compressed GPU code read and write stays unknown: pip install zstandard",
}
OPTIONAL = {
    **ANALYSIS,
    "prometheus-client": "there are no metrics (--metrics): pip install prometheus-client",
    "ortools": "no plans are made (tessera plan): pip install 'ortools>=9.15,<9.16'",
    "textual": "tessera top has no list to choose from: pip install 'textual>=8.2,<8.3'",
}
PYTHON = (3, 11)
LIBRARIES = ("emulator/libcuda.so.1", "cudart/libcudart.so.12", "cudart/libcudart.so.13", "shim/libcuda.so.1")
FILES = ("executor/tessera-executor", "include/tessera/records.h")
OLDEST_CUDA, NEWEST_TESTED = 12040, 13000  # parameters of kernels are known from 12.4 on
ARENA_BYTES = 2 << 40
ENOUGH_SHARED_BYTES, ENOUGH_LOCKED_BYTES = 1 << 30, 64 << 20
ENOUGH_DESCRIPTORS, ENOUGH_MAPPINGS = 1024, 65530
UNLIMITED = resource.RLIM_INFINITY


class State(StrEnum):
    """MISSING keeps real GPUs from being used, BROKEN everything; a NOTE is worth knowing."""

    OK = "ok"
    NOTE = "note"
    MISSING = "missing"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Check:
    """What was looked at, what was found, and what to do about it if it is not OK."""

    name: str
    state: State
    found: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Kernel:
    """What the operating system allows. Errors are texts; None is success."""

    machine: str
    memory_file_error: str | None
    socket_error: str | None
    reservation_error: str | None
    shared_bytes: int
    locked_bytes: int
    descriptors: int
    mappings: int
    overcommit: int
    free_bytes: int = 0  # of memory


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that was read. `native` and `packages` say what is wrong with each part, or its version."""

    python: tuple[int, ...]
    packages: Mapping[str, str | None]
    native: Mapping[str, str | None]
    kernel: Kernel
    emulated: bool
    driver: Path | None
    answer: gpus.Answer | None
    parts: int = 1  # that each GPU is shown as


@dataclass(frozen=True, slots=True)
class Report:
    """`facts` with their judgement."""

    facts: Facts
    checks: tuple[Check, ...]

    @property
    def worst(self) -> State:
        order = list(State)
        return max((check.state for check in self.checks), key=order.index)


def diagnose(facts: Facts) -> Report:
    return Report(facts, (*_installation(facts), *_system(facts.kernel), *_driver(facts), *_gpus(facts)))


def _installation(facts: Facts) -> Iterator[Check]:
    version = ".".join(map(str, facts.python))
    enough = facts.python >= PYTHON
    yield Check("Python", State.OK if enough else State.BROKEN, version, "install Python 3.11 or newer")
    for name, found in facts.packages.items():
        state = State.OK if found else State.NOTE if name in OPTIONAL else State.BROKEN
        yield Check(name, state, found or "not installed", OPTIONAL.get(name, f"pip install {name}"))
    for place, error in facts.native.items():
        yield Check(place, State.BROKEN if error else State.OK, error or "usable", "install Tessera again")


def _system(kernel: Kernel) -> Iterator[Check]:
    known = kernel.machine == "Linux x86_64"
    yield Check("system", State.OK if known else State.BROKEN, kernel.machine, "Tessera runs on Linux on x86-64 only")
    yield _without_error("memory files", State.BROKEN, kernel.memory_file_error, "allow memfd_create")
    remedy = "a program reaches its executors through /proc and a socket made in TMPDIR: both must be there"
    yield _without_error("sockets", State.BROKEN, kernel.socket_error, remedy)
    remedy = "ulimit -v unlimited; vm.overcommit_memory must not be 2"
    yield _without_error("2 TiB of addresses", State.MISSING, kernel.reservation_error, remedy)
    for name, value, enough, remedy in (
        (
            "/dev/shm",
            kernel.shared_bytes,
            ENOUGH_SHARED_BYTES,
            "data loaders and NCCL use it: docker run --shm-size=1g",
        ),
        (
            "locked memory",
            kernel.locked_bytes,
            ENOUGH_LOCKED_BYTES,
            "NCCL over InfiniBand needs it: ulimit -l unlimited",
        ),
    ):
        yield Check(name, State.OK if _at_least(value, enough) else State.NOTE, _bytes(value), remedy)
    for name, value, enough, remedy in (
        ("open files", kernel.descriptors, ENOUGH_DESCRIPTORS, "each allocation has one: ulimit -n 4096"),
        ("mappings", kernel.mappings, ENOUGH_MAPPINGS, "large programs need more: sysctl vm.max_map_count=65530"),
    ):
        found = "unlimited" if value == UNLIMITED else str(value)
        yield Check(name, State.OK if _at_least(value, enough) else State.NOTE, found, remedy)
    strict = kernel.overcommit == 2
    found = {0: "heuristic", 1: "always", 2: "never"}.get(kernel.overcommit, str(kernel.overcommit))
    yield Check("overcommit", State.NOTE if strict else State.OK, found, "sysctl vm.overcommit_memory=0")


def _driver(facts: Facts) -> Iterator[Check]:
    answer = facts.answer
    if answer is None:
        remedy = "install NVIDIA's driver, or name its libcuda.so.1 in TESSERA_DRIVER; tessera-run --emulate needs none"
        yield Check("driver", State.MISSING, "no libcuda.so.1 was found", remedy)
        return
    if answer.error is not None:
        remedy = "nvidia-smi must work first; is the process allowed to open /dev/nvidia*?"
        yield Check("driver", State.MISSING, answer.error, remedy)
        return
    found = f"CUDA {cuda_version(answer.version)}"
    if answer.version < OLDEST_CUDA:
        yield Check("driver", State.MISSING, found, f"install a driver for CUDA {cuda_version(OLDEST_CUDA)} or newer")
    elif answer.version > NEWEST_TESTED:
        remedy = f"newer than CUDA {cuda_version(NEWEST_TESTED)}, which Tessera knows: what is new is passed on"
        yield Check("driver", State.NOTE, found, remedy)
    else:
        yield Check("driver", State.OK, found)


FEATURES: tuple[tuple[str, Callable[[gpus.Gpu], bool], State, str], ...] = (
    ("virtual memory", lambda gpu: gpu.virtual_memory, State.MISSING, "no launch can run elsewhere"),
    ("memory operations", lambda gpu: gpu.memory_operations, State.MISSING, "GPUs cannot wait for each other"),
    ("green contexts", lambda gpu: gpu.green_contexts, State.NOTE, "executors cannot be limited to some SMs"),
    ("host memory for a pool", lambda gpu: gpu.host_memory, State.NOTE, "--host has no effect there"),
)


def _gpus(facts: Facts) -> Iterator[Check]:
    answer = facts.answer
    if answer is None or answer.error is not None:
        return
    if len(answer.gpus) < 2:
        state = State.NOTE if answer.gpus else State.MISSING
        remedy = "launches run elsewhere only with a second GPU"
        yield Check("GPUs", state, str(len(answer.gpus)), remedy)
    if facts.parts > 1:
        yield Check("GPUs", State.NOTE, told(facts.parts), f"unset {SPLIT}, but for developing with one GPU")
    for name, has, state, remedy in FEATURES:
        lacking = ", ".join(str(gpu.number) for gpu in answer.gpus if not has(gpu))
        yield Check(name, state if lacking else State.OK, f"not on GPU {lacking}" if lacking else "on all GPUs", remedy)
    apart = [f"{link.source} to {link.target}" for link in answer.links if not link.peer_access]
    if answer.links:
        found = "none from GPU " + ", ".join(apart) if apart else "between all GPUs"
        yield Check(
            "peer access",
            State.NOTE if apart else State.OK,
            found,
            "launches go there only with `memory: {place: copies}`: else memory is read from afar; there is no pool",
        )
    if answer.links and not apart:
        total = sum(gpu.memory_bytes for gpu in answer.gpus) / 2**30
        found = f"{total:.1f} GiB on {len(answer.gpus)} GPUs, less the reserve of each"
        found += f"; the host has {facts.kernel.free_bytes / 2**30:.1f} GiB free for --host"
        yield Check("pool of memory", State.OK, found)


def _without_error(name: str, state: State, error: str | None, remedy: str) -> Check:
    return Check(name, state if error else State.OK, error or "usable", remedy)


def _at_least(value: int, enough: int) -> bool:
    return value == UNLIMITED or value >= enough


def _bytes(value: int) -> str:
    return "unlimited" if value == UNLIMITED else f"{value / 2**20:.0f} MiB"


def cuda_version(number: int) -> str:
    """13000 is 13.0."""
    return f"{number // 1000}.{number % 1000 // 10}"


def collect(environment: Mapping[str, str]) -> Facts:
    """Reads everything. Raises ConfigError when TESSERA_NATIVE or TESSERA_DRIVER is wrong."""
    is_in_place = "libcuda.so.1" in environment.get("LD_PRELOAD", "")
    named = environment.get("TESSERA_DRIVER")
    if named and not Path(named).is_file():
        raise ConfigError(f"TESSERA_DRIVER={named} is not there", expected="the path of a libcuda.so.1")
    found = Path(named) if named else None if is_in_place else driver.find(environment)
    known = is_in_place or found is not None
    return Facts(
        python=tuple(sys.version_info[:3]),
        packages={name: installed(name) for name in (*PACKAGES, *OPTIONAL)},
        native=_native(),
        kernel=_kernel(),
        emulated="TESSERA_MACHINE" in environment,
        driver=found,
        answer=gpus.ask(None if is_in_place else found, unhidden(environment)) if known else None,
        parts=parts_of(environment),
    )


def installed(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _native() -> dict[str, str | None]:
    """What is wrong with each native part."""
    directory = native.directory()
    result = {place: _load_error(directory / place) for place in LIBRARIES}
    for place in FILES:
        needed = os.X_OK if place.startswith("executor") else os.R_OK
        result[place] = None if os.access(directory / place, needed) else f"{directory / place} is missing"
    return result


def _load_error(library: Path) -> str | None:
    """Loads a library, in a process of its own."""
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    command = [sys.executable, "-S", "-c", "import ctypes, sys; ctypes.CDLL(sys.argv[1])", str(library)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
    return None if done.returncode == 0 else (done.stderr.splitlines() or ["it crashed"])[-1]


def _kernel() -> Kernel:
    shared = os.statvfs("/dev/shm") if Path("/dev/shm").is_dir() else None
    return Kernel(
        machine=f"{platform.system()} {platform.machine()}",
        memory_file_error=_memory_file_error(),
        socket_error=_socket_error(),
        reservation_error=_reservation_error(),
        shared_bytes=shared.f_blocks * shared.f_frsize if shared else 0,
        locked_bytes=resource.getrlimit(resource.RLIMIT_MEMLOCK)[0],
        descriptors=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        mappings=_setting("max_map_count"),
        overcommit=_setting("overcommit_memory"),
        free_bytes=os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
    )


def _memory_file_error() -> str | None:
    try:
        file = os.memfd_create("tessera-doctor", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.close(file)
    except OSError as error:
        return str(error.strerror)
    return None


def _socket_error() -> str | None:
    """Connects as a program does to an executor."""
    try:
        listener = Listener(1)
    except ConfigError as error:
        return str(error)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as peer:
        error_number = peer.connect_ex(listener.name)
        same = error_number == 0 and user_of(peer) == os.geteuid()
    listener.close()
    return os.strerror(error_number) if error_number else None if same else "who listens is not told"


def _reservation_error() -> str | None:
    """Reserves what an arena takes, without memory behind it."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
    libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    no_reserve = 0x4000
    address = libc.mmap(None, ARENA_BYTES, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | no_reserve, -1, 0)
    if address == ctypes.c_void_p(-1).value:
        return os.strerror(ctypes.get_errno())
    libc.munmap(address, ARENA_BYTES)
    return None


def _setting(name: str) -> int:
    """A number of /proc/sys/vm."""
    return int(Path("/proc/sys/vm", name).read_text())
