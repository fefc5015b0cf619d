"""Reading PTX: what compilers write, what people write, and what is wrong with a place."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptxtools.errors import PtxError
from ptxtools.reader import Address, Group, Instruction, Number, Register, Symbol, read
from ptxtools.reader.operand import parse

CORPUS = sorted((Path(__file__).parents[1] / "corpus" / "ptx").glob("*.ptx"))
STATEMENT = re.compile(r"^[ \t{]*(?:@!?%\w+[ \t]+)?(?!param|prototype)[a-z][\w.]*(?=[ \t;])", re.MULTILINE)
HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"


def whole(text: str) -> int:
    """Reads everything; the result is how many operands there are."""
    count = 0
    for function in read(text).functions.values():
        count += len(function.parameters)
        for instruction in function.body.instructions:
            with contextlib.suppress(ValueError):
                count += len(instruction.operands)
    return count


def body(text: str) -> list[Instruction]:
    return read(f"{HEAD}.entry k() {{\n{text}\n}}").functions["k"].body.instructions


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_the_corpus_reads_as_many_instructions_as_it_has_statements(path: Path) -> None:
    text = path.read_text()
    module = read(text)
    count = sum(len(function.body.instructions) for function in module.functions.values() if function.has_body)
    assert count == len(STATEMENT.findall(text))


def test_header_and_parameters() -> None:
    text = (
        HEAD
        + ".visible .entry k(.param .u8 a, .param .align 8 .b8 s[20], .param .u64 .ptr .global .align 1 p) { ret; }"
    )
    module = read(text)
    assert (module.version, module.target) == ("8.0", "sm_80")
    found = [(each.name, each.index, each.offset, each.size) for each in module.kernels[0].parameters]
    assert found == [("a", 0, 0, 1), ("s", 1, 8, 20), ("p", 2, 32, 8)]


def test_variables_of_a_module() -> None:
    text = (
        HEAD
        + '.global .align 4 .b8 a[16] = {1, 2};\n.const .f32 b;\n.extern .shared .align 16 .b8 c[];\n.file 1 "x//y"\n'
    )
    found = {each.name: (each.space, each.size) for each in read(text).variables.values()}
    assert found == {"a": ("global", 16), "b": ("const", 4), "c": ("shared", 0)}


def test_a_definition_replaces_its_declaration() -> None:
    module = read(HEAD + ".func f();\n.func (.param .b32 r) f(.param .b32 x) { ret; }\n.extern .func g;\n")
    assert module.functions["f"].has_body
    assert not module.functions["g"].has_body


def test_comments_keep_the_place_of_what_follows() -> None:
    with pytest.raises(PtxError) as caught:
        body("/* two\nlines */ // more ; }\n  ??;").clear()
    assert (caught.value.line, caught.value.column) == (7, 3)


def test_guards_and_statements_without_indentation() -> None:
    first, second = body(".loc 1 2 3\n@!%p1 ld.global.v2.u32{%r1,_},[%rd1+-4];bar.sync 0;")
    assert (first.guard, first.guard_negated, first.opcode) == ("%p1", True, "ld.global.v2.u32")
    assert first.operands == [Group((Register("%r1"), Register("_")), "{"), Address("%rd1", -4)]
    assert second.operands == [Number(0)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[ %rd1 + 0 ]", Address("%rd1", 0)),
        ("[k_param_0]", Address("k_param_0", 0)),
        ("[0x10]", Address(None, 16)),
        ("[%rd1-340]", Address("%rd1", -340)),
        ("[map, {%r1, %r2}]", Address("map", 0, ("{%r1, %r2}",))),
        ("!%p3", Register("%p3", True)),
        ("-17", Number(-17)),
        ("0xFFU", Number(255)),
        ("0b101", Number(5)),
        ("0f3F800000", Number(None)),
        ("shared+8", Symbol("shared", 8)),
        ("%r1|%p1", Group((Register("%r1"), Register("%p1")), "|")),
        ("()", Group((), "(")),
    ],
)
def test_operands(text: str, expected: object) -> None:
    assert parse(text) == expected


def test_registers_of_nested_scopes_are_told_apart() -> None:
    code = body(
        ".reg .b32 %r<4>;\nmov.u32 %r1, 1;\n{ .reg .pred p; .reg .b32 %r1; setp.eq.s32 p, %r1, %r2; }\n"
        "{ .reg .pred p; @p mov.u32 %r1, 2; }"
    )
    assert code[1].operands == [Register("p#1"), Register("%r1#1"), Register("%r2")]
    assert (code[2].guard, code[2].operands[0]) == ("p#2", Register("%r1"))


def test_labels_belong_to_their_scope() -> None:
    function = read(HEAD + ".entry k() { L: { L: bra L; } bra L; }").functions["k"]
    assert [each.operand_texts for each in function.body.instructions] == [["L#1"], ["L"]]
    assert function.body.labels == {"L": 0, "L#1": 0}


def test_register_types() -> None:
    function = read(HEAD + ".entry k() { .reg .b32 %r<3>; .reg .pred q; ret; }").functions["k"]
    assert [function.body.register_type(name) for name in ("%r2", "q", "%rd1")] == ["b32", "pred", None]


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("", 1, 1, "no .version"),
        (".version 8.0\nentry", 2, 1, "'entry' is no directive"),
        (HEAD + ".entry k() { ret;", 4, 12, "never closed"),
        (HEAD + ".entry k() { ret }", 4, 14, "without semicolon"),
        (HEAD + ".entry k() { bra L; }", 4, 14, "no label L"),
        (HEAD + ".entry k() { L: ret; L: ret; }", 4, 22, "label L is there twice"),
        (HEAD + ".entry k() {\n .reg .b32 %r<2;\n}", 5, 2, "no register"),
        (HEAD + ".entry k(.param .u64) { ret; }", 4, 9, "no parameter"),
        (HEAD + ".global .b32 = 3;", 4, 1, "no variable"),
        (HEAD + ".entry k() { } }", 4, 16, "no directive"),
    ],
)
def test_errors_name_their_place(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(PtxError, match=message) as caught:
        whole(text)
    assert (caught.value.line, caught.value.column) == (line, column)


@settings(max_examples=40, deadline=2000)
@given(st.data())
def test_damaged_text_is_read_or_refused(data: st.DataObject) -> None:
    """Anything but a PtxError fails; so does taking longer than two seconds."""
    text = data.draw(st.sampled_from(CORPUS)).read_text()[:12000]
    for _ in range(data.draw(st.integers(1, 4))):
        begin = data.draw(st.integers(0, len(text)))
        end = min(len(text), begin + data.draw(st.integers(0, 40)))
        inserted = data.draw(
            st.sampled_from(["", "{", "}", ";", '"', "/*", "[", "(", ",", "@", ".reg", ":", "\0", "<9"])
        )
        text = text[:begin] + inserted + text[end:]
    with contextlib.suppress(PtxError):
        assert whole(text) >= 0
