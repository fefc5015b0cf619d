"""`tessera devices`: the GPUs of the catalogue, or those of an `--emulate` argument with their links."""

import argparse
import json

from controlplane.machine import emulate
from controlplane.machine.catalogue import Gpu, Link, catalogue
from controlplane.machine.emulate import Machine


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("spec", nargs="?", metavar="SPEC", help=emulate.SPEC)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(options: argparse.Namespace) -> int:
    machine = emulate.parse(options.spec) if options.spec is not None else None
    gpus = list(catalogue().gpus.values()) if machine is None else list(machine.devices)
    if options.json:
        links = [] if machine is None else [_link_json(a, b, link) for (a, b), link in machine.links.items()]
        print(json.dumps({"devices": [_gpu_json(gpu) for gpu in gpus], "links": links}, indent=2))
        return 0
    print(f"{'':10} {'name':26} {'cc':>4} {'SMs':>4} {'MHz':>5} {'GiB':>5} {'GB/s':>5} {'fp32 TFLOP/s':>13} link")
    for gpu in gpus:
        print(_gpu_line(gpu))
    if machine is not None and len(machine.devices) > 1:
        print()
        print("\n".join(_link_lines(machine)))
    return 0


def _gpu_line(gpu: Gpu) -> str:
    f = gpu.fields
    tflops = f["sm_count"] * f["fp32_ops_per_sm_clk"] * f["clock_khz"] / 1e9
    compute = f"{gpu.compute[0]}.{gpu.compute[1]}"
    return (
        f"{gpu.key:10} {gpu.name:26} {compute:>4} {f['sm_count']:>4} {f['clock_khz'] // 1000:>5} "
        f"{f['memory_bytes'] / 2**30:>5.1f} {f['memory_bytes_per_s'] // 10**9:>5} {tflops:>13.1f} {gpu.link}"
    )


def _link_lines(machine: Machine) -> list[str]:
    return [
        f"{a} - {b}: {link.name}, {link.bytes_per_s / 1e9:g} GB/s, {'' if link.peer_access else 'no '}peer access"
        for (a, b), link in machine.links.items()
        if a < b
    ]


def _gpu_json(gpu: Gpu) -> dict[str, object]:
    compute = f"{gpu.compute[0]}.{gpu.compute[1]}"
    described = {"key": gpu.key, "name": gpu.name, "compute": compute, "link": gpu.link, "host_link": gpu.host_link}
    return {**described, **gpu.fields}


def _link_json(a: int, b: int, link: Link) -> dict[str, object]:
    return {
        "from": a,
        "to": b,
        "type": link.name,
        "kind": link.kind,
        "peer_access": link.peer_access,
        "bytes_per_s": link.bytes_per_s,
        "latency_ns": link.latency_ns,
    }
