"""Coverage as JSON with stable keys, and as tables for people."""

from __future__ import annotations

from collections import Counter

from controlplane.analysis.coverage import Coverage, FunctionCoverage
from controlplane.base.demangle import short
from controlplane.base.tables import Part, amount, columns

NAME = 56


def to_json(found: Coverage) -> dict[str, object]:
    return {"functions": [_function(each) for each in found.functions], "coverage": _total(found)}


def _function(each: FunctionCoverage) -> dict[str, object]:
    return {
        **each.description,
        "tier": each.tier,
        "launches": each.launches,
        "known_launches": each.known_launches,
        "evaluated": each.evaluated.launches,
        "ranges": each.evaluated.ranges,
        "whole": each.evaluated.whole,
        "unplaced": each.evaluated.unplaced,
        "predicted_bytes": each.evaluated.predicted_bytes,
        "written_bytes": each.evaluated.written_bytes,
        "overwritten_bytes": each.evaluated.overwritten_bytes,
        "reasons": dict(each.reasons()),
    }


def _total(found: Coverage) -> dict[str, object]:
    return {
        "launches": found.launches,
        "known_launches": found.known_launches,
        "share": round(found.share, 6),
        "lost": found.lost,
        "overwritten_share": None if found.overwritten_share is None else round(found.overwritten_share, 6),
        "by_tier": dict(found.by_tier()),
        "by_reason": dict(found.by_reason()),
        "cached": found.cached,
        "analysed": found.analysed,
    }


def summary(found: Coverage) -> list[Part]:
    """The known share, the launches by tier and by reason, and the functions that are not wholly known."""
    lines: list[Part] = [
        f"{found.known_launches} of {found.launches} launches have known ranges ({_share(found.share)})"
    ]
    if found.lost:
        lines.append(f"{found.lost} more were not recorded: the program launched faster than its records were read")
    if found.overwritten_share is not None:
        lines.append(f"overwritten: {_share(found.overwritten_share)} of written bytes")
    lines += ["", *_counted("tier", found.by_tier(), found.launches)]
    lost = [each for each in found.functions if each.known_launches < each.launches]
    if lost:
        lines += ["", *_counted("why not", found.by_reason(), found.launches), "", *_functions(lost)]
    return lines


def functions(found: Coverage) -> list[Part]:
    return [*_functions(found.functions), "", *summary(found)]


def _counted(what: str, counts: Counter[str], total: int) -> list[Part]:
    rows = [(what, "launches", "share")]
    rows += [(name, str(count), _share(count / total if total else 0)) for name, count in counts.most_common()]
    return columns(rows, right=(1, 2))


def _functions(found: list[FunctionCoverage]) -> list[Part]:
    rows = [("kernel", "tier", "launches", "known", "ranges", "whole", "bytes", "why not")]
    for each in found:
        looked = each.evaluated
        per_launch = looked.ranges / looked.launches if looked.launches else None
        size = looked.predicted_bytes / looked.launches if looked.launches else None
        rows.append(
            (
                short(each.name, NAME),
                each.tier,
                str(each.launches),
                _share(each.known_launches / each.launches if each.launches else 1),
                "-" if per_launch is None else f"{per_launch:.1f}",
                f"{looked.whole}/{looked.launches}" if looked.launches else "-",
                "-" if size is None else amount(round(size)),
                "; ".join(each.reasons()),
            )
        )
    return columns(rows, right=(2, 3, 4, 5, 6))


def _share(share: float) -> str:
    """Never 100 % unless it is all."""
    percent = min(100 * share, 99.99) if share < 1 else 100.0
    return f"{percent:.2f} %" if percent < 100 else "100 %"
