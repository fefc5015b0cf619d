"""A program that uses the GPU as it is told on standard input, one word a line; it answers each with a line.

launch   launches the kernel of tests/e2e/guests/gpu.py once and says the sum that it gave
hang     launches a kernel that never ends, and waits for it
end      ends with 0

It handles SIGINT, as an interactive program does: it says "interrupted" and goes on.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "e2e" / "guests"))

import gpu

SPIN = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry spin()
{
again:
    bra again;
}
"""


def hang() -> None:
    cuda, _ = gpu.start()
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    gpu.check(cuda.cuModuleLoadData(ctypes.byref(module), SPIN))
    gpu.check(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"spin"))
    gpu.check(cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None))
    say("hangs")
    gpu.check(cuda.cuCtxSynchronize())


def say(text: object) -> None:
    print(text, flush=True)


def lines() -> Iterator[bytes]:
    """Of a terminal. A signal that comes just before read(2) does not end it, and Python runs its handler only then."""
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken)
    while True:
        ready, _, _ = select.select([sys.stdin, wake], [], [])
        if wake in ready:
            os.read(wake, 1)
        elif line := os.read(sys.stdin.fileno(), 80):
            yield line
        else:
            return


def main() -> int:
    signal.signal(signal.SIGINT, lambda *_: os.write(1, b"interrupted\n"))  # also while it says something else
    say("started")
    for line in lines():
        if line == b"end\n":
            return 0
        if line == b"hang\n":
            hang()
        else:
            say(gpu.squares())
    return 1


if __name__ == "__main__":
    sys.exit(main())
