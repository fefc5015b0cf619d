"""What instructions compute: for each meaning of the table, the node of one of an instruction's results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ptxtools.machine.instruction import MachineInstruction
from ptxtools.machine.meanings import adding, bits, comparing, moving, sources
from ptxtools.machine.table import Meaning

if TYPE_CHECKING:
    from ptxtools.machine.values import Place

Maker = Callable[["Place", MachineInstruction], "int | None"]

MEANINGS: Mapping[Meaning, Maker] = {
    Meaning.COPY: sources.copied,
    Meaning.ADD: adding.add,
    Meaning.MULTIPLY: adding.multiply,
    Meaning.LEA: adding.lea,
    Meaning.SHIFT: moving.shift,
    Meaning.FUNNEL: moving.funnel,
    Meaning.LOGIC: bits.by_logic,
    Meaning.SELECT: comparing.select,
    Meaning.MINMAX: comparing.minmax,
    Meaning.ADD_MINMAX: comparing.add_minmax,
    Meaning.ABSOLUTE: comparing.absolute,
    Meaning.COMPARE: comparing.compare,
    Meaning.PREDICATES: bits.predicates,
    Meaning.FROM_PREDICATES: bits.from_predicates,
    Meaning.TO_PREDICATE: bits.to_predicate,
    Meaning.PERMUTE: moving.permute,
    Meaning.SIGN_EXTEND: moving.sign_extend,
    Meaning.SPECIAL: sources.special,
    Meaning.CONSTANT: sources.constant,
    Meaning.STORED: sources.stored,
    Meaning.LOADED: sources.loaded,
    Meaning.SHUFFLE: sources.shuffle,
    Meaning.HALVES: sources.half_of,
    Meaning.TO_FLOAT: sources.to_float,
    Meaning.RECIPROCAL: sources.reciprocal,
    Meaning.FROM_FLOAT: sources.from_float,
}
