"""A machine of emulated GPUs as a YAML file describes it."""

from __future__ import annotations

from dataclasses import replace

from controlplane.base.yamlfile import Value, take
from controlplane.machine import catalogue, catalogue_file
from controlplane.machine.catalogue import Gpu, Link
from controlplane.machine.emulated import DEFAULT_GPU, MAX_DEVICES, HostTime, Machine, machine_of


def parse_file(root: Value) -> Machine:
    """The machine of a YAML file; docs/emulation.md describes its keys."""
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
    entries = value.mapping(catalogue_file.FIGURE_KEYS | {"gpu", "count", "name", "link", "host_link", "slows"})
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
        host_link=entries["host_link"].choice(catalogue_file.HOST_LINKS) if "host_link" in entries else base.host_link,
        fields={**base.fields, **catalogue_file.figures(entries), **take(entries, "slows", _slows, {})},
    )
    return [gpu] * (entries["count"].integer(1, MAX_DEVICES) if "count" in entries else 1)


def _slows(value: Value) -> dict[str, int]:
    """From when on launches take so many times as long, as fields of struct tsr_device_desc."""
    entries = value.mapping(frozenset({"after_ms", "times"}))
    if len(entries) < 2:
        raise value.error("it is not said when the GPU becomes slower, and by how much", "keys `after_ms` and `times`")
    after_ns = round(entries["after_ms"].number(0, 10**9) * 10**6)
    return {"slow_from_ns": after_ns, "slow_permille": round(entries["times"].number(0.1, 1000) * 1000)}


def _link(value: Value) -> Link:
    """A link by its name, or a mapping with `type` and what differs from it."""
    links = catalogue.catalogue().links
    if value.is_text():
        return links[value.choice(frozenset(links))]
    entries = value.mapping()
    base = links[entries["type"].choice(frozenset(links))] if "type" in entries else None
    return catalogue_file.link(base.name if base else "custom", value, base)


def _between(value: Value, count: int) -> tuple[int, int]:
    entries = value.mapping()
    if "between" not in entries:
        raise value.error("the link does not say what it connects", "a key `between` with two device numbers")
    ends = [end.integer(0, count - 1) for end in entries["between"].sequence()]
    if len(ends) != 2 or ends[0] == ends[1]:
        raise entries["between"].error("a link connects two devices", "two different device numbers")
    return ends[0], ends[1]
