"""What a policy does, in plain words, and what in it cannot be meant: rules without effect, missing GPUs."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from controlplane.policy.language import (
    AUTO,
    BY_STREAM,
    COPIES,
    FOLLOW,
    MOST,
    SEVERAL,
    Executor,
    Interval,
    Match,
    Nth,
    Order,
    Policy,
    Rule,
)
from controlplane.policy.pattern import glob_matches, regex
from ptxtools.machine.consent import Consent

MOST_BLOCK_THREADS = 1024


class Severity(Enum):
    """ERROR: a run would fail. WARNING: it would not do what the text seems to ask for."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to correct, and the line of the policy it is about."""

    severity: Severity
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU that exists; figures are None where they are not known."""

    name: str
    sm_count: int | None = None
    memory_bytes: int | None = None


def place(policy: Policy, device: int) -> str:
    return f"GPU {device} (home)" if device == policy.home else f"GPU {device}"


def explain_rule(policy: Policy, rule: Rule) -> str:
    """One sentence."""
    conditions = list(_conditions(rule.match))
    who = f"launches {', '.join(conditions)}" if conditions else "all launches"
    return f"{who} {_where(policy, rule.device)}"


def explain_default(policy: Policy) -> str:
    return f"launches that no rule matches {_where(policy, policy.default)}"


def _where(policy: Policy, device: int) -> str:
    if device not in SEVERAL:
        return f"{'stay' if device == policy.home else 'run'} on {place(policy, device)}"
    whose = "stream" if device == BY_STREAM else "thread"
    gpus = ", ".join(place(policy, gpu) for gpu in policy.gpus)
    if device == AUTO:
        return f"are placed one by one on {gpus}"
    return f"run on their {whose}'s GPU: each new {whose} is given the one with the least to do of {gpus}"


def explain_consent(policy: Policy) -> str:
    whose = {
        Consent.OPEN: "all but that of NVIDIA's closed libraries",
        Consent.ALL: "all, that of NVIDIA's closed libraries, too,",
        Consent.NONE: "none",
    }
    return f"{whose[policy.disassemble]} may be disassembled"


def main_gpu(policy: Policy) -> int:
    """Where launches run that no rule with a condition takes: as far as one can tell, most of them."""
    device = next((rule.device for rule in policy.rules if implies(Match(), rule.match)), policy.default)
    return policy.home if device in SEVERAL else device


def used_gpus(policy: Policy) -> frozenset[int]:
    """Those that launches may run on."""
    devices: list[int] = []
    for rule in policy.rules:
        if _never(rule.match) is None:
            devices.append(rule.device)
        if implies(Match(), rule.match):
            break
    else:
        devices.append(policy.default)
    return _gpus_of(policy, devices)


def _gpus_of(policy: Policy, devices: Iterable[int]) -> frozenset[int]:
    """Of rules' devices."""
    return frozenset(gpu for device in devices for gpu in (policy.gpus if device in SEVERAL else (device,)))


def with_usual_memory(policy: Policy, against: str = "") -> Policy:
    """Memory where it usually lies, unless the policy says where. against: what of the run keeps GPUs from copies."""
    if policy.says_memory:
        return policy
    if policy.order is Order.DATA:
        return replace(policy, memory_place=COPIES, why_no_copies="")
    several = len(used_gpus(policy)) > 1
    why = (_against_copies(policy) or against) if several else ""
    return replace(policy, memory_place=COPIES if several and not why else FOLLOW, why_no_copies=why)


def _against_copies(policy: Policy) -> str:
    return "no machine code may be disassembled" if policy.disassemble is Consent.NONE else ""


