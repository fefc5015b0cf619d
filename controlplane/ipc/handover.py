"""Sockets that other processes of this user find by a name, as they find memory files (memory_file.py).

They are SOCK_SEQPACKET; see base/socket.h for the other side.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import tempfile
from pathlib import Path

from controlplane.ipc.memory_file import name_of
from ptxtools.errors import ConfigError

PR_SET_PDEATHSIG = 1


def user_of(peer: socket.socket) -> int:
    """Who connected, or who listens there."""
    _, user, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return int(user)


def end_with(parent: int) -> None:
    """This process is killed when the thread of its parent that started it ends; at once if it has ended already."""
    import ctypes  # only here: tessera-run starts quickly

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


class Listener:
    """A socket that processes of this user connect to by `name`, from construction until close()."""

    def __init__(self, waiting: int) -> None:
        """waiting: how many may connect before anybody accepts. Raises ConfigError without a temporary folder."""
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._place = self._bind()
            self.socket.listen(waiting)
        except OSError as error:
            self.socket.close()
            raise ConfigError(
                f"no socket can be made in the folder for temporary files: {error.strerror}",
                expected="TMPDIR, or /tmp, to be a folder that can be written to",
            ) from error

    def _bind(self) -> int:
        """In a folder that is gone afterwards. It is named by a descriptor: the name of a socket may not be long."""
        folder = tempfile.mkdtemp(prefix="tessera-")
        inside = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        name = f"/proc/self/fd/{inside}/socket"
        try:
            self.socket.bind(name)
            place = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
            Path(name).unlink()
        finally:
            os.close(inside)
            Path(folder).rmdir()
        return place

    @property
    def name(self) -> str:
        return name_of(self._place)

    def close(self) -> None:
        """Whoever inherited the socket goes on; nobody finds it by the name any more."""
        self.socket.close()
        os.close(self._place)
