"""A launch, and what it may read and write."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import gcd, inf

from ptxtools.access.depth import deep
from ptxtools.access.template import IN_MEMORY, Access, AccessKind, Node, Op, Template, TensorAccess
from ptxtools.ranges.box import boxes
from ptxtools.ranges.evaluate import Evaluation
from ptxtools.ranges.form import Form, TooMuchError
from ptxtools.ranges.merge import merged
from ptxtools.ranges.strides import Shape, shape
from ptxtools.ranges.tensor import MAP_BYTES, Tensor, address_of

Allocation = Callable[[int], "tuple[int, int] | None"]
_CHOICES = 16
_ADDRESSES = 1 << 64
_LARGEST = 1 << 40  # bytes; a range beyond is no range
_INDEX = 1 << 31  # what an index of 32 bits spans
TOO_MUCH = "too much to be evaluated"


@dataclass(frozen=True, slots=True)
class Launch:
    """`parameters`: the parameter block. `allocation`: (begin, end) of the allocation that contains an address.

    Neighbouring mappings of one reservation count as one allocation. `variables`: addresses of the module's
    variables, as far as known. `tensor`: what a tensor map's 128 bytes describe; None when that is not known.
    """

    parameters: bytes
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    allocation: Allocation = lambda _: None
    variables: Mapping[str, int] = field(default_factory=dict)
    tensor: Callable[[bytes], Tensor | None] = lambda _: None


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes first to last, offsets from `base`; of these, `width` at every multiple of `stride` from first on (0: all).

    `parameter`: index of the kernel parameter that is the base, or that holds the tensor map of the tensor that is;
    `variable`: name of the module's variable that is. Without either the base is 0. `whole`: little is known but the
    allocation; first and last are its ends, or 0 and -1 when it is not known either.
    """

    kind: AccessKind
    parameter: int | None
    variable: str | None
    base: int
    first: int
    last: int
    stride: int = 0
    width: int = 0
    whole: bool = False

    @property
    def begin(self) -> int:
        return self.base + self.first

    @property
    def end(self) -> int:
        """One past the last byte."""
        return self.base + self.last + 1


@dataclass(slots=True)
class Result:
    """`unknown`: (line, reason) of accesses that may be anywhere. Without any, the ranges hold every access."""

    ranges: list[Range] = field(default_factory=list)
    unknown: list[tuple[int, str]] = field(default_factory=list)


def evaluate(template: Template, launch: Launch) -> Result:
    """The ranges of a launch."""
    try:
        with deep():
            return _Launch(template, launch).result()
    except RecursionError:
        return Result([], [(0, "values depend on each other too deeply")])
    except OverflowError:  # products of products: no program's address is made of them
        return Result([], [(0, "numbers too large to be evaluated")])


