"""A profile as text for people, and as JSON with what can be said of it."""

from __future__ import annotations

from collections import Counter

from controlplane.base.demangle import short
from controlplane.base.tables import Part, amount, blocks, columns, duration
from controlplane.graph.nodes import What
from controlplane.profile.model import HOST, GpuType, LaunchClass, Link, Profile, Role, Source, Time

NAME = 56
LARGEST = 20


def line(profile: Profile) -> str:
    """In short."""
    iteration = profile.iteration
    seen = f"seen {iteration.count} times" if iteration.count > 1 else "nothing repeats"
    period = f", one every {duration(iteration.period_ns)}" if iteration.count > 1 else ""
    return f"an iteration of {len(iteration.operations)} operations in {len(profile.classes)} classes, {seen}{period}"


def to_text(profile: Profile) -> list[Part]:
    return blocks([_iteration(profile), _machine(profile), _classes(profile), _memory(profile), _coverage(profile)])


def _iteration(profile: Profile) -> list[str]:
    iteration = profile.iteration
    counts = Counter(profile.classes[each.of].what for each in iteration.operations)
    some = ", ".join(f"{counts[what]} {PLURAL[what]}" for what in PLURAL if counts[what])
    lines = [f"{profile.program or 'a program'}: {line(profile)}", f"  {some}"]
    work = sum(profile.ns(number) or 0.0 for number in range(len(iteration.operations)))
    host = sum(each.host_ns for each in iteration.operations)
    lines.append(f"  {duration(work)} of work on its GPU, {duration(host)} of its thread")
    streams = len({each.stream for each in iteration.operations})
    lines.append(
        f"  {streams} streams, {iteration.threads} threads do the same"
        if iteration.threads > 1
        else f"  {streams} streams"
    )
    waits = sum(bool(each.waits or each.returned) for each in iteration.operations)
    lines.append(f"  the host waits {waits} times in it" if waits else "  the host does not wait in it")
    carried = sum(each.bytes for each in iteration.carried)
    lines.append(
        f"  {amount(carried)} are carried from one iteration to the next: they run one after the other"
        if carried
        else "  nothing is carried from one iteration to the next: several can run at the same time"
    )
    return lines


PLURAL = {What.LAUNCH: "launches", What.COPY: "copies", What.MEMSET: "memsets"}


def _machine(profile: Profile) -> list[Part]:
    machine = profile.machine
    rows = [("GPU", "name", "SMs", "memory", "bandwidth", "fp16 tensor")]
    for number, of in enumerate(machine.gpus):
        kind = machine.types[of]
        sms = f"{kind.sm_limit} of {kind.sm_count}" if kind.sm_limit else str(kind.sm_count or "-")
        home = " (home)" if number == machine.home else ""
        rows.append((f"{number}", kind.name + home, sms, _or_dash(kind.memory_bytes), *_rates(kind)))
    lines = ["machine" + (", emulated" if machine.emulated else ""), *columns(rows, (0, 2, 3, 4, 5))]
    links: dict[str, list[str]] = {}
    for link in machine.links:
        if link.source != HOST and link.target != HOST:
            links.setdefault(_link(link), []).append(f"{link.source}-{link.target}")
    return [*lines, *(f"  {', '.join(some)}: {text}" for text, some in links.items())]


def _rates(kind: GpuType) -> tuple[str, str]:
    return (
        f"{kind.memory_bytes_per_s / 1e12:.2f} TB/s" if kind.memory_bytes_per_s else "-",
        f"{kind.tensor_ops_per_s / 1e12:.0f} TFLOP/s" if kind.tensor_ops_per_s else "-",
    )


def _or_dash(count: int) -> str:
    return amount(count) if count else "-"


def _link(link: Link) -> str:
    rate = f"{link.bytes_per_s / 1e9:.1f} GB/s after {duration(link.latency_ns)}"
    return (
        f"{link.kind}, {rate}"
        + ("" if link.measured else ", typical, not measured")
        + ("" if link.peer else ", no peer access")
    )


def _classes(profile: Profile) -> list[Part]:
    counts = Counter(each.of for each in profile.iteration.operations)
    home, types = profile.machine.home_type, profile.machine.types
    total = sum(count * _ns(profile.classes[of].times[home]) for of, count in counts.items())
    order = sorted(counts, key=lambda of: -counts[of] * _ns(profile.classes[of].times[home]))
    rows = [("share", "count", *(_short_type(kind) for kind in types), "bytes", "class")]
    for of in order[:LARGEST]:
        made = profile.classes[of]
        share = counts[of] * _ns(made.times[home]) / total if total else 0.0
        times = tuple(_time(time) for time in made.times)
        rows.append((f"{share:.1%}", str(counts[of]), *times, amount(made.bytes), _name(made)))
    lines = ["classes, by their share of the iteration's time on the home GPU", *columns(rows, range(3 + len(types)))]
    if len(order) > LARGEST:
        lines.append(f"  and {len(order) - LARGEST} more")
    if any(time is not None and time.source is not Source.MEASURED for made in profile.classes for time in made.times):
        lines.append(
            "  ~ from the same function in another shape or from another GPU, ? guessed from the bytes, - not known"
        )
    return lines


def _short_type(kind: GpuType) -> str:
    return kind.key or kind.name


def _ns(time: Time | None) -> float:
    return time.ns if time is not None else 0.0


MARKS = {Source.MEASURED: "", Source.ALIKE: "~", Source.SCALED: "~", Source.GUESSED: "?"}


def _time(time: Time | None) -> str:
    if time is None:
        return "-"
    spread = f" +-{time.spread_ns / time.ns:.0%}" if time.ns and time.spread_ns / time.ns >= 0.01 else ""
    return f"{MARKS[time.source]}{duration(time.ns)}{spread}"


def _name(of: LaunchClass) -> str:
    if of.what is not What.LAUNCH or not of.block[0]:
        return of.name
    return f"{short(of.name, NAME)} {'x'.join(map(str, of.grid))} {'x'.join(map(str, of.block))}"


def _memory(profile: Profile) -> list[str]:
    by_role = {role: sum(each.bytes_of(role) for each in profile.allocations) for role in Role}
    constant, carried, own = (amount(by_role[role]) for role in (Role.CONSTANT, Role.CARRIED, Role.OWN))
    return [
        f"memory: {amount(profile.peak_bytes)} at most; the iteration uses {len(profile.allocations)} allocations",
        f"  {constant} constant, {carried} carried from iteration to iteration, {own} each iteration's own",
    ]


def _coverage(profile: Profile) -> list[str]:
    coverage = profile.coverage
    lines = [
        f"coverage: {coverage.launches} launches were recorded"
        + (f", {coverage.lost} were not" if coverage.lost else "")
    ]
    if coverage.whole:
        lines.append(f"  {coverage.whole} have a range that is only known as its allocation")
    lines += [
        f"  {count} operations of the iteration may touch anything: {reason}" for reason, count in coverage.unknown
    ]
    if coverage.untimed:
        lines.append(
            f"  {coverage.untimed} operations, {coverage.untimed_share:.1%} of the iteration's time, were not timed"
        )
    else:
        lines.append("  all operations of the iteration were timed")
    return lines + [f"  {note}" for note in coverage.notes]
