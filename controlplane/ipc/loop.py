"""The control plane's loop: one thread, watched sockets, and services that want to be called again after some time."""

import selectors
import socket
from collections.abc import Callable, Sequence
from typing import Protocol


class Loop:
    """Watches sockets. Callbacks run one at a time, on the loop's thread, and must not block."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def watch(self, peer: socket.socket, readable: Callable[[], None]) -> None:
        self._selector.register(peer, selectors.EVENT_READ, readable)

    def forget(self, peer: socket.socket) -> None:
        """Does nothing for a socket that is not watched."""
        if peer in self._selector.get_map():
            self._selector.unregister(peer)

    def wait(self, seconds: float | None) -> None:
        """Calls what has become readable, after this time at the latest; None: whenever that is."""
        for key, _ in self._selector.select(seconds):
            if key.fileobj in self._selector.get_map():
                key.data()


class Service(Protocol):
    """A part of the control plane."""

    def start(self, loop: Loop) -> None: ...

    def tick(self) -> float | None:
        """Does what is due. Seconds until it wants to be called again; None: only after something became readable."""

    def finish(self) -> None: ...


def serve(control: socket.socket, services: Sequence[Service]) -> None:
    """Runs the services until the control socket's other end is closed, and finishes them."""
    loop = Loop()
    ended = False

    def read_control() -> None:
        nonlocal ended
        try:
            ended = not control.recv(4096)
        except OSError:
            ended = True

    loop.watch(control, read_control)
    for service in services:
        service.start(loop)
    while not ended:
        waits = [seconds for service in services if (seconds := service.tick()) is not None]
        loop.wait(min(waits, default=None))
    for service in services:
        service.finish()
