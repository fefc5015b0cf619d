"""What instructions compute: for each meaning of the table, the node of one of an instruction's results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ptxtools.access.template import Node, Op
from ptxtools.access.uniform import is_uniform
from ptxtools.machine import logic
from ptxtools.machine.banks import PARAMETERS
from ptxtools.machine.code import MachineInstruction
from ptxtools.machine.elements import element
from ptxtools.machine.maker import CARRY, ESTIMATE, FLOAT, HIGH_OF_SHIFT, LOW_OF_SHIFT, PREDICATES, RECIPROCAL, SUM
from ptxtools.machine.operand import Operand, Sort, halves
from ptxtools.machine.table import Meaning

if TYPE_CHECKING:
    from ptxtools.machine.values import Place

Maker = Callable[["Place", MachineInstruction], "int | None"]

_COMPARISONS = {"LT": "lt", "LE": "le", "GT": "gt", "GE": "ge", "EQ": "eq", "NE": "ne"}
_OPPOSITE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}
_SWAPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}  # when the operands change places
_SPECIAL = {
    f"SR_{name}.{axis.upper()}": f"{word}.{axis}"
    for axis in "xyz"
    for name, word in (("TID", "tid"), ("CTAID", "ctaid"))
}
_SPECIAL["SR_LANEID"] = "laneid"
_CONSTANT = {"SR_CgaCtaId"}  # what never changes in a thread, and nothing more is known of
_BITWISE = {"and": Op.AND, "or": Op.OR}
_WORD = (1 << 32) - 1
_PREDICATES = 7
_SIGN = 31
_LANES = 32


def _copy(at: Place, code: MachineInstruction) -> int | None:
    if at.is_predicate or not code.sources:
        return None
    source = next((each for each in code.sources if each.sort is not Sort.PREDICATE), None)
    if source is None:
        return None
    if source.sort is Sort.NUMBER:
        return at.make.word(source.number if at.position == 0 else source.number >> 32)
    return at.signed(source, at.word(source, at.position), 32) if not source.sign else None


# Sums.


def _terms(at: Place, sources: list[Operand]) -> tuple[list[int], int, list[int]]:
    """Words that are added; which are negated, as bits; predicates that are carried in."""
    terms: list[int] = []
    carries: list[int] = []
    negated = 0
    for source in sources:
        if source.sort is Sort.PREDICATE:
            predicate = at.predicate(source)
            if at.make.of(predicate) != 0:
                carries.append(predicate)
            continue
        value = at.word(source)
        if source.sign == "~":
            value = at.make.inverse(value)
        if at.make.of(value) == 0 and source.sign != "-":
            continue
        negated |= (source.sign == "-") << len(terms)
        terms.append(value)
    return terms, negated, carries


def _sum(at: Place, terms: list[int], negated: int, carries: list[int]) -> int:
    """A sum that takes part in a longer one, as it may have carries."""
    return at.make.scratch(SUM, (*terms, *carries), negated | len(terms) << 8)


def _plain(at: Place, terms: list[int], negated: int) -> int:
    total = at.make.number(0)
    for number, term in enumerate(terms):
        total = at.make.subtract(total, term) if negated >> number & 1 else at.make.add(total, term)
    return total


def _add(at: Place, code: MachineInstruction) -> int | None:
    if "64" in code.parts:
        return _add_pairs(at, code)
    sources = code.sources
    extended = "X" in code.parts
    terms, negated, carries = _terms(
        at, sources if extended else [each for each in sources if each.sort is not Sort.PREDICATE]
    )
    return _summed(at, code, terms, negated, carries)


def _summed(
    at: Place,
    code: MachineInstruction,
    terms: list[int],
    negated: int,
    carries: list[int],
) -> int | None:
    """A sum, or a carry out of it. With more than two terms there may be two carries: both must be asked for."""
    if not carries and not any(code.predicates):
        return _plain(at, terms, negated)
    whole = _sum(at, terms, negated, carries)
    if not at.is_predicate:
        return whole
    return at.make.scratch(CARRY, (whole,), at.position, 1)


def _add_pairs(at: Place, code: MachineInstruction) -> int | None:
    if at.is_predicate:
        return None
    total = at.make.number(0)
    for source in code.sources:
        if source.sort is Sort.PREDICATE:
            if source.name or source.sign != "!":
                return None
        else:
            total = at.make.add(total, at.pair(source), 64)
    return at.make.high(total) if at.position else at.make.low(total)


def _multiply(at: Place, code: MachineInstruction) -> int | None:
    parts = code.parts
    numbers = [each for each in code.sources if each.sort is not Sort.PREDICATE]
    if len(numbers) < 3:
        numbers = [*numbers, *[Operand(Sort.REGISTER)] * (3 - len(numbers))]
    a, b, c = numbers[:3]
    signed = "U32" not in parts
    if "WIDE" in parts or "HI" in parts:
        if at.is_predicate or "X" in parts or any(each.sort is Sort.PREDICATE for each in code.sources):
            return None
        return _multiply_wide(at, (a, b, c), signed, "HI" in parts or at.position == 1)
    terms, negated, carries = _terms(
        at, [each for each in code.sources[2:] if "X" in parts or each.sort is not Sort.PREDICATE]
    )
    product = at.make.multiply(at.value(a), at.value(b))
    if at.make.of(product) != 0:
        terms, negated = [product, *terms], negated << 1
    return _summed(at, code, terms, negated, carries)


def _multiply_wide(at: Place, operands: tuple[Operand, Operand, Operand], signed: bool, high: bool) -> int | None:
    a, b, c = operands
    if a.sign or b.sign:
        return None
    product = at.make.multiply_wide(at.word(a), at.word(b), signed)
    total = at.make.add(product, at.pair(c), 64)
    return at.make.high(total) if high else at.make.low(total)


def _lea(at: Place, code: MachineInstruction) -> int | None:
    """a << s + b; .HI: the high word of c:a << s, plus b; .SX32: with a's sign as c."""
    parts = code.parts
    numbers = [each for each in code.sources if each.sort is not Sort.PREDICATE]
    shift = numbers[-1]
    if shift.sort is not Sort.NUMBER or not 0 <= shift.number < 32 or numbers[0].sign not in ("", "-"):
        return None
    count = shift.number
    terms, negated, carries = _terms(
        at, [numbers[1], *(each for each in code.sources if each.sort is Sort.PREDICATE and "X" in parts)]
    )
    if "HI" not in parts:
        shifted = at.make.shift_left(at.value(numbers[0]), count)
    elif numbers[0].sign:
        return None
    else:
        low = at.word(numbers[0])
        if "SX32" in parts:
            shifted = at.make.shift_right(low, min(32 - count, _SIGN), True)
        else:
            shifted = _high_of_shift(at, low, at.value(numbers[2]) if len(numbers) > 3 else at.make.number(0), count)
    return _summed(at, code, [shifted, *terms], negated << 1, carries)


