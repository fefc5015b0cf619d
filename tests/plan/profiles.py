"""Profiles made by hand: a program of equal layers, on GPUs whose times differ."""

from __future__ import annotations

from controlplane.graph.nodes import What
from controlplane.profile.model import (
    Access,
    Allocation,
    Extent,
    GpuType,
    Iteration,
    Kind,
    LaunchClass,
    Link,
    Machine,
    Operation,
    Profile,
    Role,
    Time,
)

FIGURES = {"h200": (132, 140 << 30), "l40s": (142, 48 << 30), "a100": (108, 80 << 30)}
MB = 1 << 20


def gpu(key: str, memory_bytes: int = 0) -> GpuType:
    sms, memory = FIGURES[key]
    return GpuType(key.upper(), key, sms, memory_bytes or memory, 4 << 40, 50 * MB, 8 << 40, 6 << 40, 9 << 45, 2e3, 3)


def layered(
    gpus: tuple[str, ...] = ("h200", "l40s"),
    layers: int = 8,
    *,
    memory_bytes: int = 0,
    weight_bytes: int = 100 * MB,
    bytes_per_s: int = 50 * 10**9,
    unknown: int = -1,
) -> Profile:
    """Each layer has a launch that suits the first type of GPU and one that suits the second, and weights for both.

    unknown: an operation that may touch anything.
    """
    keys = tuple(dict.fromkeys(gpus))
    types = tuple(gpu(key, memory_bytes) for key in keys)
    times = [(300e3, 900e3, 600e3), (500e3, 400e3, 450e3)]
    classes = tuple(
        LaunchClass(
            What.LAUNCH,
            name,
            f"_Z{len(name)}{name}v",
            "00ff",
            (64, 1, 1),
            (256, 1, 1),
            times=tuple(Time(row[number], 5) for number in range(len(types))),
        )
        for name, row in zip(("matmul", "attend"), times, strict=True)
    )
    operations = []
    for number in range(2 * layers):
        accesses = (
            Access(Kind.READ, 1, number * weight_bytes, weight_bytes),
            Access(Kind.READ, 0, number % 2 * MB, MB),
            Access(Kind.WRITE, 0, (number + 1) % 2 * MB, MB),
        )
        why = "it was not analysed" if number == unknown else ""
        operations.append(Operation(number % 2, 0, 0, 3000.0, accesses, unknown=why))
    count = len(gpus)
    links = tuple(Link(a, b, "pcie", bytes_per_s, 4e3, 6e3, True) for a in range(count) for b in range(count) if a != b)
    weights = 2 * layers * weight_bytes
    return Profile(
        "python app.py",
        Machine(types, tuple(keys.index(key) for key in gpus), links),
        classes,
        Iteration(tuple(operations), 10, 1e7),
        (Allocation(2 * MB, (Extent(0, 2 * MB, Role.OWN),)), Allocation(weights, (Extent(0, weights, Role.CONSTANT),))),
        weights + 2 * MB,
    )