def explain_memory(policy: Policy) -> str:
    """One sentence."""
    if policy.pool:
        return (
            "the program's memory lies where there is room on its GPUs, and each GPU has copies of what its launches "
            "write and others own"
        )
    if policy.memory_place == COPIES:
        return "each GPU has a copy of the program's memory, and of its bytes those that its launches use"
    if policy.memory_place != FOLLOW:
        return f"the program's memory lies on {place(policy, policy.memory_place)}"
    where = place(policy, main_gpu(policy))
    why = f"; GPUs have no copies of it: {policy.why_no_copies}" if policy.why_no_copies else ""
    return f"the program's memory lies on the GPU whose launches use it, and on {where} at first{why}"


def _conditions(match: Match) -> Iterable[str]:
    if match.function is not None and match.function != "*":
        yield f"of functions named {match.function}"
    if match.function_regex is not None:
        yield f"of functions whose name contains a match of /{match.function_regex}/"
    if match.module is not None:
        yield f"of modules named {match.module}"
    if match.process is not None:
        yield f"in processes named {match.process}"
    if match.library_call is not None:
        yield f"in library calls named {match.library_call}"
    for interval, unit in (
        (match.blocks, "blocks"),
        (match.threads, "threads"),
        (match.block_threads, "threads per block"),
    ):
        if interval is not None:
            yield f"with {_amount(interval)} {unit}"
    if match.stream is not None:
        yield (
            f"in the {_ordinal(match.stream)} stream that the program makes" if match.stream else "in a default stream"
        )
    if match.nth is not None and match.nth.every != 1:
        yield _nth(match.nth)
    if match.share is not None:
        yield f"chosen as if at random ({100 * match.share.fraction:g} %, seed {match.share.seed})"


def _amount(interval: Interval) -> str:
    if interval.low == interval.high:
        return str(interval.low)
    if interval.high == MOST:
        return f"at least {interval.low}"
    return f"at most {interval.high}" if interval.low == 0 else f"{interval.low} to {interval.high}"


def _ordinal(number: int) -> str:
    tail = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{tail}"


def _nth(nth: Nth) -> str:
    if nth.every == 0:
        return f"that are the {_ordinal(nth.offset)} of their function"
    first = nth.offset or nth.every
    return f"that are every {_ordinal(nth.every)} of their function from the {_ordinal(first)} on"


def findings(policy: Policy, gpus: Sequence[Gpu] | None) -> list[Finding]:
    """By line. gpus: what the machine has, None if that is not known."""
    found = [*_missing_gpus(policy, gpus or ())] if gpus is not None else []
    for number, rule in enumerate(policy.rules):
        reason = _never(rule.match)
        if reason:
            found.append(Finding(Severity.WARNING, rule.line, f"the rule never holds: {reason}"))
            continue
        hiding = next((other for other in policy.rules[:number] if implies(rule.match, other.match)), None)
        if hiding:
            text = f"the rule is never reached: the one in line {hiding.line} takes every launch that it matches"
            found.append(Finding(Severity.WARNING, rule.line, text))
    used = _gpus_of(policy, (*(rule.device for rule in policy.rules), policy.default))
    found += [
        Finding(
            Severity.WARNING,
            policy.devices_line,
            f"no rule sends anything to GPU {executor.device}, which is an executor",
        )
        for executor in policy.executors
        if executor.device not in used
    ]
    return sorted(found, key=lambda finding: finding.line)


def _missing_gpus(policy: Policy, gpus: Sequence[Gpu]) -> Iterable[Finding]:
    line = policy.devices_line
    there = f"the machine has {len(gpus)} GPU{'' if len(gpus) == 1 else 's'}"
    for executor in (Executor(policy.home), *policy.executors):
        if executor.device >= len(gpus):
            yield Finding(Severity.ERROR, line, f"GPU {executor.device} does not exist: {there}")
            continue
        gpu = gpus[executor.device]
        if executor.sm_limit and gpu.sm_count is not None and executor.sm_limit > gpu.sm_count:
            text = f"sm_limit {executor.sm_limit} of GPU {executor.device} is more than its {gpu.sm_count} SMs"
            yield Finding(Severity.ERROR, line, text)
        if (
            executor.memory_limit_bytes
            and gpu.memory_bytes is not None
            and executor.memory_limit_bytes > gpu.memory_bytes
        ):
            text = f"memory_limit of GPU {executor.device} is more than its {gpu.memory_bytes} bytes"
            yield Finding(Severity.WARNING, line, text)


