"""Clones: every access of the kernel is tested, with its bytes, kind and line, and nothing else of it changes."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.analysis.kernel import Image
from ptxtools.clone import rewrite
from ptxtools.clone.check import FUNCTION, VARIABLE
from ptxtools.clone.rewrite import _edited
from ptxtools.reader import read
from tests.command import TESSERA_RUN, with_native

RUNNER = Path(__file__).parents[1] / "check" / "clone_runner.py"
READ, WRITE, ATOMIC = range(3)
THREADS, BUFFER_BYTES, TABLES = 40, 4096, 60

MIXED = """.version 7.8 // of the text
.target sm_80
.address_size 64
.visible .global .align 4 .u32 unused;
.func store(.param .b64 to, .param .b32 value)
{
    .reg .b64 %a;
    .reg .b32 %r;
    ld.param.u64 %a, [to];
    ld.param.u32 %r, [value];
    st.global.u16 [%a+2], %r;
    ret;
}
.visible .entry other(.param .u64 buffer)
{
    .reg .b64 %a;
    ld.param.u64 %a, [buffer];
    st.global.u64 [%a], %a;
    ret;
}
.visible .entry mixed(.param .u64 buffer)
{
    .reg .b64 %a<6>;
    .reg .b32 %r<9>;
    .reg .pred %p;
    .shared .align 16 .b8 room[1024];
    ld.param.u64 %a1, [buffer];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %a2, %r1, 16;
    add.u64 %a2, %a1, %a2;
    and.b32 %r2, %r1, 1;
    setp.eq.u32 %p, %r2, 0;
    ld.global.v2.u32 {%r3, %r4}, [%a2];
    {
    .reg .b64 %a2;
    cvta.to.global.u64 %a2, %a1;
    @%p ld.u8 %r3, [%a2+700]; ld.global.u8 %r4, [%a2+701];
    }
    mov.u64 %a3, room;
    cvta.shared.u64 %a3, %a3;
    selp.b64 %a4, %a3, %a2, %p;
    ld.u32 %r5, [%a4];
    @!%p st.global.v4.u8 [%a2+1000], {%r1, %r1, %r1, %r1};
label: atom.global.add.u32 %r6, [%a1+2000], %r1;
    add.u64 %a5, %a2, 2048;
    red.global.max.u64 [%a5+-8], %a1;
    mul.lo.u32 %r7, %r2, 4;
    mov.u32 %r8, room;
    cp.async.ca.shared.global [%r8], [%a2+512], 8, %r7;
    cp.async.wait_all;
    @!%p bra done;
    { .param .b64 to; .param .b32 value;
    st.param.b64 [to], %a2;
    st.param.b32 [value], %r1;
    call.uni store, (to, value); }
done:
    ret;
}
"""


def accesses(thread: int) -> list[tuple[str, int, int, int]]:
    """(Text in the line, kind, offset, bytes) of what MIXED touches."""
    at, odd = 16 * thread, thread % 2
    found = [("ld.global.v2", READ, at, 8), ("ld.global.u8 %r4", READ, 701, 1)]
    found += [("ld.u32", READ, at, 4)] if odd else [("@%p ld.u8", READ, 700, 1)]
    found += [("@!%p st", WRITE, at + 1000, 4)] if odd else []
    found += [("label: atom", ATOMIC, 2000, 4), ("red.global.max", ATOMIC, at + 2040, 8)]
    found += [("cp.async.ca", READ, at + 512, 4 * odd)]
    return found + ([] if odd else [("st.global.u16", WRITE, at + 2, 2)])


def line_of(text: str) -> int:
    (line,) = [number for number, each in enumerate(MIXED.splitlines(), 1) if text in each]
    return line


def is_inside(kind: int, first: int, size: int, table: list[list[int]]) -> bool:
    def covered(at: int) -> bool:
        return any(
            of == kind and low <= at < high and (not stride or (at - low) % stride < width)
            for low, high, stride, width, of in table
        )

    return all(covered(at) for at in range(first, first + size))


def random_table(chance: random.Random) -> list[list[int]]:
    """Of most kinds everything, in pieces; of the others rows, with gaps or without."""
    table = []
    for kind in (READ, WRITE, ATOMIC):
        cuts = sorted(chance.sample(range(1, BUFFER_BYTES), 3))
        pieces = list(zip([0, *cuts], [*cuts, BUFFER_BYTES], strict=True))
        if chance.random() < 0.5:
            del pieces[chance.randrange(len(pieces))]
        for low, high in pieces:
            stride = chance.choice((0, 0, 8, 16, 48))
            table.append([low, high, stride, chance.randint(1, stride) if stride else 0, kind])
            if stride and chance.random() < 0.7:
                table.append([low, high, 0, 0, kind])
    chance.shuffle(table)
    return table


def test_every_access_is_tested(native_build: Path) -> None:
    clone = rewrite(MIXED, read(MIXED), "mixed").text
    chance = random.Random(5)
    tables = [[], [[0, BUFFER_BYTES, 0, 0, kind] for kind in (READ, WRITE, ATOMIC)]]
    tables += [random_table(chance) for _ in range(TABLES)]
    told = {"text": clone, "function": "mixed", "variable": VARIABLE, "buffer_bytes": BUFFER_BYTES, "threads": THREADS}
    done = subprocess.run(
        [TESSERA_RUN, "--emulate", "1", "--no-summary", "--", sys.executable, RUNNER],
        input=json.dumps({**told, "tables": tables}),
        env=with_native(native_build / "native"),
        text=True,
        capture_output=True,
        check=True,
        timeout=60,
    )
    made = [access for thread in range(THREADS) for access in accesses(thread)]
    outsiders = []
    for table, (tested, outside, address, size, what) in zip(tables, json.loads(done.stdout), strict=True):
        wrong = [access for access in made if not is_inside(*access[1:], table)]
        assert (tested, outside) == (len(made), len(wrong))
        outsiders.append(outside)
        if outside:
            assert (address, size, what) in {(first(access, table), access[3], code(access)) for access in wrong}
    assert outsiders[0] == len([access for access in made if access[3]])
    assert outsiders[1] == 0
    assert len(set(outsiders)) > TABLES / 2


def code(access: tuple[str, int, int, int]) -> int:
    return line_of(access[0]) << 2 | access[1]


def first(access: tuple[str, int, int, int], table: list[list[int]]) -> int:
    _, kind, offset, size = access
    return next(at for at in range(offset, offset + size) if not is_inside(kind, at, 1, table))


def test_nothing_else_changes() -> None:
    clone = read(rewrite(MIXED, read(MIXED), "mixed").text)
    module = read(MIXED)
    assert clone.functions["mixed"].parameters == module.functions["mixed"].parameters
    assert [each.opcode for each in clone.functions["other"].body.instructions] == ["ret"]
    for name in ("mixed", "store"):
        kept = [each for each in clone.functions[name].body.instructions if "tsr_" not in repr(each)]
        original = module.functions[name].body.instructions
        assert [(each.opcode, each.guard) for each in kept] == [(each.opcode, each.guard) for each in original]
        assert [clone.functions[name].line(each.offset) for each in kept] == [
            module.functions[name].line(each.offset) for each in original
        ]


def test_old_texts_get_the_version_that_tests_need() -> None:
    old = MIXED.replace(".version 7.8", ".version 6.0")
    assert read(rewrite(old, read(old), "other").text).version == "6.2"
    assert read(rewrite(MIXED, read(MIXED), "other").text).version == "7.8"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ((".address_size 64", ".address_size 32"), "64 bits"),
        (("[%a1+2000]", "[2000]"), "no address in a register"),
        (("call.uni store,", "call.uni %a1,"), "call through a pointer"),
    ],
)
def test_what_cannot_be_rewritten_says_why(change: tuple[str, str], why: str) -> None:
    text = MIXED.replace(*change)
    with pytest.raises(ValueError, match=why):
        rewrite(text, read(text), "mixed")


def test_debugging_information_goes() -> None:
    text = MIXED.replace("done:", "$L__tmp0: .loc 1 5 0, function_name $L__name0\ndone:")
    text += ".section .debug_str\n{\n$L__name0:\n.b8 109\n}\n.section .debug_info { .b64 $L__tmp0\n}\n"
    clone = rewrite(text, read(text), "mixed").text
    assert "$L__name0" not in clone
    assert ".debug" not in clone
    assert clone.count("\n") == text.count("\n")


def with_line_numbers(text: str) -> str:
    """As -lineinfo leaves them, in the bodies of all functions."""
    return re.sub(
        r"^(    .*;)$", r".loc 1 7 3, function_name $L__name0, inlined_at 1 9 9\n\1", text, flags=re.MULTILINE
    )


@pytest.mark.parametrize("name", ["mixed", "other"])
def test_line_numbers_go_from_all_functions(name: str) -> None:
    text = with_line_numbers(MIXED)
    assert all(".loc" in text[each.begin : each.end] for each in read(text).kernels)
    blank = re.sub(r"\.loc.*", "", text)
    assert rewrite(text, read(text), name) == rewrite(blank, read(blank), name)


@pytest.mark.parametrize("target", ["sm_80, debug", "sm_80,debug", "sm_80, debug, texmode_unified"])
def test_the_target_asks_for_no_debugging_information(target: str) -> None:
    """An assembler refuses a text that has none, then."""
    text = MIXED.replace(".target sm_80", f".target {target}")
    assert "debug" not in read(rewrite(text, read(text), "mixed").text).target


def test_edits_that_overlap_are_refused() -> None:
    with pytest.raises(ValueError, match="overlap at offset 3"):
        _edited("abcdef", [(1, 5, ""), (3, 4, "")])
    assert _edited("abcdef", [(5, 6, "x"), (1, 5, "")]) == "ax"


USES = {
    "mov.u64 %a2, unused; ld.global.u8 %r4, [%a2];": "@unused",
    "@%p ld.global.u32 %r4, [unused];": "@unused",
    "atom.global.add.u32 %r4, [unused+0], 1;": "@unused",
    "mov.u64 %a2, other_one+4; ld.global.u8 %r4, [%a2]; st.global.u32 [unused], %r4;": "@other_one @unused",
    "ld.const.u32 %r4, [fixed];": "=fixed",
    "ld.global.u8 %r4, [%a2+701];": "",
}
VARIABLES = """.visible .global .align 4 .u32 unused;
.global .align 4 .b8 other_one[8]; .const .u32 fixed = 5; .extern .global .u32 elsewhere;"""


def with_use(use: str) -> str:
    text = MIXED.replace("ld.global.u8 %r4, [%a2+701];", use)
    return text.replace(".visible .global .align 4 .u32 unused;", VARIABLES)


@pytest.mark.parametrize("use", USES)
def test_variables_are_those_of_the_program(use: str) -> None:
    text = with_use(use)
    analysis = Image(text.encode(), 90, ptx_only=True, clones=True).analyse("mixed")
    assert analysis.is_known
    *head, end, clone, rest = analysis.clone.decode().split("\0")
    assert (" ".join(head), end, rest) == (USES[use], "", "")
    body = clone[clone.index("entry mixed") :]
    for name in ("unused", "other_one"):
        assert name not in re.sub(r"//.*", "", body)
    assert FUNCTION in body
    assert clone.count("\n") == text.count("\n")
    assert not Image(text.encode(), 90, ptx_only=True).analyse("mixed").clone


@pytest.mark.parametrize(
    ("use", "why"),
    [
        ("ld.global.u32 %r4, [elsewhere];", "elsewhere is defined in another module"),
        ("add.u64 %a2, %a2, unused;", "add.u64 with the address of a variable"),
        ("st.global.u64 [%a1], unused;", "st.global.u64 with the address of a variable"),
        ("ld.const.u32 %r4, [fixed]; cvta.const.u64 %a2, %a1;", "generic address of a variable in constant memory"),
    ],
)
def test_without_a_clone_there_is_a_reason(use: str, why: str) -> None:
    analysis = Image(with_use(use).encode(), 90, ptx_only=True, clones=True).analyse("mixed")
    assert analysis.is_known
    assert analysis.clone.decode() == f"!{why}\0\0\0"


def test_what_is_not_tested_is_named() -> None:
    copy = "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%r8], [%a1, {%r1}], [%r8];"
    text = MIXED.replace("cp.async.wait_all;", copy)
    assert rewrite(text, read(text), "mixed").to_bytes().startswith(b"!copies through tensor maps\0\0.version")
