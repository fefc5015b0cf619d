"""Which analyses the latest runs used, so that the next one has them from the cache before its program starts.

A file beside the cache's entries, the latest used first; of two runs that end at the same time one is remembered. It
begins with a digest of the rest. What is damaged, or of another version of the analyser, is forgotten. Another one has
the launches that shims had to evaluate (tessera/templates.h), so that in the next run none has to wait for that.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from controlplane.analysis.cache import RECENT, Cache, Key, analyser_version, digest_of
from ptxtools.machine.consent import Consent

MOST = 4096
DIGEST_BYTES = 16
_TYPES = [int, int, int, bool, str, list, bool, bool]
_HASHES, _ARCHITECTURES, _NAME_BYTES = 1 << 64, 1 << 16, 1 << 16


class Recent:
    """Of runs that asked for the same: whose machine code may be disassembled, and with clones or without."""

    def __init__(self, cache: Cache, consent: Consent, *, clones: bool) -> None:
        self._folder = cache.folder
        self._shapes = f"{RECENT}shapes"
        self._place = f"{RECENT}{consent.value}{'-clones' if clones else ''}.json"

    def listed(self) -> list[Key]:
        """The latest used first."""
        read = self._folder.read(self._place)
        if read is None or digest_of(read[0][DIGEST_BYTES:]) != read[0][:DIGEST_BYTES]:
            return []
        try:
            version, entries = json.loads(read[0][DIGEST_BYTES:])
            return [_key(entry) for entry in entries[:MOST]] if version == analyser_version() else []
        except (ValueError, TypeError, LookupError, RecursionError):
            return []

    def shapes(self) -> bytes:
        """As Table.shapes gave them."""
        read = self._folder.read(self._shapes)
        digest, data = (b"", b"") if read is None else (read[0][:DIGEST_BYTES], read[0][DIGEST_BYTES:])
        return data if _digest(data) == digest else b""

    def remember_shapes(self, data: bytes) -> None:
        """All of them, those of earlier runs, too."""
        self._folder.write(self._shapes, _digest(data) + data)

    def remember(self, used: Iterable[Key]) -> None:
        """These were used, before all others."""
        keys = list(dict.fromkeys([*used, *self.listed()]))[:MOST]
        data = json.dumps([analyser_version(), [key.fields() for key in keys]]).encode()
        self._folder.write(self._place, digest_of(data) + data)


def _digest(shapes: bytes) -> bytes:
    """Those of another version of the analyser are none."""
    return digest_of(analyser_version().encode() + shapes)


def _key(fields: list[Any]) -> Key:
    """Errors: TypeError, ValueError when it is none."""
    if [type(each) for each in fields] != _TYPES or any(type(source) is not int for source in fields[5]):
        raise ValueError("these are not a key's fields")
    code, size, architecture, ptx_only, function, sources, disassemble, clone = fields
    hashes = all(0 <= each < _HASHES for each in (code, size, *sources))
    if not hashes or not 0 <= architecture < _ARCHITECTURES or len(function.encode()) > _NAME_BYTES:
        raise ValueError("these are no fields of a key")
    return Key(code, size, architecture, ptx_only, function, tuple(sources), disassemble, clone)
