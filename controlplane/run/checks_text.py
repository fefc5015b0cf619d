"""What checks of launches found, as the text that tessera-run prints."""

from controlplane.base.demangle import short
from controlplane.base.tables import LINE, Warned, amount, duration
from controlplane.run.checks import CheckReport, Range, Untested, Violation

SOURCES = {"ptx": "PTX", "machine_code": "machine code", "library": "library calls"}
SKIPS = {
    "unknown": "they may write anything",
    "parameters": "their parameters could not be read",
    "busy": "other work did not come to an end",
    "memory": "no room for a copy of memory",
    "driver": "the driver refused something",
}
CLAIMS = {
    "untested": "no room for a second copy of memory, or they may write what is not looked at",
    "unsteady": "they give other results in each run",
}
LACKS = {
    "no_ptx": "they are not known from PTX",
    "no_twin": "their PTX cannot be rewritten",
    "refused": "the driver refused something of their clones",
    "partly": "their clones cannot test all",
}
ARTICLES = {"read": "a read", "write": "a write", "atomic": "an atomic access"}
LARGEST_VALUE = 16  # hexadecimal digits of a parameter that are shown
MOST_PARAMETERS = 16
MOST_RANGES = 4
MOST_UNTESTED = 10


def to_text(report: CheckReport) -> list[str]:
    """The counts, then each violation that was told."""
    sources = ", ".join(f"{count} {SOURCES[source]}" for source, count in report.by_source.items() if count)
    both = report.writes and report.accesses
    what = "writes and accesses" if both else "writes" if report.writes else "accesses"
    did = "touched" if report.accesses else "wrote"
    checked = f"{what} were checked of {report.checked} launches ({sources or 'none'})"
    found = f"{report.violations} {did} what they were not predicted to"
    known = f"  of {report.known + report.unknown} launches at home, something is known of {report.known}"
    heading = f"{checked}, {report.first} of them as the first of their function: {found}"
    lines = [Warned(heading) if report.violations else heading, f"{known}; one of {report.every} was drawn"]
    if report.checked and report.accesses:
        lines.append(f"  clones of {report.tested_launches} launches tested {report.tested} accesses of threads")
    if report.checked and report.writes:
        lines.append(
            f"  they changed {amount(report.changed_bytes)} of {amount(report.predicted_bytes)} that they may write; "
            f"{report.idle} changed nothing, {report.whole} may write all of an allocation, {report.outside} may write "
            "memory that is not looked at"
        )
        each = duration(report.check_ns / report.checked)
        memory = amount(report.looked_at_bytes // report.checked)
        lines.append(f"  a check took {each} and looked at {memory} in the mean")
        lines += _claims(report)
    lines += [f"  not checked, as {SKIPS[reason]}: {count}" for reason, count in report.skipped.items()]
    for reason, count in report.untested.items():
        what = "not all accesses" if reason == "partly" else "no accesses"
        lines.append(f"  {what} tested, as {LACKS[reason]}: {count}")
        lines += _untested([each for each in report.told_untested if each.reason == reason])
    for violation in report.told:
        lines += _violation(violation)
    if report.violations > len(report.told):
        lines.append(f"  and {report.violations - len(report.told)} more")
    return lines


def _claims(report: CheckReport) -> list[str]:
    if not report.claims:
        return []
    tested, filled = report.claims.get("tested", 0), amount(report.filled_bytes)
    lines = [f"  {tested} were run again with other values in {filled} that they are said not to need"]
    lines += [
        f"  not run again, as {why}: {report.claims[name]}" for name, why in CLAIMS.items() if name in report.claims
    ]
    return lines


def _untested(told: list[Untested]) -> list[str]:
    """Those of most launches."""
    told = sorted(told, key=lambda each: -each.launches)
    lines = [f"    {each.launches} of {short(each.function, LINE // 2)}: {each.why}" for each in told[:MOST_UNTESTED]]
    return [*lines, *([f"    and {len(told) - MOST_UNTESTED} more functions"] if len(told) > MOST_UNTESTED else [])]


def _violation(told: Violation) -> list[str]:
    shape = f"grid {_sizes(told.grid)}, block {_sizes(told.block)}, {told.shared_bytes} bytes of shared memory"
    inside = f" in {told.library_call}" if told.library_call else ""
    where = f"address {told.address:#x}"
    if told.offset is not None:
        where = f"byte {told.offset} of the {told.allocation_bytes} at {told.allocation:#x}"
    if told.parameter is not None:
        where += f", to which parameter {told.parameter} points"
    parameters = [f"{i}: {_value(each.value)}" for i, each in enumerate(told.parameters[:MOST_PARAMETERS])]
    rest = ", ..." if len(told.parameters) > MOST_PARAMETERS else ""
    return [
        f"  {short(told.function, LINE - 2)}",
        f"    {shape}{inside} (process {told.process}, predicted from {SOURCES[told.source]})",
        f"    parameters {', '.join(parameters)}{rest}",
        f"    {_touched(told, where)}",
        f"    predicted, as offsets from that byte: {_predicted(told)}",
    ]


def _touched(told: Violation, where: str) -> str:
    access = told.access
    if told.claimed is not None:
        claimed = f"{told.claimed.high - told.claimed.low} bytes at {told.claimed.low:#x}{_rows(told.claimed)}"
        what = "are scratch" if told.claim == "scratch" else "it overwrites"
        return (
            f"{told.bytes} bytes, the first {where}, became {told.after:02x} instead of {told.before:02x} "
            f"with other values in what is said that {what}, such as the {claimed}"
        )
    if access is None:
        return f"{told.bytes} bytes, the first {where}: {told.before:02x} became {told.after:02x}"
    one = f"{ARTICLES[access.kind]} of {told.bytes} bytes in line {access.line}"
    return f"{access.accesses} accesses, one of them {one}, outside from {where}"


def _predicted(told: Violation) -> str:
    """The ranges closest to the first byte."""
    near = sorted(told.predicted, key=lambda each: max(each.low - told.address, told.address - each.high))
    ranges = [
        f"{each.low - told.address} to {each.high - 1 - told.address}{_rows(each)}" for each in near[:MOST_RANGES]
    ]
    rest = told.predicted_ranges - len(ranges)
    return "; ".join([*ranges, *([f"{rest} more"] if rest else [])]) or "nothing"


def _rows(each: Range) -> str:
    return f" ({each.width} at every {each.stride})" if each.stride else ""


def _sizes(sizes: tuple[int, ...]) -> str:
    return "x".join(map(str, sizes))


def _value(value: int | str | None) -> str:
    if value is None:
        return "?"
    if isinstance(value, int):
        return hex(value) if value >= 1 << 32 else str(value)
    return value if len(value) <= LARGEST_VALUE else f"{value[:LARGEST_VALUE]}... ({len(value) // 2} bytes)"
