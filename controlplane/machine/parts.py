"""Each GPU shown several times, for developers whose machine has one: TESSERA_SPLIT says how often. GPU n is then card
n // TESSERA_SPLIT, in this package and in interpose/driver/gpus.h and interpose/executor/share.h. It is emulation:
nothing keeps the parts of a card apart but what the driver is told beside (scripts/lab halves).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from ptxtools.errors import ConfigError

SPLIT = "TESSERA_SPLIT"
MOST = 64

Item = TypeVar("Item")


def parts_of(environment: Mapping[str, str]) -> int:
    """How often each GPU is shown; 1 unless set. Raises ConfigError."""
    text = environment.get(SPLIT, "1")
    if not text.isdecimal() or not 0 < int(text) <= MOST:
        raise ConfigError(f"{SPLIT}={text} does not say how often each GPU is shown", expected=f"1 to {MOST}")
    return int(text)


def repeated(items: Iterable[Item], parts: int) -> Iterator[Item]:
    """What each GPU has, in the order of the GPUs as they are shown."""
    return (item for item in items for _ in range(parts))


def told(parts: int) -> str:
    """To whoever looks at results."""
    return f"{SPLIT} shows each GPU {parts} times: this is emulation, {parts} parts of one GPU are no {parts} GPUs"
