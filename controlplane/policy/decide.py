"""What the shim decides for a launch, done here: for explaining a policy, and for trying it on a recorded trace."""

from collections import Counter
from dataclasses import dataclass, field

from controlplane.base.content import content_hash
from controlplane.base.demangle import names
from controlplane.policy.language import Interval, Match, Policy, Share
from controlplane.policy.pattern import glob_matches, regex

MASK = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch on the home GPU, in the words of a policy's conditions.

    process: names of its process, the executable's and its own; library_call: the entry point that it happens in, if
    in one; module: its file's name, if there is one, and its hash as 16 hexadecimal digits; owner: what distinguishes
    functions of one name, such as process and module.
    """

    function: str
    blocks: int = 1
    block_threads: int = 1
    stream: int = 0
    process: tuple[str, ...] = ()
    library_call: tuple[str, ...] = ()
    module: tuple[str, ...] = ()
    owner: object = None


def drawn(share: Share, function: str, number: int) -> bool:
    """Whether the share includes the function's launch of that number, from 1; as schedule/decide.c draws it."""
    if share.fraction >= 1:
        return True
    z = (share.seed * 0x9E3779B97F4A7C15 + content_hash(function.encode()) + number * 0xD1342543DE82EF95) & MASK
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return z ^ (z >> 31) < share.threshold


def _one_of(glob: str | None, names: tuple[str, ...]) -> bool:
    return glob is None or any(glob_matches(glob, name) for name in names)


def _within(interval: Interval | None, number: int) -> bool:
    return interval is None or number in interval


def holds(match: Match, launch: Launch, number: int) -> bool:
    """Whether all conditions hold for the function's launch of that number."""
    return (
        _one_of(match.function, names(launch.function))
        and (match.function_regex is None or regex(match.function_regex).finds(launch.function))
        and _one_of(match.module, launch.module)
        and _one_of(match.process, launch.process)
        and _one_of(match.library_call, launch.library_call)
        and _within(match.blocks, launch.blocks)
        and _within(match.block_threads, launch.block_threads)
        and _within(match.threads, launch.blocks * launch.block_threads)
        and (match.stream is None or match.stream == launch.stream)
        and (match.nth is None or number in match.nth)
        and (match.share is None or drawn(match.share, launch.function, number))
    )


@dataclass(slots=True)
class Decider:
    """Decides launches in the order in which the program makes them."""

    policy: Policy
    _counts: Counter[tuple[object, str]] = field(default_factory=Counter)

    def decide(self, launch: Launch) -> int | None:
        """The place of the rule that decides; None: none does, so the default holds."""
        key = (launch.owner, launch.function)
        self._counts[key] += 1
        for place, rule in enumerate(self.policy.rules):
            if holds(rule.match, launch, self._counts[key]):
                return place
        return None
