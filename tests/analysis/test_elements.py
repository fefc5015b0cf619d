"""Arrays of pointers and sizes in a struct among the parameters, which code reads with an index."""

from __future__ import annotations

import struct

import pytest

from ptxtools.access.build import build
from ptxtools.access.template import AccessKind, Template
from ptxtools.machine.kernels import templates
from ptxtools.ranges import Launch, evaluate
from ptxtools.reader import read
from tests.instruments.against import assemble

MOST = 32  # elements of each array
# Thread x of row y adds 1 to element x of pointers[y], if that is one of the first sizes[y].
SOURCE = f"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry rows(.param .align 8 .b8 lists[{12 * MOST}])
{{
    .reg .b64 %a<8>; .reg .b32 %r<8>; .reg .pred %p;
    mov.u32 %r1, %ctaid.y; mov.u32 %r2, %tid.x;
    mov.b64 %a1, lists; mul.wide.u32 %a2, %r1, 8; add.u64 %a3, %a1, %a2; ld.param.u64 %a4, [%a3];
    mul.wide.u32 %a5, %r1, 4; add.u64 %a6, %a1, %a5; ld.param.u32 %r3, [%a6+{8 * MOST}];
    setp.ge.u32 %p, %r2, %r3; @%p bra done;
    mul.wide.u32 %a7, %r2, 4; add.u64 %a7, %a4, %a7;
    ld.global.u32 %r4, [%a7]; add.u32 %r4, %r4, 1; st.global.u32 [%a7], %r4;
done:
    ret;
}}
"""
BEGIN, APART = 1 << 32, 1 << 20


@pytest.fixture(scope="module", params=["ptx", "machine code"])
def template(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Template:
    if request.param == "ptx":
        module = read(SOURCE)
        return build(module, module.functions["rows"])
    place = tmp_path_factory.mktemp("elements")
    (place / "rows.ptx").write_text(SOURCE)
    (made,) = templates(assemble(place / "rows.ptx", 90, place), lambda _: True, "")
    return made


def launch(rows: int, sizes: list[int], apart: int = APART) -> Launch:
    pointers = [BEGIN + apart * number for number in range(MOST)]
    block = struct.pack(f"<{MOST}Q{MOST}I", *pointers, *(sizes + [0] * (MOST - len(sizes))))

    def allocation(address: int) -> tuple[int, int] | None:
        begin = address // APART * APART
        return (begin, begin + APART) if BEGIN <= address < BEGIN + MOST * APART else None

    return Launch(block, (1, rows, 1), (64, 1, 1), allocation)


@pytest.mark.parametrize("sizes", [[10], [10, 40], list(range(1, 17))])
def test_the_elements_that_the_grid_reaches_are_found(template: Template, sizes: list[int]) -> None:
    asked = launch(len(sizes), sizes)
    found = evaluate(template, asked)
    assert not found.unknown
    assert {each.parameter for each in found.ranges} == {0}
    for kind in (AccessKind.READ, AccessKind.WRITE):
        ends = {each.begin: each.end for each in found.ranges if each.kind is kind}
        assert sorted(ends) == [BEGIN + APART * number for number in range(len(sizes))]
        for number, size in enumerate(sizes):
            begin = BEGIN + APART * number
            assert begin + 4 * size <= ends[begin] <= begin + 4 * max(sizes)


def test_elements_that_are_the_same_pointer_keep_their_parameter(template: Template) -> None:
    asked = launch(2, [10, 40], 0)
    found = evaluate(template, asked)
    assert not found.unknown
    assert {(each.parameter, each.begin, each.end) for each in found.ranges} == {(0, BEGIN, BEGIN + 160)}


def test_more_elements_than_a_range_may_begin_with_are_unknown(template: Template) -> None:
    asked = launch(17, [10] * 17)
    found = evaluate(template, asked)
    assert {reason for _, reason in found.unknown} == {"pointer loaded from memory"}
