"""What probes saw of launches, on disk beside the analyses; and as ranges, for who is allowed to use them.

An observation is of one launch of one code with its shape, its parameters and the sizes of its memory, wherever that
lies. It does not depend on the analysis' own code.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from dataclasses import asdict
from pathlib import Path

from controlplane.analysis.allocations import Allocations
from controlplane.analysis.cache import Key, default_directory, write_whole
from controlplane.analysis.poison import Experiment
from controlplane.analysis.probe import Probe, experiment_of, probe_of
from controlplane.analysis.traced import TracedLaunch
from ptxtools.access.template import AccessKind
from ptxtools.ranges import Range, Result

TIER = "observed"
SUFFIX = ".observed"
VERSION = 1  # of the experiment: with another one, another observation
NEVER = "no probe was made of it"
IN_PART = "its probes say only a part"


class Observations:
    """Errors of the file system mean that something is not kept."""

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory or default_directory()

    def get(self, key: Key, probe: Probe) -> Experiment | None:
        place, wanted = self._place(key, probe)
        try:
            checksum, text = place.read_text().split("\n", 1)
            found = json.loads(text) if int(checksum, 16) == zlib.crc32(text.encode()) else {}
        except (OSError, ValueError):
            return None
        return experiment_of(found["experiment"]) if found.get("of") == wanted else None

    def put(self, key: Key, probe: Probe, experiment: Experiment) -> None:
        place, wanted = self._place(key, probe)
        text = json.dumps({"of": wanted, "tier": TIER, "experiment": asdict(experiment)})
        write_whole(place, f"{zlib.crc32(text.encode()):08x}\n{text}".encode())

    def result(self, key: Key, launch: TracedLaunch, allocations: Allocations) -> Result:
        """The ranges of a launch as they were observed; unknown without a complete observation of one like it."""
        probe = probe_of(key.function, launch, allocations)
        found = self.get(key, probe) if launch.is_complete else None
        if found is None:
            return Result([], [(0, NEVER)])
        if not found.is_complete:
            return Result([], [(0, IN_PART)])
        return Result(_ranges(probe, found, launch), [])

    def _place(self, key: Key, probe: Probe) -> tuple[Path, list[object]]:
        wanted = [VERSION, key.code, key.code_bytes, key.architecture, key.ptx_only, key.function, probe.digest()]
        name = hashlib.blake2b(json.dumps(wanted).encode(), digest_size=16).hexdigest()
        return self._directory / name[:2] / f"{name[2:]}{SUFFIX}", wanted


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
