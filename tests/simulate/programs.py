"""Programs as profiles, made by hand, of which it can be said what they take."""

from __future__ import annotations

from dataclasses import replace

from controlplane.graph.nodes import What
from controlplane.machine import emulate
from controlplane.profile.machine import of_emulated
from controlplane.profile.model import (
    Access,
    Allocation,
    Carried,
    Extent,
    Iteration,
    Kind,
    LaunchClass,
    Machine,
    Operation,
    Profile,
    Role,
    Time,
)

STEP, SIZE = 100_000.0, 1 << 20
LAUNCH = LaunchClass(What.LAUNCH, "step", "step", "", (1000, 1, 1), (1024, 1, 1), 0, 2 * SIZE)


def machine(spec: str = "2") -> Machine:
    return of_emulated(emulate.parse(spec))


def chain(
    length: int = 10, spec: str = "2", host_ns: float = 2000.0, *, carried: bool = False, waits: bool = False
) -> Profile:
    """Each launch reads what the one before wrote, and a weight of its own."""
    on = machine(spec)
    operations = [
        Operation(
            0,
            host_ns=host_ns,
            accesses=(
                *((Access(Kind.READ, (n - 1) % 2, 0, SIZE),) if n else ()),
                Access(Kind.READ, 2, n * SIZE, SIZE),
                Access(Kind.WRITE, n % 2, 0, SIZE),
            ),
            after=(n - 1,),
            waits=(-1,) if waits and not n else (),
        )
        for n in range(length)
    ]
    own, weights = Extent(0, SIZE, Role.OWN), Extent(0, length * SIZE, Role.CONSTANT)
    allocations = (Allocation(SIZE, (own,)), Allocation(SIZE, (own,)), Allocation(length * SIZE, (weights,)))
    some = (Carried(length - 1, 0, SIZE),) if carried else ()
    of = replace(LAUNCH, times=(Time(STEP, 10),) * len(on.types))
    return Profile("chain", on, (of,), Iteration(tuple(operations), 10, length * STEP, 0.0, some), allocations)
