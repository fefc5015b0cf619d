"""Memory of a pool is freed in streams that end soon after: `ended_guest.py threads|contexts`.

Several times, one after another: a thread, or a context of the same GPU, allocates a quarter of a GiB, writes it, frees
it in a stream of its own, waits for that, and ends. Prints how many such pieces the pool has in the end.
"""

import sys
import threading
from pathlib import Path
from typing import Any

from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call, use_gpu

BYTES, TIMES = 256 << 20, 6


def use(stream: Any) -> None:
    memory = call(driver.cuMemAllocAsync(BYTES, stream))
    call(driver.cuMemsetD8Async(memory, 1, BYTES, stream))
    call(driver.cuMemFreeAsync(memory, stream))
    call(driver.cuStreamSynchronize(stream))


def in_thread(context: Any) -> None:
    call(driver.cuCtxSetCurrent(context))
    use(driver.CUstream(driver.CU_STREAM_PER_THREAD))


def main() -> None:
    context, device = use_gpu(), call(driver.cuDeviceGet(0))
    pool = call(driver.cuDeviceGetMemPool(device))
    attributes = driver.CUmemPool_attribute
    keep = driver.cuuint64_t(2**63)  # of what is free: all
    call(driver.cuMemPoolSetAttribute(pool, attributes.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, keep))
    for _ in range(TIMES):
        if sys.argv[1] == "threads":
            thread = threading.Thread(target=in_thread, args=(context,))
            thread.start()
            thread.join()
        else:
            other = call(driver.cuCtxCreate(None, 0, device))
            use(call(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)))
            call(driver.cuCtxDestroy(other))
            call(driver.cuCtxSetCurrent(context))
    held = int(call(driver.cuMemPoolGetAttribute(pool, attributes.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)))
    sys.stdout.write(f"{held / BYTES:.1f}\n")


if __name__ == "__main__":
    main()
