"""Problems made from a seed: small random graphs, and programs of many layers and steps on GPUs that differ."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from controlplane.plan.problem import Floats, Ints, Kind, Links, Problem, Residents, Sets, Values, links, problem, sets

GIB = 1 << 30
# Per ns: operations (tensor, thousands), bytes; GiB.
GPUS = {
    "h100": (670.0, 3350.0, 80),
    "a100": (255.0, 2039.0, 80),
    "l40s": (253.0, 864.0, 48),
    "h20": (126.0, 4000.0, 96),
    "l4": (60.0, 300.0, 24),
}


def small(seed: int, kinds: int = 2) -> Problem:
    """A few nodes in a random graph, with pins, ties, memory that may be scarce, and links that may be slow."""
    draw = np.random.default_rng(seed)
    nodes = int(draw.integers(2, 9 if kinds == 2 else 7))
    ns = np.outer(draw.lognormal(3, 0.8, nodes), np.ones(kinds)) * draw.lognormal(0, 0.7, (nodes, kinds))
    values = []
    for writer in range(nodes - 1):
        for _ in range(int(draw.integers(1, 3))):
            count = int(draw.integers(1, 3))
            readers = sorted({int(each) for each in draw.integers(writer + 1, nodes, count)})
            values.append((writer, float(draw.lognormal(3, 1.5)), readers))
    residents = [
        (float(draw.lognormal(2, 1)), sorted({int(each) for each in draw.integers(0, nodes, 2)}))
        for _ in range(int(draw.integers(0, 5)))
    ]
    state = np.where(draw.random(nodes) < 0.2, draw.lognormal(1, 1, nodes), 0.0)
    allowed = np.ones((nodes, kinds), dtype=np.bool_)
    for node in np.flatnonzero(draw.random(nodes) < 0.15):
        allowed[node] = False
        allowed[node, int(draw.integers(kinds))] = True
    tie = np.arange(nodes)
    if draw.random() < 0.3 and nodes > 3:
        first, second = sorted(draw.choice(nodes, 2, replace=False).tolist())
        if (allowed[first] & allowed[second]).any():
            tie[second] = first
    total = sum(size for size, _ in residents) + 4 * state.sum()
    memory = [float(total * draw.uniform(0.5, 1.5) + 1) if draw.random() < 0.5 else 1e6 for _ in range(kinds)]
    counts = [int(draw.choice([1, 1, 2])) for _ in range(kinds)]
    made = tuple(Kind(f"gpu{k}", counts[k], memory[k]) for k in range(kinds))
    link = links(kinds, float(draw.choice([0.5, 2, 10, 100])), *draw.choice([0.0, 1.0, 3.0], 3))
    return problem(
        made,
        ns,
        values,
        link,
        tie=tie,
        allowed=allowed,
        state_bytes=state,
        residents=residents,
        requests=int(draw.integers(1, 9)),
    )


def odd(seed: int, kinds: int = 2) -> Problem:
    """As small, with links that differ by pair and direction or are missing, launches that are alike but pinned to
    different GPUs, times and values of zero, memory that each request has for itself, and a slow host.
    """
    given, draw = small(seed, kinds), np.random.default_rng([seed, 1])
    shape, known = (kinds, kinds), given.links
    missing = (draw.random(shape) < 0.4) & (draw.random() < 0.4)
    between = Links(
        np.where(missing, 1000.0, known.ns_per_byte * draw.lognormal(0, 1, shape)),
        known.message_ns * draw.lognormal(0, 1, shape),
        known.latency_ns * draw.lognormal(0, 1, shape),
        known.stream_ns * draw.choice([1.0, 10.0]),
    )
    ns, label = given.ns.copy(), given.label.copy()
    ns[draw.random(given.nodes) < draw.choice([0.0, 0.3])] = 0.0
    for node in np.flatnonzero(draw.random(given.nodes) < draw.choice([0.0, 0.5])).tolist():
        like = int(draw.integers(node + 1))
        label[node], ns[node] = label[like], ns[like]
    sizes = given.values.bytes * (draw.random(len(given.values.bytes)) >= draw.choice([0.0, 0.4]))
    return replace(
        given,
        ns=ns,
        label=label,
        links=between,
        values=replace(given.values, bytes=sizes),
        host_ns=float(ns.sum() * draw.choice([0.0, 0.1, 1.0])),
        own_bytes=float(draw.choice([0.0, 0.0, 3.0])),
    )


def layered(
    seed: int,
    layers: int,
    steps: int,
    gpus: tuple[str, ...] = ("a100", "l40s"),
    counts: tuple[int, ...] = (),
    *,
    length: int = 12,
    noise: float = 0.0,
    memory_share: float = 0.0,
    bytes_per_ns: float = 50.0,
) -> Problem:
    """Steps of a prologue, equal layers and an epilogue; kernels that differ in operations and bytes (a roofline).

    memory_share: of the weights, that fits on each GPU; 0: GPUs have what they have. noise: of each kernel's own time.
    """
    draw = np.random.default_rng(seed)
    kernels = length + 6
    operations = draw.lognormal(0, 1.6, kernels) * 3e6
    traffic = draw.lognormal(0, 1.2, kernels) * 3e7
    outputs = draw.lognormal(0, 0.8, kernels) * 2e6
    rate = draw.lognormal(0, 0.15, (kernels, len(gpus)))
    one = [np.arange(3), *[3 + np.arange(length) for _ in range(layers)], 3 + length + np.arange(3)]
    label = np.tile(np.concatenate(one), steps)
    nodes = len(label)
    base = np.stack([np.maximum(operations / GPUS[gpu][0] / 1, traffic / GPUS[gpu][1]) + 2000 for gpu in gpus], axis=1)
    ns = (base * rate)[label] * (draw.lognormal(0, noise, (nodes, len(gpus))) if noise else 1.0)
    producer, size, readers = _edges(label, length, outputs)
    weights = np.flatnonzero((label >= 3) & (label < 3 + length) & (label % 3 == 0))
    per_step = nodes // steps
    owner = weights % per_step
    heavy = {int(each): k for k, each in enumerate(sorted(set(owner.tolist())))}
    users: list[list[int]] = [[] for _ in heavy]
    for node, place in zip(weights.tolist(), owner.tolist(), strict=True):
        users[heavy[place]].append(node)
    weight_bytes = np.full(len(users), 2e8)
    total = float(weight_bytes.sum())
    made = tuple(
        Kind(gpu, counts[k] if counts else 1, memory_share * total if memory_share else GPUS[gpu][2] * GIB)
        for k, gpu in enumerate(gpus)
    )
    return Problem(
        made,
        ns,
        label,
        np.arange(nodes),
        np.ones((nodes, len(gpus)), dtype=np.bool_),
        np.zeros(nodes),
        Values(producer, size, np.ones(len(producer)), readers),
        Residents(weight_bytes, sets(users)),
        links(len(gpus), bytes_per_ns, 1000.0, 8000.0, 500.0),
    )


def _edges(label: Ints, length: int, outputs: Floats) -> tuple[Ints, Floats, Sets]:
    """Each node reads its predecessor; the seventh of a layer also the layer's beginning, a residual connection."""
    nodes = len(label)
    producer = np.arange(nodes - 1)
    inside = (label >= 3) & (label < 3 + length)
    offset = label - 3
    late = np.flatnonzero(inside & (offset == min(6, length - 1)))
    early = late - min(6, length - 1) - 1
    late, early = late[early >= 0], early[early >= 0]
    lists_start = np.arange(nodes)
    members = np.arange(1, nodes)
    more = {int(e): int(c) for e, c in zip(early, late, strict=True)}
    owners = np.concatenate([producer, np.fromiter(more.keys(), dtype=np.int64, count=len(more))])
    readers = np.concatenate([members, np.fromiter(more.values(), dtype=np.int64, count=len(more))])
    order = np.lexsort((readers, owners))
    owners, readers = owners[order], readers[order]
    start = np.searchsorted(owners, lists_start)
    return producer.astype(np.int64), outputs[label[:-1]], Sets(start.astype(np.int64), readers.astype(np.int64))


