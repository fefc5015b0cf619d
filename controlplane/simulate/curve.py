"""How much of something is taken from when on: of SMs, a link, copy engines. The emulated driver does the same."""

from __future__ import annotations

from bisect import bisect_right

MOST_STEPS = 4096
NOTHING = 1e-9


class Curve:
    """Bookings find the earliest time at which so much is free for so long, also between earlier bookings.

    times ascend; from times[n] on, used[n] is taken. Before the first and after the last, nothing is.
    """

    def __init__(self, capacity: float = 1.0) -> None:
        self.capacity = capacity + NOTHING
        self.times: list[float] = [float("-inf")]
        self.used: list[float] = [0.0]
        self.busy_ns = 0.0  # in which anything was taken

    def earliest(self, amount: float, ns: float, ready_ns: float) -> float:
        start = max(ready_ns, self.times[1]) if self.times[0] > 0 else ready_ns
        place = bisect_right(self.times, start) - 1
        while place < len(self.times) and self.times[place] < start + ns:
            if self.used[place] + amount > self.capacity and place + 1 < len(self.times):
                start = max(start, self.times[place + 1])
            place += 1
        return start

    def book(self, amount: float, start_ns: float, ns: float) -> None:
        if ns <= 0:
            return
        first, last = self._split(start_ns), self._split(start_ns + ns)
        for place in range(first, last):
            if self.used[place] < NOTHING:
                self.busy_ns += self.times[place + 1] - self.times[place]
            self.used[place] += amount
        if len(self.times) > MOST_STEPS:
            # Nothing is booked so long ago any more.
            half = len(self.times) // 2
            self.times, self.used = self.times[half:], self.used[half:]

    def place(self, amount: float, ns: float, ready_ns: float) -> float:
        start = self.earliest(amount, ns, ready_ns)
        self.book(amount, start, ns)
        return start

    def _split(self, at_ns: float) -> int:
        place = bisect_right(self.times, at_ns) - 1
        if place >= 0 and self.times[place] == at_ns:
            return place
        self.times.insert(place + 1, at_ns)
        self.used.insert(place + 1, self.used[place] if place >= 0 else 0.0)
        return place + 1
