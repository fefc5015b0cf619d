"""What a placement uses: time of GPUs and of their ports, and memory. The one place where that is computed.

A placement is an array with the kind of each node. Its *rows* are times for one request, in nanoseconds of one GPU of
each kind: of the GPUs (the first `kinds`), of their ports outwards, of their ports inwards; and last, the sum of all
work and transfers: as long as a request takes if nothing in it overlaps. With requests following each other closely,
the largest of all but the last is the time from one to the next: the *period*.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controlplane.plan.net import Net
from controlplane.plan.problem import Floats, Ints, Links, Problem, Sets


@dataclass(frozen=True, slots=True, eq=False)
class Scales:
    """What turns traffic into rows. ns_per_byte, ns_per_message: [row, from, to]; counts: GPUs by kind; states: of how
    many requests each GPU of a kind keeps the state.
    """

    kinds: int
    counts: Floats
    states: Floats
    capacity: Floats
    ns_per_byte: Floats
    ns_per_message: Floats

    @property
    def rows(self) -> int:
        return 3 * self.kinds + 1

    @property
    def room(self) -> Floats:
        """The capacity, with what rounding may add to a sum of bytes."""
        return self.capacity * (1 + 1e-9)


def scales(given: Problem) -> Scales:
    kinds, counts, links = len(given.kinds), given.counts, given.links
    per_byte, per_message = _costs(kinds, counts, links)
    return Scales(kinds, counts, np.ceil(given.requests / counts), given.capacity, per_byte, per_message)


def _costs(kinds: int, counts: Floats, links: Links) -> tuple[Floats, Floats]:
    rows = 3 * kinds + 1
    per_byte, per_message = np.zeros((2, rows, kinds, kinds))
    for sender in range(kinds):
        for receiver in range(kinds):
            if sender == receiver:
                continue
            at = sender, receiver
            for kind in at:
                per_message[kind, *at] += links.stream_ns[at] / counts[kind]
            for row, kind in ((kinds + sender, sender), (2 * kinds + receiver, receiver)):
                per_byte[row, *at] = links.ns_per_byte[at] / counts[kind]
                per_message[row, *at] = links.message_ns[at] / counts[kind]
            per_byte[-1, *at] = links.ns_per_byte[at]
            per_message[-1, *at] = links.message_ns[at] + links.latency_ns[at] + 2 * links.stream_ns[at]
    return per_byte, per_message


@dataclass(frozen=True, slots=True, eq=False)
class Uses:
    """rows: as above. memory: bytes on one GPU of each kind. sent: bytes [from, to] of one request."""

    rows: Floats
    memory: Floats
    sent: Floats
    messages: Floats

    @property
    def period(self) -> float:
        return float(self.rows[:-1].max())

    @property
    def serial(self) -> float:
        return float(self.rows[-1])


def uses(net: Net, scale: Scales, kind: Ints) -> Uses:
    kinds = scale.kinds
    values = net.values
    load = np.bincount(kind, net.ns[np.arange(net.nodes), kind], kinds)
    needs = present(values.consumers, kind, kinds)
    home = kind[values.producer]
    needs[np.arange(len(needs)), home] = False
    sent, messages = np.zeros((2, kinds, kinds))
    for to in range(kinds):
        sent[:, to] = np.bincount(home, values.bytes * needs[:, to], kinds)
        messages[:, to] = np.bincount(home, values.messages * needs[:, to], kinds)
    rows = traffic_rows(scale, sent, messages)
    rows[:kinds] += load / scale.counts
    rows[-1] += load.sum()
    memory = present(net.residents.users, kind, kinds).T @ net.residents.bytes
    memory = memory + np.bincount(kind, net.state_bytes, kinds) * scale.states
    return Uses(rows, memory, sent, messages)


def traffic_rows(scale: Scales, sent: Floats, messages: Floats) -> Floats:
    return np.asarray(
        np.einsum("rgh,gh->r", scale.ns_per_byte, sent) + np.einsum("rgh,gh->r", scale.ns_per_message, messages)
    )


def present(given: Sets, kind: Ints, kinds: int) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    """[set, kind]: whether a member is there."""
    found = np.zeros(len(given) * kinds, dtype=np.bool_)
    found[given.owners() * kinds + kind[given.members]] = True
    return found.reshape(len(given), kinds)


def fits(scale: Scales, memory: Floats) -> bool:
    return bool((memory <= scale.room).all())
