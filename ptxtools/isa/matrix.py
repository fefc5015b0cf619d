"""Matrix operations of a warp: which exist, and the C expression that carries each out.

`python -m ptxtools.isa.matrix FILE` writes the emulator's table. What the operations do is hand-written in exec/matrix;
here is only the enumeration of shapes, types and layouts.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ptxtools.isa.row import dotted


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """`call` is evaluated in a function of (w, i, m); `work` counts multiply-adds per warp divided by 32."""

    key: str
    call: str
    op_class: str
    work: int = 1


_Shape = tuple[int, int, int]
_SPAN = {"f16": 2, "bf16": 2, "s8": 4, "u8": 4, "e4m3": 4, "e5m2": 4, "tf32": 1, "f64": 1}
_BYTES = {"f16": 2, "bf16": 2, "s8": 1, "u8": 1, "tf32": 4, "f64": 8, "f32": 4, "s32": 4}
_CLASS = {
    "f16": "MMA_F16",
    "bf16": "MMA_F16",
    "tf32": "MMA_TF32",
    "s8": "MMA_S8",
    "u8": "MMA_S8",
    "e4m3": "MMA_S8",
    "e5m2": "MMA_S8",
    "f64": "MMA_F64",
}
_WIDE_SHAPES: tuple[_Shape, ...] = ((16, 16, 16), (32, 8, 16), (8, 32, 16))
_LAYOUTS = ("row", "col")


def _name(shape: _Shape) -> str:
    return "m{}n{}k{}".format(*shape)


def _input_registers(size: int, kind: str, *, wmma: bool) -> int:
    """Registers of an A or B fragment with `size` elements. wmma's f16 fragments have eight, whatever their size."""
    if wmma and kind == "f16":
        return 8
    return size * min(_BYTES.get(kind, 1), 4) // 128 if kind != "f64" else size // 32


def _multiply(shape: _Shape, kinds: tuple[str, str, str, str], *, wmma: bool, saturate: bool = False) -> str:
    """The call for D = A B + C; kinds are D, A, B, C."""
    m, n, k = shape
    d, a, b, c = kinds
    regs = f"{_input_registers(m * k, a, wmma=wmma)}, {_input_registers(k * n, b, wmma=wmma)}"
    dims = f"{m // 8}, {n // 8}, {k // (4 * _SPAN[a])}"
    if a == "f64":
        return f"tsr_mma_double(w, i, m, {dims})"
    if d == "s32":
        return f"tsr_mma_integer(w, i, m, {dims}, {int(a == 's8')}, {int(b == 's8')}, {int(saturate)}, {regs})"
    halves = f"{int(d == 'f16')}, {int(c == 'f16')}"
    return (
        f"tsr_mma_float(w, i, m, {dims}, {_SPAN[a]}, TSR_MATRIX_{a.upper()}, TSR_MATRIX_{b.upper()}, {halves}, {regs})"
    )


def _work(shape: _Shape) -> int:
    return shape[0] * shape[1] * shape[2] // 32