def _high_of_shift(at: Place, low: int, high: int, count: int) -> int:
    if count == 0:
        return high
    if at.make.of(high) == 0:
        return at.make.shift_right(low, 32 - count, False)
    return at.make.scratch(HIGH_OF_SHIFT, (low, high, at.make.number(count)))


# Shifts, bits.


def _shift(at: Place, code: MachineInstruction) -> int | None:
    """sm_100's shifts of one value."""
    if at.is_predicate or len(code.sources) < 2:
        return None
    a, b = code.sources[:2]
    wide = "64" in code.parts or "S64" in code.parts or "U64" in code.parts
    signed = "S32" in code.parts or "S64" in code.parts
    if wide or a.sign or b.sign:
        return None
    op = Op.SHL if "SHL" in code.base else Op.SHR
    return at.make.node(op, (at.word(a), at.word(b)), 32, signed and op is Op.SHR)


def _funnel(at: Place, code: MachineInstruction) -> int | None:
    parts = code.parts
    if at.is_predicate or len(code.sources) < 3 or any(each.sign for each in code.sources[:3]):
        return None
    low, count, high = code.sources[:3]
    left, upper = "L" in parts, "HI" in parts
    is_64 = "U64" in parts or "S64" in parts
    signed = "S32" in parts or "S64" in parts
    number = at.make.of(at.word(count))
    if "W" in parts or number is None:
        return _funnel_unknown(at, code, left, upper, is_64, signed)
    if not 0 <= number < 32:
        return _funnel_far(at, low, high, number, left, upper, is_64, signed)
    if left:
        return (
            _high_of_shift(at, at.word(low), at.word(high), number)
            if upper
            else at.make.shift_left(at.word(low), number)
        )
    if upper:
        return at.make.shift_right(at.word(high), number, signed)
    x, y = at.word(low), at.word(high)
    if at.make.of(y) == 0:
        return at.make.shift_right(x, number, False)
    return at.make.scratch(LOW_OF_SHIFT, (x, y, at.make.number(number)))


