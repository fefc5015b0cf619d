"""What `--emulate` asks for: a number of GPUs, catalogue names or a YAML file, as a description of one machine."""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path

from controlplane.base.yamlfile import Value, read_whole, take
from controlplane.machine import catalogue
from controlplane.machine.catalogue import Gpu, Link
from ptxtools.errors import ConfigError

MAX_DEVICES = 16
DEFAULT_GPU = "h200"
DEFAULT_HOST_CALL_NS = 2000
SPEC = "a number of GPUs, names from `tessera devices` separated by commas, or a YAML file"


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
        return read_whole(Path(spec), parse_file)
    gpus = catalogue.catalogue().gpus
    names = [name.strip().lower() for name in spec.split(",")]
    for name in names:
        if name not in gpus:
            nearest = difflib.get_close_matches(name, gpus, 1)
            hint = f", did you mean {nearest[0]}?" if nearest else f" ({', '.join(gpus)})"
            raise ConfigError(f"--emulate {spec}: no GPU {name!r} in the catalogue{hint}", expected=SPEC)
    if len(names) > MAX_DEVICES:
        raise ConfigError(f"--emulate {spec}: {len(names)} GPUs", expected=f"at most {MAX_DEVICES}")
    return machine_of(gpus[name] for name in names)


def parse_file(root: Value) -> Machine:
    """The machine of a YAML file ; the README describes its keys."""
    known = frozenset({"devices", "link", "links", "host_time", "host_call_ns", "worker_threads"})
    entries = root.mapping(known)
    if "devices" not in entries:
        raise root.error("there are no devices", "a key `devices` with a list of GPUs")
    usual = catalogue.catalogue().gpus[DEFAULT_GPU]
    devices = [gpu for value in entries["devices"].sequence() for gpu in value.attempt(_devices, [usual])]
    if not 1 <= len(devices) <= MAX_DEVICES:
        raise entries["devices"].error(f"{len(devices)} devices", f"1 to {MAX_DEVICES}")
    machine = machine_of(devices)
    links = dict(machine.links)
    if "link" in entries:
        links = dict.fromkeys(links, entries["link"].attempt(_link, machine.host_links[0]))
    for value in entries["links"].sequence() if "links" in entries else ():
        ends = value.attempt(lambda each: _between(each, len(devices)), None)
        if ends is not None:
            links[ends] = links[ends[::-1]] = value.attempt(_link, machine.host_links[0])
    return replace(
        machine,
        links=links,
        host_time=take(entries, "host_time", _host_time, machine.host_time),
        host_call_ns=take(entries, "host_call_ns", lambda value: value.integer(0, 10**9), machine.host_call_ns),
        worker_threads=take(entries, "worker_threads", lambda value: value.integer(0, 1024), 0),
    )


def _host_time(value: Value) -> HostTime:
    return HostTime[value.choice(frozenset({"real", "frozen"})).upper()]


def _devices(value: Value) -> list[Gpu]:
    """One entry of `devices`: a name, or a mapping with `gpu`, `count` and figures to override."""
    gpus = catalogue.catalogue().gpus
    if value.is_text():
        return [gpus[value.choice(frozenset(gpus))]]
    entries = value.mapping(catalogue.FIGURE_KEYS | {"gpu", "count", "name", "link", "host_link"})
    if "gpu" not in entries:
        raise value.error("the device does not say which GPU it is", "a key `gpu` with a name from the catalogue")
    links = frozenset(catalogue.catalogue().links)
    base = gpus[entries["gpu"].choice(frozenset(gpus))]
    name = entries["name"].text() if "name" in entries else base.name
    if not 1 <= len(name.encode()) <= 63:
        raise entries["name"].error(f"the name {name!r} does not fit", "1 to 63 bytes")
    gpu = replace(
        base,
        name=name,
        link=entries["link"].choice(links) if "link" in entries else base.link,
        host_link=entries["host_link"].choice(catalogue.HOST_LINKS) if "host_link" in entries else base.host_link,
        fields={**base.fields, **catalogue.figures(entries)},
    )
    return [gpu] * (entries["count"].integer(1, MAX_DEVICES) if "count" in entries else 1)


def _link(value: Value) -> Link:
    """A link by its name, or a mapping with `type` and what differs from it."""
    links = catalogue.catalogue().links
    if value.is_text():
        return links[value.choice(frozenset(links))]
    entries = value.mapping()
    base = links[entries["type"].choice(frozenset(links))] if "type" in entries else None
    return catalogue.link(base.name if base else "custom", value, base)


def _between(value: Value, count: int) -> tuple[int, int]:
    entries = value.mapping()
    if "between" not in entries:
        raise value.error("the link does not say what it connects", "a key `between` with two device numbers")
    ends = [end.integer(0, count - 1) for end in entries["between"].sequence()]
    if len(ends) != 2 or ends[0] == ends[1]:
        raise entries["between"].error("a link connects two devices", "two different device numbers")
    return ends[0], ends[1]
