"""The table of templates, read as the header says the shim reads it; and what is allocated at a moment of a trace."""

from __future__ import annotations

import mmap
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from controlplane.analysis.allocations import Allocations
from controlplane.analysis.cache import Key
from controlplane.analysis.describe import Description, unknown_description
from controlplane.analysis.result import Analysis
from controlplane.analysis.table import HEADER, Table, architecture_of, create, place
from controlplane.base.content import content_hash
from ptxtools.native import records

KNOWN: Description = {"name": "", "tier": "ptx", "parameters": [], "variables": [], "unknown": []}


@pytest.fixture
def descriptor(fake_native: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setenv("TESSERA_NATIVE", str(fake_native))
    file = create()
    yield file
    os.close(file)


def key(name: str, architecture: int = 90, *, emulated: bool = False) -> Key:
    return Key(7, 1, architecture, emulated, name)


def look_up(descriptor: int, wanted: Key) -> bytes | None:
    """b"": analysed, and unknown; None: not there."""
    found = entry(descriptor, wanted)
    return None if found is None else found[0]


def entry(descriptor: int, wanted: Key) -> tuple[bytes, bytes] | None:
    """Template and clone."""
    ffi, text = records.header(HEADER)
    view = mmap.mmap(descriptor, 0, prot=mmap.PROT_READ)
    slots_at = records.constant(text, "TSR_TEMPLATES_SLOTS_OFFSET", HEADER)
    count = records.constant(text, "TSR_TEMPLATES_SLOTS", HEADER)
    slots: Any = cast("Any", ffi.cast("struct tsr_templates_slot *", ffi.from_buffer(view) + slots_at))
    function = content_hash(wanted.function.encode())
    architecture = architecture_of(wanted)
    at = place(wanted.code, function, architecture)
    while (slot := slots[at % count]).offset:
        if (slot.code, slot.function, slot.architecture) == (wanted.code, function, architecture):
            return view[slot.offset : slot.offset + slot.bytes], view[slot.clone : slot.clone + slot.clone_bytes]
        at += 1
    return None


def test_what_is_published_is_found(descriptor: int) -> None:
    table = Table(descriptor)
    assert look_up(descriptor, key("kernel 0")) is None
    for number in range(300):
        name = f"kernel {number}"
        assert table.publish(key(name), Analysis({**KNOWN, "name": name}, name.encode()))
    assert table.publish(key("unknown"), Analysis(unknown_description("unknown", "why")))
    assert table.published == 301
    assert not table.publish(key("kernel 5"), Analysis(KNOWN, b"twice"))
    assert [look_up(descriptor, key(f"kernel {n}")) for n in (0, 5, 299)] == [b"kernel 0", b"kernel 5", b"kernel 299"]
    assert look_up(descriptor, key("unknown")) == b""
    assert look_up(descriptor, key("kernel 5", 80)) is None
    assert look_up(descriptor, key("kernel 5", emulated=True)) is None


def test_a_clone_comes_with_its_template(descriptor: int) -> None:
    table = Table(descriptor)
    assert table.publish(key("with"), Analysis(KNOWN, b"template", clone=b"a clone\0"))
    assert table.publish(key("without"), Analysis(KNOWN, b"another"))
    assert table.publish(key("no room"), Analysis(KNOWN, b"third", clone=bytes(300 << 20)))
    assert entry(descriptor, key("with")) == (b"template", b"a clone\0")
    assert entry(descriptor, key("without")) == (b"another", b"")
    assert entry(descriptor, key("no room")) == (b"third", b"")


def test_a_full_table_takes_nothing_more(descriptor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(descriptor)
    monkeypatch.setattr(table, "_slots_count", 4)
    large = Analysis(KNOWN, bytes(200 << 20))
    assert [table.publish(key("a"), large), table.publish(key("b"), large)] == [True, False]
    assert table.publish(key("b"), Analysis(KNOWN, b"small"))
    assert not table.publish(key("c"), Analysis(KNOWN, b"small"))


def test_allocations_are_those_of_a_plain_list() -> None:
    chance, plain, allocations = random.Random(1), dict[int, tuple[int, bool]](), Allocations()
    for _ in range(3000):
        begin = chance.randrange(60)
        if any(other < begin + 4 and begin < other + size for other, (size, _) in plain.items()):
            size = chance.choice((0, 0, 8))
            allocations.remove(begin, size)
            for gone in [other for other in plain if begin <= other < begin + max(size, 1)]:
                del plain[gone]
        else:
            mapped = chance.random() < 0.5
            plain[begin] = (4, mapped)
            allocations.add(begin, 4, mapped=mapped)
        for address in range(70):
            assert allocations(address) == expected(plain, address)


def expected(plain: dict[int, tuple[int, bool]], address: int) -> tuple[int, int] | None:
    found = next((begin for begin, (size, _) in plain.items() if begin <= address < begin + size), None)
    if found is None:
        return None
    first, last = found, found + plain[found][0]
    if plain[found][1]:
        while (before := plain.get(first - 4)) is not None and before[1]:
            first -= 4
        while (after := plain.get(last)) is not None and after[1]:
            last += 4
    return first, last


def test_launches_of_shims_are_beside_the_templates(descriptor: int) -> None:
    table, again = Table(descriptor), Table(descriptor)
    assert table.shapes() == b""
    table.give_shapes(b"of earlier runs ")
    assert again.shapes() == b"of earlier runs "
    table.give_shapes(bytes(table.shapes_room + 1))
    assert again.shapes() == b"of earlier runs "
    ffi, text = records.header(HEADER)
    at = records.constant(text, "TSR_SHAPES_OFFSET", HEADER)
    with mmap.mmap(descriptor, 0) as view:
        content = ffi.from_buffer(view, require_writable=True)
        cast("Any", ffi.cast("struct tsr_shapes *", content + at)).used = (1 << 64) - 1
        ffi.release(content)
    assert len(again.shapes()) == again.shapes_room
