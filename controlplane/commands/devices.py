"""`tessera devices`: the GPUs of the catalogue, or those of an `--emulate` argument with their links."""

import argparse
import json
from typing import TypedDict, cast

from controlplane.base.screen import show
from controlplane.base.tables import Part, columns
from controlplane.machine import SPEC, emulate
from controlplane.machine.catalogue import Gpu, Link, catalogue
from controlplane.machine.emulated import Machine


class DeviceJson(TypedDict):
    """A GPU. compute: its compute capability; link, host_link: names of `links`; rates are operations of a
    multiprocessor per clock; memory_efficiency_permille: of memory_bytes_per_s, what programs get.
    """

    key: str
    name: str
    compute: str
    link: str
    host_link: str
    max_threads_per_sm: int
    max_blocks_per_sm: int
    registers_per_sm: int
    shared_per_sm_bytes: int
    shared_per_block_bytes: int
    shared_per_block_optin_bytes: int
    copy_engines: int
    launch_latency_ns: int
    dram_latency_ns: int
    memory_efficiency_permille: int
    fp32_ops_per_sm_clk: int
    fp64_ops_per_sm_clk: int
    fp16_ops_per_sm_clk: int
    int32_ops_per_sm_clk: int
    special_ops_per_sm_clk: int
    tensor_fp16_ops_per_sm_clk: int
    tensor_tf32_ops_per_sm_clk: int
    tensor_int8_ops_per_sm_clk: int
    tensor_fp64_ops_per_sm_clk: int
    sm_count: int
    clock_khz: int
    memory_bytes: int
    memory_bytes_per_s: int
    memory_clock_khz: int
    memory_bus_bits: int
    l2_bytes: int
    l2_bytes_per_s: int


LinkJson = TypedDict(
    "LinkJson",
    {
        "from": int,
        "to": int,
        "type": str,
        "kind": str,
        "peer_access": bool,
        "bytes_per_s": int,
        "latency_ns": int,
    },
)
LinkJson.__doc__ = "From one GPU of the machine to another. bytes_per_s: of one direction."


class DevicesJson(TypedDict):
    """GPUs that can be emulated, or those of the machine that was asked for, with their links."""

    devices: list[DeviceJson]
    links: list[LinkJson]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("spec", nargs="?", metavar="SPEC", help=SPEC)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(options: argparse.Namespace) -> int:
    machine = emulate.parse(options.spec) if options.spec is not None else None
    gpus = list(catalogue().gpus.values()) if machine is None else list(machine.devices)
    if options.json:
        links = [] if machine is None else [_link_json(a, b, link) for (a, b), link in machine.links.items()]
        found: DevicesJson = {"devices": [_gpu_json(gpu) for gpu in gpus], "links": links}
        print(json.dumps(found, indent=2))
        return 0
    show(_table(gpus, numbered=machine is not None))
    if machine is not None and len(machine.devices) > 1:
        print()
        print("\n".join(_link_lines(machine)))
    return 0


def _table(gpus: list[Gpu], *, numbered: bool) -> list[Part]:
    """numbered: they are those of a machine, whose links name them by number."""
    head = ("SPEC", "name", "cc", "SMs", "MHz", "GiB", "GB/s", "fp32 TFLOP/s", "link")
    rows = [head, *map(_cells, gpus)]
    if numbered:
        rows = [("GPU", *head), *((str(number), *_cells(gpu)) for number, gpu in enumerate(gpus))]
    first = head.index("cc") + numbered
    return columns(rows, right=(*range(int(numbered)), *range(first, first + 6)))


def _cells(gpu: Gpu) -> tuple[str, ...]:
    f = gpu.fields
    tflops = f["sm_count"] * f["fp32_ops_per_sm_clk"] * f["clock_khz"] / 1e9
    return (
        gpu.key,
        gpu.name,
        f"{gpu.compute[0]}.{gpu.compute[1]}",
        str(f["sm_count"]),
        str(f["clock_khz"] // 1000),
        f"{f['memory_bytes'] / 2**30:.1f}",
        str(f["memory_bytes_per_s"] // 10**9),
        f"{tflops:.1f}",
        gpu.link,
    )


def _link_lines(machine: Machine) -> list[str]:
    return [
        f"{a} - {b}: {link.name}, {link.bytes_per_s / 1e9:g} GB/s, {'' if link.peer_access else 'no '}peer access"
        for (a, b), link in machine.links.items()
        if a < b
    ]


def _gpu_json(gpu: Gpu) -> DeviceJson:
    compute = f"{gpu.compute[0]}.{gpu.compute[1]}"
    described = {"key": gpu.key, "name": gpu.name, "compute": compute, "link": gpu.link, "host_link": gpu.host_link}
    return cast("DeviceJson", {**described, **gpu.fields})


def _link_json(a: int, b: int, link: Link) -> LinkJson:
    return {
        "from": a,
        "to": b,
        "type": link.name,
        "kind": link.kind,
        "peer_access": link.peer_access,
        "bytes_per_s": link.bytes_per_s,
        "latency_ns": link.latency_ns,
    }