_MMA: tuple[tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...], tuple[_Shape, ...]], ...] = (
    # (A, B), (D, C), shapes
    ((("f16", "f16"),), (("f16", "f16"), ("f32", "f32")), ((16, 8, 8), (16, 8, 16))),
    ((("bf16", "bf16"),), (("f32", "f32"),), ((16, 8, 8), (16, 8, 16))),
    ((("tf32", "tf32"),), (("f32", "f32"),), ((16, 8, 4), (16, 8, 8))),
    ((("f64", "f64"),), (("f64", "f64"),), ((8, 8, 4), (16, 8, 4), (16, 8, 8), (16, 8, 16))),
    (
        tuple((a, b) for a in ("s8", "u8") for b in ("s8", "u8")),
        (("s32", "s32"),),
        ((8, 8, 16), (16, 8, 16), (16, 8, 32)),
    ),
    (
        tuple((a, b) for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")),
        (("f32", "f32"), ("f16", "f16")),
        ((16, 8, 16), (16, 8, 32)),
    ),
)


def _mma() -> Iterator[MatrixRow]:
    for inputs, outputs, shapes in _MMA:
        for a, b in inputs:
            for d, c in outputs:
                for shape in shapes:
                    for modifier in {"s32": ("", "satfinite"), "f64": ("", "rn")}.get(d, ("",)):
                        key = dotted("mma.sync.aligned", _name(shape), "row.col", modifier, d, a, b, c)
                        call = _multiply(shape, (d, a, b, c), wmma=False, saturate=modifier == "satfinite")
                        yield MatrixRow(key, call, _CLASS[a], _work(shape))


def _wmma_shapes(kind: str) -> tuple[_Shape, ...]:
    return {"tf32": ((16, 16, 8),), "f64": ((8, 8, 4),)}.get(kind, _WIDE_SHAPES)


def _wmma_mma() -> Iterator[MatrixRow]:
    for layouts in (f"{a}.{b}" for a in _LAYOUTS for b in _LAYOUTS):
        for kind in ("f16", "bf16", "tf32", "s8", "u8", "f64"):
            for shape in _wmma_shapes(kind):
                head = ("wmma.mma.sync.aligned", layouts, _name(shape))
                if kind == "f16":
                    for d in ("f16", "f32"):
                        for c in ("f16", "f32"):
                            for finite in ("", "satfinite"):
                                yield MatrixRow(
                                    dotted(*head, d, c, finite),
                                    _multiply(shape, (d, kind, kind, c), wmma=True),
                                    "MMA_F16",
                                    _work(shape),
                                )
                    continue
                result = {"s8": "s32", "u8": "s32", "f64": "f64"}.get(kind, "f32")
                types = dotted(result, kind, kind, result)
                for rounding, finite in {"s32": (("", ""), ("", "satfinite")), "f64": (("", ""), ("rn", ""))}.get(
                    result, (("", ""),)
                ):
                    call = _multiply(shape, (result, kind, kind, result), wmma=True, saturate=bool(finite))
                    yield MatrixRow(dotted(*head, rounding, types, finite), call, _CLASS[kind], _work(shape))


def _fragment(role: str, shape: _Shape, kind: str, layout: str, space: str) -> str:
    m, n, k = shape
    rows, columns = {"a": (m, k), "b": (k, n), "c": (m, n)}[role]
    span = 2 if role == "c" else _SPAN[kind]
    if role == "c":
        registers = rows * columns // (64 if kind == "f16" else 32)
    else:
        registers = _input_registers(rows * columns, kind, wmma=True)
    where = {"": "TSR_SPACE_GENERIC", "global": "TSR_SPACE_GLOBAL", "shared": "TSR_SPACE_SHARED"}[space]
    return (
        f"&(const struct tsr_fragment){{{rows}, {columns}, {span}, {_BYTES[kind]}, {registers}, {int(role == 'b')}, "
        f"{int(layout == 'col')}, {where}}}"
    )


def _wmma_memory() -> Iterator[MatrixRow]:
    for space in ("", "global", "shared"):
        op_class = "SHARED" if space == "shared" else "MEMORY"
        for layout in _LAYOUTS:
            for kind in ("f16", "bf16", "tf32", "s8", "u8", "f64"):
                for shape in _wmma_shapes(kind):
                    for role in "ab":
                        key = dotted(f"wmma.load.{role}.sync.aligned", layout, _name(shape), space, kind)
                        fragment = _fragment(role, shape, kind, layout, space)
                        yield MatrixRow(key, f"tsr_fragment_load(w, i, m, {fragment})", op_class)
            for kind in ("f16", "f32", "s32", "f64"):
                shapes = {"f64": _wmma_shapes("f64"), "f32": (*_WIDE_SHAPES, *_wmma_shapes("tf32"))}.get(
                    kind, _WIDE_SHAPES
                )
                for shape in shapes:
                    fragment = _fragment("c", shape, kind, layout, space)
                    tail = dotted("sync.aligned", layout, _name(shape), space, kind)
                    yield MatrixRow(f"wmma.load.c.{tail}", f"tsr_fragment_load(w, i, m, {fragment})", op_class)
                    yield MatrixRow(f"wmma.store.d.{tail}", f"tsr_fragment_store(w, i, m, {fragment})", op_class)


def _eight_by_eight() -> Iterator[MatrixRow]:
    for name in ("ldmatrix", "stmatrix"):
        for count in (1, 2, 4):
            for trans in ("", "trans"):
                for space in ("", "shared"):
                    where = "TSR_SPACE_SHARED" if space else "TSR_SPACE_GENERIC"
                    key = dotted(name, "sync.aligned.m8n8", f"x{count}", trans, space, "b16")
                    yield MatrixRow(key, f"tsr_{name}(w, i, m, {count}, {int(bool(trans))}, {where})", "SHARED")
    yield MatrixRow("movmatrix.sync.aligned.m8n8.trans.b16", "tsr_movmatrix(w, i, m)", "COLLECTIVE")


MATRIX_ROWS: tuple[MatrixRow, ...] = tuple(
    {row.key: row for family in (_mma, _wmma_mma, _wmma_memory, _eight_by_eight) for row in family()}.values()
)


def generate() -> str:
    lines = ["/* Generated by ptxtools/isa/matrix.py. */\n", '#include "emulator/exec/matrix/matrix.h"\n\n']
    functions: dict[str, str] = {}
    for row in MATRIX_ROWS:
        if row.call not in functions:
            functions[row.call] = re.sub(r"\W", "_", row.key)
            lines.append(
                f"static const struct tsr_insn *{functions[row.call]}"
                "(struct tsr_warp *w, const struct tsr_insn *i, uint32_t m)\n"
                f"{{\n    return {row.call};\n}}\n\n"
            )
    lines.append("static const struct tsr_op ops[] = {\n")
    lines += [
        f'    {{.key = "{row.key}", .run = {functions[row.call]}, '
        f".op_class = TSR_C_{row.op_class}, .work = {row.work}}},\n"
        for row in MATRIX_ROWS
    ]
    lines.append("};\n\nconst struct tsr_op_group TSR_LEVELED(tsr_matrix_ops) = {ops, sizeof ops / sizeof *ops};\n")
    return "".join(lines)


if __name__ == "__main__":
    file, text = Path(sys.argv[1]), generate()
    if not file.exists() or file.read_text(encoding="ascii") != text:  # or all that includes it is compiled again
        file.write_text(text, encoding="ascii")
