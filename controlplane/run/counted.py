"""What the shim counted of a policy, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from controlplane.base.tables import Part, Warned, amount, columns, duration
from controlplane.policy.reasons import explained
from controlplane.policy.table import Copies, Launches, Pool, PoolHost, Schedule

LEAST_GAIN = 0.02
MUCH_UNKNOWN = 0.05
PULLS = {
    "launch": "launches",
    "copy": "copies",
    "unknown": "work of which nothing is known",
    "given": "memory that others are given",
    "directory": "want of room to tell who holds what",
    "constant": "launches to come",
}
SHOWN_RULES = 10
PAIRS = {
    "wrong": "copies arrive wrong, so these GPUs are used without peer access",
    "failed": "whether copies arrive right could not be found out; they are taken to",
}


def counted(launches: Launches, waited_ns: int | None = None) -> list[Part]:
    """When the run is over. waited_ns: what streams waited for pulls, if that is known."""
    rows = [("GPU", "launches"), *((str(gpu), str(count)) for gpu, count in launches.by_device.items())]
    return [*columns(rows, right=(0, 1)), *lines(launches, waited_ns)]


def lines(launches: Launches, waited_ns: int | None = None) -> Iterator[str]:
    """All but the launches on each GPU."""
    reasons = ", ".join(f"{reason}: {count}" for reason, count in launches.kept_reasons.items())
    because = f" ({reasons})" if reasons else ""
    if launches.kept_home or launches.schedule is None:
        yield f"  kept home although a rule sent them elsewhere: {launches.kept_home}{because}"
    yield from (f"    {each}" for each in explained(launches.kept_reasons))
    if launches.graphs:
        yield f"  launches of graphs: {_by_gpu(launches.graphs)}"
    if launches.schedule is not None:
        yield _gained(launches.schedule)
    yield from _given(launches)
    yield from _idle_rules(launches)
    if launches.copies:
        yield f"  copies and memsets that followed their stream: {_by_gpu(launches.copies)}"
    if launches.created_bytes or launches.moved:
        created = ", ".join(f"{amount(count)} on GPU {gpu}" for gpu, count in launches.created_bytes.items())
        yield (
            f"  memory away from home: {created or 'none'} when it was allocated; {launches.moved} times memory "
            f"moved to another GPU, {amount(launches.moved_bytes)}"
        )
    if launches.pool is not None:
        yield from _pool(launches.pool)
    if launches.why_no_copies:
        yield f"  GPUs have no copies of memory: {launches.why_no_copies}"
    if launches.shared is not None:
        yield from _copies(launches.shared, waited_ns)
    if launches.verified or launches.not_verified:
        verified = (
            f"  verified, run at home too: {launches.verified}, of which {launches.different} gave other bytes; "
            f"could not be verified: {launches.not_verified}"
        )
        yield Warned(verified) if launches.different else verified


def _by_gpu(counts: Mapping[int, int]) -> str:
    return ", ".join(f"GPU {gpu}: {count}" for gpu, count in counts.items())


def _pool(pool: Pool) -> Iterator[str]:
    shares = ", ".join(f"GPU {part.gpu}: {amount(part.most_owned_bytes)} of {amount(part.bytes)}" for part in pool.gpus)
    left = amount(pool.reserve_bytes)
    yield f"  the program's memory in the pool, at most: {shares}; of each GPU, {left} are left to copies"
    if pool.split:
        yield f"  allocations that lie on several GPUs, because none had room for all: {pool.split}"
    if pool.passed:
        yield f"  memory that went to another GPU, for balance: {pool.passed} times, {amount(pool.passed_bytes)}"
    if pool.given_back:
        yield f"  copies that made room for something else: {pool.given_back}, {amount(pool.given_back_bytes)}"
    if pool.refused:
        yield f"  allocations that found no room in the pool: {pool.refused}"
    if pool.host is not None:
        yield from _pool_host(pool.host)


def _pool_host(host: PoolHost) -> Iterator[str]:
    yield f"  in host memory, at most: {amount(host.most_owned_bytes)} of {amount(host.bytes)}"
    if host.refused:
        yield f"  host memory that the driver refused: {host.refused} times"
    if host.fetched or host.prefetched:
        yield (
            f"  brought from there to a GPU: {amount(host.prefetched_bytes)} ahead, in {host.prefetched}, of which "
            f"{host.prefetched_used} were used; {amount(host.fetched_bytes)} when a launch needed it, in {host.fetched}"
        )
    if host.evicted:
        yield (
            f"  such copies that made room for others: {host.evicted}, {amount(host.evicted_bytes)}; written back: "
            f"{amount(host.written_back_bytes)}"
        )
    if host.through_link:
        yield f"  uses of host memory through the link, for want of room on the GPU: {host.through_link}"


def _copies(copies: Copies, waited_ns: int | None) -> Iterator[str]:
    pulled = ", ".join(
        f"{amount(count)} in {copies.pulls[gpu]} on GPU {gpu}" for gpu, count in copies.pulled_bytes.items()
    )
    yield f"  pulled from other GPUs' copies of memory: {pulled or 'nothing'}; waits for another stream: {copies.waits}"
    if copies.pulled_bytes and waited_ns is not None:
        yield f"  what streams waited for that, all together: {duration(waited_ns)}"
    if len(copies.pulled_for) > 1:
        parts = (f"{PULLS[cause]} {amount(count)}" for cause, count in copies.pulled_for.items())
        yield f"  of that for {', '.join(parts)}"
    if copies.brought_home:
        yield (
            f"  of that all brought home for work of which nothing is known: {copies.brought_home} times, "
            f"{amount(copies.brought_home_bytes)}"
        )
    if copies.through_host_bytes:
        through = ", ".join(f"{amount(count)} to GPU {gpu}" for gpu, count in copies.through_host_bytes.items())
        yield f"  of that through host memory, between GPUs without peer access: {through}"
    if copies.ties:
        yield f"  a stream's work on one GPU waited for its work on another: {copies.ties}"
    for pair in copies.pairs:
        if pair.why in PAIRS:
            line = f"  GPU {pair.source} to GPU {pair.target}: {PAIRS[pair.why]}"
            yield Warned(line) if pair.why == "wrong" else line


def _gained(schedule: Schedule) -> str:
    """What was gained, or why nothing was; one line."""
    share = schedule.unknown / schedule.launches
    if schedule.gain > 1 + LEAST_GAIN:
        return f"  estimated gain: {schedule.gain:.2f} times as early as the program's own GPU alone"
    if share > MUCH_UNKNOWN:
        return Warned(
            f"  nothing was gained: of {share:.0%} of the launches it is not known what they touch; they wait for all "
            "others. The next run may know more"
        )
    if schedule.promised > 1 + LEAST_GAIN:
        return Warned(
            f"  nothing was gained yet, {schedule.promised:.2f} times as early would be possible: the run was short, "
            "or GPUs wait for the program's host"
        )
    return "  nothing is to be gained: launches depend on each other, or GPUs wait for the program's host"


def _given(launches: Launches) -> Iterator[str]:
    for what, counts in (("streams", launches.given_streams), ("threads", launches.given_threads)):
        if counts:
            yield f"  {what} that rules gave a GPU: {_by_gpu(counts)}"


def _idle_rules(launches: Launches) -> Iterator[str]:
    """Rules that decided nothing: of many only how many they are."""
    idle = [rule for rule in launches.rules if not rule.launches]
    for rule in idle[:SHOWN_RULES]:
        hint = f"; did you mean {' or '.join(rule.nearest)}?" if rule.nearest else ""
        yield Warned(f"  the rule in line {rule.line} matched no launch{hint}")
    if len(idle) > SHOWN_RULES:
        yield Warned(f"  and {len(idle) - SHOWN_RULES} more rules matched none")
