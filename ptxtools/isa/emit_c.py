"""Writes the emulated driver's lane operations in C: `python -m ptxtools.isa.emit_c DIRECTORY`.

One file per group of rows, compiled once for each instruction-set level, and `lane_table.c` with the registry's rows.
Rows that compute the same thing share one function. The macros that the files use are in exec/lane/lane.h.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

from ptxtools.isa.row import Form, Rounding, Row
from ptxtools.isa.semantics import ROWS
from ptxtools.isa.types import Type

_HEAD = "/* Generated from the semantics table by ptxtools/isa/emit_c.py. */\n"
_OP = "TSR_LANE_OP({})"
_NAMES = "abcd"
_MODES = {
    Rounding.NEAREST: "TSR_ROUND_NEAREST",
    Rounding.ZERO: "TSR_ROUND_ZERO",
    Rounding.DOWN: "TSR_ROUND_DOWN",
    Rounding.UP: "TSR_ROUND_UP",
}


@dataclass(frozen=True, slots=True)
class Operand:
    """A source as the generated code reads it: the loading macro's suffix and the expression of one element."""

    macro: str
    element: str


def _source(kind: Type, *, raw: bool) -> Operand:
    if kind is Type.PRED:
        return Operand("PRED", "tsr_bit({0}s, l)")
    if kind.element.half and not raw:
        return Operand(kind.value.upper(), "{0}s[l]")
    storage = (kind.raw if raw else kind).storage
    element = "{0}s[l]" if kind.bits >= 16 else f"({kind.carrier}){{0}}s[l]"
    return Operand(f"AS({storage}, {{0}})", element)


def _loads(row: Row, count: int) -> tuple[list[str], list[str]]:
    """Statements that fetch the sources, and declarations of `A`, `B`, ... of one element."""
    before, inside = [], []
    used = " ".join((row.value, row.second, *row.temporaries))
    for name, kind in zip(_NAMES, row.sources[:count], strict=False):
        if row.key.startswith("lop3") and name == "d" and kind is not Type.PRED:
            continue
        if not re.search(rf"\b{name.upper()}\b", used):
            raise ValueError(f"{row.key}: operand {name} is not used")
        operand = _source(kind, raw=row.raw)
        macro = operand.macro.format(name)
        before.append(f"TSR_LOAD_{macro};" if "(" in macro else f"TSR_LOAD_{macro}({name});")
        inside.append(f"const __auto_type {name.upper()} = {operand.element.format(name)};")
    if row.key.startswith("lop3"):
        table = "*(const uint32_t *)(f + i->d)" if row.key == "lop3.b32" else "(uint32_t)i->imm"
        before.append(f"const struct tsr_lop3 table = tsr_lop3_table({table});")
    return before, inside


def _packed(row: Row) -> bool:
    return not row.raw and any(kind.packed for kind in (row.dst, *row.sources))


def _test(row: Row) -> str:
    """Function that evaluates a condition for all lanes into a mask (and, packed, a second one)."""
    before, inside = _loads(row, len(row.sources) - bool(row.combine))
    if _packed(row):
        body = "TSR_TEST_PACKED({ " + " ".join(inside) + f" t = {row.value}; }});"
    else:
        body = "TSR_TEST({ " + " ".join(inside) + f" t = {row.value}; }});"
    return " ".join([*before, body])


def _map(row: Row) -> str:
    before, inside = _loads(row, len(row.sources))
    inside = list(inside) + list(row.temporaries)
    kind = row.dst
    if kind.element.half and not row.raw:
        shape, target = f"TSR_MAP_{kind.value.upper()}", ""
    else:
        storage = Type(f"u{kind.bits}").storage if kind.integer or row.raw else kind.storage
        shape, target = f"TSR_MAP_{'SECOND_' if row.second else ''}{max(kind.bits, 16)}", storage
    work = " ".join(inside)
    second = f" q |= (uint32_t)({row.second}) << l;" if row.second else ""
    storage_argument = f"{target}, " if target else ""
    return " ".join(before) + f" {shape}({storage_argument}{{ {work} r = {row.value};{second} }});"


