"""Records of a trace in few bytes: sorted by kind, times as differences, one plane per byte position, then deflated.

Most of a record's 64 bytes are the same in all records of its kind that come together; such a plane is one byte.

    kinds of all records                                     a byte each
    then for each kind in it, in rising order:
      first values of the columns that are differences       8 bytes each
      first record, after the differences                    64 bytes
      which planes are not the same byte throughout          64 bits, the first plane's the highest of the first byte
      those planes                                           a byte per record of the kind
"""

import zlib
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from controlplane.observe.layout import Kind, Records, dtype
from ptxtools.errors import WireError

LEVEL = 1  # of deflate: 6 took four times as long for a sixth less
# Columns that grow from record to record.
GROWING = ("start",)
GROWING_IN_TIMES = ("start", "time.number", "time.start_ns")


def _order(kinds: NDArray[np.uint8]) -> NDArray[np.intp]:
    return np.argsort(kinds, kind="stable")


def _groups(kinds: NDArray[np.uint8]) -> list[tuple[int, slice]]:
    """Runs of one kind, of sorted kinds."""
    starts = np.flatnonzero(np.diff(kinds, prepend=kinds[:1] + 1)).tolist()
    return [(int(kinds[start]), slice(start, stop)) for start, stop in pairwise([*starts, len(kinds)])]


def _columns(kind: int) -> tuple[str, ...]:
    return GROWING_IN_TIMES if kind == Kind.TIME else GROWING


def encode(records: Records) -> bytes:
    """Any records, of any content."""
    kinds = records["kind"].copy()
    ordered = records[_order(kinds)]
    parts = [kinds.tobytes()]
    for kind, group in _groups(ordered["kind"]):
        some = ordered[group]
        for name in _columns(kind):
            parts.append(some[name][:1].tobytes())
            some[name] = np.diff(some[name], prepend=some[name][:1])
        planes = np.ascontiguousarray(some.view(np.uint8).reshape(len(some), -1).T)
        varying = (planes != planes[:, :1]).any(axis=1)
        parts += [planes[:, 0].tobytes(), np.packbits(varying).tobytes(), planes[varying].tobytes()]
    return zlib.compress(b"".join(parts), LEVEL)


def decode(data: bytes, count: int) -> Records:
    """The records that encode() was given. Raises WireError."""
    layout = dtype("tsr_record")
    most = count * (1 + layout.itemsize) + 256 * (2 * layout.itemsize)
    try:
        raw = zlib.decompressobj().decompress(data, most)
    except zlib.error as error:
        raise WireError(f"{count} records cannot be unpacked: {error}") from error
    kinds = _take(raw, 0, count)
    order = _order(kinds)
    ordered, place = np.empty(count, layout), count
    for kind, group in _groups(kinds[order]):
        place = _decode_group(raw, place, kind, ordered[group])
    if place != len(raw):
        raise WireError(f"{count} records unpack to {len(raw)} bytes instead of {place}")
    result = np.empty_like(ordered)
    result[order] = ordered
    return result


def _decode_group(raw: bytes, place: int, kind: int, some: Records) -> int:
    """Fills in the records of one kind; the result is where the next kind begins."""
    columns, size = _columns(kind), some.dtype.itemsize
    values = _take(raw, place, 8 * len(columns)).view(np.uint64)
    place += 8 * len(columns)
    first = _take(raw, place, size)
    varying = np.unpackbits(_take(raw, place + size, size // 8)).astype(bool)
    place += size + size // 8
    planes = np.repeat(first[:, np.newaxis], len(some), axis=1)
    stored = int(varying.sum()) * len(some)
    planes[varying] = _take(raw, place, stored).reshape(-1, len(some))
    some[:] = np.ascontiguousarray(planes.T).reshape(-1).view(some.dtype)
    for name, value in zip(columns, values, strict=True):
        some[name] = np.cumsum(some[name], dtype=np.uint64) + value
    if (some["kind"] != kind).any():
        raise WireError("records do not have the kinds that they should")
    return place + stored


def _take(raw: bytes, place: int, count: int) -> NDArray[np.uint8]:
    if place + count > len(raw):
        raise WireError("packed records end too early")
    return np.frombuffer(raw, np.uint8, count, place)
