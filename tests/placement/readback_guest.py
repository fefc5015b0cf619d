"""What the host sees after it has read a number back, or given some, and waited: `readback_guest.py TIMES [legacy]`.

legacy: all in the legacy default stream, and some of it in a stream beside it, for which that waits by CUDA's rules.

Each time after work that nobody waits for: a long chain, then a number read back or given, and the wait for the stream.
The host looks at what it was promised: the number; bytes that were copied to page-locked memory, or written there by a
launch; an event; the stream's state; what the chain made, by a copy in the default stream, and by a launch in a stream
that waits for none. Prints all of them.
"""

import ctypes
import sys
from pathlib import Path
from typing import Any

import numpy
from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call
from tests.placement.automatic_guest import FEW, Program

STEPS, KIB = 100, 64


def look(program: Program, number: int, kind: str, gives: bool, buffer: Any, flag: Any, pinned: int, event: Any) -> int:
    """The state of what was promised, right after the wait."""
    program.chain(buffer, buffer)
    if kind == "copied":
        call(driver.cuMemcpyDtoHAsync(pinned, buffer, 4 * FEW, program.stream))
    elif kind == "written":
        program.step(driver.CUdeviceptr(pinned), buffer, buffer, FEW)
    elif kind == "event":
        call(driver.cuEventRecord(event, program.stream))
    elif kind == "beside":
        program.chain(buffer, buffer)
        beside(program, buffer, pinned)
    program.chain(buffer, buffer)
    answer = 0
    if gives:
        program.give("uploads", number)
    else:
        answer = program.answer(flag)
    if kind == "event":
        call(driver.cuEventQuery(event))
    elif kind == "query":
        call(driver.cuStreamQuery(program.stream))
    elif kind == "fetched":
        call(driver.cuMemcpyDtoH(fetched := numpy.zeros(FEW, numpy.uint32), buffer, 4 * FEW))
        answer += int(fetched.sum())
    elif kind == "apart":
        apart(program, buffer, pinned)
    return answer


def apart(program: Program, buffer: Any, pinned: int) -> None:
    """In a stream that waits for no other: the host has, before."""
    usual, program.stream = program.stream, program.apart
    program.step(driver.CUdeviceptr(pinned), buffer, buffer, FEW)
    call(driver.cuStreamSynchronize(program.stream))
    program.stream = usual


def beside(program: Program, buffer: Any, pinned: int) -> None:
    """In the other stream: it comes after the default stream's work, and that after it."""
    default, program.stream = program.stream, program.other
    call(driver.cuMemcpyDtoHAsync(pinned, buffer, 4 * FEW, program.stream))
    program.stream = default


def main() -> None:
    program = Program(STEPS, KIB)
    kinds = ["copied", "read", "written", "read", "event", "query", "read", "read", "fetched", "read", "apart", "read"]
    if sys.argv[2:] == ["legacy"]:
        program.other, program.stream = call(driver.cuStreamCreate(0)), driver.CUstream(0)
        kinds += ["beside", "read", "read", "beside", "beside"]
    buffer, flag = program.buffer(1), program.buffer(2)
    event = call(driver.cuEventCreate(0))
    pinned = int(call(driver.cuMemHostAlloc(4096, 2)))
    for _ in range(4):
        program.answer(flag)
    for number in range(int(sys.argv[1])):
        for kind in kinds:
            for gives in (False, True):
                answer = look(program, number, kind, gives, buffer, flag, pinned, event)
                print(number, kind, answer, ctypes.c_uint32.from_address(pinned).value)
    program.print(buffer, flag)


main()
