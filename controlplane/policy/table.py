"""The decision table (tessera/policy.h): a policy in the form that the shim reads, and the shim's counters in it."""

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from itertools import permutations
from typing import Any, TypeAlias

from controlplane.base.demangle import demangle, plain
from controlplane.policy.explain import main_gpu
from controlplane.policy.language import AUTO, COPIES, GPUS, Interval, Log, Match, Order, Policy, Rule
from ptxtools.errors import ConfigError
from ptxtools.native import records

HEADER = "policy.h"
NEAREST, LIKENESS = 3, 0.7
FIRST_GENERATION = 1


def compile_table(policy: Policy, sockets: Sequence[str]) -> bytes:
    """The whole record in its first generation; sockets are the executors' names, in the policy's order."""
    ffi, text = records.header(HEADER)
    record: Any = ffi.new("struct tsr_policy *")
    record.magic = records.constant(text, "TSR_POLICY_MAGIC", HEADER)
    record.version = records.constant(text, "TSR_POLICY_VERSION", HEADER)
    record.bytes = ffi.sizeof(record[0])
    record.home = policy.home
    record.executor_count = len(policy.executors)
    for place, (executor, socket) in enumerate(zip(policy.executors, sockets, strict=True)):
        record.executors[place].device = executor.device
        record.executors[place].sm_limit = executor.sm_limit or 0
        record.executors[place].memory_limit_bytes = executor.memory_limit_bytes or 0
        record.executors[place].socket = socket.encode()
    record.generation = FIRST_GENERATION
    record.library_calls = policy.marks_library_calls
    record.memory_place = policy.memory_place
    record.order = _orders(text)[policy.order]
    record.memory_first = main_gpu(policy)
    record.memory_pool = policy.pool
    record.memory_reserve_bytes = policy.reserve_bytes
    record.memory_move_after = policy.move_after
    _write_rules(record.tables[FIRST_GENERATION % 2], policy)
    if policy.memory_place == COPIES:
        pending: int = _proofs()["TSR_PROOF_PENDING"]
        for target, source in permutations(policy.gpus, 2):
            record.pairs[target][source].proof = pending
    return bytes(ffi.buffer(record))


def _orders(text: str) -> dict[Order, int]:
    return {order: records.constant(text, f"TSR_POLICY_ORDER_{order.name}", HEADER) for order in Order}


def live_order(buffer: Any) -> Order:
    """What launches of one stream wait for in the run of a live record."""
    ffi, text = records.header(HEADER)
    record: Any = ffi.from_buffer("struct tsr_policy *", buffer)
    return {number: order for order, number in _orders(text).items()}[int(record.order)]


def live_is_scheduled(buffer: Any) -> bool:
    """Whether launches that no rule matches are placed one by one in the run of a live record."""
    record: Any = records.header(HEADER)[0].from_buffer("struct tsr_policy *", buffer)
    return int(record.tables[record.generation % 2].default_device) == AUTO


def replace_rules(buffer: Any, policy: Policy) -> int:
    """Puts another policy's rules into a live record, as its next generation, whose number is the result.

    buffer is the writable, mapped record, whose devices are the policy's. Raises ConfigError when the rules do not fit.
    """
    ffi, _ = records.header(HEADER)
    record: Any = ffi.from_buffer("struct tsr_policy *", buffer, require_writable=True)
    generation = int(record.generation) % (2**32 - 1) + 1
    if generation % 2 == int(record.generation) % 2:
        generation += 1
    _write_rules(record.tables[generation % 2], policy)
    for counts in record.counts:
        ffi.memmove(
            counts.rule_launches[generation % 2],
            bytes(ffi.sizeof(counts.rule_launches[0])),
            ffi.sizeof(counts.rule_launches[0]),
        )
    record.generation = generation
    return generation


Devices: TypeAlias = tuple[int, list[tuple[int, int, int]]]


def devices_of(policy: Policy) -> Devices:
    """Home, and each executor's GPU with its limits, 0 for none."""
    return policy.home, [(one.device, one.sm_limit or 0, one.memory_limit_bytes or 0) for one in policy.executors]


def live_devices(buffer: Any) -> Devices:
    """The same of a live record."""
    record: Any = records.header(HEADER)[0].from_buffer("struct tsr_policy *", buffer)
    executors = [record.executors[place] for place in range(record.executor_count)]
    return int(record.home), [(int(e.device), int(e.sm_limit), int(e.memory_limit_bytes)) for e in executors]


def live_memory(buffer: Any) -> tuple[int, int]:
    """Where memory lies in the run of a live record, and when it moves."""
    record: Any = records.header(HEADER)[0].from_buffer("struct tsr_policy *", buffer)
    return int(record.memory_place), int(record.memory_move_after)


