"""Descriptions of GPUs and links in YAML: the figures that describe or override a GPU, and the catalogue's own file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from controlplane.base.yamlfile import Value, read
from controlplane.machine.catalogue import Catalogue, Gpu, Link

FILE = Path(__file__).with_name("catalogue.yaml")


@dataclass(frozen=True, slots=True)
class Figure:
    """How a figure in a file becomes a field of struct tsr_device_desc: round(number * unit), if it is in range."""

    field: str
    unit: int = 1
    minimum: float = 1
    maximum: float = 2**32 - 1
    whole: bool = True


FIGURES: Mapping[str, Figure] = {
    "sm_count": Figure("sm_count", maximum=4096),
    "clock_mhz": Figure("clock_khz", 1000, maximum=10_000),
    "memory_clock_mhz": Figure("memory_clock_khz", 1000, maximum=100_000),
    "memory_bus_bits": Figure("memory_bus_bits"),
    "max_threads_per_sm": Figure("max_threads_per_sm", minimum=1024, maximum=2048),
    "max_blocks_per_sm": Figure("max_blocks_per_sm", maximum=64),
    "registers_per_sm": Figure("registers_per_sm", minimum=65536, maximum=2**20),
    "shared_per_sm_kib": Figure("shared_per_sm_bytes", 1024, maximum=4096),
    "shared_per_block_kib": Figure("shared_per_block_bytes", 1024, maximum=4096),
    "shared_per_block_optin_kib": Figure("shared_per_block_optin_bytes", 1024, maximum=4096),
    "memory_gib": Figure("memory_bytes", 2**30, minimum=0.0625, maximum=16384, whole=False),
    "memory_bytes": Figure("memory_bytes", minimum=2**26, maximum=2**44),
    "memory_gb_per_s": Figure("memory_bytes_per_s", 10**9, maximum=10**6, whole=False),
    "memory_efficiency": Figure("memory_efficiency_permille", 1000, minimum=0.01, maximum=1, whole=False),
    "copy_engines": Figure("copy_engines", maximum=16),
    "l2_mib": Figure("l2_bytes", 2**20, minimum=0.25, maximum=4096, whole=False),
    "l2_gb_per_s": Figure("l2_bytes_per_s", 10**9, maximum=10**6, whole=False),
    "launch_latency_ns": Figure("launch_latency_ns", minimum=0, maximum=10**9),
    "dram_latency_ns": Figure("dram_latency_ns", minimum=0, maximum=10**9),
} | {
    name: Figure(name, minimum=0, maximum=2**20)
    for kind in ("fp32", "fp64", "fp16", "int32", "special", "tensor_fp16", "tensor_tf32", "tensor_int8", "tensor_fp64")
    for name in [f"{kind}_ops_per_sm_clk"]
}
FIGURE_KEYS = frozenset(FIGURES)
HOST_LINKS = frozenset({"pcie3", "pcie4", "pcie5"})
DEVICE_KEYS = FIGURE_KEYS | {"name", "compute", "link", "host_link"}


def figures(entries: Mapping[str, Value]) -> dict[str, int]:
    """The figures among the entries of a mapping, in C units. Other keys are left to the caller."""
    result: dict[str, int] = {}
    for key, value in entries.items():
        figure = FIGURES.get(key)
        if figure is None:
            continue
        if figure.whole:
            result[figure.field] = value.integer(int(figure.minimum), int(figure.maximum)) * figure.unit
        else:
            result[figure.field] = round(value.number(figure.minimum, figure.maximum) * figure.unit)
    return result


def link(name: str, value: Value, base: Link | None = None) -> Link:
    """A link from a mapping; what the mapping leaves out is taken from base."""
    entries = value.mapping(frozenset({"type", "kind", "peer_access", "gb_per_s", "latency_ns", "corrupts", "between"}))
    missing = sorted({"kind", "peer_access", "gb_per_s", "latency_ns"} - entries.keys())
    if base is None and missing:
        raise value.error(f"link {name!r} is incomplete", f"also {', '.join(missing)}")
    given = base or Link(name, "none", False, 0, 0)
    return Link(
        name,
        entries["kind"].choice(frozenset({"none", "pcie", "nvlink"})) if "kind" in entries else given.kind,
        entries["peer_access"].flag() if "peer_access" in entries else given.peer_access,
        round(entries["gb_per_s"].number(0, 10**6) * 10**9) if "gb_per_s" in entries else given.bytes_per_s,
        entries["latency_ns"].integer(0, 10**9) if "latency_ns" in entries else given.latency_ns,
        entries["corrupts"].flag() if "corrupts" in entries else given.corrupts,
    )


def parse(root: Value) -> Catalogue:
    """A whole catalogue. Every GPU must end up with every figure."""
    sections = root.mapping(frozenset({"links", "architectures", "gpus"}))
    links = {name: link(name, value) for name, value in sections["links"].mapping().items()}
    link_names = frozenset(links)
    shared = {name: figures(value.mapping(FIGURE_KEYS)) for name, value in sections["architectures"].mapping().items()}
    fields = {figure.field for figure in FIGURES.values()}
    gpus = {}
    for key, value in sections["gpus"].mapping().items():
        entries = value.mapping(DEVICE_KEYS)
        compute = entries["compute"].choice(frozenset(shared))
        major, minor = compute.split(".")
        values = shared[compute] | figures(entries)
        if missing := fields - values.keys():
            raise value.error(f"{key!r} is incomplete", f"also figures for {', '.join(sorted(missing))}")
        gpus[key] = Gpu(
            key,
            entries["name"].text(),
            (int(major), int(minor)),
            entries["link"].choice(link_names),
            entries["host_link"].choice(HOST_LINKS),
            values,
        )
    return Catalogue(gpus, links)


def read_catalogue() -> Catalogue:
    """What catalogue.yaml says; catalogue() has the same, sooner."""
    return parse(read(FILE))
