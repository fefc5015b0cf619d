"""Templates as flat bytes: read back they are the same, and the layout is the one that C has."""

from __future__ import annotations

from pathlib import Path

import pytest
from cffi import FFI

from ptxtools.access import flat
from ptxtools.access.build import build
from ptxtools.access.template import Access, AccessKind, Node, Op, Slot, Template
from ptxtools.native import records
from ptxtools.reader import read

ROOT = Path(__file__).parents[2]
TEXTS = sorted((ROOT / "tests" / "corpus" / "ptx").glob("*.ptx"))
HEADER = (ROOT / "interpose" / "include" / "tessera" / "access.h").read_text()


def templates(text: Path) -> list[Template]:
    module = read(text.read_text())
    return [build(module, function) for function in module.kernels]


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text.name)
def test_a_template_survives(text: Path) -> None:
    for template in templates(text):
        data = flat.write(template)
        again = flat.read(data)
        assert flat.write(again) == data
        assert len(again.nodes) <= len(template.nodes)
        assert [(each.kind, each.size, each.line) for each in again.accesses] == [
            (each.kind, each.size, each.line) for each in template.accesses
        ]


def test_numbers_beyond_63_bits_keep_their_sign() -> None:
    for number in (-1, (1 << 64) - 1, 1 << 63, -(1 << 63), 0):
        access = Access(AccessKind.READ, 0, 0, 4, 0, 1)
        template = Template("k", nodes=[Node(Op.NUMBER, number=number)], accesses=[access])
        assert flat.read(flat.write(template)).nodes == template.nodes


def test_numbers_that_are_too_large() -> None:
    with pytest.raises(ValueError, match="too large"):
        flat.write(Template("k", slots=[Slot(0, 1 << 63, 16)]))


def test_damage_is_noticed() -> None:
    data = flat.write(templates(TEXTS[0])[0])
    for wrong in (data[:-8], data + bytes(8), b"", bytes(len(data)), data[:8] + b"\1" + data[9:]):
        with pytest.raises(ValueError, match="template"):
            flat.read(wrong)


def test_the_layout_is_the_one_of_the_header() -> None:
    ffi = FFI()
    ffi.cdef(records.marked_part(HEADER, "access.h"))
    named = ("parameter", "node", None, "condition", "loop", None, "access", "tensor", "unknown", "symbol", None)
    sizes = [ffi.sizeof(f"struct tsr_access_{name}") if name else None for name in named]
    assert [layout.size if name else None for layout, name in zip(flat.SECTIONS, named, strict=True)] == sizes
    assert ffi.sizeof("struct tsr_access_template") == flat.HEADER.size
    assert records.constant(HEADER, "TSR_ACCESS_MAGIC", "access.h") == flat.MAGIC
    assert records.constant(HEADER, "TSR_ACCESS_VERSION", "access.h") == flat.VERSION
    ops = ffi.typeof("enum tsr_access_op").relements
    assert [ops[f"TSR_OP_{op.name}"] for op in flat.OPS] == list(range(ops["TSR_OPS"]))
    kinds = ffi.typeof("enum tsr_access_kind").relements
    assert [kinds[f"TSR_ACCESS_{kind.name}"] for kind in flat.KINDS] == [0, 1, 2]


def test_the_corpus_of_templates_is_what_is_written_now() -> None:
    kept = sorted((ROOT / "tests" / "corpus" / "access").glob("*.template"))
    found = {template.name: template for text in TEXTS for template in templates(text)}
    assert len(kept) >= 6
    for file in kept:
        name = "_Z3addPKfS0_Pfi" if file.stem == "vector_add" else file.stem
        assert file.read_bytes() == flat.write(found[name]), file.name
