"""Profiles as files: JSON with a schema and a version, compressed if large (controlplane/base/valuefile.py).

A file that can be read is consistent: its numbers of classes, types, allocations and operations are of some that exist.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from controlplane.base import valuefile
from controlplane.profile.model import HOST, Profile
from ptxtools.errors import ConfigError

SCHEMA = "tessera.profile/1"
AGAIN = "tessera-run --profile FILE -- program makes one, tessera profile make TRACE -o FILE another"


def pack(profile: Profile) -> bytes:
    return valuefile.pack(profile, SCHEMA)


def read(file: Path) -> Profile:
    """Errors: ConfigError, with the file, the place in it, and what is expected there."""
    profile = valuefile.read(file, Profile, SCHEMA, again=AGAIN)
    for place, what, expected in _faults(profile):
        raise ConfigError(f"{place}: {what}", expected=f"{expected} ({AGAIN})", file=file)
    return profile


def write(profile: Profile, file: Path, option: str = "-o ") -> None:
    """Errors: ConfigError when it cannot be written."""
    try:
        file.write_bytes(pack(profile))
    except OSError as error:
        raise ConfigError(f"{option}{file}: {error.strerror}", expected="a writable file") from error


def _faults(profile: Profile) -> Iterator[tuple[str, str, str]]:
    """(place, what is wrong, what is expected), the first one first."""
    yield from _of_machine(profile)
    types, operations = len(profile.machine.types), profile.iteration.operations
    for number, of in enumerate(profile.classes):
        if len(of.times) != types:
            yield f"classes[{number}].times", f"there are {len(of.times)}", f"one for each of {types} types of GPU"
        if any(time is not None and time.ns < 0 for time in of.times):
            yield f"classes[{number}].times", "a time is negative", "times from 0 on"
    if not operations:
        yield "iteration.operations", "there are none", "at least one"
    for number, operation in enumerate(operations):
        place = f"iteration.operations[{number}]"
        if not 0 <= operation.of < len(profile.classes):
            yield f"{place}.of", f"there is no class {operation.of}", f"0 to {len(profile.classes) - 1}"
        for other in (*operation.after, *operation.waits, *operation.returned):
            if not -len(operations) <= other < number:
                yield place, f"operation {other} does not come before it", f"{-len(operations)} to {number - 1}"
        for access in operation.accesses:
            if not 0 <= access.allocation < len(profile.allocations):
                yield f"{place}.accesses", f"there is no allocation {access.allocation}", "one of allocations"
                return
            end, size = access.offset + access.size, profile.allocations[access.allocation].size
            if access.offset < 0 or access.size < 0 or end > size:
                yield f"{place}.accesses", f"bytes {access.offset} to {end} are not in the allocation", f"0 to {size}"
    for number, carried in enumerate(profile.iteration.carried):
        if not all(0 <= each < len(operations) for each in (carried.writer, carried.reader)) or carried.back < 1:
            yield f"iteration.carried[{number}]", "it is of no operation", f"0 to {len(operations) - 1}"


def _of_machine(profile: Profile) -> Iterator[tuple[str, str, str]]:
    machine = profile.machine
    gpus = len(machine.gpus)
    for number, of in enumerate(machine.gpus):
        if not 0 <= of < len(machine.types):
            yield f"machine.gpus[{number}]", f"there is no type {of}", f"0 to {len(machine.types) - 1}"
    if not 0 <= machine.home < gpus:
        yield "machine.home", f"there is no GPU {machine.home}", f"0 to {gpus - 1}"
    for number, link in enumerate(machine.links):
        if not all(HOST <= end < gpus for end in (link.source, link.target)):
            yield f"machine.links[{number}]", "it does not connect two of the GPUs", f"{HOST} to {gpus - 1}"
