"""GPUs and links as descriptions: the built-in catalogue, as catalogue.yaml has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache


@dataclass(frozen=True, slots=True)
class Link:
    """A kind of connection; bytes_per_s is what one direction achieves.

    corrupts: copies from GPU to GPU arrive wrong, unless they go through host memory.
    """

    name: str
    kind: str
    peer_access: bool
    bytes_per_s: int
    latency_ns: int
    corrupts: bool = False


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU model. fields has every figure of struct tsr_device_desc by its C name, in the C unit."""

    key: str
    name: str
    compute: tuple[int, int]
    link: str
    host_link: str
    fields: Mapping[str, int] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Catalogue:
    gpus: Mapping[str, Gpu]
    links: Mapping[str, Link]


@cache
def catalogue() -> Catalogue:
    """The built-in catalogue."""
    from controlplane.machine.catalogue_table import FIELDS, GPUS, LINKS  # YAML takes several times as long to read

    gpus = {
        key: Gpu(key, name, compute, link, host_link, dict(zip(FIELDS, values, strict=True)))
        for key, (name, compute, link, host_link, values) in GPUS.items()
    }
    return Catalogue(gpus, {name: Link(name, *rest) for name, rest in LINKS.items()})
