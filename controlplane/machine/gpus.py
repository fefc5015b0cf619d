"""What the driver says of the GPUs and their links, asked in a process of its own: a driver may crash or hang.

python -m controlplane.machine.gpus [--gpus-only] [DRIVER]

prints one JSON object; without DRIVER, of whatever libcuda.so.1 leads to
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Self

from controlplane.machine.parts import parts_of, repeated

TIMEOUT_S = 60.0
GPUS_ONLY = "--gpus-only"
NVLINKS = 18  # most that a GPU has
# cuDeviceGetAttribute
SM_COUNT, MAJOR, MINOR, VIRTUAL_MEMORY, POSIX_HANDLES, MEMORY_OPERATIONS = 16, 75, 76, 102, 103, 122
HOST_MEMORY = 141
# cuDeviceGetP2PAttribute
PERFORMANCE_RANK, PEER_ACCESS, PEER_ATOMICS = 1, 2, 3
SM_RESOURCE, RESOURCE_BYTES = 1, 4096
NVML_CAPABILITY_NVLINK = 2
NVLINK_VERSIONS = {1: "1.0", 2: "2.0", 3: "2.2", 4: "3.0", 5: "3.1", 6: "4.0", 7: "5.0"}  # by nvmlNvlinkVersion_t


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU; number: the one that the driver gives it in this environment."""

    number: int
    name: str
    pci: str
    memory_bytes: int
    compute: tuple[int, int]
    sm_count: int
    virtual_memory: bool  # cuMemCreate and cuMemMap, and handles that other processes can be given
    memory_operations: bool  # 64-bit waits and writes in streams
    green_contexts: bool
    nvlinks: int = 0  # active ones
    nvlink_version: str | None = None
    host_memory: bool = True  # cuMemCreate of host memory, mapped as a GPU's


@dataclass(frozen=True, slots=True)
class Link:
    """From one GPU to another."""

    source: int
    target: int
    peer_access: bool
    atomics: bool
    performance_rank: int  # 0 is the best of the machine
    nvlink: bool | None  # None: the management library was not there to say


