"""Tensors as tensor maps (CUtensorMap, the descriptors of TMA) describe them."""

from __future__ import annotations

from dataclasses import dataclass

MAP_BYTES = 128


@dataclass(frozen=True, slots=True)
class Tensor:
    """`dims`: elements in each dimension, the innermost first; `strides`: bytes between them."""

    address: int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    element_bytes: int


def address_of(tensor_map: bytes) -> int:
    """The address of the tensor: the first 8 bytes of its map, on H200 as in the emulated driver."""
    return int.from_bytes(tensor_map[:8], "little")
