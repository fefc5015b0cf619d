"""The process of `tessera-run --metrics`: answers Prometheus on a socket that it inherits, with one run's counters.

python -P -m controlplane.live.exporter SOCKET CONTROL PID

It ends when the other end of CONTROL is closed. One request is answered at a time, and one that does not come is given
up, so that nobody keeps the others waiting for long.
"""

from __future__ import annotations

import select
import socket
import sys
from collections.abc import Iterator
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.registry import Collector

from controlplane.live.metrics import Family, families
from controlplane.live.runs import runs

PATIENCE_S = 5.0


class _Run(Collector):
    def __init__(self, owner: int) -> None:
        self._owner = owner

    def collect(self) -> Iterator[Family]:
        return families(next(iter(runs(self._owner)), None))

    def describe(self) -> Iterator[Family]:
        """Nothing: a run has no values before its program starts."""
        return iter(())


class _Handler(WSGIRequestHandler):
    timeout = PATIENCE_S

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base class calls it
        """Requests are nothing to tell the user."""


def serve(listening: socket.socket, control: socket.socket, owner: int) -> None:
    """Until the other end of control is closed."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Run(owner))
    server = WSGIServer(listening.getsockname()[:2], _Handler, bind_and_activate=False)
    server.socket.close()
    server.socket = listening
    server.server_name, server.server_port = listening.getsockname()[:2]
    server.setup_environ()
    server.set_app(make_wsgi_app(registry))
    waiting = select.poll()
    for one in (listening, control):
        waiting.register(one, select.POLLIN)
    while control.fileno() not in (ready := [descriptor for descriptor, _ in waiting.poll()]):
        if listening.fileno() in ready:
            server.handle_request()


if __name__ == "__main__":
    ours, theirs, pid = map(int, sys.argv[1:4])
    serve(socket.socket(fileno=ours), socket.socket(fileno=theirs), pid)
