"""A profile for other GPUs: times by what they can do, with the error that this may have.

What a launch takes is bounded by its bytes, by arithmetic, or by the fixed time of a launch. Which of them it is shows
in how long it took where it was measured: the share of its time that its bytes explain scales with the memory, the rest
with arithmetic or, if it is hardly longer than an empty kernel, not at all. How far the two ratios are apart
is the error where both may hold.
"""

from __future__ import annotations

import re
from dataclasses import replace

from controlplane.graph.nodes import What
from controlplane.profile.model import HOST, GpuType, LaunchClass, Machine, Profile, Source, Time

SHORT = 1.5  # times the fixed time: no more than a launch
ROOFLINE = 0.15  # what the model may be wrong by where both bounds scale alike
SHORT_ERROR = 0.3
TENSOR = re.compile(r"gemm|nvjet|cutlass|mma|flash|fmha|attention|conv|wgrad|dgrad", re.IGNORECASE)


def on_machine(profile: Profile, machine: Machine) -> Profile:
    """The same program there. What was measured on a GPU of the same type stays."""
    known = {_identity(kind): number for number, kind in enumerate(profile.machine.types)}
    home = profile.machine.home_type
    classes = []
    for of in profile.classes:
        times: list[Time | None] = []
        for kind in machine.types:
            there = known.get(_identity(kind))
            measured = of.times[there] if there is not None else None
            times.append(measured or scaled(of, profile.machine, home, kind, machine))
        classes.append(replace(of, times=tuple(times)))
    return replace(profile, machine=machine, classes=tuple(classes))


def _identity(kind: GpuType) -> tuple[str, int, int, float]:
    return (kind.key or kind.name, kind.sm_count, kind.sm_limit, kind.fixed_ns)


def scaled(of: LaunchClass, before: Machine, home: int, kind: GpuType, machine: Machine) -> Time | None:
    """On a GPU of this kind, from home's time. None: it is not known how long it took."""
    time = of.times[home]
    if time is None:
        return None
    was = before.types[home]
    if of.what is What.COPY and (of.from_host or of.to_host):
        ratio, error = _links(before, machine, of.bytes), ROOFLINE
    elif time.ns <= SHORT * was.fixed_ns and kind.fixed_ns:
        ratio, error = kind.fixed_ns / was.fixed_ns, SHORT_ERROR
    else:
        ratio, error = _roofline(of, time.ns, was, kind)
    ns = max(time.ns * ratio, kind.fixed_ns if of.what is not What.COPY else 0.0)
    return Time(ns, time.count, time.spread_ns * ratio, Source.SCALED, round(max(error, time.error), 4))


def _roofline(of: LaunchClass, ns: float, was: GpuType, kind: GpuType) -> tuple[float, float]:
    memory = _ratio(_memory_rate(of, was), _memory_rate(of, kind))
    arithmetic = _ratio(_ops(of, was), _ops(of, kind))
    if of.what is not What.LAUNCH:
        return memory, ROOFLINE
    rate = _memory_rate(of, was)
    by_bytes = of.bytes / rate * 1e9 / ns if rate and of.bytes else 0.5
    share = min(max(by_bytes, 0.0), 1.0)
    if share >= 0.6:  # what else than its bytes could it have waited for
        share = 1.0
    ratio = share * memory + (1 - share) * arithmetic
    return ratio, ROOFLINE + min(share, 1 - share) * abs(memory - arithmetic) / ratio


def _memory_rate(of: LaunchClass, kind: GpuType) -> float:
    """Bytes that fit into its cache come from there."""
    fits = kind.l2_bytes_per_s and of.bytes and of.bytes < kind.l2_bytes // 2
    return float(kind.l2_bytes_per_s if fits else kind.memory_bytes_per_s) * _part(kind)


def _ops(of: LaunchClass, kind: GpuType) -> float:
    tensor = kind.tensor_ops_per_s and TENSOR.search(of.name)
    return float(kind.tensor_ops_per_s if tensor else kind.fp32_ops_per_s) * _part(kind)


def _part(kind: GpuType) -> float:
    return kind.sm_limit / kind.sm_count if kind.sm_limit and kind.sm_count else 1.0


def _ratio(before: float, now: float) -> float:
    return before / now if before and now else 1.0


def _links(before: Machine, machine: Machine, size: int) -> float:
    """Of copies from and to the host."""
    was, now = before.link(HOST, before.home), machine.link(HOST, machine.home)
    if was is None or now is None or not was.bytes_per_s or not now.bytes_per_s:
        return 1.0
    return (now.latency_ns + size / now.bytes_per_s * 1e9) / (was.latency_ns + size / was.bytes_per_s * 1e9)


def error_of(profile: Profile, gpu_type: int) -> float:
    """By what share the iteration's time on such a GPU may be wrong, by what its classes' times state."""
    whole = wrong = 0.0
    for operation in profile.iteration.operations:
        time = profile.classes[operation.of].times[gpu_type]
        if time is not None:
            whole, wrong = whole + time.ns, wrong + time.ns * time.error
    return wrong / whole if whole else 0.0