def _funnel_far(
    at: Place, low: Operand, high: Operand, number: int, left: bool, upper: bool, is_64: bool, signed: bool
) -> int | None:
    """By 32 and more."""
    if not is_64 or not 32 <= number < 64:
        return None
    if left:
        return at.make.shift_left(at.word(low), number - 32) if upper else at.make.number(0)
    if upper:
        return at.make.shift_right(at.word(high), _SIGN, True) if signed else at.make.number(0)
    return at.make.shift_right(at.word(high), number - 32, signed)


def _funnel_unknown(
    at: Place, code: MachineInstruction, left: bool, upper: bool, is_64: bool, signed: bool
) -> int | None:
    """By a number that is not known yet, of one word: the other is 0 or not looked at. Or the upper word of a pair."""
    low, count, high = code.sources[:3]
    if "W" not in code.parts and is_64 and left and upper:
        return at.make.scratch(HIGH_OF_SHIFT, (at.word(low), at.word(high), at.word(count)))
    if is_64 or "W" in code.parts:
        return None
    if left and not upper:
        return at.make.node(Op.SHL, (at.word(low), at.word(count)), 32)
    if not left and upper:
        return at.make.node(Op.SHR, (at.word(high), at.word(count)), 32, signed)
    if not left and not high.name and high.sort is Sort.REGISTER:
        return at.make.node(Op.SHR, (at.word(low), at.word(count)), 32)
    return None


def _logic(at: Place, code: MachineInstruction) -> int | None:
    numbers = [each for each in code.sources if each.sort is not Sort.PREDICATE]
    if (
        code.parts[-1] != "LUT"
        or len(numbers) < 4
        or numbers[3].sort is not Sort.NUMBER
        or any(each.sign for each in numbers[:3])
    ):
        return None
    found = _by_table(at, [at.word(each) for each in numbers[:3]], numbers[3].number)
    if not at.is_predicate or found is None:
        return found
    node = at.make.graph.nodes[found]
    mask = at.make.of(node.args[1]) if node.op is Op.AND else None
    known = None if mask is None else at.make.bits(node.args[0], mask)
    return at.make.node(Op.COMPARE, (found, at.make.number(0)), 32, name="ne") if known is None else known


def _by_table(at: Place, operands: list[int], table: int) -> int | None:
    planned = logic.plan(table, tuple(_bit(at.make.of(each)) for each in operands))
    return None if planned is None else _bits_of(at, planned, operands)


def _bits_of(at: Place, planned: logic.Plan, operands: list[int]) -> int:
    if isinstance(planned, logic.Number):
        return at.make.number(-1 if planned.ones else 0)
    if isinstance(planned, logic.Literal):
        value = operands[planned.operand]
        return at.make.inverse(value) if planned.inverted else value
    sides = (_bits_of(at, planned.left, operands), _bits_of(at, planned.right, operands))
    if planned.operation == "xor":
        return at.make.exclusive(*sides)
    return at.make.node(_BITWISE[planned.operation], sides, 32)


def _bit(number: int | None) -> int | None:
    """The bit that a number has everywhere."""
    return None if number is None else {0: 0, _WORD: 1}.get(number & _WORD)


def _predicates(at: Place, code: MachineInstruction) -> int | None:
    sources = [each for each in code.sources if each.sort is Sort.PREDICATE]
    tables = [each.number for each in code.sources if each.sort is Sort.NUMBER]
    if len(sources) != 3 or at.position >= len(tables):
        return None
    operands = [at.predicate(each) for each in sources]
    planned = logic.plan(tables[at.position], tuple(at.make.of(each) for each in operands))
    return None if planned is None else _predicate_of(at, planned, operands)


def _predicate_of(at: Place, planned: logic.Plan, operands: list[int]) -> int | None:
    if isinstance(planned, logic.Number):
        return at.make.number(int(planned.ones))
    if isinstance(planned, logic.Literal):
        value = operands[planned.operand]
        return at.make.opposite(value) if planned.inverted else value
    one, other = (_predicate_of(at, side, operands) for side in (planned.left, planned.right))
    if one is None or other is None or planned.operation == "xor":
        return None
    return at.make.both(one, other) if planned.operation == "and" else at.make.either(one, other)


