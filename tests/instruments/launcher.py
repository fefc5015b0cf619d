"""Launches what a list of jobs says; run under `tessera-run --emulate`. Only the standard library is used.

    launcher.py JOBS ENDS SECONDS

A job is a line of JSON: {"text": file, "function": name, "grid": [..], "block": [..], "shared": bytes, "pointers":
{offset: buffer}, "values": "hex"}. Each of the buffers is large, and its address lies in its middle, so that most
kernels stay inside. The buffers are so far apart that a kernel that leaves one comes into no other: it stops. After a
failed launch the context is made anew. ENDS gets a line for each job: "right", "failed" when the launch stopped, or
"refused" when it could not be made.

A job may say what lies in memory: "clear" [[begin, end], ..] is made zero, all buffers are filled anew from a "seed",
then "spoil" gets a "pattern" (hex). With "digest" [[begin, end], ..] the line ends with "=" and those bytes' digest.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import random
import sys
import threading
import time
from pathlib import Path

BUFFERS = 6
BUFFER_BYTES = 1 << 28
FIRST = 0x3000_0000_0000
# Further than 32 bits times any size of an element, and no multiple lies near one of 2^32 (sizes that stand in the
# upper half of 64 bits).
DISTANCE = (4 << 40) + 0x2A00_0000  # an H200 reserves addresses at multiples of 32 MiB
FILLED_BYTES = 1 << 16
REFILL = 50  # launches
LOOK_S = 0.1
POOL_WORDS = 1 << 18


class DriverError(RuntimeError):
    """A driver call failed."""


class Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class Properties(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", Location),
        ("metadata", ctypes.c_void_p),
        ("flags", ctypes.c_uint8 * 8),
    )


class Access(ctypes.Structure):
    _fields_ = (("location", Location), ("flags", ctypes.c_int))


DEVICE = Location(1, 0)
PINNED, READ_WRITE = 1, 3
FREE_SHARED_BYTES = 48 << 10  # a kernel that shall have more must say so
MOST_SHARED = 8  # the attribute that says it


class Device:
    """A context with buffers and modules."""

    def __init__(self, seed: int) -> None:
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._random = random.Random(seed)
        words = self._random.choices((0, 1, 2, 3, 5, 17, 63), k=POOL_WORDS)
        self._pool = (ctypes.c_uint32 * len(words))(*words)
        self._call("cuInit", 0)
        self._functions: dict[tuple[str, str], ctypes.c_void_p] = {}
        self._modules: dict[str, ctypes.c_void_p] = {}
        self._open()
        self._buffers = [self._buffer(FIRST + number * DISTANCE) for number in range(BUFFERS)]
        self.fill()

    def _call(self, name: str, *arguments: object) -> None:
        result = getattr(self._driver, name)(*arguments)
        if result:
            raise DriverError(f"{name}: error {result}")

    def _open(self) -> None:
        context = ctypes.c_void_p()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self._call("cuCtxSetCurrent", context)
        self._functions.clear()
        self._modules.clear()

    def _buffer(self, wanted: int) -> int:
        """Memory at an address; contexts come and go without it."""
        size, address, handle = ctypes.c_size_t(BUFFER_BYTES), ctypes.c_uint64(), ctypes.c_uint64()
        properties, access = Properties(PINNED, 0, DEVICE), Access(DEVICE, READ_WRITE)
        self._call("cuMemAddressReserve", ctypes.byref(address), size, ctypes.c_size_t(0), ctypes.c_uint64(wanted), 0)
        if address.value != wanted:
            raise DriverError(f"the memory lies at {address.value:#x}, not at {wanted:#x}")
        self._call("cuMemCreate", ctypes.byref(handle), size, ctypes.byref(properties), ctypes.c_uint64(0))
        self._call("cuMemMap", address, size, ctypes.c_size_t(0), handle, ctypes.c_uint64(0))
        self._call("cuMemSetAccess", address, size, ctypes.byref(access), ctypes.c_size_t(1))
        return address.value

    def renew(self) -> None:
        """After a failure: another context. What lies in memory stays."""
        self._driver.cuDevicePrimaryCtxReset_v2(0)
        self._open()

    def fill(self) -> None:
        """Small numbers around the buffers' middles: they serve as sizes and indices."""
        for buffer in self._buffers:
            data = ctypes.byref(self._pool, 4 * self._random.randrange(POOL_WORDS - FILLED_BYTES // 4))
            place = ctypes.c_uint64(buffer + BUFFER_BYTES // 2 - FILLED_BYTES // 2)
            self._call("cuMemcpyHtoD_v2", place, data, ctypes.c_size_t(FILLED_BYTES))

    def arrange(self, job: dict[str, object]) -> None:
        """Puts into memory what a job says."""
        for begin, end in intervals(job, "clear"):
            self.write(ctypes.c_uint64(begin), bytes(end - begin))
        if "seed" in job:
            self._random.seed(str(job["seed"]))
            self.fill()
        pattern = bytes.fromhex(str(job.get("pattern", "00")))
        for begin, end in intervals(job, "spoil"):
            self.write(ctypes.c_uint64(begin), (pattern * ((end - begin) // len(pattern) + 1))[: end - begin])

    def kept(self, job: dict[str, object]) -> str:
        found = hashlib.sha1(usedforsecurity=False)
        for begin, end in intervals(job, "digest"):
            found.update(self.read(ctypes.c_uint64(begin), end - begin))
        return found.hexdigest()

    def write(self, to: ctypes.c_uint64, data: bytes) -> None:
        self._call("cuMemcpyHtoD_v2", to, data, ctypes.c_size_t(len(data)))

    def read(self, at: ctypes.c_uint64, size: int) -> bytes:
        data = (ctypes.c_uint8 * size)()
        self._call("cuMemcpyDtoH_v2", data, at, ctypes.c_size_t(size))
        return bytes(data)

    def _function(self, text: str, name: str) -> ctypes.c_void_p:
        if (text, name) not in self._functions:
            if text not in self._modules:
                module = ctypes.c_void_p()
                self._call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(Path(text).read_bytes() + b"\0"))
                self._modules[text] = module
            function = ctypes.c_void_p()
            self._call("cuModuleGetFunction", ctypes.byref(function), self._modules[text], name.encode())
            self._functions[text, name] = function
        return self._functions[text, name]

    def launch(self, job: dict[str, object]) -> None:
        """Launches. Errors: DriverError."""
        function = self._function(str(job["text"]), str(job["function"]))
        block = bytearray(bytes.fromhex(str(job["values"])))
        pointers = job["pointers"]
        assert isinstance(pointers, dict)
        for offset, number in pointers.items():
            address = self._buffers[number] + BUFFER_BYTES // 2
            block[int(offset) : int(offset) + 8] = address.to_bytes(8, "little")
        data = (ctypes.c_uint8 * max(len(block), 1)).from_buffer_copy(bytes(block) or b"\0")
        size = ctypes.c_size_t(len(block))
        extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(data), 2, ctypes.addressof(size), 0)
        shape = [ctypes.c_uint(n) for key in ("grid", "block") for n in job[key]]  # type: ignore[attr-defined]
        shared = ctypes.c_uint(int(str(job["shared"])))
        if shared.value > FREE_SHARED_BYTES:
            self._call("cuFuncSetAttribute", function, MOST_SHARED, shared)
        self._call("cuLaunchKernel", function, *shape, shared, None, None, extra)

    def wait(self) -> None:
        """Errors: DriverError, when a launch failed."""
        self._call("cuCtxSynchronize")


def intervals(job: dict[str, object], name: str) -> list[tuple[int, int]]:
    found = job.get(name, [])
    assert isinstance(found, list)
    return [(begin, end) for begin, end in found]


def run(device: Device, job: dict[str, object]) -> str:
    """Launches a job and waits; says how it ended."""
    try:
        device.arrange(job)
        device.launch(job)
    except DriverError:
        device.renew()
        device.fill()
        return "refused\n"
    try:
        device.wait()
    except DriverError:
        device.renew()
        end = said("failed", device, job)
        device.fill()
        return end
    return said("right", device, job)


def said(end: str, device: Device, job: dict[str, object]) -> str:
    return f"{end}={device.kept(job)}\n" if "digest" in job else f"{end}\n"


class Watch:
    """Ends the program when a launch takes too long."""

    def __init__(self, most_s: float) -> None:
        self._most_s = most_s
        self._begin = time.process_time()
        threading.Thread(target=self._look, daemon=True).start()

    def again(self) -> None:
        """A launch begins."""
        self._begin = time.process_time()

    def _look(self) -> None:
        while time.process_time() - self._begin < self._most_s:
            time.sleep(LOOK_S)
        os._exit(1)


def main() -> int:
    device = Device(1)
    watch = Watch(float(sys.argv[3]))
    with Path(sys.argv[1]).open() as jobs, Path(sys.argv[2]).open("w", buffering=1) as ends:
        for number, line in enumerate(jobs):
            if number % REFILL == REFILL - 1:
                device.fill()
            watch.again()
            ends.write(run(device, json.loads(line)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
