"""A cheap placement on more than two kinds of GPUs, at given prices: one minimal cut after another.

Each cut finds the best set of nodes to move to one kind, all others staying where they are; it ends when no kind gains
any. The result is no bound: that comes from a linear program (controlplane/plan/relax.py).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from controlplane.plan.cut import FINE, Prices, node_prices
from controlplane.plan.net import Net
from controlplane.plan.problem import Floats, Ints
from controlplane.plan.uses import Scales, uses

ROUNDS = 6
KEPT, LARGE = 2, 3000  # placements that are begun with, too, unless there are so many nodes
Tables = tuple[list[list[float]], list[list[list[float]]], list[list[float]]]
NEVER = np.inf


class Expander:
    """Of one net."""

    def __init__(self, net: Net, scale: Scales) -> None:
        self.net, self.scale = net, scale
        readers, users = net.values.consumers, net.residents.users
        self.writer: list[int] = net.values.producer.tolist()
        self.readers = _lists(readers.start, readers.members)
        self.users = _lists(users.start, users.members)
        self.found: list[Ints] = []

    def cheapest(self, prices: Prices) -> tuple[Ints, float]:
        """A placement, and -inf: nothing is known of others. It begins with what is best node by node, and with what
        was found before.
        """
        costs = node_prices(self.net, self.scale, prices)
        values = np.einsum("r,rgh->gh", prices.rows, self.scale.ns_per_byte)
        messages = np.einsum("r,rgh->gh", prices.rows, self.scale.ns_per_message)
        apart = self.net.values.bytes[:, None, None] * values + self.net.values.messages[:, None, None] * messages
        tables = costs.tolist(), apart.tolist(), np.outer(self.net.residents.bytes, prices.memory).tolist()
        kept = self.found[-KEPT:] if self.net.nodes < LARGE else []
        starts = [np.argmin(costs, axis=1), *kept]
        made = [self._settle(start, prices, tables) for start in starts]
        best = min(made, key=lambda each: each[1])
        self.found.append(best[0])
        return best[0], -np.inf

    def _settle(self, kind: Ints, prices: Prices, tables: Tables) -> tuple[Ints, float]:
        paid = self._paid(kind, prices)
        for _ in range(ROUNDS):
            before = paid
            for to in range(self.scale.kinds):
                moved = self._expand(kind, to, *tables)
                now = self._paid(moved, prices)
                if now < paid - 1e-9 * abs(paid):
                    kind, paid = moved, now
            if paid >= before - 1e-9 * abs(before):
                break
        return kind, paid

    def _paid(self, kind: Ints, prices: Prices) -> float:
        use = uses(self.net, self.scale, kind)
        return float(prices.rows @ use.rows + prices.memory @ use.memory)

    def _expand(
        self, kind: Ints, to: int, costs: list[list[float]], apart: list[list[list[float]]], held: list[list[float]]
    ) -> Ints:
        cut, where = _Network(self.net.nodes), kind.tolist()
        for node, at in enumerate(where):
            cut.node(node, NEVER if at == to else costs[node][at], costs[node][to])
        for value, (writer, readers) in enumerate(zip(self.writer, self.readers, strict=True)):
            at, cost = where[writer], apart[value]
            by_kind: dict[int, list[int]] = {}
            for reader in readers:
                by_kind.setdefault(where[reader], []).append(reader)
            for other, some in by_kind.items():
                if other != to:
                    stays = cut.any_stays(some)
                    cut.arc(stays, cut.moved, cost[at][other])
                    cut.arc(stays, writer, cost[to][other] - cost[at][other])
            if at != to:
                if to in by_kind:
                    cut.arc(writer, cut.moved, cost[at][to])
                else:
                    cut.arc(writer, cut.any_moves(readers), cost[at][to])
        for resident, users in enumerate(self.users):
            places: dict[int, list[int]] = {}
            for user in users:
                places.setdefault(where[user], []).append(user)
            for other, some in places.items():
                if other != to and held[resident][other]:
                    cut.arc(cut.any_stays(some), cut.moved, held[resident][other])
            if to not in places and held[resident][to]:
                cut.arc(cut.stays, cut.any_moves(users), held[resident][to])
        return np.where(cut.who_moves(), to, kind)


class _Network:
    """Nodes on the source's side stay, those on the sink's side move."""

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes
        self.stays, self.moved, self.count = nodes, nodes + 1, nodes + 2
        self.tail: list[int] = []
        self.head: list[int] = []
        self.price: list[float] = []

    def arc(self, tail: int, head: int, price: float) -> None:
        if price > 0:
            self.tail.append(tail)
            self.head.append(head)
            self.price.append(price)

    def node(self, node: int, staying: float, moving: float) -> None:
        least = min(staying, moving)
        self.arc(node, self.moved, staying - least)
        self.arc(self.stays, node, moving - least)

    def any_stays(self, some: list[int]) -> int:
        if len(some) == 1:
            return some[0]
        self.count += 1
        for each in some:
            self.arc(each, self.count - 1, NEVER)
        return self.count - 1

    def any_moves(self, some: list[int]) -> int:
        if len(some) == 1:
            return some[0]
        self.count += 1
        for each in some:
            self.arc(self.count - 1, each, NEVER)
        return self.count - 1

    def who_moves(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        from ortools.graph.python import max_flow

        if not self.price:
            return np.zeros(self.nodes, dtype=np.bool_)
        flow: Any = max_flow.SimpleMaxFlow()
        flow.add_arc_with_capacity(self.stays, self.moved, 0)  # so that both exist
        price: Floats = np.array(self.price)
        finite = np.isfinite(price)
        capacity = np.full(len(price), int(FINE) + 1, dtype=np.int64)
        total = float(price[finite].sum())
        capacity[finite] = np.floor(price[finite] * (FINE / total)).astype(np.int64) if total > 0 else 0
        flow.add_arcs_with_capacity(np.array(self.tail, dtype=np.int32), np.array(self.head, dtype=np.int32), capacity)
        if flow.solve(self.stays, self.moved) != flow.OPTIMAL:
            raise AssertionError("a maximal flow was not found")
        moves = np.ones(self.nodes, dtype=np.bool_)
        side = np.asarray(flow.get_source_side_min_cut(), dtype=np.int64)
        moves[side[side < self.nodes]] = False
        return moves


def _lists(start: Ints, members: Ints) -> list[list[int]]:
    return [members[a:b].tolist() for a, b in pairwise(start.tolist())]
