"""Launches kernels and their twins on the same memory; run under `tessera-run`, on emulated GPUs or real ones.

    twin_launcher.py JOBS RESULTS SECONDS

A job is one of launcher.py's with the twin's file, its variable and the hexadecimal content that this gets (`twin`,
`variable`, `table`), and how often both are timed (`repeats`). RESULTS gets a line of JSON for each: `end` as in
launcher.py, or which of the two was not launched; `same`: whether both left the same bytes; `head`: the variable's
first bytes after the twin; `ns` and `twin_ns`: the median time of each. It ends before its list does when a job takes
so many seconds of the processor's time.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[2]))

from tests.analysis.launcher import BUFFER_BYTES, Device, DriverError, Watch

BEFORE_BYTES, WINDOW_BYTES = 1 << 17, 1 << 21  # around the buffers' middles: what is compared
HEAD_BYTES = 64
SEED = 11


class TwinDevice(Device):
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

    def variable(self, text: str, function: str, name: str) -> ctypes.c_uint64:
        self._function(text, function)
        address, size = ctypes.c_uint64(), ctypes.c_size_t()
        self._call(
            "cuModuleGetGlobal_v2", ctypes.byref(address), ctypes.byref(size), self._modules[text], name.encode()
        )
        return address

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


def result(device: TwinDevice, job: dict[str, Any]) -> dict[str, Any]:
    """Launches both. Errors: DriverError."""
    twin = {**job, "text": job["twin"]}
    device.prepare()
    try:
        device.launch(job)
    except DriverError:
        return {"end": "refused"}
    device.wait()
    digest = device.digest()
    try:
        variable = device.variable(job["twin"], job["function"], job["variable"])
        device.write(variable, bytes.fromhex(job["table"]))
        device.prepare()
        device.launch(twin)
    except DriverError as problem:
        return {"end": "refused twin", "why": str(problem)}
    device.wait()
    found = {"end": "right", "same": device.digest() == digest, "head": device.read(variable, HEAD_BYTES).hex()}
    if job["repeats"]:
        found |= {"ns": device.time(job), "twin_ns": device.time(twin)}
    return found


def main() -> int:
    device, watch = TwinDevice(SEED), Watch(float(sys.argv[3]))
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
