"""The machine of a profile: from what is emulated, from what the driver says, or from the names of GPUs alone.

What nobody can say of a real GPU (rates, links) is the catalogue's figure for one of that name, if it has one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import permutations

from controlplane.graph.rule import Rule
from controlplane.machine import catalogue
from controlplane.machine.emulated import DEFAULT_GPU, natural_link
from controlplane.machine.emulated import Machine as EmulatedMachine
from controlplane.machine.gpus import Answer
from controlplane.profile.model import HOST, GpuType, Link, Machine

TYPICAL_CALL_NS, TYPICAL_POST_NS = 2800.0, 600.0  # of a thread's time, as measured on a host with H200s


def type_of(gpu: catalogue.Gpu, sm_limit: int = 0) -> GpuType:
    figures = gpu.fields
    per_clock = figures["sm_count"] * figures["clock_khz"] * 1000
    return GpuType(
        gpu.name,
        gpu.key,
        figures["sm_count"],
        figures["memory_bytes"],
        figures["memory_bytes_per_s"] * figures["memory_efficiency_permille"] // 1000,
        figures["l2_bytes"],
        figures["l2_bytes_per_s"],
        figures["fp32_ops_per_sm_clk"] * per_clock,
        figures["tensor_fp16_ops_per_sm_clk"] * per_clock,
        float(figures["launch_latency_ns"]),
        figures["copy_engines"],
        gpu.compute,
        figures["max_threads_per_sm"],
        figures["max_blocks_per_sm"],
        figures["shared_per_sm_bytes"],
        sm_limit,
    )


def of_emulated(
    machine: EmulatedMachine, home: int = 0, limits: Mapping[int, int] | None = None, *, emulated: bool = True
) -> Machine:
    """limits: SMs that launches may use, by GPU. emulated: the figures are a run's; else typical for such GPUs."""
    some = enumerate(machine.devices)
    types, gpus = _distinct(type_of(gpu, (limits or {}).get(number, 0)) for number, gpu in some)
    links = [_link(a, b, link, measured=emulated) for (a, b), link in sorted(machine.links.items())]
    for number, link in enumerate(machine.host_links):
        links.append(_link(number, HOST, link, measured=emulated))
        links.append(_link(HOST, number, link, measured=emulated))
    call_ns = float(machine.host_call_ns) if emulated else TYPICAL_CALL_NS
    post_ns = 0.0 if emulated else TYPICAL_POST_NS
    return Machine(types, gpus, tuple(links), home, emulated, call_ns=call_ns, post_ns=post_ns)


def of_answer(answer: Answer, home: int = 0, limits: Mapping[int, int] | None = None) -> Machine:
    """What the driver says of this machine's GPUs and which are linked; how fast links are is typical."""
    types = []
    for gpu in answer.gpus:
        known = _by_name(gpu.name)
        limit = (limits or {}).get(gpu.number, 0)
        if known is None:
            types.append(_unknown(gpu.name, gpu.sm_count, gpu.memory_bytes, gpu.compute, limit))
        else:
            fields = {**known.fields, "sm_count": gpu.sm_count, "memory_bytes": gpu.memory_bytes}
            types.append(
                type_of(catalogue.Gpu(known.key, gpu.name, gpu.compute, known.link, known.host_link, fields), limit)
            )
    distinct, gpus = _distinct(types)
    nvlinks = {(link.source, link.target): (link.nvlink, link.peer_access) for link in answer.links}
    links = _typical([gpu.name for gpu in answer.gpus], nvlinks)
    return Machine(
        distinct, gpus, links, home, driver=answer.release or "", call_ns=TYPICAL_CALL_NS, post_ns=TYPICAL_POST_NS
    )


def of_names(names: Sequence[str], home: int = 0, *, emulated: bool = False) -> Machine:
    """Of a machine of which only the names of GPUs are known."""
    found = [(name, _by_name(name)) for name in names]
    types, gpus = _distinct(type_of(gpu) if gpu is not None else _unknown(name) for name, gpu in found)
    return Machine(types, gpus, _typical(names, {}), home, emulated, call_ns=TYPICAL_CALL_NS, post_ns=TYPICAL_POST_NS)


def _distinct(all_of_them: Iterable[GpuType]) -> tuple[tuple[GpuType, ...], tuple[int, ...]]:
    places: dict[GpuType, int] = {}
    gpus = tuple([places.setdefault(each, len(places)) for each in all_of_them])
    return tuple(places), gpus


def _by_name(name: str) -> catalogue.Gpu | None:
    return next((gpu for gpu in catalogue.catalogue().gpus.values() if gpu.name == name), None)


def _unknown(
    name: str, sm_count: int = 0, memory_bytes: int = 0, compute: tuple[int, int] = (0, 0), sm_limit: int = 0
) -> GpuType:
    return GpuType(name, "", sm_count, memory_bytes, 0, 0, 0, 0, 0, 2000.0, 1, compute, sm_limit=sm_limit)


def _typical(names: Sequence[str], nvlinks: Mapping[tuple[int, int], tuple[bool | None, bool]]) -> tuple[Link, ...]:
    known = catalogue.catalogue()
    gpus = [_by_name(name) or known.gpus[DEFAULT_GPU] for name in names]
    links = []
    for a, b in permutations(range(len(gpus)), 2):
        nvlink, peer = nvlinks.get((a, b), (None, True))
        link = natural_link(gpus[a], gpus[b])
        if nvlink is False and link.kind == "nvlink":
            link = known.links[gpus[a].host_link]
        links.append(_link(a, b, link, measured=False, peer=peer))
    for number, gpu in enumerate(gpus):
        links += [_link(*ends, known.links[gpu.host_link], measured=False) for ends in ((number, HOST), (HOST, number))]
    return tuple(links)


def _link(source: int, target: int, link: catalogue.Link, *, measured: bool, peer: bool = True) -> Link:
    """Of an emulated machine, figures are as good as measured; its GPUs see at once that work elsewhere is done."""
    kind = "host" if HOST in (source, target) else link.kind
    fence_ns = 0.0 if kind == "host" or measured else Rule().fence_ns
    return Link(
        source, target, kind, link.bytes_per_s, float(link.latency_ns), fence_ns, measured, peer and link.peer_access
    )
