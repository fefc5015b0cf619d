"""A control of the check itself: a kernel whose template is made wrong on purpose must be caught."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[2]))

from controlplane.analysis import cache
from controlplane.analysis.kernel import Image
from tests.check import writer

WRONG, AS_IF = "all", "even"  # the cache says of the first that it does what the second does
LAUNCHES: list[dict[str, Any]] = [{"function": name, "count": 300} for name in writer.BODIES]
OPTIONS = {"--analyze": "--check-writes", "--check-accesses": "--check-accesses"}  # what makes analyses for each check
# Bytes that WRONG changes and AS_IF does not: of the second words, which count up from 7. And accesses.
STRAY = 300


def falsify(directory: Path) -> None:
    """Changes the analyses of WRONG in a cache in which the program's kernels are; its clone stays what it is."""
    files = [file for file in directory.glob("*/*") if key_of(file)[5] == WRONG]
    assert files
    text = writer.text({WRONG: writer.BODIES[AS_IF]})
    for file in files:
        key = key_of(file)
        wanted = json.dumps(key).encode()
        right, wrong = cache.decode(file.read_bytes(), wanted), Image(text, key[3], ptx_only=key[4]).analyse(WRONG)
        assert right is not None
        assert wrong.is_known
        file.write_bytes(cache.encode(wanted, replace(wrong, clone=right.clone)))


def key_of(file: Path) -> list[Any]:
    """The analyser's version, then the fields of cache.Key."""
    data = file.read_bytes()
    size = cache.HEADER.unpack_from(data)[2]
    key: list[Any] = json.loads(data[cache.HEADER.size : cache.HEADER.size + size])
    return key


def verdict(check: dict[str, Any]) -> str:
    """What is wrong with a report of LAUNCHES under a check; nothing if the text is empty."""
    caught = [(told["function"], (told["access"] or {"accesses": told["bytes"]})["accesses"]) for told in check["told"]]
    return "" if caught == [(WRONG, STRAY)] else f"of {check['checked']} launches, caught: {caught}"