@dataclass(frozen=True, slots=True)
class Answer:
    """`error` says why there is nothing else. `version` is of CUDA, 13000 for 13.0, `release` of the driver."""

    error: str | None = None
    version: int = 0
    release: str | None = None
    gpus: tuple[Gpu, ...] = ()
    links: tuple[Link, ...] = ()

    @classmethod
    def from_json(cls, text: str) -> Self:
        parts = json.loads(text)
        gpus = tuple(Gpu(**{**gpu, "compute": tuple(gpu["compute"])}) for gpu in parts["gpus"])
        return cls(
            parts["error"], parts["version"], parts["release"], gpus, tuple(Link(**link) for link in parts["links"])
        )

    def split(self, parts: int) -> Self:
        """Each GPU so many times, with its part of the memory."""
        if parts == 1:
            return self
        gpus = tuple(
            replace(gpu, number=number, memory_bytes=gpu.memory_bytes // parts)
            for number, gpu in enumerate(repeated(self.gpus, parts))
        )
        inside = [Link(gpu.number, gpu.number, True, True, 0, None) for gpu in self.gpus]
        links = [
            replace(link, source=link.source * parts + a, target=link.target * parts + b)
            for link in (*inside, *self.links)
            for a, b in product(range(parts), repeat=2)
        ]
        links.sort(key=lambda link: (link.source, link.target))
        return replace(self, gpus=gpus, links=tuple(link for link in links if link.source != link.target))


class Question:
    """To a driver, or to what a program with this environment has for libcuda.so.1; asked from construction on.

    links: whether those between the GPUs, and what the management library says, are asked for, too. The answer has each
    GPU as often as the environment says (parts.py).
    """

    def __init__(
        self,
        driver: Path | None,
        environment: Mapping[str, str],
        *,
        timeout_s: float = TIMEOUT_S,
        links: bool = True,
    ) -> None:
        # -P: modules of the program's directory are not ours.
        command = [sys.executable, "-P", "-m", "controlplane.machine.gpus", *([] if links else [GPUS_ONLY])]
        command += [] if driver is None else [str(driver)]
        self._timeout_s = timeout_s
        self._parts = parts_of(environment)
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(environment)
        )

    def answer(self) -> Answer:
        """Failing is one, too."""
        try:
            output, errors = self._process.communicate(timeout=self._timeout_s)
        except subprocess.TimeoutExpired:
            self.drop()
            return Answer(error=f"it did not answer within {self._timeout_s:g} s")
        code = self._process.returncode
        if code < 0:
            return Answer(error=f"it crashed with {signal.Signals(-code).name}")
        if code:
            return Answer(error=f"asking it failed: {errors.strip().splitlines()[-1:]}")
        return Answer.from_json(output.splitlines()[-1]).split(self._parts)

    def drop(self) -> None:
        """Nobody wants the answer, or any more of it."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


def ask(
    driver: Path | None, environment: Mapping[str, str], timeout_s: float = TIMEOUT_S, *, links: bool = True
) -> Answer:
    """Asks and waits for the answer."""
    return Question(driver, environment, timeout_s=timeout_s, links=links).answer()


class DriverError(Exception):
    """A call of the driver failed."""


class Driver:
    """The few functions of libcuda.so.1 that are needed here."""

    def __init__(self, library: str) -> None:
        self._library = ctypes.CDLL(library)

    def call(self, name: str, *arguments: object) -> None:
        """Raises DriverError with the error's name, also for a function that this driver lacks."""
        try:
            function = self._library[name]
        except AttributeError:
            raise DriverError(f"{name} is missing") from None
        if result := function(*arguments):
            text = ctypes.c_char_p()
            self._library.cuGetErrorName(result, ctypes.byref(text))
            raise DriverError(f"{name}: {text.value.decode() if text.value else result}")

    def number(self, name: str, *arguments: object) -> int:
        """What a function writes to its first argument."""
        value = ctypes.c_int()
        self.call(name, ctypes.byref(value), *arguments)
        return value.value

    def number_or(self, default: int, name: str, *arguments: object) -> int:
        try:
            return self.number(name, *arguments)
        except DriverError:
            return default


def gpu_of(driver: Driver, number: int) -> Gpu:
    device = driver.number("cuDeviceGet", number)
    name, pci = ctypes.create_string_buffer(256), ctypes.create_string_buffer(32)
    memory_bytes = ctypes.c_size_t()
    driver.call("cuDeviceGetName", name, len(name), device)
    driver.call("cuDeviceGetPCIBusId", pci, len(pci), device)
    driver.call("cuDeviceTotalMem_v2", ctypes.byref(memory_bytes), device)

    def attribute(which: int) -> int:
        return driver.number_or(0, "cuDeviceGetAttribute", which, device)

    return Gpu(
        number=number,
        name=name.value.decode(errors="replace"),
        pci=pci.value.decode(),
        memory_bytes=memory_bytes.value,
        compute=(attribute(MAJOR), attribute(MINOR)),
        sm_count=attribute(SM_COUNT),
        virtual_memory=bool(attribute(VIRTUAL_MEMORY) and attribute(POSIX_HANDLES)),
        memory_operations=bool(attribute(MEMORY_OPERATIONS)),
        green_contexts=has_green_contexts(driver, device),
        host_memory=bool(attribute(HOST_MEMORY)),
    )


def has_green_contexts(driver: Driver, device: int) -> bool:
    resource = ctypes.create_string_buffer(RESOURCE_BYTES)
    try:
        driver.call("cuDeviceGetDevResource", device, resource, SM_RESOURCE)
    except DriverError:
        return False
    return True


