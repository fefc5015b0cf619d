"""A process that makes one probe: it launches a function on memory of its own, on whatever driver it finds.

Its standard input is one line of JSON: a Probe (probe.py) with the file of the image. It prints one: the experiment, or
why there is none. A launch that crashes or hangs harms this process only.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from controlplane.analysis.poison import Bytes, observe

DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
BLOCK, BLOCK_SIZE, LAUNCH_END = 1, 2, 0  # CU_LAUNCH_PARAM_...


class DriverError(RuntimeError):
    """A driver call failed."""


class Launcher:
    """The function in a context with its buffers."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._request = request
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._image = Path(request["image"]).read_bytes() + b"\0"
        self.problem = ""
        self._call("cuInit", 0)
        self._open()

    def _call(self, name: str, *arguments: object) -> None:
        result = getattr(self._driver, name)(*arguments)
        if result:
            raise DriverError(f"{name} gives error {result}")

    def _open(self) -> None:
        context, module, self._function = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self._call("cuCtxSetCurrent", context)
        self._call("cuModuleLoadData", ctypes.byref(module), self._image)
        self._call("cuModuleGetFunction", ctypes.byref(self._function), module, self._request["function"].encode())
        if self._request["shared_bytes"]:
            self._call("cuFuncSetAttribute", self._function, DYNAMIC_SHARED, self._request["shared_bytes"])
        self._addresses = [self._allocated(each["size"]) for each in self._request["buffers"]]

    def _allocated(self, size: int) -> int:
        address = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    def run(self, contents: Sequence[Bytes]) -> list[Bytes] | None:
        """What the buffers hold afterwards; None when the launch fails. Errors: DriverError."""
        for address, content in zip(self._addresses, contents, strict=True):
            self._call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), _pointer(content), ctypes.c_size_t(len(content)))
        try:
            self._launch()
            self._call("cuCtxSynchronize")
        except DriverError as problem:
            self.problem = str(problem)
            self._driver.cuDevicePrimaryCtxReset_v2(0)
            self._open()
            return None
        found = [np.empty_like(content) for content in contents]
        for address, content in zip(self._addresses, found, strict=True):
            self._call("cuMemcpyDtoH_v2", _pointer(content), ctypes.c_uint64(address), ctypes.c_size_t(len(content)))
        return found

    def _launch(self) -> None:
        block = bytearray(bytes.fromhex(self._request["parameters"]))
        for address, each in zip(self._addresses, self._request["buffers"], strict=True):
            for at, offset in each["pointers"]:
                block[at : at + 8] = (address + offset).to_bytes(8, "little")
        data, size = (ctypes.c_uint8 * max(len(block), 1))(*block), ctypes.c_size_t(len(block))
        extra = (ctypes.c_void_p * 5)(BLOCK, ctypes.addressof(data), BLOCK_SIZE, ctypes.addressof(size), LAUNCH_END)
        shape = [ctypes.c_uint(each) for each in (*self._request["grid"], *self._request["block"])]
        self._call("cuLaunchKernel", self._function, *shape, self._request["shared_bytes"], None, None, extra)


def _pointer(content: Bytes) -> ctypes.c_void_p:
    return ctypes.c_void_p(content.ctypes.data)


def main() -> int:
    request = json.loads(sys.stdin.readline())
    try:
        launcher = Launcher(request)
        found = observe(launcher.run, [each["size"] for each in request["buffers"]])
        answer = {"problem": launcher.problem} if found is None else {"experiment": asdict(found)}
    except (DriverError, OSError) as problem:
        answer = {"problem": str(problem)}
    print(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
