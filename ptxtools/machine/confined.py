"""Runs a tool that reads foreign code, with what it needs and nothing else. A program of its own, without our packages:

    python -S -I confined.py SECONDS MEMORY_BYTES FILE_BYTES TOOL ARGUMENT...

Limits of the CPU's time, memory and files; no new privileges; and where the kernel has seccomp, a filter: the tool may
open files to read, have memory, and write to what it was given. It cannot make a process, run another program, open a
file to write, send, trace, or signal anybody but itself. It ends when who started it does. Ends with 127, and the
reason on standard error, when the tool cannot be run.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
import struct
import sys

CANNOT_RUN = 127
_SET_PDEATHSIG, _SET_SECCOMP, _SET_NO_NEW_PRIVS, _FILTER_MODE = 1, 22, 38, 2
_KEPT = ("LD_LIBRARY_PATH",)  # of the environment

# Of linux/filter.h, linux/seccomp.h, linux/audit.h, asm/unistd_64.h.
_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _KILL, _REFUSE = 0x7FFF0000, 0x80000000, 0x00050000 | 38  # ENOSYS: C libraries try something else then
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # where struct seccomp_data has them
_X86_64 = 0xC000003E
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_TMPFILE & ~os.O_DIRECTORY
_TCGETS = 0x5401
# fmt: off
_HARMLESS = {
    "read": 0, "write": 1, "close": 3, "stat": 4, "fstat": 5, "lstat": 6, "lseek": 8, "mmap": 9, "mprotect": 10,
    "munmap": 11, "brk": 12, "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15, "pread64": 17, "readv": 19,
    "writev": 20, "access": 21, "sched_yield": 24, "mremap": 25, "madvise": 28, "dup": 32, "dup2": 33, "nanosleep": 35,
    "getpid": 39, "exit": 60, "uname": 63, "fcntl": 72, "getcwd": 79, "readlink": 89, "gettimeofday": 96,
    "getrlimit": 97, "getrusage": 98, "sysinfo": 99, "times": 100, "getuid": 102, "getgid": 104, "geteuid": 107,
    "getegid": 108, "getppid": 110, "sigaltstack": 131, "sched_get_priority_max": 146, "sched_get_priority_min": 147,
    "arch_prctl": 158, "gettid": 186, "time": 201, "futex": 202, "sched_getaffinity": 204, "set_tid_address": 218,
    "clock_gettime": 228, "clock_getres": 229, "exit_group": 231, "newfstatat": 262, "readlinkat": 267,
    "faccessat": 269, "set_robust_list": 273, "dup3": 292, "getrandom": 318, "statx": 332, "rseq": 334,
    "faccessat2": 439,
}
# fmt: on
_OPEN, _IOCTL, _EXECVE, _KILL_CALL, _TGKILL, _OPENAT, _PRLIMIT64 = 2, 16, 59, 62, 234, 257, 302


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value & 0xFFFFFFFF)


def _only(call: int, argument: int, value: int) -> bytes:
    """A call is allowed if an argument has a value, all 64 bits of it."""
    at = _ARGUMENTS + 8 * argument
    return b"".join(
        [
            _step(_EQUAL, call, 0, 6),
            _step(_LOAD, at),
            _step(_EQUAL, value, 0, 3),
            _step(_LOAD, at + 4),
            _step(_EQUAL, value >> 32, 0, 1),
            _step(_RETURN, _ALLOW),
            _step(_RETURN, _REFUSE),
        ]
    )


def _without(call: int, argument: int, bits: int) -> bytes:
    """A call is allowed if an argument has none of these bits."""
    return b"".join(
        [
            _step(_EQUAL, call, 0, 4),
            _step(_LOAD, _ARGUMENTS + 8 * argument),
            _step(_ANY_BIT, bits, 1, 0),
            _step(_RETURN, _ALLOW),
            _step(_RETURN, _REFUSE),
        ]
    )


def program(path: int) -> bytes:
    """The filter. path: where the name of the program lies that may be run; nobody else has one there."""
    steps = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_EQUAL, _X86_64, 1, 0),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER),
        *(_step(_EQUAL, number, 0, 1) + _step(_RETURN, _ALLOW) for number in _HARMLESS.values()),
        _without(_OPENAT, 2, _WRITING),
        _without(_OPEN, 1, _WRITING),
        _only(_EXECVE, 0, path),
        _only(_KILL_CALL, 0, os.getpid()),
        _only(_TGKILL, 0, os.getpid()),
        _only(_PRLIMIT64, 0, 0),
        _only(_IOCTL, 1, _TCGETS),
        _step(_RETURN, _REFUSE),
    ]
    return b"".join(steps)


def _limit(seconds: int, memory_bytes: int, file_bytes: int) -> None:
    wanted = {
        resource.RLIMIT_CPU: seconds,
        resource.RLIMIT_AS: memory_bytes,
        resource.RLIMIT_FSIZE: file_bytes,
        resource.RLIMIT_CORE: 0,
    }
    for what, value in wanted.items():
        _, most = resource.getrlimit(what)
        least = value if most == resource.RLIM_INFINITY else min(value, most)
        later = what == resource.RLIMIT_CPU and (most == resource.RLIM_INFINITY or least < most)
        resource.setrlimit(what, (least, least + later))  # at the first one a signal says which limit it was
    for ignored in (signal.SIGXFSZ, signal.SIGPIPE):  # by Python
        signal.signal(ignored, signal.SIG_DFL)


def _confine(libc: ctypes.CDLL, path: int) -> None:
    """What the kernel does not have is left out."""
    libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    libc.prctl(_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if platform.machine() != "x86_64":
        return
    steps = program(path)
    held = ctypes.create_string_buffer(steps, len(steps))
    described = struct.pack("@HP", len(steps) // 8, ctypes.addressof(held))
    filter_program = ctypes.create_string_buffer(described, len(described))
    libc.prctl(_SET_SECCOMP, _FILTER_MODE, ctypes.addressof(filter_program), 0, 0)


def _texts(texts: list[bytes]) -> ctypes.Array[ctypes.c_char_p]:
    return (ctypes.c_char_p * (len(texts) + 1))(*texts, None)


def main() -> int:
    seconds, memory_bytes, file_bytes = (int(each) for each in sys.argv[1:4])
    arguments = _texts([os.fsencode(each) for each in sys.argv[4:]])
    environment = _texts([b"LC_ALL=C", *(f"{key}={os.environ[key]}".encode() for key in _KEPT if key in os.environ)])
    libc = ctypes.CDLL(None, use_errno=True)
    path = ctypes.create_string_buffer(os.fsencode(sys.argv[4]))
    _limit(seconds, memory_bytes, file_bytes)
    _confine(libc, ctypes.addressof(path))
    libc.execve(path, arguments, environment)
    os.write(2, os.strerror(ctypes.get_errno()).encode() + b"\n")
    return CANNOT_RUN


if __name__ == "__main__":
    sys.exit(main())
