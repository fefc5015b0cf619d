"""Libraries with NVIDIA's names whose launching calls say what the marks of library calls know of their operands."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
NAMES = ("libcublas.so.13", "libcublasLt.so.13", "libcudnn.so.9", "libcufft.so.12", "libcusparse.so.12", "libnccl.so.2")
READ, WRITE = 0, 1  # enum tsr_access_kind
MAKES = re.compile(r"(cublas|cublasLt|cudnn)Create(_v2)?\Z")
WRITTEN_OUT = re.compile(r"(cudnnBackendGetAttribute|cufftPlan\w+)\Z")

Bytes = set[int]


class Range(ctypes.Structure):
    """struct tsr_access_range."""

    _fields_ = [
        ("kind", ctypes.c_uint32),
        ("overwritten", ctypes.c_uint32),
        ("scratch", ctypes.c_uint32),
        ("whole", ctypes.c_uint32),
        ("parameter", ctypes.c_int32),
        ("symbol", ctypes.c_int32),
        ("offset", ctypes.c_uint32),
        ("tensor", ctypes.c_uint16),
        ("intermediate", ctypes.c_uint16),
        ("base", ctypes.c_uint64),
        ("first", ctypes.c_int64),
        ("last", ctypes.c_int64),
        ("stride", ctypes.c_int64),
        ("width", ctypes.c_int64),
    ]

    def bytes(self) -> Iterator[int]:
        begin, end = self.base + self.first, self.base + self.last + 1
        for start in range(begin, end, self.stride) if self.stride else (begin,):
            yield from range(start, min(start + self.width, end) if self.stride else end)


@dataclass(slots=True)
class Operands:
    """What a call's launches may touch. `whole`: kind and address of what is as large as its allocation.

    `scratch`, `intermediate`: of what is read and written; `overwritten`: of what is written.
    """

    unknown: str | None
    other_gpus: bool
    reads: Bytes = field(default_factory=set)
    writes: Bytes = field(default_factory=set)
    whole: set[tuple[int, int]] = field(default_factory=set)
    overwritten: Bytes = field(default_factory=set)
    scratch: Bytes = field(default_factory=set)
    intermediate: Bytes = field(default_factory=set)


def build(directory: Path, header: str) -> None:
    """Builds all of them. `header`: the text of tessera/library_calls.h."""
    calls = re.findall(r"^\s*X\(\w+, (\w+)\)", header, re.MULTILINE)
    notes = re.findall(r"^\s*W\(\w+, (\w+)\)", header, re.MULTILINE)
    lines = [f"LAUNCHES({name})" for name in calls]
    lines += [
        f"{'MAKES' if MAKES.match(name) else 'SUCCEEDS'}({name})" for name in notes if not WRITTEN_OUT.match(name)
    ]
    (directory / "entry_points.h").write_text("\n".join(lines))
    object_file = directory / "stand_in.o"
    compiler = os.environ.get("CC", "cc")
    compile_it = [compiler, "-c", "-fPIC", "-O1", f"-I{directory}", "-o", str(object_file), str(HERE / "stand_in.c")]
    subprocess.run(compile_it, check=True)
    for name in NAMES:
        link = [compiler, "-shared", f"-Wl,-soname,{name}", "-o", str(directory / name), str(object_file)]
        subprocess.run(link, check=True)


class Marks:
    """The marks of library calls, in front of these libraries. `marks`: their file; None when they are preloaded.

    `directory`: of the stand-ins; None when the real libraries are there. `wants`: operands are looked at because this
    asks for it; otherwise somebody else has to.
    """

    def __init__(self, marks: Path | None, directory: Path | None, wants: bool = True) -> None:
        self.marks = ctypes.CDLL(None if marks is None else str(marks))
        self.found: list[Operands] = []
        self.inside: Callable[[], object] = lambda: None  # what else a launching call does
        self.making: Callable[[], object] = lambda: None  # what a call that makes a handle does
        self._callback = ctypes.CFUNCTYPE(ctypes.c_int)(self._launched)
        self._made = ctypes.CFUNCTYPE(ctypes.c_int)(self._making)
        self._libraries = [] if directory is None else [ctypes.CDLL(str(directory / name)) for name in NAMES]
        for library in self._libraries:
            for name, callback in (("stand_in_launch", self._callback), ("stand_in_make", self._made)):
                ctypes.c_void_p.in_dll(library, name).value = ctypes.cast(callback, ctypes.c_void_p).value
        if wants:
            self.marks.tessera_library_operands_wanted()

    def set_work_bytes(self, count: int) -> None:
        for library in self._libraries:
            ctypes.c_size_t.in_dll(library, "stand_in_work_bytes").value = count

    def call(self, name: str, *arguments: object) -> Operands:
        """The operands of one launching call. Integers are passed as 64 bits."""
        self.found.clear()
        assert self.tell(name, *arguments) == 0
        (operands,) = self.found
        return operands

    def tell(self, name: str, *arguments: object) -> int:
        """A call that only says something."""
        passed = [ctypes.c_int64(each) if isinstance(each, int) else each for each in arguments]
        return int(getattr(self.marks, name)(*passed))

    def operands(self, function: str = "tessera_library_operands") -> Operands:
        ranges, others, why = ctypes.POINTER(Range)(), ctypes.c_uint32(), ctypes.c_char_p()
        count = getattr(self.marks, function)(ctypes.byref(ranges), ctypes.byref(others), ctypes.byref(why))
        if count < 0:
            return Operands((why.value or b"").decode(), bool(others.value))
        found = Operands(None, bool(others.value))
        for each in (ranges[i] for i in range(count)):
            if each.whole:
                assert not each.overwritten
                assert not each.scratch
                found.whole.add((each.kind, each.base))
                continue
            touched = set(each.bytes())
            (found.reads if each.kind == READ else found.writes).update(touched)
            if each.overwritten:
                assert each.kind == WRITE
                found.overwritten |= touched
            if each.scratch:
                found.scratch |= touched
            if each.intermediate:
                found.intermediate |= touched
        return found

    def _making(self) -> int:
        self.making()
        return 0

    def _launched(self) -> int:
        self.inside()
        self.found.append(self.operands())
        return 0
