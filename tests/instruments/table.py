"""Verdicts by kernel, as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any

from tests.instruments.oracle import Verdict

_KEPT = 200  # numbers of each kernel


@dataclass(slots=True)
class Row:
    """A kernel's launches. `complete`: came to their end; the others strayed (oracle.py) or stopped at a fault.

    `ratios`: predicted by traced bytes of complete launches with all bounds known. `overwritten`: bytes that they are
    said to overwrite, as a share of those that they write.
    """

    launches: int = 0
    complete: int = 0
    violations: int = 0
    strays: int = 0
    whole: int = 0
    unknown: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    ratios: list[float] = field(default_factory=list)
    overwritten: list[float] = field(default_factory=list)
    evaluate_ns: list[int] = field(default_factory=list)
    example: str = ""

    @staticmethod
    def of(entry: dict[str, Any]) -> Row:
        """The row that `entry` described."""
        return Row(**{**entry, "unknown": Counter(entry["unknown"]), "faults": Counter(entry["faults"])})

    def entry(self) -> dict[str, Any]:
        """For JSON."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def add(self, verdict: Verdict) -> None:
        self.launches += 1
        self.complete += verdict.complete
        self.strays += verdict.stray is not None
        if verdict.fault:
            self.faults[verdict.fault] += 1
        if len(self.evaluate_ns) < _KEPT:
            self.evaluate_ns.append(verdict.evaluate_ns)
        if verdict.result.unknown:
            self.unknown.update({reason for _, reason in verdict.result.unknown})
            return
        kept = verdict.kept if verdict.complete else []
        if verdict.missed or kept:
            self.violations += 1
            self.example = self.example or (f"{verdict.missed[:2]}" if verdict.missed else f"kept {kept[:2]}")
        if verdict.written_bytes and verdict.complete and len(self.overwritten) < _KEPT:
            self.overwritten.append(verdict.overwritten_bytes / verdict.written_bytes)
        self.whole += verdict.clamped
        if verdict.traced_bytes and verdict.complete and not verdict.clamped and len(self.ratios) < _KEPT:
            self.ratios.append(verdict.predicted_bytes / verdict.traced_bytes)

    def join(self, other: Row) -> None:
        """Adds other launches of the kernel."""
        for each in ("launches", "complete", "violations", "strays", "whole"):
            setattr(self, each, getattr(self, each) + getattr(other, each))
        self.unknown += other.unknown
        self.faults += other.faults
        self.ratios = [*self.ratios, *other.ratios][:_KEPT]
        self.overwritten = [*self.overwritten, *other.overwritten][:_KEPT]
        self.evaluate_ns = [*self.evaluate_ns, *other.evaluate_ns][:_KEPT]
        self.example = self.example or other.example


@dataclass(slots=True)
class Table:
    """Rows by (where the kernel comes from, its name)."""

    rows: dict[tuple[str, str], Row] = field(default_factory=dict)

    def add(self, source: str, verdicts: Iterable[Verdict]) -> None:
        for verdict in verdicts:
            self.rows.setdefault((source, verdict.function), Row()).add(verdict)

    def summary(self) -> dict[str, object]:
        """Counts over all rows. Medians and percentiles are over kernels, each with its median launch."""
        rows = list(self.rows.values())
        known = [row for row in rows if not row.unknown]
        ratios = sorted(_middle(row.ratios) for row in known if row.ratios)
        shares = sorted((_middle(row.overwritten) for row in known if row.overwritten), reverse=True)
        times = sorted(_middle(row.evaluate_ns) / 1e6 for row in rows)
        reasons = Counter(reason for row in rows for reason in row.unknown)
        return {
            "kernels": len(rows),
            "launches": sum(row.launches for row in rows),
            "complete": sum(row.complete for row in rows),
            "violations": sum(row.violations for row in rows),
            "strays": sum(row.strays for row in rows),
            "kernels_with_strays": sum(row.strays > 0 for row in rows),
            "faults": dict(sum((row.faults for row in rows), Counter()).most_common()),
            "known": len(known),
            "whole_allocation": sum(bool(row.whole) for row in known),
            "unknown": dict(reasons.most_common()),
            "excess_median_percent": _excess(ratios, 0.5),
            "excess_90th_percent": _excess(ratios, 0.9),
            "overwritten_median_percent": _share(shares, 0.5),
            "overwritten_10th_percent": _share(shares, 0.9),
            "evaluate_median_ms": round(times[len(times) // 2], 3) if times else None,
        }

    def lines(self) -> Iterable[str]:
        """One line per kernel."""
        for (source, name), row in sorted(self.rows.items()):
            ratio = f"{_middle(row.ratios):10.3f}" if row.ratios else f"{'-':>10}"
            share = f"{100 * _middle(row.overwritten):6.1f} %" if row.overwritten else f"{'-':>8}"
            verdict = (
                f"VIOLATIONS {row.violations} {row.example}" if row.violations else ", ".join(row.unknown) or "known"
            )
            whole = f" (whole allocations in {row.whole})" if row.whole else ""
            strays = f" ({row.strays} strays)" if row.strays else ""
            time = f"{_middle(row.evaluate_ns) / 1e6:8.2f} ms"
            yield f"{source[:24]:24} {name[:48]:48} {row.launches:6} {ratio} {share} {time}  {verdict}{whole}{strays}"


def _middle(values: list[float] | list[int]) -> float:
    return sorted(values)[len(values) // 2]


def _share(shares: list[float], quantile: float) -> float | None:
    if not shares:
        return None
    return round(100 * shares[min(len(shares) - 1, int(quantile * len(shares)))], 2)


def _excess(ratios: list[float], quantile: float) -> float | None:
    if not ratios:
        return None
    return round(100 * (ratios[min(len(ratios) - 1, int(quantile * len(ratios)))] - 1), 2)
