"""What the control plane does with records in one run: statistics always, a trace and analyses if asked for."""

import os
import socket
from collections.abc import Callable
from dataclasses import replace

from controlplane.analysis.analyst import Analyst
from controlplane.analysis.cache import Cache
from controlplane.analysis.pool import Pool
from controlplane.analysis.recent import Recent
from controlplane.analysis.service import AnalysisService
from controlplane.analysis.table import Table
from controlplane.ipc.loop import Service
from controlplane.observe.receiver import Receiver, Sink
from controlplane.observe.report import report
from controlplane.observe.stats import Statistics
from controlplane.observe.tracewriter import TraceWriter
from controlplane.report.statistics import Report
from controlplane.server.setup import Setup
from ptxtools.machine.consent import Consent


class Session:
    """Puts receiver and sinks together."""

    def __init__(self, setup: Setup, complain: Callable[[str], None]) -> None:
        self._statistics = Statistics()
        sinks: list[Sink] = [self._statistics]
        self._trace = None if setup.trace is None else TraceWriter(setup.trace, setup.trace_name, complain)
        if self._trace is not None:
            sinks.append(self._trace)
        self._analysis = None if setup.templates < 0 else _analysis(setup, complain)
        if self._analysis is not None:
            sinks.append(self._analysis)
        receiver = Receiver(socket.socket(fileno=setup.records), sinks, complain)
        # In this order: what the receiver takes in last is to be written, too.
        others = [self._trace, self._analysis]
        self.services: list[Service] = [receiver, *(each for each in others if each is not None)]

    def finish(self) -> Report:
        """The report, once the services have finished."""
        found = report(self._statistics, None if self._trace is None else self._trace.report())
        return found if self._analysis is None else replace(found, analysis=self._analysis.report())


def _analysis(setup: Setup, complain: Callable[[str], None]) -> AnalysisService:
    table = Table(setup.templates)
    os.close(setup.templates)
    cache, consent = Cache(complain=complain), Consent(setup.disassemble)
    recent = Recent(cache, consent, clones=setup.clones)
    service = AnalysisService(Analyst(cache, Pool()), table, consent, clones=setup.clones, recent=recent)
    service.publish_recent()
    return service
