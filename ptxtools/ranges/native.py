"""The evaluator (interpose/access): the same that runs in the application's process."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from cffi import FFI

from ptxtools import native
from ptxtools.access import flat
from ptxtools.access.template import AccessKind, Template
from ptxtools.native import records
from ptxtools.ranges.box import boxes
from ptxtools.ranges.launch import Launch, Range, Result
from ptxtools.ranges.tensor import MAP_BYTES, address_of

LIBRARY = "access/libtessera_access.so.1"
_FUNCTIONS = """
struct tsr_access *tsr_access_create(const void *bytes, size_t size, uint32_t memo_entries);
void tsr_access_destroy(struct tsr_access *access);
void tsr_access_evaluate(struct tsr_access *access, const struct tsr_access_launch *launch, void *scratch,
                         size_t scratch_bytes, struct tsr_access_result *result);
"""
_RANGES = 2048
_WHYS = 1024
_MEMO_ENTRIES = 16
_REASONS = {
    "TSR_WHY_LOADED": "pointer loaded from memory",
    "TSR_WHY_NO_BASE": "address without a known base",
    "TSR_WHY_PRIVATE": "private memory in a global access",
    "TSR_WHY_BUDGET": "too much to be evaluated",
    "TSR_WHY_TENSOR": "tensor map of an unknown tensor",
    "TSR_WHY_MAP": "tensor map in memory",
}
_KINDS = tuple(AccessKind)
MANY = "more unknown accesses than are told"


class Library:
    """The functions, and room for one evaluation. Not for several threads at a time."""

    def __init__(self, path: Path) -> None:
        self.ffi = FFI()
        _, text = records.header("access.h")
        self.ffi.include(records.parsed("access.h"))
        self.ffi.cdef(_FUNCTIONS)
        self.functions: Any = self.ffi.dlopen(str(path))
        self.scratch_bytes = records.constant(text, "TSR_ACCESS_SCRATCH_BYTES", "access.h")
        self.scratch = self.ffi.new("long double[]", self.scratch_bytes // self.ffi.sizeof("long double"))
        self.result = _new(self.ffi, "struct tsr_access_result *")
        self.ranges = self.ffi.new("struct tsr_access_range[]", _RANGES)
        self.result.ranges, self.result.capacity = self.ranges, _RANGES
        self.whys = self.ffi.new("struct tsr_access_why[]", _WHYS)
        self.result.every, self.result.room = self.whys, _WHYS
        reasons = self.ffi.typeof("enum tsr_access_reason").relements
        self.reasons = {reasons[name]: text for name, text in _REASONS.items()}


def _new(ffi: FFI, declaration: str) -> Any:
    """Memory for a C type; a type checker knows nothing of its members."""
    return ffi.new(declaration)


@cache
def library() -> Library:
    """The library of this installation. Errors: InternalError when it is missing."""
    return Library(native.file(LIBRARY))


class Evaluator:
    """A template for C. `level`, `remembered` and `steps` are those of the last evaluation (tessera/access.h).

    With a memo, an evaluation ends at the first access that is unknown. Errors: ValueError when the template is
    refused.
    """

    def __init__(self, template: bytes | Template, memo: bool = False, steps: int = 0) -> None:
        data = flat.write(template) if isinstance(template, Template) else template
        self.level, self.remembered, self.steps = 0, False, 0
        self._names = flat.symbols(data)
        self._library = library()
        functions, ffi = self._library.functions, self._library.ffi
        made = functions.tsr_access_create(data, len(data), _MEMO_ENTRIES if memo else 0)
        if made == ffi.NULL:
            raise ValueError("the evaluator refuses the template")
        self._access = ffi.gc(made, functions.tsr_access_destroy)
        self._launch = _new(ffi, "struct tsr_access_launch *")
        self._launch.options = 0 if memo else 1  # TSR_ACCESS_ALL_REASONS
        self._launch.steps = steps

    def evaluate(self, launch: Launch) -> Result:
        """The ranges of a launch."""
        library, given = self._library, self._launch
        ffi, result = library.ffi, library.result
        parameters = ffi.from_buffer(launch.parameters)
        symbols = ffi.new("uint64_t[]", [launch.variables.get(name, 0) for name in self._names] or 1)
        allocation = ffi.callback("int(void *, uint64_t, uint64_t *, uint64_t *)", _asked(launch))
        tensor = ffi.callback("uint32_t(*)(void *, const void *, struct tsr_access_range *)", _described(launch, ffi))
        given.tensor = tensor
        given.grid, given.block = list(launch.grid), list(launch.block)
        given.parameters, given.parameter_bytes = parameters, len(launch.parameters)
        given.symbols, given.allocation = symbols, allocation
        library.functions.tsr_access_evaluate(self._access, given, library.scratch, library.scratch_bytes, result)
        self.level, self.remembered, self.steps = result.level, bool(result.remembered), result.steps
        whys = {self._why(library.whys[number]) for number in range(min(result.whys, _WHYS))}
        if result.whys > _WHYS:
            whys.add((0, MANY))
        return Result([self._range(library.ranges[number]) for number in range(result.count)], sorted(whys))

    def _why(self, why: Any) -> tuple[int, str]:
        ffi = self._library.ffi
        text: Any = ffi.string(why.text) if why.text != ffi.NULL else self._library.reasons[why.reason].encode()
        return why.line, text.decode()

    def _range(self, of: Any) -> Range:
        parameter = of.parameter if of.parameter >= 0 else None
        variable = self._names[of.symbol] if of.symbol >= 0 else None
        ends = (of.first, of.last, of.stride, of.width)
        flags = (bool(of.whole), bool(of.overwritten), bool(of.scratch))
        return Range(_KINDS[of.kind], parameter, variable, of.base, *ends, *flags)


def _described(launch: Launch, ffi: FFI) -> Callable[[Any, Any, Any], int]:
    """The launch's tensors, as C asks for them."""

    def tensor(_: Any, tensor_map: Any, ranges: Any) -> int:
        raw = bytes(ffi.buffer(tensor_map, MAP_BYTES))
        found = launch.tensor(raw)
        if found is None:
            ranges[0].base, ranges[0].whole = address_of(raw), 1
            return 1
        count = 0
        for count, ends in enumerate(boxes(found.dims, found.strides, found.element_bytes), start=1):
            to = ranges[count - 1]
            to.base, to.whole = found.address, 0
            to.first, to.last, to.stride, to.width = ends
        return count

    return tensor


def _asked(launch: Launch) -> Callable[[Any, int, Any, Any], int]:
    """The launch's allocations, as C asks for them."""

    def allocation(_: Any, address: int, begin: Any, end: Any) -> int:
        found = launch.allocation(address)
        if found is None:
            return 0
        begin[0], end[0] = found
        return 1

    return allocation


def evaluate(template: Template, launch: Launch) -> Result:
    """The ranges of one launch; unknown of a template that is too large. Of several launches, keep an Evaluator."""
    try:
        evaluator = Evaluator(template)
    except ValueError as problem:
        return Result([], [(0, str(problem))])
    return evaluator.evaluate(launch)
