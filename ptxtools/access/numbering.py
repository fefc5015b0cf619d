"""Value numbering: equal values have one number, wherever they are computed.

Nodes name their block and condition, so one comparison that the code makes twice is two nodes. With the same operands
they are equal wherever both may be used: in single-assignment form operands do not change in between.
"""

from __future__ import annotations

from ptxtools.access.graph import Graph
from ptxtools.access.template import Node, Op

_OWN = {Op.LOADED, Op.OPAQUE, Op.PHI, Op.LOOP, Op.HAVOC, Op.INDUCTION}  # equal to nothing else
_EITHER_WAY = {Op.ADD, Op.MUL, Op.MUL_WIDE, Op.AND, Op.OR, Op.XOR, Op.MIN, Op.MAX, Op.BOTH, Op.EITHER}
_OPPOSITE = {"ge": "lt", "le": "gt", "ne": "eq"}

_Key = tuple[object, ...]


class Numbering:
    """For as long as a graph does not change, but for nodes that are added."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._keys: dict[_Key, int] = {}
        self._known: dict[int, int] = {}

    def of(self, index: int) -> int:
        """The number of a node's value."""
        index = self._graph.resolve(index)
        known = self._known.get(index)
        if known is None:
            key = self._key(self._graph.nodes[index], index)
            known = self._known[index] = self._keys.setdefault(key, len(self._keys))
        return known

    def predicate(self, index: int, truth: bool = True) -> tuple[int, bool]:
        """As `Graph.plain`: the number of the predicate; of two opposite comparisons it is one."""
        index, truth = self._graph.plain(index, truth)
        node = self._graph.nodes[index]
        if node.op is Op.COMPARE and node.name in _OPPOSITE:
            same = self._graph.add(node._replace(name=_OPPOSITE[node.name]))
            return self.of(same), not truth
        return self.of(index), truth

    def _key(self, node: Node, index: int) -> _Key:
        if node.op in _OWN or (node.op is Op.UNKNOWN and not node.name):
            return (index,)
        args, name = [self.of(arg) for arg in node.args], node.name
        if node.op is Op.COMPARE and name == "gt":
            args, name = args[::-1], "lt"
        if node.op in _EITHER_WAY or name == "eq":
            args.sort()
        return (node.op, *args, node.width, node.signed, node.number, name)
