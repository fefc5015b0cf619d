"""Profiles made by hand: one that has something of all, and a program of equal layers on GPUs whose times differ."""

from __future__ import annotations

from controlplane.graph.nodes import What
from controlplane.profile.model import (
    HOST,
    Access,
    Allocation,
    Carried,
    Coverage,
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


def gpu(key: str, memory_bytes: int = 0, compute: tuple[int, int] = (0, 0)) -> GpuType:
    sms, memory = FIGURES[key]
    name, memory = key.upper(), memory_bytes or memory
    return GpuType(name, key, sms, memory, 4 << 40, 50 * MB, 8 << 40, 6 << 40, 9 << 45, 2e3, 3, compute)


SAMPLE = Profile(
    "python app.py",
    Machine(
        (gpu("h200", compute=(9, 0)),),
        (0, 0),
        (Link(0, 1, "nvlink", 390 * 10**9, 3e3, 6.5e3, True), Link(0, HOST, "host", 5, 1, 0, False)),
    ),
    (
        LaunchClass(What.COPY, "copy from host", bytes=4096, from_host=True, times=(None,)),
        LaunchClass(What.LAUNCH, "step", "_Z4step", "12ab", (8, 1, 1), (256, 1, 1), times=(Time(2500.5, 7, 10.25),)),
    ),
    Iteration(
        (
            Operation(0, accesses=(Access(Kind.WRITE, 0, 0, 4096),)),
            Operation(1, 0, 0, 2000.0, (Access(Kind.READ, 0, 0, 4096), Access(Kind.WRITE, 0, 4096, 64, 32, 16)), (0,)),
        ),
        5,
        1e6,
        10.0,
        (Carried(1, 1, 64),),
    ),
    (Allocation(8192, (Extent(0, 4096, Role.OWN),)),),
    8192,
    Coverage(10, unknown=(("a graph", 2),)),
)


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
