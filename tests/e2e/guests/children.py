"""A program with children of one kind, named by its argument. Prints what all of them computed."""

import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from multiprocessing.queues import SimpleQueue

import gpu


def answer(queue: "SimpleQueue[int]", device: int) -> None:
    queue.put(gpu.squares(device))


def several(method: str) -> None:
    """Children by multiprocessing; with fork, before this process uses CUDA."""
    multiprocessing.set_start_method(method)
    queue: SimpleQueue[int] = multiprocessing.SimpleQueue()
    for device in (0, 1):
        child = multiprocessing.Process(target=answer, args=(queue, device))
        child.start()
        child.join()
        print("child", queue.get(), child.exitcode)
    print("parent", gpu.squares())


def fork_after() -> None:
    """The driver does not survive a fork: what a child gets from it, without and with initialising it again."""
    print("before", gpu.squares(), flush=True)
    child = os.fork()
    if child == 0:
        cuda, count = gpu.driver(), ctypes.c_int()
        print("child", cuda.cuDeviceGetCount(ctypes.byref(count)), cuda.cuCtxSynchronize(), cuda.cuInit(0), flush=True)
        os._exit(3)
    print("exit", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    print("after", gpu.squares())


def fork_while_threads_launch() -> None:
    answers: set[int] = set()

    def work() -> None:
        for _ in range(200):
            answers.add(gpu.squares())

    gpu.squares()
    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for code in range(20):
        child = os.fork()
        if child == 0:
            os._exit(code)
        print("exit", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    for thread in threads:
        thread.join()
    print(answers)


def other(*arguments: str) -> list[str]:
    return [sys.executable, __file__, *arguments]


def subprocesses() -> None:
    print("before", gpu.squares(), flush=True)
    for kind in ("plain", "plain", "fork"):
        print(subprocess.run(other(kind), capture_output=True, text=True, check=True).stdout, end="")
    print(subprocess.run(["/bin/true"], env={}, check=False).returncode, gpu.squares())


def posix_spawn() -> None:
    print("before", gpu.squares(), flush=True)
    child = os.posix_spawn(sys.executable, other("plain"), os.environ)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def execute() -> None:
    print("before", gpu.squares(), flush=True)
    os.execv(sys.executable, other("plain"))


def daemon() -> None:
    """A grandchild in a session of its own, which its parent does not wait for; it ends before the program does."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork() == 0:
            os.write(writing, f"daemon {gpu.squares(1)}\n".encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    print(os.read(reading, 100).decode(), end="")
    print("parent", gpu.squares())


def killed() -> None:
    print(gpu.squares(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def crashed() -> None:
    print(gpu.squares(), flush=True)
    ctypes.string_at(0)


def exits() -> None:
    print(gpu.squares(), flush=True)
    os._exit(42)


def interrupted() -> None:
    """Its handlers and its mask stay its own."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
    try:
        print(gpu.squares(), signal.getsignal(signal.SIGSEGV), signal.pthread_sigmask(signal.SIG_BLOCK, []), flush=True)
        while True:
            gpu.squares()
    except KeyboardInterrupt:
        print("interrupted", gpu.squares())
        sys.exit(9)


def sleeping() -> None:
    print(gpu.squares(), flush=True)
    signal.pause()


KINDS: dict[str, Callable[[], None]] = {
    "plain": lambda: print("plain", gpu.squares()),
    "fork": lambda: several("fork"),
    "spawn": lambda: several("spawn"),
    "forkserver": lambda: several("forkserver"),
    "fork-after": fork_after,
    "fork-while-threads-launch": fork_while_threads_launch,
    "subprocess": subprocesses,
    "posix-spawn": posix_spawn,
    "exec": execute,
    "daemon": daemon,
    "killed": killed,
    "crashed": crashed,
    "exits": exits,
    "interrupted": interrupted,
    "sleeping": sleeping,
}

if __name__ == "__main__":
    KINDS[sys.argv[1]]()
