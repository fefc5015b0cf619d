"""Basic blocks of a function's body, in reverse postorder, and the edges between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from ptxtools.reader.body import Body
from ptxtools.reader.instruction import Instruction

ENDS = {"ret", "exit", "trap"}
_FAILURE = "__assertfail"


@dataclass(frozen=True, slots=True)
class Edge:
    """From a block to another. `guard`: the predicate that is true (or, `negated`, false) when it is taken; ""
    otherwise.
    """

    source: int
    target: int
    guard: str = ""
    negated: bool = False


@dataclass(slots=True)
class Block:
    """Instructions `begin` to `end` of the body."""

    begin: int
    end: int
    successors: list[Edge] = field(default_factory=list)
    predecessors: list[Edge] = field(default_factory=list)


def blocks(body: Body) -> list[Block]:
    """The blocks that the entry reaches, in reverse postorder: block 0 is the entry, and an edge to an equal or lower
    number goes backwards."""
    code = body.instructions
    starts = sorted(_starts(body))
    number = {start: index for index, start in enumerate(starts)}
    found = [Block(begin, end) for begin, end in zip(starts, [*starts[1:], len(code)], strict=True)]
    targets = [_targets(code, body, block) for block in found]
    order = _reverse_postorder([[number[t] for t, _, _ in each if t in number] for each in targets])
    place = {old: new for new, old in enumerate(order)}
    result = [found[old] for old in order]
    for new, old in enumerate(order):
        edges = {Edge(new, place[number[t]], guard, negated) for t, guard, negated in targets[old] if t in number}
        for edge in sorted(edges, key=lambda edge: (edge.target, edge.guard)):
            result[new].successors.append(edge)
            result[edge.target].predecessors.append(edge)
    return result


def _starts(body: Body) -> set[int]:
    code = body.instructions
    starts = {0, *body.labels.values()}
    for index, instruction in enumerate(code):
        if _ends_block(instruction.opcode) or is_failure(instruction):
            starts.add(index + 1)
    return {start for start in starts if start < len(code)}


@cache
def _ends_block(opcode: str) -> bool:
    return opcode.partition(".")[0] in ("bra", "brx", *ENDS)


def is_failure(instruction: Instruction) -> bool:
    """Whether it is the call of a failed assertion, after which nothing runs."""
    return instruction.base == "call" and _FAILURE in instruction.operand_texts


def _targets(code: Sequence[Instruction], body: Body, block: Block) -> list[tuple[int, str, bool]]:
    """(instruction, guard, negated) of where a block goes on."""
    last = code[block.end - 1]
    guard, negated = last.guard, last.guard_negated
    if last.base == "bra":
        targets = [(body.labels[last.operand_texts[-1]], guard, negated)]
    elif last.base == "brx":
        names = body.lists[last.operand_texts[-1]]
        targets = [(body.labels[name], "", False) for name in names if name in body.labels]
    elif last.base in ENDS or is_failure(last):
        targets = []
    else:
        return [(block.end, "", False)]
    if guard:
        targets.append((block.end, guard, not negated))
    if len(targets) > 1 and len({target for target, _, _ in targets}) == 1:
        return [(targets[0][0], "", False)]
    return targets


def _reverse_postorder(successors: list[list[int]]) -> list[int]:
    if not successors:
        return []
    seen, order = {0}, []
    stack = [(0, iter(successors[0]))]
    while stack:
        block, pending = stack[-1]
        for target in pending:
            if target not in seen:
                seen.add(target)
                stack.append((target, iter(successors[target])))
                break
        else:
            order.append(block)
            stack.pop()
    return order[::-1]
