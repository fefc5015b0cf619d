"""What machine code says of a kernel holds what PTX says; what cannot be disassembled says why."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from controlplane.analysis.kernel import Image
from ptxtools.access.graph import Graph
from ptxtools.access.template import IN_MEMORY, AccessKind, Template
from ptxtools.machine import disassembler, logic
from ptxtools.machine.cubin import read
from ptxtools.machine.disassembler import DisassemblyError
from ptxtools.machine.instruction import MachineInstruction
from ptxtools.machine.listing import Listing, want_together
from ptxtools.machine.maker import PREDICATES, Maker
from ptxtools.machine.table import words
from ptxtools.ranges import Launch, evaluate
from ptxtools.reader import read as read_ptx
from tests.instruments import listing
from tests.instruments.against import Code, assemble, verdicts

TEXT = Path(__file__).parents[1] / "corpus" / "ptx" / "nvcc_model.ptx"
COPIES = Path(__file__).parent / "sources" / "tensor_copies.ptx"


DIVIDES = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry divides(.param .u64 into, .param .u64 a, .param .u64 b)
{
    .reg .b64 %d<5>;
    ld.param.u64 %d1, [into];
    ld.param.u64 %d2, [a];
    ld.param.u64 %d3, [b];
    div.OF %d4, %d2, %d3;
    st.global.u64 [%d1], %d4;
    ret;
}
"""


@pytest.mark.parametrize("architecture", [80, 90])
@pytest.mark.usefixtures("native")
def test_machine_code_holds_what_ptx_says(architecture: int, tmp_path: Path) -> None:
    text = tmp_path / TEXT.name
    text.write_text(TEXT.read_text())
    code = Code(assemble(text, architecture, tmp_path))
    found = list(verdicts(text.read_text(), text, code, 2))
    assert {each.name for each in found} == set(code.cubin.kernels)
    assert [each.name for each in found if not each.is_superset] == []
    assert [each.name for each in found if each.machine_unknown] == []
    assert len([each for each in found if each.is_equal]) >= 10


@pytest.mark.full
def test_of_a_large_cubin_only_what_is_wanted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = tmp_path / TEXT.name
    text.write_text(TEXT.read_text())
    data = assemble(text, 90, tmp_path)
    described = read(data)
    name, other = list(described.kernels)[:2]
    whole = Listing(data, described)
    monkeypatch.setattr("ptxtools.machine.listing._SMALL_BYTES", 0)
    part = Listing(data, described)
    assert part.lines(name) == whole.lines(name) is not None
    assert part.lines("nobody") is None
    calls: list[Sequence[int]] = []

    def recorded(cubin: bytes, symbols: Sequence[int] = (), **_: float) -> dict[str, list[disassembler.Line]]:
        if cubin is not data:
            raise DisassemblyError("no excerpts")
        calls.append(symbols)
        return {}

    monkeypatch.setattr("ptxtools.machine.listing.disassemble", recorded)
    part.want([name])
    assert calls == []
    assert part.lines(other) is None
    assert calls == [[described.kernels[other].symbol]]