class _Group:
    """The functions of one C file, shared among rows with the same text."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.text: list[str] = []
        self.functions: list[str] = []
        self._known: dict[str, str] = {}

    def _shared(self, key: str, head: str, body: str) -> str:
        """Name of the function with this body, emitted on first use."""
        name = self._known.get(head + body)
        if name is None:
            name = re.sub(r"\W", "_", key)
            self._known[head + body] = name
            if head == _OP and not body.startswith("TSR_SET"):
                body = f"TSR_FRAME; {body} return i + 1;"
            self.text.append(head.format(name) + "\n{\n    " + body + "\n}\n")
        return name

    def add(self, row: Row) -> int:
        """Index of the row's function in the group's table."""
        if row.form is Form.MASKS:
            loads = "".join(
                f"const uint32_t {n.upper()} = *(const uint32_t *)(f + i->{n}); "
                for n, _ in zip(_NAMES, row.sources, strict=False)
            )
            name = self._shared(row.key, _OP, f"{loads}TSR_MASKS({row.value});")
        elif row.form is Form.MAP:
            name = self._mapped(row)
        else:
            test = self._shared("test_" + row.key, "TSR_LANE_TEST({})", _test(row))
            what = (
                f"TSR_SETP_{row.combine.upper() or 'PLAIN'}"
                if row.form is Form.TEST
                else f"TSR_SET_{row.combine.upper() or 'PLAIN'}"
            )
            packed = "_PACKED" if _packed(row) else ""
            result = "" if row.form is Form.TEST else f", {max(row.dst.bits, 16)}, {_one(row.dst)}"
            name = self._shared(row.key, _OP, f"{what}{packed}({test}{result});")
        if name not in self.functions:
            self.functions.append(name)
        return self.functions.index(name)

    def _mapped(self, row: Row) -> str:
        if row.rounding is Rounding.NEAREST and not row.flush:
            return self._shared(row.key, _OP, _map(row))
        mode = _MODES[row.rounding] + (" | TSR_FLUSH" if row.flush else "")
        loop = self._shared("loop_" + row.key, "TSR_LANE_LOOP({})", _map(row))
        return self._shared(row.key, _OP, f"TSR_ROUNDED({loop}, {mode});")

    def source(self) -> str:
        table = "".join(f"    {name},\n" for name in self.functions)
        return (
            f'{_HEAD}#include "emulator/exec/lane/lane.h"\n\n'
            + "\n".join(self.text)
            + f"\ntsr_op_fn *const TSR_LANE_NAME({self.name})[] = {{\n{table}}};\n"
        )


def _one(kind: Type) -> str:
    """Bits of a true result."""
    ones = {Type.F32: "0x3f800000u", Type.F16: "0x3c00u", Type.BF16: "0x3f80u"}
    return ones.get(kind, "0xffffu" if kind.bits == 16 else "0xffffffffu")


def _type_name(kind: Type) -> str:
    return f"TSR_T_{kind.name}"


def _registry(rows: list[tuple[Row, str, int]], groups: list[str]) -> str:
    levels = (0, 1, 2)
    lines = [_HEAD, '#include "emulator/exec/lane/lane_table.h"\n\n']
    for level in levels:
        lines += [f"extern tsr_op_fn *const tsr_lane_{group}_{level}[];\n" for group in groups]
    lines.append("\nconst struct tsr_lane_group tsr_lane_groups[] = {\n")
    lines += [f"    {{TSR_LEVELS(tsr_lane_{group})}},\n" for group in groups]
    lines.append("};\n\nconst struct tsr_lane_row tsr_lane_rows[] = {\n")
    for row, group, index in rows:
        sources = ", ".join(_type_name(kind) for kind in row.sources)
        flags = "TSR_OP_LANE" + (" | TSR_OP_DST2" if row.second or row.form is Form.TEST else "")
        lines.append(
            f'    {{{{"{row.key}", 0, 0, {flags}, TSR_C_{row.op_class.name}, {len(row.sources)}, '
            f"{_type_name(row.dst)}, {{{sources}}}, 1}}, {groups.index(group)}, {index}}},\n"
        )
    lines.append(f"}};\nconst uint32_t tsr_lane_row_count = {len(rows)};\n")
    return "".join(lines)


GROUPS = tuple(dict.fromkeys(row.group for row in ROWS))


def _write(path: Path, text: str) -> None:
    """Leaves an unchanged file alone, so that what is made from it is not made again."""
    if not path.exists() or path.read_text(encoding="ascii") != text:
        path.write_text(text, encoding="ascii")


def generate(directory: Path) -> None:
    groups = {name: _Group(name) for name in GROUPS}
    rows = [(row, row.group, groups[row.group].add(row)) for row in ROWS]
    directory.mkdir(parents=True, exist_ok=True)
    for name, group in groups.items():
        _write(directory / f"lane_{name}.c", group.source())
    _write(directory / "lane_table.c", _registry(rows, list(groups)))


if __name__ == "__main__":
    if sys.argv[1] == "--groups":
        print(";".join(GROUPS))
    else:
        generate(Path(sys.argv[1]))
