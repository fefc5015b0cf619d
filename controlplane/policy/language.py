"""What a policy says, as values: devices, rules in order, what each rule matches, and what is verified and logged."""

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TypeAlias

from ptxtools.machine.consent import Consent

GPUS = 16
EXECUTORS = 15
RULES = 256
PATTERN_BYTES = 247
MOST = 2**64 - 1
FOLLOW = -1  # as the place of memory
COPIES = -2  # as the place of memory
MOVE_AFTER = 16
RESERVE = 2 << 30  # bytes of each GPU that a pool leaves to copies and drivers
BY_STREAM = -1  # as the device of a rule
BY_THREAD = -2  # as the device of a rule
GIVEN = {"by_stream": BY_STREAM, "by_thread": BY_THREAD}
AUTO = -3  # as the default: each launch goes where the rule says (docs/schedule.md)
SEVERAL = frozenset((*GIVEN.values(), AUTO))  # devices that stand for any of the policy's GPUs

Signature: TypeAlias = tuple[int, int, int]  # of a file's state: what changes when it is edited or replaced


class Log(Enum):
    """What the shim writes to its log about decisions."""

    OFF = "off"
    DECISIONS = "decisions"


class Order(Enum):
    """What launches of one stream that go to different GPUs wait for: those before them, or only where data flows."""

    STREAM = "stream"
    DATA = "data"


@dataclass(frozen=True, slots=True)
class Executor:
    """A further GPU; limits are None where there is none."""

    device: int
    sm_limit: int | None = None
    memory_limit_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Interval:
    """Whole numbers from low to high, both included."""

    low: int
    high: int

    def __contains__(self, number: int) -> bool:
        return self.low <= number <= self.high

    def covers(self, other: "Interval") -> bool:
        return self.low <= other.low and other.high <= self.high


@dataclass(frozen=True, slots=True)
class Nth:
    """The launches n of a function, counted from 1, with n % every == offset; every 0: only launch `offset`."""

    every: int
    offset: int

    def __contains__(self, number: int) -> bool:
        return (number % self.every if self.every else number) == self.offset


@dataclass(frozen=True, slots=True)
class Share:
    """A part of the launches, chosen as if at random, the same in every run with the same seed."""

    fraction: float
    seed: int = 0

    @property
    def threshold(self) -> int:
        """Of 2**64: what a launch's drawn number must stay below."""
        return min(int(self.fraction * 2**64), MOST)


@dataclass(frozen=True, slots=True)
class Match:
    """The conditions of a rule; those that are None hold for every launch.

    function, module, process and library_call are globs, function_regex a POSIX extended regular expression; stream is
    a number in the order of creation from 1, 0 a default stream; threads are the whole grid's, block_threads those of
    one block.
    """

    function: str | None = None
    function_regex: str | None = None
    module: str | None = None
    process: str | None = None
    library_call: str | None = None
    blocks: Interval | None = None
    threads: Interval | None = None
    block_threads: Interval | None = None
    stream: int | None = None
    nth: Nth | None = None
    share: Share | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """Launches that match run on GPU `device`, or, BY_STREAM or BY_THREAD, on the GPU that their stream or thread is
    given (assign.py); `line` is where the file says so.
    """

    match: Match
    device: int
    line: int


@dataclass(frozen=True, slots=True)
class Policy:
    """`home` is the GPU the application uses; the first rule that matches a launch, or `default`, decides.
    `default` is a device as rules have one, or AUTO.

    Every `verify`-th redirected launch is run at home too and compared, 0: none, unless the memory that this has to
    look at exceeds verify_limit_bytes. Memory that the application allocates on its GPU lies on GPU `memory_place`, or,
    if that is FOLLOW, on the GPU whose launches use it: it moves when another GPU has used it `move_after` times more;
    if it is COPIES, each GPU has a copy of what its launches use. order: of a stream's launches on different GPUs, with
    COPIES. pool: the memory of all GPUs is one, but for reserve_bytes of each, and has one owner; needs COPIES. It has
    host_bytes of host memory besides, and of each GPU at most limit_bytes (0: all).
    disassemble: whose machine code may be, when launches are analysed. use_observed: what probes saw of a launch counts
    as known of it. says_memory: whether the file says where memory lies; why_no_copies: if not, and launches use
    several GPUs, what keeps these from having copies.
    """

    file: Path
    home: int
    executors: tuple[Executor, ...]
    rules: tuple[Rule, ...]
    default: int
    verify: int = 0
    log: Log = Log.OFF
    verify_limit_bytes: int | None = None
    memory_place: int = FOLLOW
    move_after: int = MOVE_AFTER
    order: Order = Order.STREAM
    disassemble: Consent = Consent.OPEN
    use_observed: bool = False
    pool: bool = False
    reserve_bytes: int = RESERVE
    host_bytes: int = 0
    limit_bytes: int = 0
    devices_line: int = field(default=1, compare=False)
    says_memory: bool = field(default=True, compare=False)
    why_no_copies: str = field(default="", compare=False)
    says_order: bool = field(default=True, compare=False)
    signature: Signature | None = field(default=None, compare=False)

    @property
    def marks_library_calls(self) -> bool:
        """Whether a rule asks for the library call that a launch happens in, or what it touches has to be known."""
        return self.memory_place == COPIES or any(rule.match.library_call is not None for rule in self.rules)

    @property
    def has_copies(self) -> bool:
        """Whether each GPU has a copy of the memory that its launches use."""
        return self.memory_place == COPIES

    @property
    def gpus(self) -> tuple[int, ...]:
        """Home and the executors' GPUs."""
        return (self.home, *(executor.device for executor in self.executors))