def live_has_pool(buffer: Any) -> bool:
    """Whether the memory of all GPUs is one pool in the run of a live record."""
    record: Any = records.header(HEADER)[0].from_buffer("struct tsr_policy *", buffer)
    return bool(record.memory_pool)


def live_verify(buffer: Any) -> int:
    """Which launches a live record asks to verify."""
    record: Any = records.header(HEADER)[0].from_buffer("struct tsr_policy *", buffer)
    return int(record.tables[record.generation % 2].verify_every)


def live_library_calls(buffer: Any) -> bool:
    """Whether library calls are marked in the run of a live record."""
    record: Any = records.header(HEADER)[0].from_buffer("struct tsr_policy *", buffer)
    return bool(record.library_calls)


def _write_rules(table: Any, policy: Policy) -> None:
    table.default_device = policy.default
    table.verify_every = policy.verify
    table.verify_limit_bytes = policy.verify_limit_bytes or 0
    table.log_decisions = policy.log is Log.DECISIONS
    table.rule_count = len(policy.rules)
    texts = _Texts(policy, len(table.text))
    for place, rule in enumerate(policy.rules):
        _write_rule(table.rules[place], rule, texts)
    table.text[0 : len(texts.data)] = bytes(texts.data)
    table.text_bytes = len(texts.data)


class _Texts:
    """Strings with their NULs one after the other, each once; the first is empty."""

    def __init__(self, policy: Policy, room: int) -> None:
        self.data = bytearray(b"\0")
        self._policy, self._room = policy, room
        self._places: dict[str, int] = {}

    def place(self, text: str, line: int) -> int:
        if text not in self._places:
            self._places[text] = len(self.data)
            self.data += text.encode() + b"\0"
        if len(self.data) > self._room:
            raise ConfigError(
                "the patterns are too long together",
                expected=f"at most {self._room} bytes",
                file=self._policy.file,
                line=line,
            )
        return self._places[text]


def _write_rule(record: Any, rule: Rule, texts: _Texts) -> None:
    match = rule.match
    record.line, record.device = rule.line, rule.device
    record.conditions = conditions(match)
    for name in ("function", "function_regex", "module", "process", "library_call"):
        pattern = getattr(match, name)
        setattr(record, name, 0 if pattern is None else texts.place(pattern, rule.line))
    for name in ("blocks", "threads", "block_threads"):
        interval = getattr(match, name) or Interval(0, 0)
        getattr(record, name)[0], getattr(record, name)[1] = interval.low, interval.high
    record.stream = match.stream or 0
    record.nth_every = match.nth.every if match.nth else 0
    record.nth_offset = match.nth.offset if match.nth else 0
    record.share = match.share.threshold if match.share else 0
    record.seed = match.share.seed if match.share else 0


def conditions(match: Match) -> int:
    """The bits of enum tsr_policy_condition; what every launch fulfils is no condition."""
    bits = _condition_bits()
    present = [name for name in bits if getattr(match, name) is not None]
    if match.share is not None and match.share.fraction >= 1:
        present.remove("share")
    return sum(bits[name] for name in present)


@cache
def _condition_bits() -> dict[str, int]:
    """By the condition's name in a rule. (The interpreter keeps the name of an attribute that was asked for.)"""
    ffi, _ = records.header(HEADER)
    bits: dict[str, int] = ffi.typeof("enum tsr_policy_condition").relements
    return {name.removeprefix("TSR_POLICY_").lower(): bit for name, bit in bits.items()}


@dataclass(frozen=True, slots=True)
class RuleUse:
    """A rule in use at the end, by its line: launches that it decided. nearest: of functions that were launched those
    whose names are like the one that it names; only of rules without launches.
    """

    line: int
    launches: int
    nearest: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pair:
    """Whether GPU `target` copies memory of GPU `source` without a wrong byte. ok: None: that could not be found out.

    why: if not, `wrong`, `no_access`, or `failed`, or `pending` when nobody needed to know. gb_per_s: 0 if not ok.
    """

    source: int
    target: int
    ok: bool | None
    why: str
    gb_per_s: float


@dataclass(frozen=True, slots=True)
class Copies:
    """Memory of which GPUs have copies.

    bytes: memory of copies on other GPUs than home at the end, by GPU. pulls, pulled_bytes: bytes that a launch or copy
    on that GPU used and the GPU did not have; pulled_for: the same bytes by cause, and needed_bytes all but those for
    want of room in the directory. brought_home, brought_home_bytes: of these, all that home did not have, for work of
    which nothing was known. waits: for another stream, before a pull; ties: of a stream's work on one GPU to its work
    on another, under data order. cells, directory_bytes: of the directory, at the last pull. through_host_bytes: of
    pulled_bytes, those that went through host memory. pairs: of GPUs, each way.
    """

    bytes: dict[int, int]
    pulls: dict[int, int]
    pulled_bytes: dict[int, int]
    pulled_for: dict[str, int]
    needed_bytes: int
    brought_home: int
    brought_home_bytes: int
    waits: int
    ties: int
    cells: int
    directory_bytes: int
    through_host_bytes: dict[int, int]
    pairs: tuple[Pair, ...]


