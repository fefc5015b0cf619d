"""Registers that are read before they are written: PTX leaves it open what they hold."""

from __future__ import annotations

import re

_REGISTERS = re.compile(r"\.reg\s+\.[bsuf](16|32|64)\s+(%\w+)<(\d+)>\s*;")
_DIRECTIVES = re.compile(r"(?:\s*(?://[^\n]*\n|\.(?:reg|shared|local|pragma|loc)\b[^;]*;))*")


def filled(text: str, kernel: str, byte: int) -> str:
    """The text with a kernel whose registers, but predicates, hold a byte everywhere before anything is written."""
    entry = re.search(rf"\.entry\s+{re.escape(kernel)}\b[^{{]*{{", text)
    assert entry
    directives = _DIRECTIVES.match(text, entry.end())
    assert directives
    found = [(int(bits), name, int(count)) for bits, name, count in _REGISTERS.findall(directives[0])]
    value = {bits: f"0x{byte:02x}" + f"{byte:02x}" * (bits // 8 - 1) for bits in (16, 32, 64)}
    moves = [f"mov.b{bits} {name}{n}, {value[bits]};\n" for bits, name, count in found for n in range(count)]
    return text[: directives.end()] + "\n" + "".join(moves) + text[directives.end() :]
