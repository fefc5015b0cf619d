"""Which analyses the latest runs used, so that the next one has them from the cache before its program starts.

A file beside the cache's entries, the latest used first; written aside and renamed, so that of two runs that end at the
same time one is remembered. What is damaged, or of another version of the analyser, is forgotten.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from controlplane.analysis.cache import RECENT, Cache, Key, analyser_version, write_whole
from ptxtools.machine.consent import Consent

MOST = 4096
_TYPES = [int, int, int, bool, str, list, bool, bool]


class Recent:
    """Of runs that asked for the same: whose machine code may be disassembled, and with twins or without."""

    def __init__(self, cache: Cache, consent: Consent, *, twins: bool) -> None:
        self._file = cache.directory / f"{RECENT}{consent.value}{'-twins' if twins else ''}.json"

    def listed(self) -> list[Key]:
        """The latest used first."""
        try:
            found = json.loads(self._file.read_bytes())
            version, entries = found
            return [_key(entry) for entry in entries[:MOST]] if version == analyser_version() else []
        except (OSError, ValueError, TypeError):
            return []

    def remember(self, used: Iterable[Key]) -> None:
        """These were used, before all others."""
        keys = list(dict.fromkeys([*used, *self.listed()]))[:MOST]
        write_whole(self._file, json.dumps([analyser_version(), [key.fields() for key in keys]]).encode())


def _key(fields: list[Any]) -> Key:
    """Errors: TypeError, ValueError when it is none."""
    if [type(each) for each in fields] != _TYPES or any(type(source) is not int for source in fields[5]):
        raise ValueError("these are not a key's fields")
    code, size, architecture, ptx_only, function, sources, disassemble, twin = fields
    return Key(code, size, architecture, ptx_only, function, tuple(sources), disassemble, twin)
