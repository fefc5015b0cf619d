"""Runs lane operations of the native build, on registers of bit patterns."""

from __future__ import annotations

import ctypes
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_TYPES = [
    "",
    "pred",
    "b8",
    "u8",
    "s8",
    "b16",
    "u16",
    "s16",
    "f16",
    "bf16",
    "b32",
    "u32",
    "s32",
    "f32",
    "f16x2",
    "bf16x2",
    "b64",
    "u64",
    "s64",
    "f64",
    "b128",
]
_WIDTH = {"pred": 0, "f16x2": 32, "bf16x2": 32}
ALL = 0xFFFFFFFF
LEVELS = ("baseline", "v3", "v4")

Register = NDArray[np.uint64]


def width(kind: str) -> int:
    """Bits of one lane's register; 0 for a predicate."""
    return _WIDTH[kind] if kind in _WIDTH else max(16, int(kind.lstrip("bufs")))


@dataclass(frozen=True)
class Operation:
    key: str
    dst: str
    sources: tuple[str, ...]
    second: bool


class Runner:
    """The driver library, loaded."""

    def __init__(self, library: Path) -> None:
        self._lib = ctypes.CDLL(str(library))
        self.operations = list(self._describe())
        self.levels = [level for level in range(len(LEVELS)) if self._has(level)]

    def _describe(self) -> list[Operation]:
        found: list[Operation] = []
        key, shape = ctypes.c_char_p(), (ctypes.c_uint8 * 8)()
        while self._lib.lane_describe(len(found), ctypes.byref(key), shape):
            assert key.value is not None
            sources = tuple(_TYPES[shape[4 + n]] for n in range(shape[2]))
            found.append(Operation(key.value.decode(), _TYPES[shape[3]], sources, bool(shape[0] & 2)))
        return found

    def _has(self, level: int) -> bool:
        zeros = np.zeros(32, np.uint64)
        return self.run(Operation("not.b32", "b32", ("b32",), False), [zeros], level=level) is not None

    def run(
        self, op: Operation, sources: list[Register], *, level: int, mask: int = ALL, old: int = 0, immediate: int = 0
    ) -> tuple[Register, Register] | None:
        """One value per lane and source in, (result, second result) out; None when this CPU lacks the level.

        `old` fills the destinations before the operation.
        """
        packed = [_to_frame(kind, values) for kind, values in zip(op.sources, sources, strict=True)]
        pointers = (ctypes.c_void_p * 4)(*[array.ctypes.data for array in packed])
        dst = _to_frame(op.dst, np.full(32, old, np.uint64))
        second = _to_frame("pred", np.full(32, old, np.uint64))
        second_pointer = ctypes.c_void_p(second.ctypes.data) if op.second else None
        if not self._lib.lane_run(
            op.key.encode(),
            level,
            ctypes.c_uint32(mask),
            pointers,
            ctypes.c_void_p(dst.ctypes.data),
            second_pointer,
            ctypes.c_int64(immediate),
        ):
            return None
        return _from_frame(op.dst, dst), _from_frame("pred", second)

    @property
    def matrix_keys(self) -> list[str]:
        found: list[str] = []
        key = ctypes.c_char_p()
        while self._lib.matrix_describe(len(found), ctypes.byref(key)):
            assert key.value is not None
            found.append(key.value.decode())
        return found

    def run_matrix(
        self,
        key: str,
        registers: NDArray[np.unsignedinteger],
        *,
        level: int,
        address: Register | None = None,
        stride: int | None = None,
        shared: NDArray[np.uint8] | None = None,
    ) -> NDArray[np.unsignedinteger]:
        """`registers` is (count, 32), in the order of the operation's list; returns them as they are afterwards."""
        after = np.ascontiguousarray(registers).copy()
        strides = None if stride is None else np.full(32, stride, np.uint32)
        pointers = [None if a is None else ctypes.c_void_p(a.ctypes.data) for a in (address, strides, shared)]
        arguments = (ctypes.c_uint32(ALL), ctypes.c_void_p(after.ctypes.data), len(after), after.itemsize)
        assert self._lib.matrix_run(key.encode(), level, *arguments, *pointers), key
        return after


def _to_frame(kind: str, values: Register) -> NDArray[np.unsignedinteger]:
    if kind == "pred":
        return np.packbits(values.astype(np.uint8) & 1, bitorder="little").view(np.uint32)
    return np.ascontiguousarray(values.astype(np.dtype(f"u{width(kind) // 8}")))


def _from_frame(kind: str, array: NDArray[np.unsignedinteger]) -> Register:
    if kind == "pred":
        return np.unpackbits(array.view(np.uint8), bitorder="little").astype(np.uint64)
    return array.astype(np.uint64)


def build_runner(build: Path, directory: Path) -> Runner:
    """Links the driver with the archives of the native build."""
    here = Path(__file__).parent
    root = here.parents[1]
    library = directory / "lanes.so"
    archives = [str(build / "lib" / f"libtsr_{name}.a") for name in ("exec", "lane", "matrix", "base")]
    command = [
        os.environ.get("CC", "cc"),
        "-shared",
        "-fPIC",
        "-O1",
        "-std=gnu11",
        "-D_GNU_SOURCE",
        f"-I{root / 'interpose'}",
        f"-I{root / 'interpose' / 'include'}",
        f"-I{build / 'cuda-headers'}",
        str(here / "lane_driver.c"),
        "-o",
        str(library),
        "-Wl,--start-group",
        *archives,
        "-Wl,--end-group",
        "-lm",
        "-pthread",
    ]
    subprocess.run(command, check=True)
    return Runner(library)
