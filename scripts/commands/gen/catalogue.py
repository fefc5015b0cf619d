"""controlplane/machine/catalogue_table.py, which `--emulate` reads, from catalogue.yaml beside it.

scripts/gen catalogue [--check]
"""

from __future__ import annotations

from collections.abc import Sequence
from pprint import pformat

from controlplane.machine.catalogue_file import FILE, read_catalogue
from scripts.commands.dispatch import parser_of

TABLE = FILE.with_name("catalogue_table.py")


def text() -> str:
    found = read_catalogue()
    links = {
        each.name: (each.kind, each.peer_access, each.bytes_per_s, each.latency_ns, each.corrupts)
        for each in found.links.values()
    }
    fields = tuple(next(iter(found.gpus.values())).fields)
    gpus = {
        each.key: (each.name, each.compute, each.link, each.host_link, tuple(each.fields[name] for name in fields))
        for each in found.gpus.values()
    }
    return f'''"""Written by `scripts/gen catalogue` from catalogue.yaml."""

# fmt: off
FIELDS = (
 {pformat(fields, width=105, compact=True)[1:]}
LINKS: dict[str, tuple[str, bool, int, int, bool]] = {pformat(links, width=105, sort_dicts=False)}
GPUS: dict[str, tuple[str, tuple[int, int], str, str, tuple[int, ...]]] = {{
{"".join(f" {key!r}: {pformat(row, width=105, compact=True)},{chr(10)}" for key, row in gpus.items())}}}
'''


def main(words: Sequence[str]) -> int:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("--check", action="store_true", help="only compare")
    if parser.parse_args(words).check:
        return 0 if TABLE.is_file() and TABLE.read_text() == text() else 1
    TABLE.write_text(text())
    return 0
