"""The linear program of more than two kinds of GPUs, and what its prices prove.

Variables say which share of a node runs on which kind, and which share of a value is sent from one kind to another. The
program is made for the launches of one layer; what its prices prove of all layers: controlplane/plan/bound.py.

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