def _never(match: Match) -> str | None:
    """Why no launch can fulfil the conditions together."""
    anything = Interval(1, MOST)
    blocks, threads = match.blocks or anything, match.threads or anything
    block_threads = match.block_threads or Interval(1, MOST_BLOCK_THREADS)
    most_block_threads = min(block_threads.high, MOST_BLOCK_THREADS)
    if match.share is not None and match.share.fraction == 0:
        return "its share is 0"
    if blocks.high < 1 or threads.high < 1 or block_threads.high < 1:
        return "a launch has at least one block and one thread"
    if block_threads.low > MOST_BLOCK_THREADS:
        return f"a block has at most {MOST_BLOCK_THREADS} threads"
    if threads.high < max(blocks.low, 1) * max(block_threads.low, 1) or threads.low > blocks.high * most_block_threads:
        return "no grid has that many blocks and threads"
    if match.function is None or match.function_regex is None or not _is_drivers(match.function):
        return None
    found = regex(match.function_regex).finds(match.function)
    return None if found else f"{match.function} does not match /{match.function_regex}/"


def _is_drivers(glob: str) -> bool:
    """Whether it names one function, mangled where the language does that."""
    return re.fullmatch(r"_Z\w+", glob) is not None


def _has_wildcard(glob: str) -> bool:
    return bool(re.search(r"[*?\[\\]", glob))


def implies(narrow: Match, wide: Match) -> bool:
    """Whether every launch that fulfils `narrow` fulfils `wide` too; False also when that cannot be told."""
    globs = (
        (narrow.function, wide.function),
        (narrow.module, wide.module),
        (narrow.process, wide.process),
        (narrow.library_call, wide.library_call),
    )
    intervals = (
        (narrow.blocks, wide.blocks),
        (narrow.threads, wide.threads),
        (narrow.block_threads, wide.block_threads),
    )
    return (
        all(_glob_implies(a, b) for a, b in globs)
        and all(b is None or (a is not None and b.covers(a)) for a, b in intervals)
        and _regex_implies(narrow, wide)
        and wide.stream in (None, narrow.stream)
        and _nth_implies(narrow.nth, wide.nth)
        and _share_implies(narrow, wide)
    )


def _glob_implies(narrow: str | None, wide: str | None) -> bool:
    """A name without wildcards is tried; wildcards of the narrow pattern may only fall under a * of the wide one."""
    if wide is None or wide == narrow or wide.strip("*") == "":
        return True
    if narrow is None:
        return False
    if not _has_wildcard(narrow):
        return glob_matches(wide, narrow)
    if re.search(r"[?\[\\]", wide) or re.search(r"[\[\\]", narrow):
        return False
    return glob_matches(wide, narrow.replace("*", "\1").replace("?", "\2"))


def _regex_implies(narrow: Match, wide: Match) -> bool:
    if wide.function_regex in (None, narrow.function_regex):
        return True
    literal = narrow.function is not None and _is_drivers(narrow.function)
    return literal and regex(str(wide.function_regex)).finds(str(narrow.function))


def _nth_implies(narrow: Nth | None, wide: Nth | None) -> bool:
    if wide is None or wide == narrow:
        return True
    if narrow is None:
        return wide.every == 1
    if narrow.every == 0:
        return narrow.offset in wide
    return wide.every != 0 and narrow.every % wide.every == 0 and narrow.offset % wide.every == wide.offset


def _share_implies(narrow: Match, wide: Match) -> bool:
    a, b = narrow.share, wide.share
    return b is None or b.fraction >= 1 or (a is not None and a.seed == b.seed and a.fraction <= b.fraction)
