"""LZ4 blocks, as older fat binaries are compressed."""

from __future__ import annotations


def decompress(data: bytes, size: int) -> bytes:
    """The `size` bytes that a block unpacks to. Errors: ValueError when it does not."""
    out = bytearray()
    position = 0
    try:
        while position < len(data):
            token = data[position]
            position += 1
            literals, position = _length(data, position, token >> 4)
            if position + literals > len(data):
                raise ValueError("an LZ4 block is cut off")
            out += data[position : position + literals]
            position += literals
            if position == len(data):
                break
            distance = data[position] | data[position + 1] << 8
            length, position = _length(data, position + 2, token & 15)
            _repeat(out, distance, length + 4)
            if len(out) > size:
                break
    except IndexError as problem:
        raise ValueError("an LZ4 block is cut off") from problem
    if len(out) != size:
        raise ValueError(f"an LZ4 block unpacks to {len(out)} bytes, not {size}")
    return bytes(out)


def _length(data: bytes, position: int, length: int) -> tuple[int, int]:
    if length == 15:
        while True:
            more = data[position]
            position += 1
            length += more
            if more != 255:
                break
    return length, position


def _repeat(out: bytearray, distance: int, length: int) -> None:
    if distance == 0 or distance > len(out):
        raise ValueError("an LZ4 block refers to before its beginning")
    start = len(out) - distance
    if distance >= length:
        out += out[start : start + length]
        return
    pattern = bytes(out[start:])
    out += (pattern * (length // distance + 1))[:length]
