"""The status column of interpose/api/driver.def, from the functions that the emulator defines; then SUPPORT.md.

scripts/gen status
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from interpose.api.sources import defined_functions
from scripts.commands.dispatch import parser_of
from scripts.commands.gen import support
from scripts.commands.gen.support import API, replace


def main(words: Sequence[str]) -> int:
    parser_of(__name__, __doc__).parse_args(words)
    path = API / "driver.def"
    defined = defined_functions()

    def update(match: re.Match[str]) -> str:
        status = "EMULATED" if match[2] in defined else "UNSUPPORTED"
        return f"{match[1]}({match[2]}, {match[3]}, {status}{match[4]}"

    text = path.read_text()
    changed = re.sub(r"^(TSR_DRIVER(?:_UNTYPED)?)\((\w+), (\w+), \w+(.*)$", update, text, flags=re.MULTILINE)
    if changed != text:
        replace(path, changed)
    support.write()
    return 0