def _from_predicates(at: Place, code: MachineInstruction) -> int | None:
    """The predicates that a mask names, as bits of one byte; the others are those of a register."""
    numbers = [each for each in code.sources if each.sort is not Sort.OTHER]
    if len(numbers) != 2 or numbers[1].sort is not Sort.NUMBER or at.make.of(at.word(numbers[0])) != 0:
        return None
    mask = numbers[1].number & (1 << _PREDICATES) - 1
    if mask != numbers[1].number or not set(code.parts[1:]) <= {"B1", "B2", "B3"}:
        return None
    prefix = "UP" if code.base == "UP2UR" else "P"
    predicates = [at.register(f"{prefix}{place}") for place in range(_PREDICATES) if mask >> place & 1]
    return at.make.scratch(PREDICATES, tuple(predicates), mask | _byte(code.parts[-1]) << 8)


def _to_predicate(at: Place, code: MachineInstruction) -> int | None:
    if not code.sources or code.sources[0].sort is not Sort.REGISTER:
        return None
    source = code.sources[0]
    place = at.position + _byte(source.part)
    return at.make.bit(at.register(source.name), place)


def _byte(part: str) -> int:
    """Where a byte of a word begins."""
    return {"B1": 8, "B2": 16, "B3": 24}.get(part, 0)


