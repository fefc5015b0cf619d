"""What single threads of a launch must do: for small launches, whose addresses and conditions are numbers.

Ranges say what a launch may touch; here it is what it must have written when it is over. A thread whose value depends
on memory, on a loop or on an instruction without a meaning is left out: its store may not happen.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from itertools import product

from ptxtools.access.template import Access, Node, Op, Template, chosen
from ptxtools.ranges.launch import Launch

MOST = 1 << 12  # threads
_COMPARES: dict[str, Callable[[int, int], bool]] = {
    name: getattr(operator, name) for name in ("lt", "le", "gt", "ge", "eq", "ne")
}
# Of operands as numbers of the node's width and sign, operands as they are, and the width. None: nobody knows.
_Operation = Callable[[list[int], list[int], int], "int | None"]
_MODULAR: dict[Op, _Operation] = {  # modulo 2 to the width
    Op.ADD: lambda _, args, __: args[0] + args[1],
    Op.SUB: lambda _, args, __: args[0] - args[1],
    Op.MUL: lambda _, args, __: args[0] * args[1],
    Op.MUL_HIGH: lambda seen, _, width: seen[0] * seen[1] >> width,
    Op.SHL: lambda _, args, width: args[0] << args[1] if args[1] < width else 0,
    Op.SHR: lambda seen, args, width: seen[0] >> min(args[1], width),
    Op.AND: lambda _, args, __: args[0] & args[1],
    Op.OR: lambda _, args, __: args[0] | args[1],
    Op.XOR: lambda _, args, __: args[0] ^ args[1],
    Op.NOT: lambda _, args, __: ~args[0],
    Op.NEG: lambda _, args, __: -args[0],
    Op.ABS: lambda seen, _, __: abs(seen[0]),
    Op.MIN: lambda seen, _, __: min(seen),
    Op.MAX: lambda seen, _, __: max(seen),
    Op.DIV: lambda seen, _, __: _quotient(seen[0], seen[1]) if seen[1] else None,
    Op.REM: lambda seen, _, __: seen[0] - seen[1] * _quotient(seen[0], seen[1]) if seen[1] else None,
}
_WHOLE: dict[Op, _Operation] = {
    Op.MUL_WIDE: lambda seen, _, __: seen[0] * seen[1],
    Op.CONVERT: lambda seen, _, __: seen[0],
    Op.PACK: lambda _, args, width: sum(_seen(arg, width, False) << width * place for place, arg in enumerate(args)),
    Op.OPPOSITE: lambda _, args, __: 1 - args[0],
}
_AXES = {"x": 0, "y": 1, "z": 2}
_WIDE = 64


def written(template: Template, access: Access, launch: Launch) -> set[int]:
    """Addresses that an access must write to, of `access.size` bytes each; none of large launches."""
    if access.pointers is None or access.length >= 0 or access.rows > 1:
        return set()
    found = set()
    for thread in threads(launch):
        values = _Thread(template, launch, thread)
        if values.holds(access.condition):
            address = values.value(access.address)
            if address is not None:
                found.add((address + access.displacement) % (1 << _WIDE))
    return found


def threads(launch: Launch) -> Iterator[dict[str, int]]:
    """The special registers of each thread; none of large launches."""
    sizes = (*launch.grid, *launch.block)
    count = 1
    for size in sizes:
        count *= size
    if count > MOST:
        return
    names = [f"{base}.{axis}" for base in ("ctaid", "tid") for axis in "xyz"]
    for place in product(*map(range, sizes)):
        yield dict(zip(names, place, strict=True))


class _Thread:
    """Values of nodes in one thread: numbers from 0 to 2^64; predicates 0 or 1; None when it is not known."""

    def __init__(self, template: Template, launch: Launch, special: dict[str, int]) -> None:
        self._template, self._launch, self._special = template, launch, special
        self._known: dict[int, int | None] = {}

    def holds(self, condition: int) -> bool:
        """Whether all conditions hold in every launch that does not fail."""
        while condition:
            entry = self._template.conditions[condition]
            if entry.predicate >= 0 and not entry.certain and self.value(entry.predicate) != int(entry.truth):
                return False
            condition = entry.parent
        return True

    def value(self, index: int) -> int | None:
        if index not in self._known:
            self._known[index] = None  # while it leads to itself
            found = self._computed(self._template.nodes[index])
            self._known[index] = None if found is None else found % (1 << _WIDE)
        return self._known[index]

    def _computed(self, node: Node) -> int | None:
        if node.op is Op.NUMBER:
            return node.number
        if node.op is Op.PARAMETER:
            return parameter(node, self._launch)
        if node.op is Op.SPECIAL:
            return special(node.name, self._launch, self._special)
        if node.op is Op.SELECT:
            truth = self.value(node.args[0])
            return None if truth is None else self.value(node.args[1 if truth else 2])
        if node.op is Op.ELEMENT:
            index = self.value(node.args[0])
            return None if index is None else self.value(chosen(node, index))
        if node.op in (Op.BOTH, Op.EITHER):
            return self._logic(node)
        if node.op in (Op.LOADED, Op.OPAQUE, Op.SYMBOL, Op.PHI, Op.LOOP, Op.HAVOC, Op.INDUCTION, Op.UNKNOWN):
            return None
        args = [self.value(arg) for arg in node.args]
        numbers = [arg for arg in args if arg is not None]
        return computed(node, numbers) if len(numbers) == len(args) else None

    def _logic(self, node: Node) -> int | None:
        args = [self.value(arg) for arg in node.args]
        decisive = 0 if node.op is Op.BOTH else 1
        if decisive in args:
            return decisive
        return None if None in args else 1 - decisive


def parameter(node: Node, launch: Launch) -> int | None:
    """A PARAMETER node's value."""
    raw = launch.parameters[node.number : node.number + node.width // 8]
    return int.from_bytes(raw, "little", signed=node.signed) if len(raw) == node.width // 8 else None


def special(name: str, launch: Launch, thread: Mapping[str, int]) -> int | None:
    """What a special register holds in a thread."""
    base, _, axis = name.partition(".")
    if base in ("ntid", "nctaid"):
        return (launch.block if base == "ntid" else launch.grid)[_AXES[axis]]
    if base == "laneid":
        x, y, _ = launch.block
        return (thread["tid.x"] + x * (thread["tid.y"] + y * thread["tid.z"])) % 32
    return thread.get(name)


def computed(node: Node, args: list[int]) -> int | None:
    """What arithmetic makes of numbers; None of an operation without a meaning here, or where nobody knows."""
    width = node.width or _WIDE
    seen = [_seen(arg, width, node.signed) for arg in args]
    if node.op is Op.COMPARE:
        compare = _COMPARES.get(node.name)
        return None if compare is None else int(compare(seen[0], seen[1]))
    if node.op is Op.EXTRACT:
        first, count = (min(arg & 255, width) for arg in args[1:])
        return _seen(seen[0] >> first, count, node.signed) % (1 << width) if count else 0
    if node.op in _WHOLE:
        return _WHOLE[node.op](seen, args, width)
    operation = _MODULAR.get(node.op)
    found = None if operation is None else operation(seen, args, width)
    return None if found is None else found % (1 << width)


def _quotient(value: int, divisor: int) -> int:
    """Towards 0."""
    return abs(value) // abs(divisor) * (1 if (value < 0) == (divisor < 0) else -1)


def _seen(value: int, width: int, signed: bool) -> int:
    """What a machine sees in a value of that width and sign."""
    value &= (1 << width) - 1
    return value - (1 << width) if signed and value >> (width - 1) else value
