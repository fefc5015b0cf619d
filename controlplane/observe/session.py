"""What the control plane does with records in one run: statistics always, a trace if asked for."""

import socket
from collections.abc import Callable

from controlplane.loop import Service
from controlplane.observe.receiver import Receiver, Sink
from controlplane.observe.report import report
from controlplane.observe.stats import Statistics
from controlplane.observe.tracewriter import TraceWriter
from controlplane.report import Report
from controlplane.server import Setup


class Session:
    """Puts receiver and sinks together."""

    def __init__(self, setup: Setup, complain: Callable[[str], None]) -> None:
        self._statistics = Statistics()
        sinks: list[Sink] = [self._statistics]
        self._trace = None if setup.trace is None else TraceWriter(setup.trace, setup.trace_name, complain)
        if self._trace is not None:
            sinks.append(self._trace)
        receiver = Receiver(socket.socket(fileno=setup.records), sinks, complain)
        # In this order: what the receiver takes in last is to be written, too.
        self.services: list[Service] = [receiver, *([] if self._trace is None else [self._trace])]

    def finish(self) -> Report:
        """The report, once the services have finished."""
        return report(self._statistics, None if self._trace is None else self._trace.report())
