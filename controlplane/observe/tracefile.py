"""The trace file: what the control plane received, in the order in which it came, in chunks that stand alone.

    file   magic, version                                       16 bytes
    chunk  kind, bytes of the content, CRC-32 of both and it     12 bytes, then the content

    FACT     JSON: a process, a ring, definitions, code, or the state of a process (clock, counters)
    RECORDS  process, ring, count, number of the first; then consecutive records of that ring (codec.py)
    CODE     hash, size; then the deflated code, of which facts know only the hash

A file that ends within a chunk was cut off, and everything before is good. Numbers are little-endian; a change of
the format or of the records in it changes the version.
"""

import json
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import BinaryIO

from controlplane.observe import codec
from controlplane.observe.layout import Records, constant
from ptxtools.errors import ConfigError, WireError

MAGIC = b"TSRTRACE"
FORMAT = 2
EXPECTED = "a trace that tessera-run --trace of this release wrote"
FILE_HEADER = struct.Struct("<8sII")  # magic, format, version of the records
CHUNK_HEADER = struct.Struct("<III")  # kind, bytes, crc
RECORDS_HEADER = struct.Struct("<IIIIQ")  # process, ring, count, reserved, first
CODE_HEADER = struct.Struct("<QQ")  # hash, size
MAX_CHUNK_BYTES = 1 << 26
MAX_CHUNK_RECORDS = 1 << 18
MAX_CODE_BYTES = 60 << 20  # deflating what cannot be deflated makes it a little longer


class Chunk(IntEnum):
    """What a chunk holds."""

    FACT = 1
    RECORDS = 2
    CODE = 3


@dataclass(frozen=True, slots=True)
class Fact:
    """Something about a process: `what` says what, `data` are its values."""

    what: str
    process: int
    data: dict[str, object]


@dataclass(frozen=True, slots=True)
class RecordsOf:
    """Consecutive records of one ring; `first` is the number of the first one."""

    process: int
    ring: int
    first: int
    records: Records


@dataclass(frozen=True, slots=True)
class CodeOf:
    """Code that lies in no file."""

    hash: int
    data: bytes


Item = Fact | RecordsOf | CodeOf


def file_header() -> bytes:
    return FILE_HEADER.pack(MAGIC, FORMAT, constant("TSR_RECORDS_VERSION"))


def _chunk(kind: Chunk, content: bytes) -> bytes:
    return CHUNK_HEADER.pack(kind, len(content), _checksum(kind, content)) + content


def _checksum(kind: int, content: bytes) -> int:
    return zlib.crc32(content, zlib.crc32(struct.pack("<II", kind, len(content))))


def pack(item: Item) -> bytes:
    """The chunk with this content."""
    if isinstance(item, Fact):
        text = json.dumps({"what": item.what, "process": item.process, "data": item.data}, separators=(",", ":"))
        return _chunk(Chunk.FACT, zlib.compress(text.encode(), 1))
    if isinstance(item, CodeOf):
        return _chunk(Chunk.CODE, CODE_HEADER.pack(item.hash, len(item.data)) + zlib.compress(item.data, 1))
    head = RECORDS_HEADER.pack(item.process, item.ring, len(item.records), 0, item.first)
    return _chunk(Chunk.RECORDS, head + codec.encode(item.records))


class TraceReader:
    """Iterates over what is in a file. cut_off: offset of an incomplete chunk at the end, known after the iteration."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.cut_off: int | None = None

    def __iter__(self) -> Iterator[Item]:
        try:
            with self.file.open("rb") as stream:
                yield from self._items(stream)
        except OSError as error:
            raise ConfigError(error.strerror or str(error), expected=EXPECTED, file=self.file) from error

    def _items(self, stream: BinaryIO) -> Iterator[Item]:
        self._check_header(stream.read(FILE_HEADER.size))
        offset = FILE_HEADER.size
        while head := stream.read(CHUNK_HEADER.size):
            if len(head) < CHUNK_HEADER.size:
                self.cut_off = offset
                return
            kind, size, crc = CHUNK_HEADER.unpack(head)
            if size > MAX_CHUNK_BYTES or kind not in Chunk.__members__.values():
                raise self._error(offset, f"no chunk begins here (kind {kind}, {size} bytes)")
            content = stream.read(size)
            if len(content) < size:
                self.cut_off = offset
                return
            if _checksum(kind, content) != crc:
                raise self._error(offset, "the chunk's checksum is wrong")
            try:
                yield _unpack(Chunk(kind), content)
            except (WireError, ValueError, KeyError, TypeError, struct.error, zlib.error) as error:
                raise self._error(offset, f"the chunk cannot be read: {error}") from error
            offset += CHUNK_HEADER.size + size

    def _check_header(self, data: bytes) -> None:
        if len(data) < FILE_HEADER.size or not data.startswith(MAGIC):
            raise self._error(0, "this is no trace")
        _, version, records = FILE_HEADER.unpack(data)
        if (version, records) != (FORMAT, constant("TSR_RECORDS_VERSION")):
            raise self._error(8, f"the trace is of another release (format {version}, records {records})")

    def _error(self, offset: int, what: str) -> ConfigError:
        return ConfigError(f"offset {offset}: {what}", expected=EXPECTED, file=self.file)


def _unpack(kind: Chunk, content: bytes) -> Item:
    if kind is Chunk.FACT:
        data = json.loads(zlib.decompress(content))
        return Fact(str(data["what"]), int(data["process"]), dict(data["data"]))
    if kind is Chunk.CODE:
        hash_value, size = CODE_HEADER.unpack_from(content)
        code = zlib.decompressobj().decompress(content[CODE_HEADER.size :], min(size, MAX_CODE_BYTES) + 1)
        if len(code) != size:
            raise WireError(f"code of {size} bytes unpacks to {len(code)}")
        return CodeOf(hash_value, code)
    process, ring, count, _, first = RECORDS_HEADER.unpack_from(content)
    if count > MAX_CHUNK_RECORDS:
        raise WireError(f"a chunk with {count} records")
    return RecordsOf(process, ring, first, codec.decode(content[RECORDS_HEADER.size :], count))
