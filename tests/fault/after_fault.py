"""A kernel that faults, the end of its context, work in another: after_fault.py CASE prints what the driver says."""

import ctypes
import sys
from pathlib import Path
from typing import Any

from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call, store_ptx

NOWHERE = 0x123456789000
answers: list[int] = []


def note(result: tuple[Any, ...]) -> None:
    answers.append(int(result[0]))


def work(address: int | None = None, *, frees: bool = False) -> None:
    """In the current context: one store, to the address or to new memory, and what it left there."""
    store = call(driver.cuModuleGetFunction(call(driver.cuModuleLoadData(store_ptx("u32"))), b"store"))
    stream = call(driver.cuStreamCreate(1))
    memory = call(driver.cuMemAlloc(4096))
    call(driver.cuMemsetD8(memory, 1, 4096))
    target = driver.CUdeviceptr(int(memory) if address is None else address)
    note(driver.cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, stream, ((target,), (None,)), 0))
    note(driver.cuStreamSynchronize(stream))
    note(driver.cuMemAlloc(16))
    found = ctypes.c_uint32()
    note(driver.cuMemcpyDtoH(ctypes.addressof(found), memory, 4))
    if answers[-1] == 0:
        answers.append(found.value)
    if frees:
        note(driver.cuMemFree(memory))
        note(driver.cuStreamDestroy(stream))


def own_contexts(device: Any) -> None:
    for _ in range(2):
        context = call(driver.cuCtxCreate(None, 0, device))
        work(NOWHERE)
        note(driver.cuCtxDestroy(context))
        call(driver.cuCtxCreate(None, 0, device))
        work(frees=True)
    work()


def reset(device: Any) -> None:
    call(driver.cuCtxSetCurrent(call(driver.cuDevicePrimaryCtxRetain(device))))
    work(NOWHERE)
    note(driver.cuDevicePrimaryCtxReset(device))
    call(driver.cuCtxSetCurrent(call(driver.cuDevicePrimaryCtxRetain(device))))
    work(frees=True)


def beside_another(device: Any) -> None:
    """The other context has memory, but no work where the fault is."""
    other = call(driver.cuDevicePrimaryCtxRetain(device))
    call(driver.cuCtxSetCurrent(other))
    memory = call(driver.cuMemAlloc(4096))
    call(driver.cuMemsetD8(memory, 3, 4096))
    context = call(driver.cuCtxCreate(None, 0, device))
    work(NOWHERE)
    note(driver.cuCtxDestroy(context))
    call(driver.cuCtxSetCurrent(other))
    found = ctypes.c_uint32()
    note(driver.cuMemcpyDtoH(ctypes.addressof(found), memory, 4))
    answers.append(found.value)
    work(frees=True)


CASES = {"own": own_contexts, "reset": reset, "beside": beside_another}


def main() -> None:
    call(driver.cuInit(0))
    CASES[sys.argv[1]](call(driver.cuDeviceGet(0)))
    print(*answers)


if __name__ == "__main__":
    main()