@pytest.mark.full
def test_several_cubins_are_disassembled_together(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Kernels of one name, and with routines of one name, stay apart."""
    texts = [DIVIDES.replace("OF", each) for each in ("s64", "u64")]
    cubins = [assemble(_written(tmp_path / f"{number}.ptx", text), 90, tmp_path) for number, text in enumerate(texts)]
    alone = [Listing(data, read(data)).lines("divides") for data in cubins]
    assert alone[0] != alone[1]
    assert any("$__internal" in line.operands for lines in alone for line in lines or [])
    together = [Listing(data, read(data)) for data in cubins]
    want_together([(each, ["divides", "nobody"]) for each in together])
    monkeypatch.setenv("TESSERA_NVDISASM", "/nowhere/nvdisasm")
    assert [each.lines("divides") for each in together] == alone


@pytest.mark.full
def test_a_cubin_that_is_damaged_spoils_no_other(tmp_path: Path) -> None:
    data = assemble(_written(tmp_path / "k.ptx", DIVIDES.replace("OF", "s64")), 90, tmp_path)
    described = read(data)
    sound, damaged = Listing(data, described), Listing(data[:-1], described)
    want_together([(sound, ["divides"]), (damaged, ["divides"])])
    assert sound.lines("divides") == Listing(data, described).lines("divides") is not None


def _written(file: Path, text: str) -> Path:
    file.write_text(text)
    return file


@pytest.mark.parametrize("architecture", [90, 100])
def test_tensor_maps_and_bulk_copies(architecture: int, tmp_path: Path) -> None:
    text = tmp_path / "copies.ptx"
    text.write_text(COPIES.read_text().replace("sm_90", f"sm_{architecture}"))
    template = Code(assemble(text, architecture, tmp_path)).template("copies")
    assert template is not None
    assert template.unknown == []
    maps, count = template.slots[1], template.slots[2]
    assert [(each.kind, each.offset - maps.offset) for each in template.tensors] == [
        (AccessKind.READ, 0),
        (AccessKind.READ, 128),
        (AccessKind.WRITE, 128),
        (AccessKind.ATOMIC, 128),
    ]
    values = bytearray(count.offset + 4)
    values[:8], values[count.offset :] = (1 << 40).to_bytes(8, "little"), (800).to_bytes(4, "little")
    whole = (1 << 40, 1 << 41)
    found = evaluate(template, Launch(bytes(values), (1, 1, 1), (32, 1, 1), lambda _: whole))
    assert {(each.kind, each.last) for each in found.ranges if each.parameter == 0} == {
        (AccessKind.WRITE, 255),
        (AccessKind.READ, 799),
        (AccessKind.ATOMIC, 799),
    }


def test_ptx_does_not_say_where_parameters_of_large_alignment_lie(tmp_path: Path) -> None:
    text = COPIES.read_bytes()
    assert not Image(text, 90).analyse("copies").is_known
    assert Image(text, 100).analyse("copies").is_known
    assert Image(text, 90, ptx_only=True).analyse("copies").is_known
    offsets = [each.offset for each in read(assemble(COPIES, 90, tmp_path)).kernels["copies"].slots]
    assert offsets != [each.offset for each in read_ptx(text.decode()).functions["copies"].parameters]


def test_predicates_that_a_register_is_spread_over() -> None:
    instruction = MachineInstruction("R2P", "PR,R10,0x6", "", False, 0)
    assert instruction.written == ["P1", "P2"]
    assert [each.name for each in instruction.sources] == ["R10", ""]
    assert MachineInstruction("UR2UP", "UPR,UR4,0x1", "", False, 0).written == ["UP0"]
    assert MachineInstruction("FCHK", "P0,R10,R11", "", False, 0).written == ["P0"]


def test_asking_for_registers_writes_a_predicate() -> None:
    """The one that the loop around it looks at, and that was something else before."""
    code = """
        ULDC.64 UR4, c[0x0][0x208]
        ULDC UR6, c[0x0][0x220]
        UISETP.GT.U32.AND UP0, UPT, UR6, 0x1, UPT
        PLOP3.LUT P0, PT, PT, PT, UP0, 0x80, 0x0
        @P0 EXIT
        again: USETMAXREG.TRY_ALLOC.CTAPOOL UP0, 0xe8
        PLOP3.LUT P0, PT, PT, PT, UP0, 0x80, 0x0
        @!P0 BRA again
        LDC.64 R2, c[0x0][0x210]
        STG.E desc[UR4][R2.64], R0
    """
    assert listing.ranges(code) == [(0, 3, 0, 0)]
    assert listing.ranges(code, n=2) == []


@pytest.mark.parametrize("place", [0x100, 0x180])
def test_maps_that_a_kernel_makes_are_of_what_it_puts_there(place: int) -> None:
    """Of two maps in shared memory, one is copied to where TMA finds it."""
    made = listing.template(f"""
        ULDC.64 UR8, c[0x0][0x208]
        S2UR UR5, SR_CgaCtaId
        UMOV UR4, 0x400
        ULEA UR4, UR5, UR4, 0x18
        LDC.64 R2, c[0x0][0x218]
        LDG.E.64 R4, desc[UR8][R2.64]
        LDG.E.64 R6, desc[UR8][R2.64+0x8]
        STS.64 [UR4+0x100], R4
        STS.64 [UR4+0x180], R6
        S2R R0, SR_LANEID
        IMAD.SHL.U32 R0, R0, 0x4, RZ
        S2UR UR5, SR_CgaCtaId
        ULEA UR4, UR5, 0x400, 0x18
        LDS R8, [R0+UR4+{place:#x}]
        LDC.64 R2, c[0x0][0x210]
        IMAD.WIDE.U32 R10, R0, 0x1, R2
        ATOMG.E.EXCH.STRONG.GPU PT, RZ, [R10], R8
        ULDC.64 UR6, c[0x0][0x210]
        UTMASTG.2D [UR16], [UR6]
    """)
    assert not made.unknown
    (tensor,) = made.tensors
    first, second = (access.line for access in made.accesses if access.kind is AccessKind.READ and access.size == 8)
    assert (tensor.kind, tensor.offset, tensor.parameters) == (AccessKind.WRITE, IN_MEMORY, ())
    assert tensor.loads == (first if place == 0x100 else second,)


@pytest.mark.parametrize(
    ("opcode", "count"),
    [
        *(("F2I.F64.TRUNC", 1), ("F2I.S64.F64.TRUNC", 2), ("F2I.U64.TRUNC", 2), ("F2I.FTZ.U32.TRUNC.NTZ", 1)),
        *(("I2F.S64", 1), ("I2F.F64.S16", 2), ("F2F.F32.F64", 1), ("F2F.F64.F32", 2), ("FRND.F64.TRUNC", 2)),
    ],
)
def test_registers_that_a_conversion_writes(opcode: str, count: int) -> None:
    assert words(opcode) == count


@pytest.mark.parametrize(
    ("opcode", "count"),
    [
        *(("ATOMS.ADD", 1), ("ATOMS.CAST.SPIN.64", 2), ("ATOMG.E.MAX.S64.STRONG.GPU", 2)),
        *(("ATOMG.E.ADD.F64.RN.STRONG.GPU", 2), ("ATOMG.E.ADD.F32x4.FTZ.RN.STRONG.GPU", 4), ("LDG.E.U8", 1)),
    ],
)
def test_registers_that_an_access_writes(opcode: str, count: int) -> None:
    assert words(opcode) == count


def test_a_load_of_two_groups_of_registers() -> None:
    """Blackwell's, of 32 bytes."""
    instruction = MachineInstruction("LDG.E.ENL2.256", "R8,R4,desc[UR4][R2.64]", "", False, 0)
    assert instruction.written == [f"R{number}" for number in (8, 9, 10, 11, 4, 5, 6, 7)]
    assert len(instruction.sources) == 1


def test_predicates_kept_in_a_register() -> None:
    make = Maker(Graph(Template("k")), 0, 0)
    a, b = make.any(1), make.any(1)
    kept = make.scratch(PREDICATES, (a, b), 0b1010 | 8 << 8)  # bits 9 and 11
    assert [make.bits(kept, 1 << place) for place in (9, 11)] == [a, b]
    assert make.of(make.bit(kept, 10)) == 0
    assert make.bits(make.any(), 1) is None
    assert make.of(make.bit(make.number(4), 2)) == 1


def test_without_a_disassembler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESSERA_NVDISASM", "/nowhere/nvdisasm")
    with pytest.raises(DisassemblyError, match="install nvidia-cuda-nvdisasm"):
        disassembler.disassemble(b"")


def test_a_disassembler_that_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, script, said in (
        ("fails", "echo no such architecture >&2; exit 3", "no such architecture"),
        ("strange", "echo '{}'", "form that is not known"),
        ("newer", 'echo \'[{}, [{"name": "k"}]]\'', "form that is not known"),
        ("crashes", "kill -SEGV $$", "crashed"),
    ):
        tool = tmp_path / name
        tool.write_text(f"#!/bin/sh\n{script}\n")
        tool.chmod(0o755)
        monkeypatch.setenv("TESSERA_NVDISASM", str(tool))
        with pytest.raises(DisassemblyError, match=said):
            disassembler.disassemble(b"")


LOOKS_UP = """
.version 8.0
.target sm_90
.address_size 64
.global .align 4 .b32 numbers[4] = {1, 2, 3, 4};
.visible .entry looks_up(.param .u64 into)
{
    .reg .b32 %r<3>;
    .reg .b64 %d<6>;
    ld.param.u64 %d1, [into];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %d2, %r1, 4;
    mov.u64 %d3, numbers;
    add.s64 %d4, %d3, %d2;
    ld.global.u32 %r2, [%d4];
    add.s64 %d5, %d1, %d2;
    st.global.u32 [%d5], %r2;
    ret;
}
"""


def test_addresses_in_code_that_is_not_linked(tmp_path: Path) -> None:
    text = tmp_path / "looks_up.ptx"
    text.write_text(LOOKS_UP)
    code = Code(assemble(text, 90, tmp_path, "-c"))
    (found,) = verdicts(LOOKS_UP, text, code, 2)
    assert found.is_equal
    assert not found.machine_unknown


def test_bits_that_a_mask_chooses() -> None:
    """LOP3 with a table of (a & b) | (~b & c), and with others of that kind."""
    for table in (0xE2, 0xB8, 0xCA, 0xAC, 0xD8, 0xE4):
        found = logic.plan(table, (None, None, None))
        assert found is not None
        assert _table(found) == table


def _table(plan: logic.Plan) -> int:
    if isinstance(plan, logic.Number):
        return 0xFF if plan.ones else 0
    if isinstance(plan, logic.Literal):
        return (0xF0, 0xCC, 0xAA)[plan.operand] ^ (0xFF if plan.inverted else 0)
    left, right = _table(plan.left), _table(plan.right)
    return {"and": left & right, "or": left | right, "xor": left ^ right}[plan.operation]


def test_kernels_without_parameters(tmp_path: Path) -> None:
    text = tmp_path / "empty.ptx"
    head = ".version 8.0\n.target sm_90\n.address_size 64\n"
    text.write_text(f"{head}.visible .entry empty() {{ ret; }}\n.visible .func called(.param .u32 n) {{ ret; }}\n")
    data = assemble(text, 90, tmp_path, "-c")
    assert list(read(data).kernels) == ["empty"]
    template = Code(data).template("empty")
    assert template is not None
    assert (template.unknown, template.accesses) == ([], [])
