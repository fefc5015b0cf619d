"""Damaged texts and odd launches: a PtxError, unknown accesses or ranges, but no other error, and never for long."""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptxtools.access.build import build
from ptxtools.access.summary import summarise
from ptxtools.errors import PtxError
from ptxtools.image import texts
from ptxtools.ranges import Launch, evaluate
from ptxtools.reader import read

ROOT = Path(__file__).parents[2]
TEXTS = [
    text for path in sorted((ROOT / "tests" / "corpus" / "ptx").glob("*.ptx")) if len(text := path.read_text()) < 16000
]
TOKEN = re.compile(r"%[a-z]+\d+|(?<=[\s\[+-])\d+(?=[\];])|\$L__\w+|(?<=\.)[sub](?:32|64)(?=\s)|\b[a-z]+(?=\.)")
PIECES = (
    "",
    ";",
    "bra ",
    ".wide",
    "%r1",
    "%rd1",
    "@%p1 ",
    "32",
    "64",
    "-",
    "0x",
    ", ",
    "[",
    "]",
    "}",
    "ret;",
    "$L__BB0_2",
)


def damaged(data: st.DataObject, text: str) -> str:
    for _ in range(data.draw(st.integers(1, 5))):
        begin = data.draw(st.integers(0, len(text)))
        end = min(len(text), begin + data.draw(st.integers(0, 12)))
        text = text[:begin] + data.draw(st.sampled_from(PIECES)) + text[end:]
    return text


def exchanged(data: st.DataObject, text: str) -> str:
    """Words of a kind change places: what comes out is mostly PTX still."""
    for _ in range(data.draw(st.integers(1, 6))):
        words = list(TOKEN.finditer(text))
        one, other = (words[data.draw(st.integers(0, len(words) - 1))] for _ in range(2))
        text = text[: one.start()] + other[0] + text[one.end() :]
    return text


@settings(max_examples=25, deadline=8000)
@given(st.data())
def test_damaged_kernels(data: st.DataObject) -> None:
    change = data.draw(st.sampled_from((damaged, exchanged, exchanged)))
    text = change(data, data.draw(st.sampled_from(TEXTS)))
    with contextlib.suppress(PtxError):
        for kernel in read(text).kernels:
            template = build(read(text), kernel)
            assert summarise(template).tier in ("ptx", "unknown")
            size = max((slot.offset + slot.size for slot in template.slots), default=0)
            values = data.draw(st.binary(min_size=min(size, 4096), max_size=min(size, 4096)))
            shape = data.draw(st.tuples(st.integers(1, 1 << 31), st.integers(1, 65535), st.integers(1, 3)))
            block = data.draw(st.tuples(st.integers(1, 64), st.integers(1, 4), st.integers(1, 4)))
            for each in evaluate(template, Launch(values, shape, block)).ranges:
                assert each.whole or each.first <= each.last


SPACE = 100_000 * " "
LONG = {  # read again for every way to divide them, they take minutes or are taken for something else
    "variable": f".shared .b8 x{SPACE}y;",
    "dimensions": f".shared .b8 x[{SPACE}y];",
    "parameter": f".entry k(.param .b8 x[{SPACE}y]) {{ ret; }}",
    "guard": f".entry k() {{ @{SPACE}, ret; }}",
    "opcode": f".entry k() {{ mov.a{50 * ':a'}% 1; }}",
    "inner registers": f".entry k() {{ {{ {5000 * '.reg .b32 r<4000>;'} ret; }} }}",
    "operands": f".entry k() {{ .reg .b64 r; ld.u32 r, a{SPACE}[b]; }}",
}


@pytest.fixture
def soon() -> Iterator[None]:
    """Ends a test that takes 20 seconds of the CPU's time."""

    def over(_signal: int, _frame: object) -> None:
        raise AssertionError("took too long")

    before = signal.signal(signal.SIGPROF, over)
    signal.setitimer(signal.ITIMER_PROF, 20)
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.signal(signal.SIGPROF, before)


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("name", LONG)
def test_long_damaged_statements(name: str) -> None:
    with contextlib.suppress(PtxError):
        module = read(f".version 8.0\n.target sm_80\n.address_size 64\n{LONG[name]}\n")
        assert summarise(build(module, module.kernels[0])).tier == "unknown"


@pytest.mark.usefixtures("soon")
def test_comments_before_no_text() -> None:
    with pytest.raises(ValueError, match="neither PTX"):
        texts(40 * b"/**/" + b"x")


def test_a_store_that_cannot_be_read() -> None:
    """What it stores belongs to no other access."""
    code = ".reg .b64 r; ld.param.u64 r, [p]; st.global.u64 [r], r; st.global.u64 %r!, r; ret;"
    module = read(f".version 8.0\n.target sm_80\n.address_size 64\n.entry k(.param .u64 p) {{ {code} }}")
    template = build(module, module.kernels[0])
    assert (len(template.accesses), len(template.unknown)) == (1, 1)
