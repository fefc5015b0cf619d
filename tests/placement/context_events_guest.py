"""Events of all streams of a context, while its work runs elsewhere: `context_events_guest.py green|whole`.

green: a green context, and its default stream. An event is recorded behind a kernel that is held up; then another
kernel comes after an event that is held up. Prints each time, before the host lets them go on, and after, whether the
event and the stream are done, and how many kernels are.
"""

import ctypes
import sys
import time
from pathlib import Path
from typing import Any

from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call, functions, use_gpu
from tests.placement.held_up_guest import AWAIT, count

LONG_S = 0.1  # more than a kernel takes that is not held up


def green() -> tuple[Any, Any]:
    device = call(driver.cuDeviceGet(0))
    all_of_it = call(driver.cuDeviceGetDevResource(device, driver.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM))
    part, *_ = call(driver.cuDevSmResourceSplitByCount(1, all_of_it, 0, 16))[0]
    description = call(driver.cuDevResourceGenerateDesc([part], 1))
    flags = driver.CUgreenCtxCreate_flags.CU_GREEN_CTX_DEFAULT_STREAM
    made = call(driver.cuGreenCtxCreate(description, device, flags))
    call(driver.cuCtxPushCurrent(call(driver.cuCtxFromGreenCtx(made))))
    return made, driver.CUstream(0)


def main() -> None:
    use_gpu()
    is_green = sys.argv[1] == "green"
    context, stream = green() if is_green else (call(driver.cuCtxGetCurrent()), call(driver.cuStreamCreate(1)))
    record, wait = (
        (driver.cuGreenCtxRecordEvent, driver.cuGreenCtxWaitEvent)
        if is_green
        else (driver.cuCtxRecordEvent, driver.cuCtxWaitEvent)
    )
    function = functions(AWAIT)["count_after"]
    words = int(call(driver.cuMemHostAlloc(12, 0)))
    word = ctypes.cast(words, ctypes.POINTER(ctypes.c_uint32))
    word[0], word[1], word[2] = 0, 1, 0
    total = words + 8
    gate, event = (call(driver.cuEventCreate(2)) for _ in range(2))
    call(driver.cuCtxSynchronize())

    def say() -> None:
        time.sleep(LONG_S)
        print(driver.cuEventQuery(event)[0].name, driver.cuStreamQuery(stream)[0].name, word[2])

    count(function, stream, words, total)
    call(record(context, event))
    say()
    word[0] = 1
    call(driver.cuEventSynchronize(event))
    say()

    word[0] = 0
    apart = call(driver.cuStreamCreate(1)) if not is_green else call(driver.cuGreenCtxStreamCreate(context, 1, 0))
    call(driver.cuStreamWaitValue32(apart, words, 1, 0))
    call(driver.cuEventRecord(gate, apart))
    count(function, stream, words + 4, total)
    call(wait(context, gate))
    count(function, stream, words + 4, total)
    call(driver.cuEventRecord(event, stream))
    say()
    word[0] = 1
    call(driver.cuEventSynchronize(event))
    say()


main()
