"""The linear program of more than two kinds of GPUs, and what its prices prove.

Variables say which share of a node runs on which kind, and which share of a value is sent from one kind to another. The
program is made for the launches of one layer; its prices of values bound the whole program, too: at any prices, what
every node costs at least, summed up, is no more than what any placement costs. So the bound holds even if layers
differ.

It is solved in a process of its own, which is killed when its time is over.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import dataclass

import numpy as np

from controlplane.plan.cut import Prices
from controlplane.plan.net import Net
from controlplane.plan.problem import Floats, Ints
from controlplane.plan.uses import Scales

START_S = 20.0  # until a process has begun, on a busy machine


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """What the other process is given. value_cost: [value, from, to, row] in periods; room: what memory there is."""

    ns: Floats
    allowed: Floats
    counts: Floats
    writer: Ints
    owner: Ints
    reader: Ints
    value_cost: Floats
    bytes: Floats
    resident: Ints
    user: Ints
    state: Floats
    room: Floats
    depth: float | None
    integer: bool
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class Relaxed:
    """share: [node, kind]. of_readers: [reader of a value, kind] and of_users: prices of having a value, and memory,
    where it is needed; integer: whether share is of whole nodes.
    """

    period: float
    share: Floats
    prices: Prices
    of_readers: Floats
    of_users: Floats


def model(
    net: Net, scale: Scales, depth: float | None, seconds: float, *, integer: bool = False
) -> tuple[Model, float]:
    """Times are in units of the second result, so that figures are near 1."""
    unit = max(float(np.where(net.allowed, net.ns, 0.0).sum() / scale.counts.sum() / scale.kinds), 1e-9)
    per_byte, per_message = scale.ns_per_byte, scale.ns_per_message
    cost = (
        net.values.bytes[:, None, None, None] * per_byte.transpose(1, 2, 0)
        + net.values.messages[:, None, None, None] * per_message.transpose(1, 2, 0)
    ) / unit
    size = np.maximum(scale.capacity, 1.0)
    return (
        Model(
            net.ns / unit,
            net.allowed.astype(np.float64),
            scale.counts,
            net.values.producer,
            net.values.consumers.owners(),
            net.values.consumers.members,
            cost,
            net.residents.bytes[:, None] / size,
            net.residents.users.owners(),
            net.residents.users.members,
            np.outer(net.state_bytes, scale.states / size),
            scale.capacity / size,
            depth,
            integer,
            seconds,
        ),
        unit,
    )


def relax(net: Net, scale: Scales, depth: float | None, seconds: float, *, integer: bool = False) -> Relaxed | None:
    """None: no answer in time, or none that fits in memory."""
    given, unit = model(net, scale, depth, seconds, integer=integer)
    answer = _ask(given, seconds)
    if answer is None:
        return None
    period, share, rows, memory, readers, users = answer
    size = np.maximum(scale.capacity, 1.0)
    return Relaxed(period * unit, share, Prices(rows, memory * unit / size), readers * unit, users * unit)


def _ask(given: Model, seconds: float) -> tuple[float, Floats, Floats, Floats, Floats, Floats] | None:
    try:
        run = subprocess.run(
            [sys.executable, "-m", "controlplane.plan.solver"],
            input=pickle.dumps(given),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=seconds + START_S,
            check=False,
        )
    except (subprocess.TimeoutExpired, OSError):
        return None
    if run.returncode or not run.stdout:
        return None
    answer: tuple[float, Floats, Floats, Floats, Floats, Floats] | None = pickle.loads(run.stdout)
    return answer


def certify(net: Net, scale: Scales, joined: Net, found: Relaxed) -> float:
    """A bound on the period of all mixtures of placements of `net`, from the prices of what it was joined to."""
    prices, kinds = found.prices, scale.kinds
    rows = np.maximum(prices.rows, 0.0)
    depth_free = rows[:-1].sum()
    cost = np.where(net.allowed, net.ns, 0.0) * (rows[:kinds] / scale.counts + rows[-1])
    cost = cost + np.outer(net.state_bytes, prices.memory * scale.states)
    owner, reader = net.values.consumers.owners(), net.values.consumers.members
    price = _lifted(
        net.values.consumers.owners(),
        reader,
        joined.values_of,
        joined.of,
        (joined.values.consumers.owners(), joined.values.consumers.members),
        found.of_readers,
        _share(net.values.bytes + net.values.messages * 1e-3, joined.values_of, len(joined.values.bytes)),
        joined.nodes,
    )
    total = np.zeros((len(net.values.bytes), kinds))
    np.add.at(total, owner, price)
    np.add.at(cost, reader, price)
    np.add.at(cost, net.values.producer, -total)
    per_byte = np.einsum("r,rgh->gh", rows, scale.ns_per_byte)
    per_message = np.einsum("r,rgh->gh", rows, scale.ns_per_message)
    for source in range(kinds):
        sent = np.zeros(len(total))
        for to in range(kinds):
            if to != source:
                paid = net.values.bytes * per_byte[source, to] + net.values.messages * per_message[source, to]
                sent += np.maximum(total[:, to] - paid, 0.0)
        np.add.at(cost[:, source], net.values.producer, -sent)
    cost = cost + _of_memory(net, joined, found, prices)
    least = np.where(net.allowed, cost, np.inf).min(axis=1).sum() - prices.memory @ scale.capacity
    return float(least / max(depth_free, 1e-12)) if depth_free else 0.0


def _of_memory(net: Net, joined: Net, found: Relaxed, prices: Prices) -> Floats:
    """What memory costs, put on its users: in all no more than its price."""
    users = net.residents.users
    owner, kinds = users.owners(), net.kinds
    cost = np.zeros((net.nodes, kinds))
    if not len(users.members):
        return cost
    price = _lifted(
        owner,
        users.members,
        joined.residents_of,
        joined.of,
        (joined.residents.users.owners(), joined.residents.users.members),
        found.of_users,
        _share(net.residents.bytes, joined.residents_of, len(joined.residents.bytes)),
        joined.nodes,
    )
    total = np.zeros((len(net.residents.bytes), kinds))
    np.add.at(total, owner, price)
    most = np.outer(net.residents.bytes, prices.memory)
    scale = np.where(total > most, most / np.maximum(total, 1e-300), 1.0)
    np.add.at(cost, users.members, price * scale[owner])
    return cost


def _share(bytes_: Floats, of: Ints, joined: int) -> Floats:
    """Which part of the joined one each is."""
    kept = of >= 0
    total = np.bincount(of[kept], bytes_[kept], joined)
    share = np.zeros(len(bytes_))
    share[kept] = bytes_[kept] / np.maximum(total[of[kept]], 1e-300)
    return share


def _lifted(
    owner: Ints,
    member: Ints,
    sets_of: Ints,
    nodes_of: Ints,
    pairs: tuple[Ints, Ints],
    price: Floats,
    share: Floats,
    nodes: int,
) -> Floats:
    """[member of a set, kind]: prices of the joined members, divided among those that were joined."""
    key = pairs[0] * nodes + pairs[1]
    order = np.argsort(key, kind="stable")
    wanted = sets_of[owner] * nodes + nodes_of[member]
    place = np.searchsorted(key[order], wanted) if len(key) else np.zeros(len(wanted), dtype=np.int64)
    inside = place < len(key)
    found = np.zeros(len(wanted), dtype=np.bool_)
    found[inside] = key[order][place[inside]] == wanted[inside]
    found &= sets_of[owner] >= 0
    result = np.zeros((len(wanted), price.shape[1]))
    if not found.any():
        return result
    _, group, size = np.unique(np.stack([owner, nodes_of[member]]), axis=1, return_inverse=True, return_counts=True)
    part = share[owner] / size[group.ravel()]
    result[found] = price[order[place[found]]] * part[found, None]
    return result
