"""Arrays of pointers and sizes in a struct among the parameters, which code reads with an index."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from ptxtools.access.template import AccessKind, Template
from ptxtools.ranges import Launch, evaluate
from ptxtools.ranges.native import Evaluator
from tests.instruments.both import made

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
    return made(SOURCE, request.param, tmp_path_factory.mktemp("elements"))


def launch(rows: int, sizes: list[int], apart: int = APART) -> Launch:
    pointers = [BEGIN + apart * number for number in range(MOST)]
    block = struct.pack(f"<{MOST}Q{MOST}I", *pointers, *(sizes + [0] * (MOST - len(sizes))))

    def allocation(address: int) -> tuple[int, int] | None:
        begin = address // APART * APART
        return (begin, begin + APART) if BEGIN <= address < BEGIN + MOST * APART else None

    return Launch(block, (1, rows, 1), (64, 1, 1), allocation)


@pytest.mark.full
@pytest.mark.parametrize("sizes", [[10], [10, 40], list(range(1, 17)), [7] * MOST])
def test_the_elements_that_the_grid_reaches_are_found(template: Template, sizes: list[int]) -> None:
    asked = launch(len(sizes), sizes)
    found = evaluate(template, asked)
    assert not found.unknown
    assert {each.parameter for each in found.ranges} == {0}
    for kind in (AccessKind.READ, AccessKind.WRITE):
        ends = {each.begin: each.end for each in found.ranges if each.kind is kind}
        assert ends == {BEGIN + APART * number: BEGIN + APART * number + 4 * size for number, size in enumerate(sizes)}
    assert all(each.overwritten for each in found.ranges if each.kind is AccessKind.WRITE)


def test_elements_that_are_the_same_pointer_keep_their_parameter(template: Template) -> None:
    asked = launch(2, [10, 40], 0)
    found = evaluate(template, asked)
    assert not found.unknown
    assert {(each.parameter, each.begin) for each in found.ranges} == {(0, BEGIN)}
    assert {each.end for each in found.ranges} == {BEGIN + 40, BEGIN + 160}


def test_elements_behind_the_parameters_are_unknown(template: Template) -> None:
    asked = launch(12 * MOST // 8 + 1, [10] * MOST)
    found = evaluate(template, asked)
    assert {reason for _, reason in found.unknown} == {"pointer loaded from memory"}


def test_with_little_time_the_grid_is_not_split(template: Template) -> None:
    found = Evaluator(template, steps=12).evaluate(launch(2, [10, 40]))
    assert found.unknown or all(each.whole for each in found.ranges)


CHUNK, BLOCKS, TENSORS = 256, 48, 8
# Block b adds 1 to chunk chunks[b] of tensor tensors[b], if flag is not set.
MANY = f"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry many(.param .align 8 .b8 lists[{12 * TENSORS + 5 * BLOCKS}], .param .u64 flag)
{{
    .reg .b64 %a<12>; .reg .b32 %r<10>; .reg .pred %p, %q;
    ld.param.u64 %a9, [flag]; setp.eq.u64 %q, %a9, 0; @%q bra go;
    ld.global.u32 %r9, [%a9]; setp.eq.u32 %q, %r9, 1; @%q bra done;
go:
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mov.b64 %a1, lists;
    cvt.u64.u32 %a2, %r1; add.u64 %a3, %a1, %a2; ld.param.u8 %r3, [%a3+{12 * TENSORS + 4 * BLOCKS}];
    mul.wide.u32 %a4, %r1, 4; add.u64 %a4, %a1, %a4; ld.param.u32 %r4, [%a4+{12 * TENSORS}];
    mul.wide.u32 %a5, %r3, 8; add.u64 %a5, %a1, %a5; ld.param.u64 %a6, [%a5];
    mul.wide.u32 %a7, %r3, 4; add.u64 %a7, %a1, %a7; ld.param.u32 %r5, [%a7+{8 * TENSORS}];
    mad.lo.u32 %r6, %r4, {CHUNK}, %r2;
    setp.ge.u32 %p, %r6, %r5; @%p bra done;
    mul.wide.u32 %a8, %r6, 4; add.u64 %a8, %a6, %a8;
    ld.global.u32 %r7, [%a8]; add.u32 %r7, %r7, 1; st.global.u32 [%a8], %r7;
done:
    ret;
}}
"""


@pytest.fixture(scope="module", params=["ptx", "machine code"])
def many(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Template:
    return made(MANY, request.param, tmp_path_factory.mktemp("many"))


@pytest.mark.full
@pytest.mark.parametrize("sizes", [[CHUNK * 9 + 5], [1, CHUNK, CHUNK + 1, 7 * CHUNK, 3], [10] * TENSORS])
def test_blocks_that_look_up_their_tensor_and_their_part_of_it(many: Template, sizes: list[int]) -> None:
    blocks = [(tensor, chunk) for tensor, size in enumerate(sizes) for chunk in range(-(-size // CHUNK))]
    tensors, chunks = zip(*blocks, strict=True)
    rest = [0] * (BLOCKS - len(blocks))
    pointers = [BEGIN + APART * number for number in range(TENSORS)]
    block = struct.pack(f"<{TENSORS}Q{TENSORS}I", *pointers, *sizes, *[0] * (TENSORS - len(sizes)))
    block += struct.pack(f"<{BLOCKS}I{BLOCKS}B", *chunks, *rest, *tensors, *rest)
    block += bytes(-len(block) % 8) + struct.pack("<Q", 0)
    asked = replace(launch(1, []), parameters=block, grid=(len(blocks), 1, 1), block=(CHUNK, 1, 1))
    found = evaluate(many, asked)
    assert not found.unknown
    wanted = {BEGIN + APART * number: BEGIN + APART * number + 4 * size for number, size in enumerate(sizes)}
    for kind in (AccessKind.READ, AccessKind.WRITE):
        assert {each.begin: each.end for each in found.ranges if each.kind is kind} == wanted
    assert all(each.overwritten for each in found.ranges if each.kind is AccessKind.WRITE)
