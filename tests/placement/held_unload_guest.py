"""A module is unloaded while a kernel waits for a word that a later launch of another thread sets. Prints "right"."""

import ctypes
import sys
import threading
import time
from pathlib import Path
from typing import Any

from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call, functions, use_gpu
from tests.placement.held_up_guest import AWAIT

SET = """
.visible .entry set_word(.param .u64 word)
{
    .reg .b64 %word;
    ld.param.u64 %word, [word];
    st.volatile.global.u32 [%word], 1;
    ret;
}
"""
UNLOADED = b".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry nothing()\n{\n    ret;\n}\n"
LOOK_S = 1  # the module is being unloaded by then


def launch(function: Any, stream: Any, *addresses: int) -> None:
    parameters = (addresses, (ctypes.c_uint64,) * len(addresses)) if addresses else 0
    call(driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, 0))


def unload(context: Any, module: Any, begins: threading.Event) -> None:
    call(driver.cuCtxSetCurrent(context))
    begins.set()
    call(driver.cuModuleUnload(module))


def main() -> None:
    context = use_gpu()
    found = functions(AWAIT, SET)
    module = call(driver.cuModuleLoadData(UNLOADED))
    held, free = (call(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)) for _ in range(2))
    words = int(call(driver.cuMemHostAlloc(16, 0)))
    ctypes.memset(words, 0, 16)
    word, total, other = words, words + 4, words + 8
    launch(call(driver.cuModuleGetFunction(module, b"nothing")), free)
    launch(found["set_word"], free, other)
    call(driver.cuCtxSynchronize())
    launch(found["count_after"], held, other, total)
    call(driver.cuCtxSynchronize())
    launch(found["count_after"], held, word, total)
    begins = threading.Event()
    thread = threading.Thread(target=unload, args=(context, module, begins), daemon=True)
    thread.start()
    begins.wait()
    until = time.monotonic() + LOOK_S
    while time.monotonic() < until:
        launch(found["set_word"], free, other)
        call(driver.cuStreamSynchronize(free))
    launch(found["set_word"], free, word)
    thread.join()
    call(driver.cuCtxSynchronize())
    print("right" if ctypes.c_uint32.from_address(total).value == 2 else "wrong")


if __name__ == "__main__":
    main()
