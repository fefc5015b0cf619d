"""`--metrics [HOST:]PORT`: a process beside the program that Prometheus asks (controlplane/live/exporter.py).

The address is bound before the program starts, and on the loopback interface alone: the numbers name the program and
its arguments, and nobody who asks is known.
"""

from __future__ import annotations

import importlib.util
import ipaddress
import os
import socket
import subprocess
from types import TracebackType
from typing import Self

from controlplane.run import beside
from ptxtools.errors import ConfigError

LOOPBACK = "127.0.0.1"
EXPECTED = "a port of the loopback interface, as 9464 or 127.0.0.1:9464 (0: any that is free)"
PACKAGE = "prometheus_client"
END_S = 5.0


class Metrics:
    """Answers from entering the context on. Errors: ConfigError if the address cannot be used."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self.address = ""

    def __enter__(self) -> Self:
        if importlib.util.find_spec(PACKAGE) is None:
            raise ConfigError(f"--metrics needs the package {PACKAGE}", expected="pip install prometheus-client")
        listening = _listening(self._place)
        host, port = listening.getsockname()[:2]
        self.address = f"http://{f'[{host}]' if ':' in host else host}:{port}/metrics"
        self._control, theirs = socket.socketpair()
        with listening, theirs:
            numbers = listening.fileno(), theirs.fileno(), os.getpid()
            self._process = beside.start("controlplane.live.exporter", *map(str, numbers), descriptors=numbers[:2])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            beside.end(self._process, END_S)


def _listening(place: str) -> socket.socket:
    host, _, port = place.rpartition(":")
    host = host.strip("[]") or LOOPBACK
    if not port.isdigit() or int(port) >= 2**16:
        raise ConfigError(f"--metrics {place}: there is no such port", expected=EXPECTED)
    try:
        address = ipaddress.ip_address(LOOPBACK if host == "localhost" else host)
    except ValueError as error:
        raise ConfigError(f"--metrics {place}: {host!r} is no address", expected=EXPECTED) from error
    if not address.is_loopback:
        raise ConfigError(f"--metrics {place}: others could read the program's arguments there", expected=EXPECTED)
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    try:
        return socket.create_server((str(address), int(port)), family=family)
    except OSError as error:
        raise ConfigError(f"--metrics {place}: {os.strerror(error.errno or 0)}", expected=EXPECTED) from error
