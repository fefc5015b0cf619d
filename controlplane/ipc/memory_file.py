"""Memory files that other processes of this user find by a name: through descriptors of this process.

The name is /proc/PID/fd/N: the kernel admits only processes of the same user, no folder has an entry for it, and it
vanishes with this process.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

F_ADD_SEALS, F_GET_SEALS = 1033, 1034
F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW = 1, 2, 4


def name_of(descriptor: int) -> str:
    """Under which other processes open it. The number is that of /proc, which may belong to another PID namespace."""
    return f"/proc/{Path('/proc/self').readlink()}/fd/{descriptor}"


def memory_file(name: str, size: int) -> int:
    """Of zeros, and of this size for good; the descriptor is the caller's."""
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, size)
    fcntl.fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
    return descriptor


def cannot_shrink(descriptor: int) -> bool:
    """Whether it is a memory file that is sealed so."""
    try:
        return bool(fcntl.fcntl(descriptor, F_GET_SEALS) & F_SEAL_SHRINK)
    except OSError:
        return False
