"""What probes saw of launches, on disk beside the analyses; and as ranges, for who is allowed to use them.

An observation is of one launch of one code with its shape, its parameters and the sizes of its memory, wherever that
lies. It does not depend on the analysis' own code.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from controlplane.analysis.allocations import Allocations
from controlplane.analysis.cache import Key, default_directory, digest_of, place_of
from controlplane.analysis.folder import Folder
from controlplane.analysis.poison import Experiment
from controlplane.analysis.probe import Probe, experiment_of, probe_of
from controlplane.analysis.traced import TracedLaunch
from ptxtools.access.template import AccessKind
from ptxtools.ranges import Range, Result

TIER = "observed"
SUFFIX = ".observed"
DIGEST_BYTES = 16
VERSION = 1  # of the experiment: with another one, another observation
NEVER = "no probe was made of it"
IN_PART = "its probes say only a part"


class Observations:
    """A file is a digest of the rest and one JSON object, which repeats what it is of."""

    def __init__(self, directory: Path | None = None) -> None:
        self._folder = Folder(directory or default_directory())

    def get(self, key: Key, probe: Probe) -> Experiment | None:
        place, wanted = _place(key, probe)
        read = self._folder.read(place)
        if read is None or digest_of(read[0][DIGEST_BYTES:]) != read[0][:DIGEST_BYTES]:
            return None
        try:
            found = json.loads(read[0][DIGEST_BYTES:])
            return experiment_of(found["experiment"]) if found["of"] == wanted else None
        except (ValueError, TypeError, LookupError, AssertionError, RecursionError):
            return None

    def put(self, key: Key, probe: Probe, experiment: Experiment) -> None:
        place, wanted = _place(key, probe)
        data = json.dumps({"of": wanted, "tier": TIER, "experiment": asdict(experiment)}).encode()
        self._folder.write(place, digest_of(data) + data)

    def result(self, key: Key, launch: TracedLaunch, allocations: Allocations) -> Result:
        """The ranges of a launch as they were observed; unknown without a complete observation of one like it."""
        probe = probe_of(key.function, launch, allocations)
        found = self.get(key, probe) if launch.is_complete else None
        if found is None:
            return Result([], [(0, NEVER)])
        if not found.is_complete:
            return Result([], [(0, IN_PART)])
        return Result(_ranges(probe, found, launch), [])


def _place(key: Key, probe: Probe) -> tuple[str, list[object]]:
    """Its file, and what that is of."""
    wanted = [VERSION, key.code, key.code_bytes, key.architecture, key.ptx_only, key.function, probe.digest()]
    return place_of(json.dumps(wanted).encode(), SUFFIX), wanted


def _ranges(probe: Probe, found: Experiment, launch: TracedLaunch) -> list[Range]:
    """What was written, and all of each buffer that matters."""
    ranges = []
    for buffer, seen in zip(probe.buffers, found.buffers, strict=True):
        at, offset = buffer.pointers[0]
        base = int.from_bytes(launch.parameters[at : at + 8], "little") - offset
        ranges += [Range(AccessKind.WRITE, None, None, base, first, last) for first, last in seen.written]
        if seen.matters:
            ranges.append(Range(AccessKind.READ, None, None, base, 0, seen.size - 1, whole=True))
    return ranges