class _Launch:
    def __init__(self, template: Template, launch: Launch) -> None:
        self.template, self.launch = template, launch
        self.evaluation = Evaluation(template, launch.parameters, launch.grid, launch.block, launch.variables)
        self.symbols = self.evaluation.symbols
        self.slots = {slot.offset: slot for slot in template.slots}
        self.shapes: dict[tuple[frozenset[tuple[int, int]], int, int], Shape | None] = {}
        self.found: dict[Range, None] = {}
        self.unknown: dict[tuple[int, str], None] = {(u.line, u.reason): None for u in template.unknown}

    def result(self) -> Result:
        for access in self.template.accesses:
            reason = self.bounded(access)
            if reason:
                self.unknown[access.line, reason] = None
        for through in self.template.tensors:
            reason = self.tensor(through)
            if reason:
                self.unknown[through.line, reason] = None
        return Result(merged(self.found), sorted(self.unknown))

    def bounded(self, access: Access) -> str:
        """As `access`; when there was too much work, all of the allocations that the address may begin in."""
        if self.symbols.work >= 0:
            with suppress(TooMuchError):
                return self.access(access)
        found = [self.pointers(way) for way in self.evaluation.bases.of(access.address)]
        if not found or any(len(each) != 1 for each in found):
            return TOO_MUCH
        for ((pointer, address),) in found:
            self.add_whole(access.kind, pointer, address)
        return ""

    def add_whole(self, kind: AccessKind, pointer: int | str, address: int) -> None:
        """All of what a pointer points into: a parameter, by its offset, or a variable's address."""
        slot, variable = (None, pointer) if isinstance(pointer, str) else (self.slot_of(pointer), None)
        size = self.template.sizes.get(variable, 0) if variable is not None else 0
        ends = self.launch.allocation(address) if variable is None else (address, address + size)
        first, last = (0, -1) if ends is None else (ends[0] - address, ends[1] - address - 1)
        self.found[Range(kind, slot, variable, address, first, last, whole=True)] = None

    def pointers(self, way: Collection[Node]) -> list[tuple[int | str, int]]:
        """Offset in the parameter block or name, and value, of what is added up to an address that may be a pointer.

        Empty when that is not known. Of several, only those that point into an allocation count.
        """
        if any((node.op is Op.LOADED and node.width == 64) or node.name in self.template.private for node in way):
            return []
        found: list[tuple[int | str, int]] = []
        for node in way:
            if node.op is Op.SYMBOL:
                found.append((node.name, self.launch.variables.get(node.name, 0)))
            elif node.op is Op.PARAMETER and node.width == 64:
                raw = self.launch.parameters[node.number : node.number + 8]
                found.append((node.number, int.from_bytes(raw, "little")))
        inside = [each for each in found if isinstance(each[0], str) or self.launch.allocation(each[1]) is not None]
        return inside if len(found) > 1 else found

    def access(self, access: Access) -> str:
        """Adds the access' ranges. The result says why there are none, "" when all is well."""
        facts = self.evaluation.facts(access.context)
        if facts is None:
            return ""
        address = self.evaluation.value(access.address)
        forms = self.choices(address)
        for form in forms:
            reason = self.form(access, form.moved(access.displacement), facts)
            if reason:
                return reason
        return ""

    def tensor(self, access: TensorAccess) -> str:
        """Adds the tensor that a map in the parameter block describes. The result is as that of `access`."""
        if self.symbols.work >= 0 and self.is_never(access.context):
            return ""
        if access.offset == IN_MEMORY:
            return "tensor map in memory"
        raw = self.launch.parameters[access.offset : access.offset + MAP_BYTES]
        if len(raw) < MAP_BYTES:
            return "tensor map outside of the parameters"
        slot, tensor = self.slot_of(access.offset), self.launch.tensor(raw)
        if tensor is not None:
            for first, last, stride, width in boxes(tensor.dims, tensor.strides, tensor.element_bytes):
                found = Range(access.kind, slot, None, tensor.address, first, last, stride, width)
                self.found[found] = None
            return ""
        address = address_of(raw)
        bounds = self.launch.allocation(address)
        if bounds is None:
            return "tensor map of an unknown tensor"
        first, last = bounds[0] - address, bounds[1] - address - 1
        self.found[Range(access.kind, slot, None, address, first, last, whole=True)] = None
        return ""

    def is_never(self, context: int) -> bool:
        """Whether the launch never gets there, as far as the work allows to find out."""
        with suppress(TooMuchError):
            return self.evaluation.facts(context) is None
        return False

    def choices(self, form: Form) -> list[Form]:
        """The form for each of the pointers that it may begin with."""
        done: list[Form] = []
        pending = [form]
        while pending:
            if len(done) + len(pending) > _CHOICES:
                return [form]
            each = pending.pop()
            found = next(
                (n for n, c in each.terms.items() if c == 1 and self.symbols.all[n].choices),
                None,
            )
            if found is None:
                done.append(each)
            else:
                without = each.plus(Form(0, {found: 1}), -1)
                pending += [without.plus(choice) for choice in self.symbols.all[found].choices]
        return done

    def form(self, access: Access, form: Form, facts: list[Form]) -> str:
        if self.is_private(form):
            return "" if access.generic else "private memory in a global access"
        size = self.size(access, facts)
        if size == 0:
            return ""
        base, offset = self.based(form)
        if base is None and any(self.symbols.all[n].loaded for n in offset.terms):
            return "pointer loaded from memory"
        if size is None:
            return self.whole(access, base)
        found = self.shape(offset, access.context, facts, size)
        if found is not None and access.rows > 1:
            found = self.repeated(access, found, facts)
        anywhere = found is None or self.is_anywhere(offset, found.last - found.first)
        if found is None or (anywhere and (base is None or self.allocation(base) is None)):
            return self.whole(access, base)
        placed = self.placed(base, found)
        if placed is None:
            return self.whole(access, base)
        self.add(access.kind, base, placed, anywhere)
        return ""

    def shape(self, offset: Form, context: int, facts: list[Form], size: int) -> Shape | None:
        """Found once for addresses that differ by a number."""
        key = (frozenset(offset.terms.items()), context, size)
        if key not in self.shapes:
            self.shapes[key] = shape(self.symbols, Form(0, offset.terms), facts, size)
        found = self.shapes[key]
        return None if found is None else found.moved(offset.constant)

    def is_anywhere(self, offset: Form, length: int) -> bool:
        """Whether the bounds only say how many bits an index has."""
        symbols = (self.symbols.all[number] for number in offset.terms)
        return length >= _LARGEST or (
            length >= _INDEX and any(symbol.high - symbol.low >= _INDEX - 1 for symbol in symbols)
        )

    def is_private(self, form: Form) -> bool:
        """Whether the address is one of shared, local or parameter memory."""
        bases = [n for n, c in form.terms.items() if c == 1 and self.is_pointer(n)]
        others = [n for n in bases if self.symbols.all[n].variable not in self.template.private]
        return len(bases) > len(others) and not any(self.allocation(n) for n in others)

    def size(self, access: Access, facts: list[Form]) -> int | None:
        """Bytes of one access at most; None when there is no bound."""
        if access.length < 0:
            return access.size
        value = self.evaluation.viewed(access.length, 32, False, access.context)
        high = self.evaluation.upper(value, facts)
        return None if high == inf else max(0, int(high))

    def repeated(self, access: Access, found: Shape, facts: list[Form]) -> Shape | None:
        """The rows of matrices, `pitch` bytes apart.

        Those of one that has a stride are on a common grid with it, or all inside of each step.
        """
        pitch = self.evaluation.value(access.pitch)
        low, high = self.evaluation.lower(pitch, facts), self.evaluation.upper(pitch, facts)
        if low < 0 or high == inf:
            return None
        last = found.last + (access.rows - 1) * int(high)
        step = gcd(found.stride, int(high))
        width = found.width if found.stride else found.last - found.first + 1
        all_rows = width + (access.rows - 1) * int(high)
        if low == high and width < step:
            return Shape(found.first, last, step, width, found.size)
        if all_rows < found.stride:
            return Shape(found.first, last, found.stride, all_rows, found.size)
        return Shape(found.first, last, 0, 0, found.size)

    def based(self, form: Form) -> tuple[int | None, Form]:
        """(symbol of the pointer that the address begins with, the rest). None without a single such pointer."""
        found = [n for n, c in form.terms.items() if c == 1 and self.is_pointer(n)]
        if len(found) > 1:
            inside = [n for n in found if self.allocation(n) is not None]
            found = inside or found
        if len(found) != 1:
            return None, form
        return found[0], form.plus(Form(0, {found[0]: 1}), -1)

    def is_pointer(self, number: int) -> bool:
        symbol = self.symbols.all[number]
        return symbol.slot is not None or symbol.variable is not None

    def allocation(self, number: int) -> tuple[int, int] | None:
        symbol = self.symbols.all[number]
        if symbol.variable is not None:
            address = self.launch.variables.get(symbol.variable, 0)
            size = self.template.sizes.get(symbol.variable, 0)
            return (address, address + size) if size else None
        return self.launch.allocation(int(symbol.low))

    def whole(self, access: Access, base: int | None) -> str:
        """All of the allocation that the pointer points into: a program does not leave it."""
        if base is None:
            return "address without a known base"
        bounds = self.allocation(base)
        address = self.address(base)
        first, last = (0, -1) if bounds is None else (bounds[0] - address, bounds[1] - address - 1)
        self.found[self.range(access.kind, base, first, last, 0, 0, True)] = None
        return ""

    def address(self, number: int) -> int:
        symbol = self.symbols.all[number]
        if symbol.variable is not None:
            return self.launch.variables.get(symbol.variable, 0)
        return int(symbol.low)

    def placed(self, base: int | None, found: Shape) -> Shape | None:
        """Where the machine, which adds modulo 2^64, finds the bytes: below the base, too. None when they go round."""
        least = 0 if base is None else -_ADDRESSES // 2
        moved = found.moved((found.first - least) % _ADDRESSES + least - found.first)
        return moved if moved.last < least + _ADDRESSES else None

    def add(self, kind: AccessKind, base: int | None, found: Shape, anywhere: bool) -> None:
        first, last, stride, width = found.first, found.last, found.stride, found.width
        if base is not None:
            first, last, kept = self.clamped(base, first, last)
            stride, width = (stride, width) if kept else (0, 0)
            if first > last:
                return
        self.found[self.range(kind, base, first, last, stride, width, anywhere)] = None

    def clamped(self, base: int, first: int, last: int) -> tuple[int, int, bool]:
        """First and last within the allocation, and whether first stayed."""
        bounds = self.allocation(base)
        if bounds is None:
            return first, last, True
        address = self.address(base)
        begin = max(first, bounds[0] - address)
        return begin, min(last, bounds[1] - address - 1), begin == first

    def range(
        self, kind: AccessKind, base: int | None, first: int, last: int, stride: int, width: int, whole: bool
    ) -> Range:
        if base is None:
            return Range(kind, None, None, 0, first, last, stride, width, whole)
        symbol = self.symbols.all[base]
        if symbol.variable is not None:
            return Range(kind, None, symbol.variable, self.address(base), first, last, stride, width, whole)
        slot = self.slot_of(symbol.slot or 0)
        return Range(kind, slot, None, self.address(base), first, last, stride, width, whole)

    def slot_of(self, offset: int) -> int | None:
        """The parameter that contains an offset of the block: structs hold pointers too."""
        for slot in self.template.slots:
            if slot.offset <= offset < slot.offset + slot.size:
                return slot.index
        return None