def _permute(at: Place, code: MachineInstruction) -> int | None:
    """Bytes of a (0 to 3) and c (4 to 7); from 8 on, the sign of the byte. Known are runs of bytes of one operand."""
    if at.is_predicate or len(code.sources) < 3 or code.parts[-1] != code.base:
        return None
    a, selector, c = code.sources[:3]
    choice = at.make.of(at.word(selector))
    if choice is None or a.sign or c.sign:
        return None
    chosen = [choice >> 4 * n & 15 for n in range(4)]
    zero = (a.sort is Sort.REGISTER and not a.name, c.sort is Sort.REGISTER and not c.name)
    for number, operand in ((0, a), (4, c)):
        if not number <= chosen[0] < number + 4 or zero[number // 4]:
            continue
        run = 1
        while run < 4 and chosen[run] == chosen[0] + run and chosen[run] < number + 4:
            run += 1
        rest = set(chosen[run:])
        first = (chosen[0] - number) * 8
        if not rest and run == 4:
            return at.word(operand)
        if all(byte < 8 and zero[byte // 4] for byte in rest) or rest == {chosen[run - 1] | 8}:
            return _extract(at, at.word(operand), first, 8 * run, rest == {chosen[run - 1] | 8})
    return None


def _extract(at: Place, value: int, first: int, count: int, signed: bool) -> int:
    return at.make.node(Op.EXTRACT, (value, at.make.number(first), at.make.number(count)), 32, signed)


def _sign_extend(at: Place, code: MachineInstruction) -> int | None:
    a, count = code.sources[:2]
    if at.is_predicate or count.sort is not Sort.NUMBER or not 0 < count.number <= 32 or a.sign:
        return None
    return _extract(at, at.word(a), 0, count.number, "U32" not in code.parts)


# Choices and comparisons.


def _select(at: Place, code: MachineInstruction) -> int | None:
    if at.is_predicate or len(code.sources) < 3:
        return None
    a, b, predicate = code.sources[0], code.sources[1], code.sources[-1]
    x, y = (at.signed(each, at.word(each, at.position), 32) for each in (a, b))
    return at.make.select(at.predicate(predicate), x, y)


def _minmax(at: Place, code: MachineInstruction) -> int | None:
    numbers = [each for each in code.sources if each.sort is not Sort.PREDICATE]
    choice = [each for each in code.sources if each.sort is Sort.PREDICATE]
    if at.is_predicate or len(numbers) != 2 or not choice or "S64" in code.parts or "U64" in code.parts:
        return None
    return _least_or_greatest(at, at.value(numbers[0]), at.value(numbers[1]), choice[-1], "U32" not in code.parts)


def _least_or_greatest(at: Place, a: int, b: int, choice: Operand, signed: bool) -> int | None:
    is_least = at.make.of(at.predicate(choice))
    if is_least is None:
        return None
    return at.make.node(Op.MIN if is_least else Op.MAX, (a, b), 32, signed)


def _add_minmax(at: Place, code: MachineInstruction) -> int | None:
    numbers = [each for each in code.sources if each.sort is not Sort.PREDICATE]
    choice = [each for each in code.sources if each.sort is Sort.PREDICATE]
    if at.is_predicate or len(numbers) != 3 or not choice or code.parts[1:] not in ([], ["U32"]):
        return None
    total = at.make.add(at.value(numbers[0]), at.value(numbers[1]))
    return _least_or_greatest(at, total, at.value(numbers[2]), choice[-1], "U32" not in code.parts)


def _absolute(at: Place, code: MachineInstruction) -> int | None:
    return None if at.is_predicate else at.make.node(Op.ABS, (at.value(code.sources[0]),), 32, True)


def _compare(at: Place, code: MachineInstruction) -> int | None:
    """Destination 0 gets the comparison and the predicate, destination 1 its opposite and the predicate."""
    parts = code.parts
    name = _COMPARISONS.get(parts[1])
    numbers = [each for each in code.sources if each.sort is not Sort.PREDICATE]
    predicates = [each for each in code.sources if each.sort is Sort.PREDICATE]
    if name is None or len(numbers) != 2 or not predicates or "XOR" in parts:
        return None
    signed = not {"U32", "U64"} & set(parts)
    if "EX" in parts:
        test = _compare_pairs(at, numbers, name, signed, at.predicate(predicates[-1]))
    elif "U64" in parts or "S64" in parts or "64" in parts:
        test = at.make.node(Op.COMPARE, (at.pair(numbers[0]), at.pair(numbers[1])), 64, signed, name)
    else:
        test = _compare_words(at, at.value(numbers[0]), at.value(numbers[1]), name, signed)
    if at.position == 1:
        test = at.make.opposite(test)
    combine = at.make.either if "OR" in parts else at.make.both
    return combine(test, at.predicate(predicates[0]))


def _compare_words(at: Place, a: int, b: int, name: str, signed: bool) -> int:
    known = at.make.bits(a, _WORD) if at.make.of(b) == 0 and name in ("eq", "ne") and at.make.of(a) is None else None
    if known is not None:
        return known if name == "ne" else at.make.opposite(known)
    return at.make.node(Op.COMPARE, (a, b), 32, signed, name)


def _compare_pairs(at: Place, numbers: list[Operand], name: str, signed: bool, lower: int) -> int:
    """The high words, when the low ones were compared before, maybe the other way round."""
    node = at.make.graph.nodes[at.make.graph.resolve(lower)]
    found = node.name
    if node.op is Op.OPPOSITE:
        node = at.make.graph.nodes[at.make.graph.resolve(node.args[0])]
        found = _OPPOSITE.get(node.name, "")
    is_lower = node.op is Op.COMPARE and node.width == 32 and (not node.signed or name in ("eq", "ne"))
    if not is_lower or name not in (found, _SWAPPED.get(found)):
        return at.make.any(1)
    lows = node.args if found == name else node.args[::-1]
    pairs = [at.make.pack(low, at.value(high)) for low, high in zip(lows, numbers, strict=True)]
    return at.make.node(Op.COMPARE, (pairs[0], pairs[1]), 64, signed, name)


# Where values come from.


def _special(at: Place, code: MachineInstruction) -> int | None:
    name = code.sources[0].name if code.sources else ""
    if name == "SRZ":
        return at.make.number(0)
    if name == "SR_SWINHI":
        return at.make.high(at.values.banks.window(at.make))
    if at.is_predicate or at.position:
        return None
    if name in _SPECIAL:
        return at.make.graph.add(Node(Op.SPECIAL, name=_SPECIAL[name]))
    return at.values.constant(name) if name in _CONSTANT else None


def _constant(at: Place, code: MachineInstruction) -> int | None:
    source = next((each for each in code.sources if each.sort is Sort.CONSTANT), None)
    if at.is_predicate or source is None:
        return None
    small = [part for part in code.parts if part in ("U8", "S8", "U16", "S16")]
    if small:
        return at.values.banks.small(at.make, source, small[0])
    if source.name and at.make.of(at.register(source.name)) is None:
        return _indexed(at, code, source)
    return at.word(source, at.position)


def _indexed(at: Place, code: MachineInstruction, source: Operand) -> int:
    """A word of a bank at a place that a register says."""
    banks, bits = at.values.banks, 64 if len(code.results) > 1 else 32
    key = (at.index, at.position // 2)
    if key not in at.values.loaded:
        index, offset = at.register(source.name), source.number + 8 * (at.position // 2)
        at.values.loaded[key] = (
            element(at.make, banks.kernel, offset, index, bits, code.offset)
            if source.bank == PARAMETERS
            else at.make.loaded(bits, False, code.offset)
        )
    whole = at.values.loaded[key]
    if bits == 32:
        return whole
    return at.make.high(whole) if at.position % 2 else at.make.low(whole)


def _stored(at: Place, code: MachineInstruction) -> int | None:
    """A word of the stack that is stored whole."""
    return at.word(code.sources[-1], at.position) if code.slots else None


def _loaded(at: Place, code: MachineInstruction) -> int | None:
    if at.is_predicate:
        return None
    if code.slots:
        return at.register(code.slots[at.position])
    for part, (bits, signed) in {"U8": (8, False), "S8": (8, True), "U16": (16, False), "S16": (16, True)}.items():
        if part in code.parts:
            return at.make.loaded(bits, signed, code.offset)
    whole = _loaded_pair(at, len(code.results))
    return at.make.loaded(32, False, code.offset) if whole is None else whole


def _loaded_pair(at: Place, count: int) -> int | None:
    """One of the words of a vector: each two are a value of 64 bits."""
    if count < 2:
        return None
    key = (at.index, at.position // 2)
    known = at.values.loaded.get(key)
    if known is None:
        known = at.values.loaded[key] = at.make.loaded(64, False, at.values.offset(at.index))
    return at.make.high(known) if at.position % 2 else at.make.low(known)


def _shuffle(at: Place, code: MachineInstruction) -> int | None:
    """The value of lane 0 of all, when the lanes do not differ in it."""
    if at.is_predicate or code.parts[1:] != ["IDX"] or len(code.sources) != 3:
        return None
    value, lane, limit = (at.word(each) for each in code.sources)
    is_first = at.make.of(lane) == 0 and at.make.of(limit) == _LANES - 1
    return value if is_first and is_uniform(at.make.graph, value) else None


def _halves(at: Place, code: MachineInstruction) -> int | None:
    """How compilers load a number with the multiplier."""
    number = None if at.is_predicate else halves(code.sources)
    return None if number is None else at.make.number(number)


def _to_float(at: Place, code: MachineInstruction) -> int | None:
    if at.is_predicate or code.parts[1:] not in (["U32", "RP"], ["RP"]) or code.sources[0].sign:
        return None
    return at.make.scratch(FLOAT, (at.word(code.sources[0]),), int("U32" in code.parts))


def _reciprocal(at: Place, code: MachineInstruction) -> int | None:
    if at.is_predicate or code.parts[1:] != ["RCP"] or code.sources[0].sign:
        return None
    value = at.word(code.sources[0])
    node = at.make.graph.nodes[value]
    if node.op is not Op.UNKNOWN or node.name != FLOAT:
        return None
    return at.make.scratch(RECIPROCAL, node.args, node.number)


def _from_float(at: Place, code: MachineInstruction) -> int | None:
    """The reciprocal's bits moved by 0xffffffe, as an integer: just below 2^32 / divisor."""
    if at.is_predicate or code.parts[1:] != ["FTZ", "U32", "TRUNC", "NTZ"] or code.sources[0].sign:
        return None
    node = at.make.graph.nodes[at.word(code.sources[0])]
    if node.op is not Op.ADD or at.make.of(node.args[1]) != 0xFFFFFFE:
        return None
    source = at.make.graph.nodes[node.args[0]]
    return (
        at.make.scratch(ESTIMATE, source.args, source.number)
        if source.op is Op.UNKNOWN and source.name == RECIPROCAL
        else None
    )


MEANINGS: Mapping[Meaning, Maker] = {
    Meaning.COPY: _copy,
    Meaning.ADD: _add,
    Meaning.MULTIPLY: _multiply,
    Meaning.LEA: _lea,
    Meaning.SHIFT: _shift,
    Meaning.FUNNEL: _funnel,
    Meaning.LOGIC: _logic,
    Meaning.SELECT: _select,
    Meaning.MINMAX: _minmax,
    Meaning.ADD_MINMAX: _add_minmax,
    Meaning.ABSOLUTE: _absolute,
    Meaning.COMPARE: _compare,
    Meaning.PREDICATES: _predicates,
    Meaning.FROM_PREDICATES: _from_predicates,
    Meaning.TO_PREDICATE: _to_predicate,
    Meaning.PERMUTE: _permute,
    Meaning.SIGN_EXTEND: _sign_extend,
    Meaning.SPECIAL: _special,
    Meaning.CONSTANT: _constant,
    Meaning.STORED: _stored,
    Meaning.LOADED: _loaded,
    Meaning.SHUFFLE: _shuffle,
    Meaning.HALVES: _halves,
    Meaning.TO_FLOAT: _to_float,
    Meaning.RECIPROCAL: _reciprocal,
    Meaning.FROM_FLOAT: _from_float,
}
