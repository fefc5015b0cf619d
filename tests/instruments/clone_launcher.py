"""Launches kernels and their clones on the same memory; run under `tessera-run`, on emulated GPUs or real ones.

    clone_launcher.py JOBS RESULTS SECONDS

A job is one of launcher.py's with the clone's file, its variable and the hexadecimal content that this gets (`clone`,
`variable`, `table`), and how often both are timed (`repeats`); `globals` are the module's variables whose addresses it
gets, too, from the offset `places` on, and `based` the table's rows that begin with one: [row, name]. RESULTS gets a
line of JSON for each: `end` as in launcher.py, or which of the two was not launched; `same`: whether both left the same
bytes; `head`: the variable's first bytes after the clone; `ns` and `clone_ns`: the median time of each. It ends before
its list does when a job takes so many seconds of the processor's time.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import statistics
import struct
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[2]))

from tests.instruments.launcher import BUFFER_BYTES, Device, DriverError, Watch

BEFORE_BYTES, WINDOW_BYTES = 1 << 17, 1 << 21  # around the buffers' middles: what is compared
HEAD_BYTES = 48  # struct tsr_clone_block
RANGE = struct.Struct("<5Q")  # struct tsr_clone_range
SEED = 11


@dataclass(frozen=True, slots=True)
class Place:
    """Of a variable."""

    address: ctypes.c_uint64
    size: int


class CloneDevice(Device):
    """Also reads memory, module variables and times."""

    def window(self, number: int) -> ctypes.c_uint64:
        return ctypes.c_uint64(self._buffers[number] + BUFFER_BYTES // 2 - BEFORE_BYTES)

    def prepare(self) -> None:
        """The same bytes each time."""
        for number in range(len(self._buffers)):
            self._call("cuMemsetD8_v2", self.window(number), 0, ctypes.c_size_t(WINDOW_BYTES))
        self._random.seed(SEED)
        self.fill()

    def digest(self) -> str:
        found = hashlib.sha256()
        for number in range(len(self._buffers)):
            found.update(self.read(self.window(number), WINDOW_BYTES))
        return found.hexdigest()

    def variable(self, text: str, function: str, name: str) -> Place:
        self._function(text, function)
        address, size = ctypes.c_uint64(), ctypes.c_size_t()
        self._call(
            "cuModuleGetGlobal_v2", ctypes.byref(address), ctypes.byref(size), self._modules[text], name.encode()
        )
        return Place(address, size.value)

    def time(self, job: dict[str, Any]) -> float:
        """Median of the launches' times, the first left out, in ns."""
        events = [ctypes.c_void_p() for _ in range(2)]
        for event in events:
            self._call("cuEventCreate", ctypes.byref(event), 0)
        times, elapsed = [], ctypes.c_float()
        for _ in range(job["repeats"] + 1):
            self._call("cuEventRecord", events[0], None)
            self.launch(job)
            self._call("cuEventRecord", events[1], None)
            self._call("cuEventSynchronize", events[1])
            self._call("cuEventElapsedTime", ctypes.byref(elapsed), *events)
            times.append(elapsed.value * 1e6)
        return statistics.median(times[1:])


def content(job: dict[str, Any], places: dict[str, Place]) -> bytes:
    """What the clone's variable gets."""
    data = bytearray.fromhex(job["table"])
    for row, name in job["based"]:
        low, high, *rest = RANGE.unpack_from(data, HEAD_BYTES + row * RANGE.size)
        base = places[name].address.value
        RANGE.pack_into(data, HEAD_BYTES + row * RANGE.size, low + base, high + base, *rest)
    addresses = [place.address.value for place in places.values()]
    return bytes(data.ljust(job["places"], b"\0")) + struct.pack(f"<{len(addresses)}Q", *addresses)


def result(device: CloneDevice, job: dict[str, Any]) -> dict[str, Any]:
    """Launches both, the module's variables having the same values before each. Errors: DriverError."""
    clone = {**job, "text": job["clone"]}
    device.prepare()
    try:
        places = {name: device.variable(job["text"], job["function"], name) for name in job["globals"]}
        before = {name: device.read(place.address, place.size) for name, place in places.items()}
        device.launch(job)
    except DriverError:
        return {"end": "refused"}
    device.wait()
    digest = device.digest()
    try:
        for name, place in places.items():
            device.write(place.address, before[name])
        variable = device.variable(job["clone"], job["function"], job["variable"]).address
        device.write(variable, content(job, places))
        device.prepare()
        device.launch(clone)
    except DriverError as problem:
        return {"end": "refused clone", "why": str(problem)}
    device.wait()
    found = {"end": "right", "same": device.digest() == digest, "head": device.read(variable, HEAD_BYTES).hex()}
    if job["repeats"]:
        found |= {"ns": device.time(job), "clone_ns": device.time(clone)}
    return found


def main() -> int:
    device, watch = CloneDevice(SEED), Watch(float(sys.argv[3]))
    with Path(sys.argv[1]).open() as jobs, Path(sys.argv[2]).open("w", buffering=1) as results:
        for line in jobs:
            watch.again()
            try:
                found = result(device, json.loads(line))
            except DriverError:
                found = {"end": "failed"}
            if found["end"] != "right":
                device.renew()
            results.write(json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