@dataclass(frozen=True, slots=True)
class Schedule:
    """What placing launches one by one came to (`schedule: auto`); times are the rule's estimates.

    launches: that were placed; unknown: of these, those of which it was not known what they touch; rested: those that
    the guard kept at home. windows, won: of the guard. taken_ns: until all was done; single_ns: the same on a machine
    with one GPU; promised_ns: and had the rule never been held back. read_back: numbers that the host read without
    waiting for all that the stream had been given.
    """

    launches: int
    unknown: int
    rested: int
    windows: int
    won: int
    taken_ns: int
    single_ns: int
    promised_ns: int
    read_back: int

    @property
    def gain(self) -> float:
        return self.single_ns / self.taken_ns if self.taken_ns else 1.0

    @property
    def promised(self) -> float:
        return self.single_ns / self.promised_ns if self.promised_ns else 1.0


@dataclass(frozen=True, slots=True)
class PoolPart:
    """Of one GPU, in bytes: what the pool has of it, what of that the program's memory took at the end and at most."""

    gpu: int
    bytes: int
    owned_bytes: int
    most_owned_bytes: int


@dataclass(frozen=True, slots=True)
class Pool:
    """refused: allocations that found no room; split: that lie on several GPUs; passed, passed_bytes: memory that went
    from one owner to another, for balance; given_back, given_back_bytes: copies that were dropped to make room.
    """

    reserve_bytes: int
    gpus: tuple[PoolPart, ...]
    refused: int
    split: int
    passed: int
    passed_bytes: int
    given_back: int
    given_back_bytes: int


@dataclass(frozen=True, slots=True)
class Launches:
    """What the shim counted.

    by_device: launches by GPU, those of the policy and others that the program used itself; graphs: the same for
    launches of graphs. kept_home: how many, graphs included, stayed home although a rule sent them elsewhere;
    kept_reasons: of these, by reason. verified: launches that ran at home too; different: of these, those that gave
    other bytes; not_verified: left out, no room or no quiet moment. copies: copies and memsets that followed their
    stream to another GPU, by GPU. created_bytes: memory that was created on a GPU other than home; moved,
    moved_bytes: moves of memory from one GPU to another while the program ran. shared: of memory that GPUs have
    copies of; None: none has one. rules: those in use at the end. given_streams,
    given_threads: how many streams and threads were given each GPU by rules that do that. why_no_copies: the policy's.
    schedule: None: no launch was placed one by one. pool: None: there is none.
    """

    by_device: dict[int, int]
    kept_home: int
    kept_reasons: dict[str, int]
    verified: int = 0
    different: int = 0
    not_verified: int = 0
    graphs: dict[int, int] = field(default_factory=dict)
    copies: dict[int, int] = field(default_factory=dict)
    created_bytes: dict[int, int] = field(default_factory=dict)
    moved: int = 0
    moved_bytes: int = 0
    shared: Copies | None = None
    rules: tuple[RuleUse, ...] = ()
    given_streams: dict[int, int] = field(default_factory=dict)
    given_threads: dict[int, int] = field(default_factory=dict)
    why_no_copies: str = ""
    schedule: Schedule | None = None
    pool: Pool | None = None


def read_launches(policy: Policy, table: bytes) -> Launches:
    """The live counters of a decision table."""
    ffi, _ = records.header(HEADER)
    record: Any = ffi.from_buffer("struct tsr_policy *", table)
    launches = [_sum(counts.launches[gpu] for counts in record.counts) for gpu in range(GPUS)]
    graphs = [_sum(counts.graphs[gpu] for counts in record.counts) for gpu in range(GPUS)]
    copies = [_sum(counts.copies[gpu] for counts in record.counts) for gpu in range(GPUS)]
    by_device = {gpu: launches[gpu] for gpu in range(GPUS) if gpu in policy.gpus or launches[gpu]}
    reasons: dict[str, int] = records.header("records.h")[0].typeof("enum tsr_reason").relements
    kept = {name: _sum(counts.kept_reasons[number] for counts in record.counts) for name, number in reasons.items()}
    return Launches(
        by_device,
        sum(kept.values()),
        {name.removeprefix("TSR_REASON_").lower(): count for name, count in kept.items() if count},
        int(record.verified),
        int(record.different),
        int(record.not_verified),
        {gpu: count for gpu, count in enumerate(graphs) if count},
        {gpu: count for gpu, count in enumerate(copies) if count},
        {gpu: int(record.created_bytes[gpu]) for gpu in range(GPUS) if record.created_bytes[gpu]},
        int(record.moved),
        int(record.moved_bytes),
        _copies(record, policy) if policy.memory_place == COPIES else None,
        tuple(_rules(record)),
        _by_gpu(record.given_streams),
        _by_gpu(record.given_threads),
        policy.why_no_copies,
        _schedule(record.schedule),
        _pool(record, policy) if policy.pool else None,
    )


