"""The emulated machine's file (tessera/machine.h): written from a description before the program starts, read later."""

import mmap
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from controlplane.ipc.memory_file import memory_file, name_of
from controlplane.machine.catalogue import Link
from controlplane.machine.emulated import Machine
from ptxtools.errors import WireError
from ptxtools.native import records

HEADER = "machine.h"
LINK_KINDS = {"none": 0, "pcie": 1, "nvlink": 2}
ROW_VALID = 2
FIRST_PCI_BUS = 0x10


def pci_address(number: int) -> str:
    """Of a GPU of an emulated machine, as the driver writes it."""
    return f"0000:{FIRST_PCI_BUS + number:02X}:00.0"


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """What one device has done so far, all processes together; times are virtual.

    local_bytes, remote_bytes: of its own and of other devices' memory that its kernels touched, in lines of 128 bytes,
    each once per launch.
    """

    launches: int
    copies: int
    copied_bytes: int
    busy_ns: int
    last_ns: int
    memory_used_bytes: int
    local_bytes: int
    remote_bytes: int


@dataclass(frozen=True, slots=True)
class KernelUse:
    """One row of "what ran where"; virtual_ns is the sum over the launches."""

    device: int
    name: str
    launches: int
    virtual_ns: int


class MachineFile:
    """A memory file with one machine. The file lives as long as this object, or a process that has mapped it."""

    def __init__(self, machine: Machine) -> None:
        ffi, text = records.header(HEADER)
        self._ffi = ffi
        self.descriptor = memory_file("tessera-machine", ffi.sizeof("struct tsr_machine"))
        self._map = mmap.mmap(self.descriptor, ffi.sizeof("struct tsr_machine"))
        self._record: Any = ffi.cast("struct tsr_machine *", ffi.from_buffer(self._map, require_writable=True))
        _write(self._record, machine, ffi.sizeof("struct tsr_machine"), text)

    @property
    def path(self) -> str:
        """The name under which other processes of the same user open it."""
        return name_of(self.descriptor)

    @property
    def processes(self) -> int:
        """How many processes have initialised the driver so far."""
        return int(self._record.processes)

    @property
    def virtual_ns(self) -> int:
        return int(self._record.virtual_ns)

    def devices(self) -> list[DeviceUse]:
        live = self._record.live
        return [
            DeviceUse(
                live[i].launches,
                live[i].copies,
                live[i].copied_bytes,
                live[i].busy_ns,
                live[i].last_ns,
                live[i].memory_used_bytes,
                live[i].local_bytes,
                live[i].remote_bytes,
            )
            for i in range(self._record.device_count)
        ]

    def kernels(self) -> Iterator[KernelUse]:
        """The rows in use; a row that is being written is not there yet."""
        for row in self._record.kernels:
            if row.state == ROW_VALID:
                name = self._ffi.string(row.name)
                if not isinstance(name, bytes):
                    raise WireError("the kernel table does not hold names")
                yield KernelUse(row.device, name.decode("utf-8", "replace"), row.launches, row.virtual_ns)


def _write(record: Any, machine: Machine, size: int, text: str) -> None:
    record.magic = records.constant(text, "TSR_MACHINE_MAGIC", HEADER)
    record.version = records.constant(text, "TSR_MACHINE_VERSION", HEADER)
    record.bytes = size
    record.device_count = len(machine.devices)
    record.host_time = machine.host_time
    record.host_call_ns = machine.host_call_ns
    record.worker_threads = machine.worker_threads
    stride = records.constant(text, "TSR_MACHINE_DEVICES", HEADER)
    for index, gpu in enumerate(machine.devices):
        device = record.devices[index]
        device.name = gpu.name.encode()
        device.uuid = b"tessera" + struct.pack("<BII", 0, index, zlib.crc32(gpu.name.encode()))
        device.compute_major, device.compute_minor = gpu.compute
        device.pci_bus = FIRST_PCI_BUS + index
        for field, value in gpu.fields.items():
            setattr(device, field, value)
        _write_link(record.host_links[index], machine.host_links[index])
    for (source, target), link in machine.links.items():
        _write_link(record.links[source * stride + target], link)


def _write_link(record: Any, link: Link) -> None:
    record.kind = LINK_KINDS[link.kind]
    record.peer_access = link.peer_access
    record.bytes_per_s = link.bytes_per_s
    record.latency_ns = link.latency_ns
    record.corrupts = link.corrupts