def link_of(driver: Driver, source: int, target: int) -> Link:
    def attribute(which: int, default: int = 0) -> int:
        return driver.number_or(default, "cuDeviceGetP2PAttribute", which, source, target)

    return Link(
        source,
        target,
        peer_access=bool(driver.number_or(0, "cuDeviceCanAccessPeer", source, target)),
        atomics=bool(attribute(PEER_ATOMICS)),
        performance_rank=attribute(PERFORMANCE_RANK),
        nvlink=None,
    )


@dataclass(slots=True)
class Management:
    """NVIDIA's management library, if the machine has it: what the driver does not say."""

    library: ctypes.CDLL
    handles: dict[str, ctypes.c_void_p] = field(default_factory=dict)  # by PCI address

    @classmethod
    def open(cls, name: str = "libnvidia-ml.so.1") -> Self | None:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            return None
        return cls(library) if library.nvmlInit_v2() == 0 else None

    def release(self) -> str | None:
        text = ctypes.create_string_buffer(96)
        return None if self.library.nvmlSystemGetDriverVersion(text, len(text)) else text.value.decode()

    def nvlinks(self, pci: str) -> tuple[int, str | None]:
        """Active links and their version."""
        active, version, count = ctypes.c_uint(), ctypes.c_uint(), 0
        for link in range(NVLINKS):
            state = self.library.nvmlDeviceGetNvLinkState(self._handle(pci), link, ctypes.byref(active))
            if state == 0 and active.value:
                count += 1
                self.library.nvmlDeviceGetNvLinkVersion(self._handle(pci), link, ctypes.byref(version))
        return count, NVLINK_VERSIONS.get(version.value)

    def nvlink_between(self, source: str, target: str) -> bool | None:
        status = ctypes.c_int()
        places = self._handle(source), self._handle(target)
        if self.library.nvmlDeviceGetP2PStatus(*places, NVML_CAPABILITY_NVLINK, ctypes.byref(status)):
            return None
        return status.value == 0

    def _handle(self, pci: str) -> ctypes.c_void_p:
        if pci not in self.handles:
            handle = ctypes.c_void_p()
            self.library.nvmlDeviceGetHandleByPciBusId_v2(pci.encode(), ctypes.byref(handle))
            self.handles[pci] = handle
        return self.handles[pci]


def describe(library: str, *, management: Management | None, links: bool = True) -> Answer:
    """The whole answer. Raises DriverError or OSError."""
    driver = Driver(library)
    version = driver.number("cuDriverGetVersion")
    driver.call("cuInit", 0)
    gpus = [gpu_of(driver, number) for number in range(driver.number("cuDeviceGetCount"))]
    pairs = [(a.number, b.number) for a in gpus for b in gpus if links and a is not b]
    answer = Answer(None, version, None, tuple(gpus), tuple(link_of(driver, *pair) for pair in pairs))
    return answer if management is None else with_links(answer, management)


def with_links(answer: Answer, management: Management) -> Answer:
    """What the management library adds."""
    gpus, links = [], []
    for gpu in answer.gpus:
        count, version = management.nvlinks(gpu.pci)
        gpus.append(replace(gpu, nvlinks=count, nvlink_version=version))
    for link in answer.links:
        nvlink = management.nvlink_between(gpus[link.source].pci, gpus[link.target].pci)
        links.append(replace(link, nvlink=nvlink))
    return replace(answer, release=management.release(), gpus=tuple(gpus), links=tuple(links))


def main(arguments: list[str]) -> int:
    """The management library knows nothing of emulated GPUs."""
    try:
        links = GPUS_ONLY not in arguments
        library = next((one for one in arguments if one != GPUS_ONLY), "libcuda.so.1")
        management = Management.open() if links and "TESSERA_MACHINE" not in os.environ else None
        answer = describe(library, management=management, links=links)
    except (DriverError, OSError) as error:
        answer = Answer(error=str(error))
    print(json.dumps(asdict(answer)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
