"""Launches a clone with tables of ranges as it is told on standard input, and prints what its variable says afterwards.

The input is JSON: `text`, `function`, `variable`, `buffer_bytes`, `threads`, and `tables`, each a list of ranges
[low, high, stride, width, kind] as offsets in the buffer. Printed are [tested, outside, address, bytes, what] for each
table, the address as an offset.
"""

from __future__ import annotations

import ctypes
import json
import struct
import sys
from pathlib import Path

from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call, use_gpu

HEAD = struct.Struct("<IIQQQQII")  # struct tsr_clone_block
RANGE = struct.Struct("<5Q")  # struct tsr_clone_range


def main() -> None:
    told = json.load(sys.stdin)
    use_gpu()
    module = call(driver.cuModuleLoadData(told["text"].encode() + b"\0"))
    function = call(driver.cuModuleGetFunction(module, told["function"].encode()))
    variable, _ = call(driver.cuModuleGetGlobal(module, told["variable"].encode()))
    buffer = int(call(driver.cuMemAlloc(told["buffer_bytes"])))
    call(driver.cuMemsetD8(buffer, 0, told["buffer_bytes"]))
    results = []
    for table in told["tables"]:
        ranges = [RANGE.pack(buffer + low, buffer + high, *rest) for low, high, *rest in table]
        data = bytearray(HEAD.pack(len(table), 0, 0, 0, 0, 0, 0, 0) + b"".join(ranges))
        call(driver.cuMemcpyHtoD(variable, data, len(data)))
        arguments = ((buffer,), (ctypes.c_void_p,))
        call(driver.cuLaunchKernel(function, 1, 1, 1, told["threads"], 1, 1, 0, 0, arguments, 0))
        call(driver.cuCtxSynchronize())
        call(driver.cuMemcpyDtoH(data, variable, HEAD.size))
        _, _, tested, outside, address, size, what, _ = HEAD.unpack_from(data)
        results.append([tested, outside, address - buffer if outside else 0, size, what])
    print(json.dumps(results))


if __name__ == "__main__":
    main()
