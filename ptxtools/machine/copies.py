"""What asynchronous copies from global to shared memory (LDGSTS) read, and when."""

from __future__ import annotations

import re

from ptxtools.access.template import Op
from ptxtools.machine.maker import Maker
from ptxtools.machine.operand import Address, addresses, global_address

_PREDICATE = re.compile(r"(!?)(U?P\d)(?![\w])")


def source(text: str) -> Address:
    """The address in global memory: behind a descriptor, or of 64 bits. Errors: ValueError."""
    if "desc[" in text:
        return global_address(text)
    wide = [each for each in addresses(text) if any("64" in parts for _, parts in each.terms)]
    if len(wide) != 1:
        raise ValueError(f"'{text}' has no single address of 64 bits")
    return wide[0]


def condition(text: str) -> tuple[str, bool]:
    """The predicate under which a copy reads, and its value then; "" when it always does."""
    match = _PREDICATE.search(text)
    return (match[2], not match[1]) if match else ("", True)


def filled(make: Maker, address: int, displacement: int, size: int) -> tuple[int, int]:
    """Address and length of a copy that may fill what is not read with zeros (ZFILL): nodes.

    The low bits of the address say how many of the bytes are not read, the last ones: so ptxas writes a cp.async of
    1 of 16 bytes with 15 added to the address, and one of n bytes with (16 - n) & 15, for which the predicate is that
    n is not 0. Addresses of cp.async are aligned to the size. (Not yet seen on a GPU.)
    """
    total = make.add(address, make.number(displacement), 64)
    start = make.node(Op.AND, (total, make.number(-size)), 64)
    skipped = make.node(Op.AND, (make.low(total), make.number(size - 1)), 32)
    return start, make.subtract(make.number(size), skipped)
