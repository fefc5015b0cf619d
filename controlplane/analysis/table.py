"""The table through which templates reach the shim (tessera/templates.h), from the writer's side."""

from __future__ import annotations

import mmap
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from controlplane.base.content import MASK, STEP, content_hash
from controlplane.ipc.memory_file import memory_file
from ptxtools.native import records

if TYPE_CHECKING:
    from controlplane.analysis.cache import Key
    from controlplane.analysis.result import Analysis

HEADER = "templates.h"
ALIGNMENT = 8


@cache
def _constant(name: str) -> int:
    return records.constant(records.header(HEADER)[1], name, HEADER)


def create() -> int:
    """A memory file with an empty table; the descriptor is the caller's."""
    descriptor = memory_file("tessera-templates", _constant("TSR_TEMPLATES_BYTES"))
    with mmap.mmap(descriptor, mmap.PAGESIZE) as view:
        ffi, _ = records.header(HEADER)
        content = ffi.from_buffer(view, require_writable=True)
        header: Any = cast("Any", ffi.cast("struct tsr_templates *", content))
        header.magic, header.version = _constant("TSR_TEMPLATES_MAGIC"), _constant("TSR_TEMPLATES_VERSION")
        header.bytes = ffi.sizeof("struct tsr_templates")
        del header
        ffi.release(content)
    return descriptor


def architecture_of(key: Key) -> int:
    """As slots have it: emulated GPUs run other code of an image."""
    return key.architecture | (_constant("TSR_TEMPLATES_EMULATED") if key.ptx_only else 0)


def place(code: int, function: int, architecture: int) -> int:
    """Where looking for a slot begins; tsr_templates_place."""
    return ((code ^ function ^ architecture) * STEP & MASK) >> 32 & 0xFFFFFFFF


class Table:
    """Only one process writes. What finds no room is not published, and stays unknown."""

    def __init__(self, descriptor: int) -> None:
        """Does not keep the descriptor."""
        ffi, _ = records.header(HEADER)
        self._slots_count = _constant("TSR_TEMPLATES_SLOTS")
        self._size = _constant("TSR_SHAPES_OFFSET")
        self._view = mmap.mmap(descriptor, _constant("TSR_TEMPLATES_BYTES"))
        content = ffi.from_buffer(self._view, require_writable=True)
        start = _constant("TSR_TEMPLATES_SLOTS_OFFSET")
        self._header: Any = cast("Any", ffi.cast("struct tsr_templates *", content))
        self._slots: Any = cast("Any", ffi.cast("struct tsr_templates_slot *", content + start))
        self._next = start + self._slots_count * ffi.sizeof("struct tsr_templates_slot")
        self._shapes: Any = cast("Any", ffi.cast("struct tsr_shapes *", content + self._size))
        self._shapes_at = self._size + ffi.sizeof("struct tsr_shapes")

    @property
    def published(self) -> int:
        return int(self._header.published)

    def publish(self, key: Key, analysis: Analysis) -> bool:
        """Stores are seen in their order, as everywhere on x86-64. A clone without room is left out. False: no room."""
        template = analysis.template if analysis.is_known else b""
        function = content_hash(key.function.encode())
        architecture = architecture_of(key)
        slot = self._free(key.code, function, architecture)
        if slot is None or self._next + len(template) > self._size:
            return False
        slot.code, slot.function, slot.architecture = key.code, function, architecture
        slot.bytes = len(template)
        offset = self._put(template)
        if analysis.clone and self._next + len(analysis.clone) <= self._size:
            slot.clone_bytes = len(analysis.clone)
            slot.clone = self._put(analysis.clone)
        slot.offset = offset
        self._header.published += 1
        return True

    @property
    def shapes_room(self) -> int:
        """Bytes."""
        return len(self._view) - self._shapes_at

    def shapes(self) -> bytes:
        """The launches that shims had to evaluate, as they wrote them."""
        return self._view[self._shapes_at : self._shapes_at + min(int(self._shapes.used), self.shapes_room)]

    def give_shapes(self, data: bytes) -> None:
        """Those of earlier runs. Before any shim writes its own."""
        if len(data) <= self.shapes_room:
            self._view[self._shapes_at : self._shapes_at + len(data)] = data
            self._shapes.used = len(data)

    def _put(self, data: bytes) -> int:
        """Where it is now."""
        offset = self._next
        self._view[offset : offset + len(data)] = data
        self._next += -(-max(len(data), 1) // ALIGNMENT) * ALIGNMENT
        return offset

    def _free(self, code: int, function: int, architecture: int) -> Any | None:
        """The empty slot for a key; None when it has one, or there are too many."""
        if self.published >= self._slots_count // 2:
            return None
        at = place(code, function, architecture)
        while True:
            slot = self._slots[at % self._slots_count]
            if not slot.offset:
                return slot
            if (slot.code, slot.function, slot.architecture) == (code, function, architecture):
                return None
            at += 1
