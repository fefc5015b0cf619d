"""What a worker (worker.py) is asked: apart from the analysis itself, so that whoever asks starts quickly."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from controlplane.analysis.cache import Key

MOST_DESCRIPTORS = 64
IMAGES_KEPT = 24
KEPT_BYTES = 256 << 20  # of images; the latest is kept whatever its size
ANSWER = b"done"


@dataclass(frozen=True, slots=True)
class Place:
    """Bytes of a file."""

    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Ahead:
    """Functions of another image that will be asked for. `key`: of one of them."""

    key: Key
    places: tuple[Place, ...]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Task:
    """A function to analyse; images lie in the descriptors that come along, at these places, the code's first.

    `next`: functions of the same image that will be asked for, and `beside` those of others: they are disassembled
    together with this one, as most of the time that nvdisasm takes is that of its start.
    """

    key: Key
    places: tuple[Place, ...]
    next: tuple[str, ...] = ()
    beside: tuple[Ahead, ...] = ()

    def to_json(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Task:
        value = json.loads(data)
        beside = [Ahead(_key(each["key"]), _places(each["places"]), tuple(each["names"])) for each in value["beside"]]
        return cls(_key(value["key"]), _places(value["places"]), tuple(value["next"]), tuple(beside))


def _key(value: dict[str, Any]) -> Key:
    return Key(**{**value, "sources": tuple(value["sources"])})


def _places(value: list[dict[str, int]]) -> tuple[Place, ...]:
    return tuple(Place(**place) for place in value)


ImageOf = tuple[int, int, bool, tuple[int, ...], bool, bool]


def image_of(key: Key) -> ImageOf:
    """What functions of one image have in common."""
    return (key.code, key.architecture, key.ptx_only, key.sources, key.disassemble, key.clone)
