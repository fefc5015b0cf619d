"""One emulated machine: its GPUs, their links, how its host's time passes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from controlplane.machine import catalogue
from controlplane.machine.catalogue import Gpu, Link

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