def _pool(record: Any, policy: Policy) -> Pool:
    parts = (
        PoolPart(gpu, int(record.pool_bytes[gpu]), int(record.owned_bytes[gpu]), int(record.most_owned_bytes[gpu]))
        for gpu in policy.gpus
    )
    return Pool(
        policy.reserve_bytes,
        tuple(parts),
        int(record.pool_refused),
        int(record.pool_split),
        int(record.passed),
        int(record.passed_bytes),
        int(record.given_back),
        int(record.given_back_bytes),
    )


def _schedule(record: Any) -> Schedule | None:
    found = Schedule(*(int(getattr(record, each.name)) for each in fields(Schedule)))
    return found if found.launches else None


def _copies(record: Any, policy: Policy) -> Copies:
    causes: dict[str, int] = records.header(HEADER)[0].typeof("enum tsr_pull_cause").relements
    pulled_for = {name: int(record.pulled_for[number]) for name, number in causes.items()}
    needed = sum(count for name, count in pulled_for.items() if name != "TSR_PULL_DIRECTORY")
    return Copies(
        _by_gpu(record.copies_bytes),
        _by_gpu(record.pulls),
        _by_gpu(record.pulled_bytes),
        {name.removeprefix("TSR_PULL_").lower(): count for name, count in pulled_for.items() if count},
        needed,
        int(record.brought_home),
        int(record.brought_home_bytes),
        int(record.waits),
        int(record.ties),
        int(record.directory_cells),
        int(record.directory_bytes),
        _by_gpu(record.through_host_bytes),
        tuple(_pair(record.pairs[b][a], a, b) for a, b in permutations(policy.gpus, 2)),
    )


def _proofs() -> dict[str, int]:
    proofs: dict[str, int] = records.header(HEADER)[0].typeof("enum tsr_policy_proof").relements
    return proofs


def _pair(record: Any, source: int, target: int) -> Pair:
    names = {number: name.removeprefix("TSR_PROOF_").lower() for name, number in _proofs().items()}
    name = names.get(int(record.proof), "failed")
    ok = {"right": True, "wrong": False, "no_access": False}.get(name)
    return Pair(source, target, ok, "" if ok else name, int(record.bytes_per_s) / 1e9)


def _by_gpu(counts: Any) -> dict[int, int]:
    return {gpu: int(counts[gpu]) for gpu in range(GPUS) if counts[gpu]}


def _sum(parts: Iterable[int]) -> int:
    """What one thread counted another may have taken back."""
    return sum(map(int, parts)) % 2**64


def _rules(record: Any) -> Iterator[RuleUse]:
    which = int(record.generation) % 2
    table = record.tables[which]
    names = [_name(record.functions[i]) for i in range(min(int(record.function_count), len(record.functions)))]
    for place in range(min(int(table.rule_count), len(table.rules))):
        rule, launches = table.rules[place], _sum(counts.rule_launches[which][place] for counts in record.counts)
        glob = _name(table.text + rule.function) if 0 < rule.function < len(table.text) else ""
        yield RuleUse(int(rule.line), launches, () if launches else near_misses(glob, names))


def _name(text: Any) -> str:
    ffi, _ = records.header(HEADER)
    found: Any = ffi.string(text)
    return bytes(found).decode(errors="replace")


def near_misses(glob: str, functions: Sequence[str]) -> tuple[str, ...]:
    """Of functions' names those that are like the glob, as people know them, the most alike first."""
    literal = glob.replace("*", "").replace("?", "")
    known: dict[str, list[str]] = {}  # names of a form: functions by the whole one
    for name in dict.fromkeys(plain(demangle(function)) for function in functions):
        scoped = name.partition("<")[0]
        for form in dict.fromkeys((name, scoped, scoped.rpartition("::")[2])):
            known.setdefault(form, []).append(name)
    alike = difflib.get_close_matches(literal, known, NEAREST, LIKENESS)
    return tuple(dict.fromkeys(name for form in alike for name in known[form]))[:NEAREST]
