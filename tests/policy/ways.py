"""Launches in all ways: plain, in threads and children, captured, refused, with managed memory, of code that came past.

Prints how many ran as launches, how many were captured, and how many stay home under "all on GPU 1" and why.
"""

import ctypes
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call, use_gpu

PTX = b""".version 7.0
.target sm_70
.address_size 64
.visible .entry add(.param .u64 sum)
{
    .reg .b64 %a<2>;
    .reg .b32 %r<2>;
    ld.param.u64 %a1, [sum];
    ld.global.u32 %r1, [%a1];
    add.u32 %r1, %r1, 1;
    st.global.u32 [%a1], %r1;
    ret;
}
"""
PLAIN, THREADS, EACH, CAPTURED, GRAPHS, REFUSED, MANAGED, PAST = 3, 4, 5, 2, 3, 2, 2, 2


def launch(function: driver.CUfunction, where: int, stream: object = 0, threads: int = 1) -> None:
    pointer = ctypes.c_uint64(int(where))
    parameters = (ctypes.c_void_p * 1)(ctypes.addressof(pointer))
    call(driver.cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, stream, parameters, 0))


def unseen() -> driver.CUfunction:
    """Loaded by the driver behind the shim, which the C library's own dlsym finds, as some libraries do."""
    libc, pointer = ctypes.CDLL("libc.so.6"), ctypes.c_void_p
    libc.dlopen.restype = libc.dlsym.restype = pointer
    libc.dlsym.argtypes = (pointer, ctypes.c_char_p)
    behind = libc.dlopen(os.environ["TESSERA_DRIVER"].encode(), os.RTLD_NOW)
    load = ctypes.CFUNCTYPE(ctypes.c_int, pointer, ctypes.c_char_p)(libc.dlsym(behind, b"cuModuleLoadData"))
    kind = ctypes.CFUNCTYPE(ctypes.c_int, pointer, pointer, ctypes.c_char_p)
    look_up = kind(libc.dlsym(behind, b"cuModuleGetFunction"))
    module, function = pointer(), pointer()
    assert load(ctypes.addressof(module), PTX) == 0
    assert look_up(ctypes.addressof(function), module, b"add") == 0
    return driver.CUfunction(function.value)


def in_thread(context: driver.CUcontext, function: driver.CUfunction, where: int) -> None:
    call(driver.cuCtxSetCurrent(context))
    stream = call(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
    for _ in range(EACH):
        launch(function, where, stream)
    call(driver.cuStreamSynchronize(stream))


def capture(function: driver.CUfunction, where: int) -> None:
    stream = call(driver.cuStreamCreate(0))
    call(driver.cuStreamBeginCapture(stream, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
    for _ in range(CAPTURED):
        launch(function, where, stream)
    graph = call(driver.cuStreamEndCapture(stream))
    executable = call(driver.cuGraphInstantiate(graph, 0))
    for _ in range(GRAPHS):
        call(driver.cuGraphLaunch(executable, stream))
    call(driver.cuStreamSynchronize(stream))


def main() -> None:
    context = use_gpu()
    function = call(driver.cuModuleGetFunction(call(driver.cuModuleLoadData(PTX)), b"add"))
    sums = int(call(driver.cuMemAlloc(4 * (THREADS + 1))))
    for _ in range(PLAIN):
        launch(function, sums)
    call(driver.cuCtxSynchronize())
    for _ in range(REFUSED):
        try:
            launch(function, sums, threads=4096)
        except RuntimeError:
            continue
        raise AssertionError("a launch with too many threads was taken")
    managed = call(driver.cuMemAllocManaged(4, driver.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL.value))
    for _ in range(MANAGED):
        launch(function, int(managed))
    past = unseen()
    for _ in range(PAST):
        launch(past, sums)
    call(driver.cuCtxSynchronize())
    capture(function, sums)
    threads = [threading.Thread(target=in_thread, args=(context, function, sums + 4 * n + 4)) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    children = 0
    if "child" not in sys.argv:
        done = subprocess.run([sys.executable, __file__, "child"], check=True, capture_output=True)
        children = int(json.loads(done.stdout)["ran"])
    times = 2 if children else 1
    kept = {"capture": CAPTURED * times, "memory_managed": MANAGED * times, "module": PAST * times}
    ran = PLAIN + MANAGED + PAST + THREADS * EACH + children
    print(json.dumps({"ran": ran, "captured": CAPTURED * times, "kept": kept}))


if __name__ == "__main__":
    main()
