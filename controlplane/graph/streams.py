"""The order that a program asked for: streams, events, the legacy default stream, and where its host waited."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

LEGACY, PER_THREAD = 1, 2
NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING

Key: TypeAlias = "tuple[int, int, int]"  # context, stream, thread if it is the thread's own


class Before(NamedTuple):
    """As in a Node."""

    after: tuple[int, ...]
    waits: tuple[int, ...]
    returned: tuple[int, ...]


@dataclass(slots=True)
class Order:
    """Operations are numbers; a stream is its context, its handle, and the thread that uses it.

    last: of each stream; awaited: what events have added for its next operation; events: what came before each;
    waits: by thread, whose streams its next operation waits for on the host; returned: the copy that it waits for.
    """

    last: dict[Key, int] = field(default_factory=dict)
    awaited: dict[Key, set[int]] = field(default_factory=dict)
    events: dict[int, set[int]] = field(default_factory=dict)
    waits: dict[int, set[int]] = field(default_factory=dict)
    returned: dict[int, int] = field(default_factory=dict)
    unordered: set[int] = field(default_factory=set)  # handles of streams that the legacy one does not wait for

    def created(self, handle: int, flags: int) -> None:
        (self.unordered.add if flags & NON_BLOCKING else self.unordered.discard)(handle)

    def key(self, context: int, stream: int, thread: int) -> Key:
        return (context, stream, thread if stream == PER_THREAD else 0)

    def enqueue(self, number: int, key: Key, *, blocking: bool, thread: int) -> Before:
        """What comes before it."""
        after = self.before(key)
        self.last[key] = number
        self.awaited.pop(key, None)
        waits = self.waits.pop(thread, set())
        returned = (self.returned.pop(thread),) if thread in self.returned else ()
        if blocking:
            self.returned[thread] = number
        return Before(tuple(sorted(after)), tuple(sorted(waits)), returned)

    def before(self, key: Key) -> set[int]:
        """What an operation of the stream would come after."""
        context, stream, _ = key
        found = {self.last[key]} if key in self.last else set[int]()
        found |= self.awaited.get(key, set())
        if stream == LEGACY:
            found |= {
                number for other, number in self.last.items() if other[0] == context and other[1] not in self.unordered
            }
        elif stream not in self.unordered and (context, LEGACY, 0) in self.last:
            found.add(self.last[context, LEGACY, 0])
        return found

    def record(self, event: int, key: Key) -> None:
        self.events[event] = self.before(key)

    def wait(self, event: int, key: Key) -> None:
        self.awaited.setdefault(key, set()).update(self.events.get(event, ()))

    def synchronize_event(self, event: int, thread: int) -> None:
        self.waits.setdefault(thread, set()).update(self.events.get(event, ()))

    def synchronize_stream(self, key: Key, thread: int) -> None:
        self.waits.setdefault(thread, set()).update(self.before(key))

    def synchronize_context(self, context: int, thread: int) -> None:
        last = {number for key, number in self.last.items() if key[0] == context}
        self.waits.setdefault(thread, set()).update(last)
