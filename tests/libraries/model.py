"""Which bytes the calls touch, element by element, from the libraries' documentation.

Nothing here is shared with the code under test.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

TYPES = {0: 4, 1: 8, 2: 2, 14: 2, 3: 1, 10: 4, 4: 8, 5: 16}  # cudaDataType: bytes


@dataclass(slots=True)
class Touched:
    """Bytes that are read and written; of the latter, those that are in any case, and of all, those of work areas."""

    reads: set[int] = field(default_factory=set)
    writes: set[int] = field(default_factory=set)
    overwritten: set[int] = field(default_factory=set)
    scratch: set[int] = field(default_factory=set)

    def read(self, address: int, count: int) -> None:
        self.reads.update(range(address, address + count))

    def write(self, address: int, count: int) -> None:
        self.writes.update(range(address, address + count))

    def both(self, address: int, count: int) -> None:
        self.read(address, count)
        self.write(address, count)

    def overwrite(self, address: int, count: int) -> None:
        self.write(address, count)
        self.overwritten.update(range(address, address + count))

    def work(self, address: int, count: int) -> None:
        self.both(address, count)
        self.scratch.update(range(address, address + count))


@dataclass(frozen=True, slots=True)
class Gemm:
    """C = alpha op(A) op(B) + beta C, `batches` times; matrices are stored by columns."""

    transposed_a: bool
    transposed_b: bool
    m: int
    n: int
    k: int
    a: tuple[int, int, int, int]  # address, bytes of an element, leading dimension, stride between batches
    b: tuple[int, int, int, int]
    c: tuple[int, int, int, int]
    batches: int = 1

    def touched(self, beta_is_zero: bool = False) -> Touched:
        found = Touched()
        for batch in range(self.batches):
            for i in range(self.m):
                for j in range(self.n):
                    (found.overwrite if beta_is_zero else found.both)(*_element(self.c, batch, i, j))
                    for p in range(self.k):
                        found.read(*_element(self.a, batch, *((p, i) if self.transposed_a else (i, p))))
                        found.read(*_element(self.b, batch, *((j, p) if self.transposed_b else (p, j))))
        return found


def _element(matrix: tuple[int, int, int, int], batch: int, row: int, column: int) -> tuple[int, int]:
    address, size, pitch, stride = matrix
    return address + (batch * stride + column * pitch + row) * size, size


def vector(address: int, size: int, count: int, increment: int) -> Iterable[tuple[int, int]]:
    """The elements of a BLAS vector: with a negative increment from the last to the first one."""
    first = (1 - count) * increment if increment < 0 else 0
    return [(address + (first + i * increment) * size, size) for i in range(count)]


def tensor(address: int, size: int, dims: Iterable[int], strides: Iterable[int]) -> set[int]:
    """Bytes of a tensor; strides in elements."""
    offsets = {0}
    for extent, stride in zip(dims, strides, strict=True):
        offsets = {offset + i * stride for offset in offsets for i in range(extent)}
    return {address + offset * size + byte for offset in offsets for byte in range(size)}
