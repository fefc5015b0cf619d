"""What viewers rely on in a file of the Trace Event Format, as a check."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any


def check_trace_events(events: Sequence[dict[str, Any]]) -> None:
    """The rules of the Trace Event Format that viewers rely on."""
    tracks: dict[tuple[int, int], list[dict[str, Any]]] = defaultdict(list)
    flows: dict[tuple[str, str, int], dict[str, dict[str, Any]]] = defaultdict(dict)
    named = set()
    counters: dict[tuple[int, str], float] = {}
    for event in events:
        assert event["ph"] in {"M", "X", "C", "s", "f"}
        assert isinstance(event["pid"], int)
        if event["ph"] == "M":
            named.add((event["pid"], event.get("tid")))
            continue
        assert isinstance(event["ts"], float)
        if event["ph"] == "X":
            assert event["dur"] >= 0
            tracks[event["pid"], event["tid"]].append(event)
        elif event["ph"] == "C":
            key = event["pid"], event["name"]
            assert event["ts"] >= counters.get(key, float("-inf"))
            counters[key] = event["ts"]
            assert set(event["args"]) == {"value"}
        else:
            ends = flows[event["cat"], event["name"], event["id"]]
            assert event["ph"] not in ends
            ends[event["ph"]] = event
            assert event["ph"] == "s" or event["bp"] == "e"
    for key, slices in tracks.items():
        assert key in named
        assert (key[0], None) in named
        open_ends: list[float] = []
        for before, after in zip([None, *slices], slices, strict=False):
            assert before is None or before["ts"] <= after["ts"]
            while open_ends and open_ends[-1] <= after["ts"] + 1e-6:
                open_ends.pop()
            end = after["ts"] + after["dur"]
            assert not open_ends or end <= open_ends[-1] + 1e-6
            open_ends.append(end)
    for ends in flows.values():
        assert set(ends) == {"s", "f"}
        assert ends["s"]["ts"] <= ends["f"]["ts"]
        for event in ends.values():
            enclosing = [s for s in tracks[event["pid"], event["tid"]] if s["ts"] <= event["ts"] <= s["ts"] + s["dur"]]
            assert enclosing
