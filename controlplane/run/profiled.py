"""A run that makes a profile: with a trace that holds all it takes, and is read when the run has ended."""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from controlplane.base.progress import Progress
from controlplane.machine import gpus
from controlplane.machine.visible import unhidden
from controlplane.run.emulation import Emulation
from controlplane.run.outputs import Output
from ptxtools.errors import ConfigError
from ptxtools.machine.consent import Consent

if TYPE_CHECKING:
    from collections.abc import Mapping


NAME = "tessera-run"
TRACE = "run.trace"


class Profiling:
    """trace: where the run's trace has to be; the user's own if there is one."""

    def __init__(self, trace: Path | None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="tessera-profile-")
        self.trace = trace or Path(self._folder.name) / TRACE

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._folder.cleanup()

    def write(
        self,
        command: str,
        output: Output,
        emulation: Emulation | None,
        driver: Path,
        home: int,
        limits: Mapping[int, int],
        consent: Consent,
    ) -> str | None:
        """Says what it wrote. Why there is no profile; None when there is one. limits: SMs, by GPU."""
        # Only here: a run without a profile starts faster without them.
        from controlplane.analysis.analyst import Analyst
        from controlplane.analysis.cache import Cache
        from controlplane.analysis.pool import Pool
        from controlplane.graph.recorded import read_recording
        from controlplane.observe import trace
        from controlplane.profile import file, machine
        from controlplane.profile.recorded import profile_of
        from controlplane.profile.text import line

        try:
            with Progress("reading what the program did, for its profile"):
                loaded = trace.load(self.trace)
                recording = read_recording(loaded, Analyst(Cache(complain=_say), Pool()), consent, lambda _: None)
            if emulation is not None:
                found = machine.of_emulated(emulation.machine, home, limits)
            else:
                answer = gpus.ask(driver, unhidden(os.environ))
                found = machine.of_answer(answer, home, limits)
            profile = replace(profile_of(recording, found), program=command)
            output.write_bytes(file.pack(profile))
        except ConfigError as error:
            return f"there is no profile: {error.message}"
        sys.stderr.write(f"{NAME}: wrote {output.file}: {line(profile)}\n")
        return None


def _say(message: str) -> None:
    print(f"{NAME}: {message}", file=sys.stderr)
