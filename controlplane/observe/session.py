"""What the control plane does with records in one run: statistics always, a trace if asked for."""

import socket
from collections.abc import Callable

from controlplane.observe.receiver import Receiver, Sink
from controlplane.observe.report import report
from controlplane.observe.stats import Statistics
from controlplane.report import Report
from controlplane.server import Setup


class Session:
    """Puts receiver and sinks together."""

    def __init__(self, setup: Setup, complain: Callable[[str], None]) -> None:
        self._statistics = Statistics()
        sinks: list[Sink] = [self._statistics]
        self.receiver = Receiver(socket.socket(fileno=setup.records), sinks, complain)

    def finish(self) -> Report:
        """The report, once the receiver has finished."""
        return report(self._statistics)
