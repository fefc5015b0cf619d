"""Which bits of a function's registers decide anything: what it stores, where, and which way it goes.

An instruction without an effect of its own needs of its operands only what is asked of its results. What is found is an
upper limit, whatever the order of the instructions: a bit that is missing here is never used.
"""

from __future__ import annotations

from collections import defaultdict

from ptxtools.access.effects import width
from ptxtools.isa.row import Form, Kind, Row, Transfer
from ptxtools.isa.semantics import spelled
from ptxtools.reader.body import Body
from ptxtools.reader.instruction import Instruction
from ptxtools.reader.operand import Address, Group, Number, Operand, Register, Symbol

ALL = (1 << 128) - 1
_BITWISE = (Kind.COPY, Kind.OR, Kind.XOR, Kind.NOT)
_UPWARDS = (Kind.ADD, Kind.SUB, Kind.MUL, Kind.MAD, Kind.NEG)
_ORDERED = {"volatile", "relaxed", "acquire", "mmio"}


def is_plain_load(instruction: Instruction) -> bool:
    """Whether it is a load that may be left out when nobody uses what it loads."""
    parts = instruction.parts
    return parts[0] in ("ld", "ldu") and _ORDERED.isdisjoint(parts)


def demands(body: Body) -> dict[str, int]:
    """The bits of each register that are used, as a mask; a register that is not there is never used."""
    makers: dict[str, list[Instruction]] = defaultdict(list)
    asked: dict[str, int] = defaultdict(int)
    pending: list[Instruction] = []
    for each in body.instructions:
        if _is_pure(each):
            for name in each.written:
                makers[name].append(each)
        else:
            pending.append(each)
    while pending:
        for name, bits in _needs(pending.pop(), asked):
            if bits & ~asked[name]:
                asked[name] |= bits
                pending += makers[name]
    return dict(asked)


def _is_pure(instruction: Instruction) -> bool:
    return bool(instruction.written) and (spelled(instruction.opcode) is not None or is_plain_load(instruction))


def _needs(instruction: Instruction, asked: dict[str, int]) -> list[tuple[str, int]]:
    """Registers and their bits that an instruction needs for what is asked of those it writes."""
    pure, operands = _is_pure(instruction), instruction.operands
    wanted = 0
    for name in instruction.written:
        wanted |= asked[name]
    if pure and not wanted:
        return []
    found = [(instruction.guard, ALL)] if instruction.guard else []
    if pure and (row := spelled(instruction.opcode)) is not None:
        sources = _of_row(row, operands, wanted, asked)
        return found + [(name, bits) for source, bits in sources for name in _names(source)]
    stored = (1 << width(instruction.parts)) - 1 if _is_plain_store(instruction) else ALL
    sources = [(each, stored if place == 1 else ALL) for place, each in enumerate(operands)]
    return found + [(name, bits) for source, bits in sources[1 if pure else 0 :] for name in _names(source)]


def _is_plain_store(instruction: Instruction) -> bool:
    """Whether its second operand is what it stores. That may lie in wider registers, of which it stores the low bits
    (of all instructions that write to memory, only `st` may have such).
    """
    parts = instruction.parts
    return parts[0] == "st" and {"async", "bulk"}.isdisjoint(parts)


def _names(operand: Operand) -> list[str]:
    if isinstance(operand, Register | Symbol):
        return [operand.name]
    if isinstance(operand, Address):
        rest = [part.strip(" {}") for each in operand.rest for part in each.split(",")]
        return [*([operand.base] if operand.base else []), *rest]
    return [name for part in operand.parts for name in _names(part)] if isinstance(operand, Group) else []


def _of_row(row: Row, operands: list[Operand], wanted: int, asked: dict[str, int]) -> list[tuple[Operand, int]]:
    """What each source operand of a lane operation is asked."""
    target, sources, transfer = operands[0], operands[1:], row.transfer
    if row.form is not Form.MAP or (any(kind.floating for kind in row.sources) and transfer.kind is not Kind.COPY):
        return [(each, ALL) for each in sources]
    if transfer.kind is Kind.COPY and len(sources) == 1 and isinstance(target, Group):
        return [(sources[0], _packed(target, row.dst.bits, asked))]
    if transfer.kind is Kind.COPY and len(sources) == 1 and isinstance(sources[0], Group):
        parts = sources[0].parts
        width = row.dst.bits // len(parts)
        return [(part, wanted >> width * place & (1 << width) - 1) for place, part in enumerate(parts)]
    return _of_transfer(transfer, sources, wanted)


def _packed(target: Group, bits: int, asked: dict[str, int]) -> int:
    """The bits of a value that its parts' are."""
    width = bits // len(target.parts)
    found = 0
    for place, part in enumerate(target.parts):
        for name in _names(part):
            found |= (asked[name] & (1 << width) - 1) << width * place
    return found


def _of_transfer(transfer: Transfer, sources: list[Operand], wanted: int) -> list[tuple[Operand, int]]:
    kind, every = transfer.kind, (1 << transfer.width) - 1
    number = sources[1].value if len(sources) == 2 and isinstance(sources[1], Number) else None
    if kind in _BITWISE:
        return [(each, wanted) for each in sources]
    if kind is Kind.SELECT:
        return [(sources[0], wanted), (sources[1], wanted), (sources[2], ALL)]
    if kind is Kind.AND:
        return [(each, wanted if number is None else wanted & number) for each in sources]
    if kind is Kind.CONVERT and not transfer.saturate:
        sign = transfer.signed and wanted & ~every
        return [(each, wanted & every | (sign and 1 << transfer.width - 1)) for each in sources]
    if kind is Kind.SHL and number is not None:
        return [(sources[0], wanted >> number)]
    if kind is Kind.SHR and number is not None and not transfer.signed:
        return [(sources[0], wanted << number & every)]
    if kind in _UPWARDS and not transfer.saturate and transfer.part.value == "low":
        return [(each, (1 << wanted.bit_length()) - 1) for each in sources]
    return [(each, ALL) for each in sources]
