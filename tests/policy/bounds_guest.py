"""Accesses inside and beyond memory, one case per run: bounds_guest.py CASE prints the driver's answers, in order."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call, store_ptx, use_gpu

MIB = 1 << 20
PAGE = 2 * MIB
HOME = driver.CUmemLocation()
HOME.type, HOME.id = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, 0


class Program:
    """A context, the kernel, a stream, and the answers so far."""

    def __init__(self) -> None:
        use_gpu()
        module = call(driver.cuModuleLoadData(store_ptx("u8")))
        self._store = call(driver.cuModuleGetFunction(module, b"store"))
        self.stream = call(driver.cuStreamCreate(0))
        self.answers: list[int] = []

    def note(self, result: tuple[Any, ...]) -> None:
        self.answers.append(int(result[0]))

    def launch(self, address: int) -> tuple[Any, ...]:
        shape, parameters = (1, 1, 1, 1, 1, 1), ((driver.CUdeviceptr(address),), (None,))
        result: tuple[Any, ...] = driver.cuLaunchKernel(self._store, *shape, 0, self.stream, parameters, 0)
        return result

    def post(self, address: int) -> None:
        call(self.launch(address))

    def store(self, address: int) -> None:
        """One byte, by a kernel. A launch that is verified is waited for, so it may itself say that it failed."""
        launched = self.launch(address)
        self.note(driver.cuStreamSynchronize(self.stream) if int(launched[0]) == 0 else launched)

    def two(self, size: int) -> tuple[int, int]:
        return int(call(driver.cuMemAlloc(size))), int(call(driver.cuMemAlloc(size)))

    def two_of_a_pool(self, size: int) -> tuple[int, int]:
        first, second = (int(call(driver.cuMemAllocAsync(size, self.stream))) for _ in range(2))
        return first, second


def inside(program: Program) -> None:
    for size in (1, 1000, 4096, MIB - 256, 3 * MIB):
        for first in (*program.two(size), *program.two_of_a_pool(size)):
            program.store(first)
            program.store(first + (size + 511) // 512 * 512 - 1)


def past_the_end(program: Program) -> None:
    first, _ = program.two(4096)
    program.store(first + 4096)


def past_the_rounding(program: Program) -> None:
    _, second = program.two(1000)
    program.store(second + 1024)


def before_the_begin(program: Program) -> None:
    _, second = program.two(4096)
    program.store(second - 1)


def past_whole_pages(program: Program) -> None:
    first, _ = program.two(2 * PAGE)
    program.store(first + 2 * PAGE)


def far_past_the_end(program: Program) -> None:
    first, _ = program.two(3 * MIB)
    program.store(first + 3 * MIB + 100_000)


def freed(program: Program) -> None:
    first, _ = program.two(4096)
    program.store(first)
    call(driver.cuMemFree(first))
    program.store(first)


def freed_of_several_pages(program: Program) -> None:
    first, _ = program.two(2 * PAGE)
    program.store(first + PAGE)
    call(driver.cuMemFree(first))
    program.store(first + PAGE)


def past_the_end_in_a_pool(program: Program) -> None:
    first, _ = program.two_of_a_pool(4096)
    program.store(first + 4096)


def freed_in_a_pool(program: Program) -> None:
    first, _ = program.two_of_a_pool(4096)
    call(driver.cuMemFreeAsync(first, program.stream))
    program.note(driver.cuStreamSynchronize(program.stream))
    program.store(first)


def freed_to_a_pool_at_once(program: Program) -> None:
    first, _ = program.two_of_a_pool(4096)
    program.store(first)
    call(driver.cuMemFree(first))
    program.store(first)


def used_before_it_is_freed(program: Program) -> None:
    """Launches that wait for the host, posted before the free in their stream, while others allocate."""
    word = call(driver.cuMemHostAlloc(8, driver.CU_MEMHOSTALLOC_DEVICEMAP))
    flag = driver.CUdeviceptr(int(word))
    call(driver.cuMemsetD32(flag, 0, 1))
    call(driver.cuCtxSynchronize())
    sizes = (512, 4096, 100_000, 3 * MIB)
    blocks = [(int(call(driver.cuMemAllocAsync(size, program.stream))), size) for size in sizes]
    call(driver.cuStreamWaitValue32(program.stream, flag, 1, 0))
    for first, size in blocks:
        program.post(first)
        program.post(first + size - 1)
        call(driver.cuMemFreeAsync(first, program.stream))
    again = [(int(call(driver.cuMemAllocAsync(100, program.stream))), 100) for _ in range(50)]
    other = call(driver.cuStreamCreate(1))
    call(driver.cuStreamWriteValue32(other, flag, 1, 0))
    program.note(driver.cuStreamSynchronize(program.stream))
    for first, size in again:
        program.store(first + size - 1)


def unmapped(program: Program) -> None:
    properties = driver.CUmemAllocationProp()
    properties.type, properties.location = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED, HOME
    access = driver.CUmemAccessDesc()
    access.location, access.flags = HOME, driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    first = int(call(driver.cuMemAddressReserve(3 * PAGE, 0, 0, 0)))
    for number in range(2):
        memory = call(driver.cuMemCreate(PAGE, properties, 0))
        call(driver.cuMemMap(first + number * PAGE, PAGE, 0, memory, 0))
    call(driver.cuMemSetAccess(first, 2 * PAGE, [access], 1))
    program.store(first + 2 * PAGE - 1)
    call(driver.cuMemUnmap(first + PAGE, PAGE))
    program.store(first + PAGE - 1)
    program.store(first + PAGE)


def copies(program: Program) -> None:
    first, second = program.two(4096)
    host = bytearray(8192)
    program.store(first)
    program.note(driver.cuMemcpyHtoD(first, bytes(host), 4096))
    program.note(driver.cuMemcpyHtoD(first, bytes(host), 4096 + 8))
    program.note(driver.cuMemsetD8(first + 4000, 0, 96))
    program.note(driver.cuMemsetD8(first + 4000, 0, 97))
    program.note(driver.cuMemcpyDtoDAsync(first, second, 4096, program.stream))
    program.note(driver.cuMemcpyDtoDAsync(first, second, 4097, program.stream))
    program.note(driver.cuMemcpyDtoDAsync(first + 1, second, 4096, program.stream))
    call(driver.cuMemFree(second))
    program.note(driver.cuMemcpyDtoDAsync(first, second, 16, program.stream))
    program.note(driver.cuStreamSynchronize(program.stream))


def of_an_ended_context(program: Program) -> None:
    device = call(driver.cuDeviceGet(0))
    context = call(driver.cuCtxCreate(None, 0, device))
    first = int(call(driver.cuMemAlloc(4096)))
    call(driver.cuCtxDestroy(context))
    program.two(4096)
    program.store(first + 8192 + 1024)


CASES: dict[str, Callable[[Program], None]] = {
    case.__name__: case
    for case in (
        inside,
        past_the_end,
        past_the_rounding,
        before_the_begin,
        past_whole_pages,
        far_past_the_end,
        freed,
        freed_of_several_pages,
        past_the_end_in_a_pool,
        freed_in_a_pool,
        freed_to_a_pool_at_once,
        used_before_it_is_freed,
        unmapped,
        copies,
        of_an_ended_context,
    )
}


def main() -> None:
    program = Program()
    CASES[sys.argv[1]](program)
    print(*program.answers)


if __name__ == "__main__":
    main()
