"""What `--emulate` asks for: a number of GPUs, catalogue names or a YAML file, as a description of one machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from controlplane.machine import SPEC, catalogue
from controlplane.machine.catalogue import Gpu, Link
from ptxtools.errors import ConfigError

MAX_DEVICES = 16
DEFAULT_GPU = "h200"
DEFAULT_HOST_CALL_NS = 2000


class HostTime(IntEnum):
    """Whether the host's own time passes in virtual time (enum tsr_host_time)."""

    FROZEN = 0
    REAL = 1


@dataclass(frozen=True, slots=True)
class Machine:
    """One emulated machine. links[a, b] carries traffic from a to b, for every ordered pair of different devices."""

    devices: tuple[Gpu, ...]
    links: Mapping[tuple[int, int], Link]
    host_links: tuple[Link, ...]
    host_time: HostTime = HostTime.FROZEN
    host_call_ns: int = DEFAULT_HOST_CALL_NS
    worker_threads: int = 0


def natural_link(a: Gpu, b: Gpu) -> Link:
    """What connects two GPUs when nothing is said: their own link when it is the same, else the slower one's PCIe."""
    links = catalogue.catalogue().links
    if a.link == b.link:
        return links[a.link]
    slower = min(a.host_link, b.host_link, key=lambda name: links[name].bytes_per_s)
    peer_access = links[a.link].peer_access and links[b.link].peer_access
    return links[slower if peer_access else f"{slower}-no-peer"]


def machine_of(devices: Iterable[Gpu]) -> Machine:
    """The devices with their natural links."""
    known = catalogue.catalogue().links
    gpus = tuple(devices)
    links = {(a, b): natural_link(gpus[a], gpus[b]) for a in range(len(gpus)) for b in range(len(gpus)) if a != b}
    return Machine(gpus, links, tuple(known[gpu.host_link] for gpu in gpus))


def parse(spec: str) -> Machine:
    """The machine that an `--emulate` argument describes. Raises ConfigError."""
    if spec.isascii() and spec.isdigit():
        if not 1 <= int(spec) <= MAX_DEVICES:
            raise ConfigError(f"--emulate {spec}: not a usable number of GPUs", expected=f"1 to {MAX_DEVICES}")
        return machine_of([catalogue.catalogue().gpus[DEFAULT_GPU]] * int(spec))
    if spec.endswith((".yaml", ".yml")) or "/" in spec:
        from controlplane.base.yamlfile import read_whole
        from controlplane.machine.emulate_file import parse_file

        return read_whole(Path(spec), parse_file)
    gpus = catalogue.catalogue().gpus
    names = [name.strip().lower() for name in spec.split(",")]
    for name in names:
        if name not in gpus:
            import difflib

            nearest = difflib.get_close_matches(name, gpus, 1)
            hint = f", did you mean {nearest[0]}?" if nearest else f" ({', '.join(gpus)})"
            raise ConfigError(f"--emulate {spec}: no GPU {name!r} in the catalogue{hint}", expected=SPEC)
    if len(names) > MAX_DEVICES:
        raise ConfigError(f"--emulate {spec}: {len(names)} GPUs", expected=f"at most {MAX_DEVICES}")
    return machine_of(gpus[name] for name in names)