def tangled(seed: int, nodes: int, gpus: tuple[str, ...] = ("a100", "l40s"), *, bytes_per_ns: float = 50.0) -> Problem:
    """No two launches alike, each reading of two earlier ones, some of them far before."""
    draw = np.random.default_rng(seed)
    kinds = len(gpus)
    operations, traffic = draw.lognormal(0, 1.6, nodes) * 3e6, draw.lognormal(0, 1.2, nodes) * 3e7
    rate = draw.lognormal(0, 0.15, (nodes, kinds))
    ns = rate * np.stack([np.maximum(operations / GPUS[gpu][0], traffic / GPUS[gpu][1]) + 2000 for gpu in gpus], axis=1)
    readers = np.repeat(np.arange(1, nodes), 2)
    back = np.where(
        draw.random(len(readers)) < 0.05, draw.integers(1, 2000, len(readers)), draw.geometric(0.4, len(readers))
    )
    writers = np.maximum(readers - back, 0)
    pairs = np.unique(writers * nodes + readers)
    writers, readers = pairs // nodes, pairs % nodes
    producer, first = np.unique(writers, return_index=True)
    start = np.concatenate([first, [len(readers)]])
    size = draw.lognormal(0, 0.8, len(producer)) * 2e6
    return Problem(
        tuple(Kind(gpu, 1, GPUS[gpu][2] * GIB) for gpu in gpus),
        ns,
        np.arange(nodes),
        np.arange(nodes),
        np.ones((nodes, kinds), dtype=np.bool_),
        np.zeros(nodes),
        Values(producer, size, np.ones(len(producer)), Sets(start, readers)),
        Residents(np.zeros(0), sets([])),
        links(kinds, bytes_per_ns, 1000.0, 8000.0, 500.0),
    )
