"""Programs that are larger than their GPU, unmodified: the memory of all GPUs is one pool (--pool)."""

import os
import signal
import statistics
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import emulated
from tests.emulated import Ran
from tests.fault.executor_faults import executors_under, left_behind
from tests.sample import sampled

HERE = Path(__file__).parent
GUEST, RANDOM = HERE / "large_guest.py", HERE / "random_pool_guest.py"
LAYERS, ROWS, KIB = 12, 256, 16  # of 4 MiB each
ACTIVATION = KIB << 10
MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class Machine:
    """So many GPUs, what the pool has of each and leaves to copies, and of the host; MiB. No pool: they have all."""

    gpus: int
    pool: int = 0
    reserve: int = 0
    host: int = 0

    @property
    def emulated(self) -> emulated.Machine:
        memory = f", memory_gib: {(self.pool + self.reserve) / 1024}" if self.pool else ""
        return emulated.Machine(self.gpus, f"launch_latency_ns: 7000{memory}")

    @property
    def options(self) -> tuple[str, ...]:
        host = ("--host", f"{self.host}MiB") if self.host else ()
        return (*emulated.ALL_GPUS, "--pool", "--reserve", f"{self.reserve}MiB", *host) if self.pool else ()


def run(native: Path, place: Path, machine: Machine, guest: Path, *words: object, **variables: str) -> Ran:
    program = (guest, *words)
    return emulated.run(native, place, machine.emulated, program, machine.options, variables=variables, timeout_s=200)


def learn(native: Path, place: Path, machine: Machine, guest: Path, *words: object, **variables: str) -> None:
    """Afterwards it is known what its launches touch."""
    ran = emulated.until_analysed(lambda: run(native, place, machine, guest, *words, **variables))
    assert emulated.is_analysed(ran.report)


WARM, OVERLAPPED = 24, 8  # requests
PAIRS = 3  # of runs: when results of earlier launches are seen depends on the machine that emulates
TWO, FOUR, UNEVEN = Machine(2, 26, 38), Machine(4, 14, 50), Machine(2, 38, 90)


@pytest.mark.full
@pytest.mark.parametrize(("machine", "wanted"), [(TWO, 0.62), (FOUR, 0.47), (UNEVEN, 0.62)])
def test_layers_stay_whole_and_requests_overlap(
    machine: Machine, wanted: float, native_build: Path, tmp_path: Path
) -> None:
    """Weights do not move, but once, for balance: what moves is each request's activation, where its layers go from one
    GPU to the next. The host waits for requests, and then for none of the last eight.
    """
    native = native_build / "native"
    few, many = (("layers", LAYERS, WARM, more, ROWS, KIB) for more in (0, OVERLAPPED))
    alone = [run(native, tmp_path, Machine(1), GUEST, *words) for words in (few, many)]
    learn(native, tmp_path, machine, GUEST, "layers", LAYERS, 1, 0, ROWS, KIB)
    pairs = [tuple(run(native, tmp_path, machine, GUEST, *words) for words in (few, many)) for _ in range(PAIRS)]
    waited, ran = pairs[-1]
    assert [waited.output, ran.output] == [each.output for each in alone]
    assert ran.remote_bytes == waited.remote_bytes == 0
    # a request's input and result, and at each cut what is between
    assert ran.pulled_bytes - waited.pulled_bytes == OVERLAPPED * (machine.gpus - 1 + 2) * ACTIVATION
    pool = ran.report["pool"]
    assert (pool["passed"] > 0) is (machine is UNEVEN)
    assert min(part["owned_bytes"] for part in pool["gpus"]) >= LAYERS // machine.gpus * ROWS * ACTIVATION
    alone_ns = alone[1].virtual_ns - alone[0].virtual_ns
    took_ns = statistics.median(all_.virtual_ns - some.virtual_ns for some, all_ in pairs)
    assert took_ns / alone_ns < wanted


HALF = Machine(2, 26, 38)
ELSEWHERE = f"""version: 1
devices: {{home: 0, executors: [1]}}
memory: {{pool: true, reserve: {HALF.reserve}MiB}}
schedule: auto
rules:
  - {{match: {{function: fill}}, device: 1}}
"""


@pytest.mark.full
def test_weights_that_another_gpu_made_come_back(native_build: Path, tmp_path: Path) -> None:
    """What fills memory may run on another GPU than the owner, and leave it there alone. Dividing memory gives it back:
    afterwards a request moves its input, its result and one activation, no more.
    """
    native, machine = native_build / "native", HALF.emulated
    few, many = ((GUEST, "layers", LAYERS, WARM, more, ROWS, KIB) for more in (0, OVERLAPPED))
    emulated.until_analysed(lambda: emulated.run(native, tmp_path, machine, few, policy=ELSEWHERE))
    alone = run(native, tmp_path, Machine(1), *many)
    waited, ran = (emulated.run(native, tmp_path, machine, words, policy=ELSEWHERE) for words in (few, many))
    assert ran.output == alone.output
    assert ran.report["pool"]["given_back_bytes"] >= LAYERS // 2 * ROWS * ACTIVATION
    assert ran.pulled_bytes - waited.pulled_bytes == OVERLAPPED * 3 * ACTIVATION


@pytest.mark.full
def test_the_gpu_says_that_it_has_the_pool(native_build: Path, tmp_path: Path) -> None:
    machine = Machine(4, 56, 8)
    assert run(native_build / "native", tmp_path, machine, GUEST, "info").lines == ["224 224 224"]


# in seed 7 all memory of GPU 3 lies idle if there is little
SHAPES = [(seed, reserve) for reserve in (4, 8, 44) for seed in range(8) if (seed, reserve) != (7, 44)]


@pytest.mark.parametrize(("seed", "reserve"), sampled(SHAPES, [(1, 8)]))
def test_a_random_program_and_its_model(seed: int, reserve: int, native_build: Path, tmp_path: Path) -> None:
    """Every byte is right, and memory is refused exactly when there is none left; with little room for copies, too."""
    native, machine = native_build / "native", Machine(4, 64 - reserve, reserve)
    pages = 4 * machine.pool // 2
    learn(native, tmp_path, machine, RANDOM, seed, 60, pages)
    ran = run(native, tmp_path, machine, RANDOM, seed, 600, pages, TESSERA_DISORDER=str(seed + 1))
    refused, given = map(int, ran.output.split())
    assert ran.report["pool"]["refused"] >= refused
    assert refused > 0
    assert given > 10
    assert min(ran.by_device.values()) > 0
    assert ran.report["launches"]["kept_home"] == 0


LOST, LOST_WITH_HOST = Machine(4, 56, 8), Machine(2, 40, 24, 40)
FAULTS = [(machine, fault) for machine in (LOST, LOST_WITH_HOST) for fault in (signal.SIGKILL, signal.SIGSTOP)]


@pytest.mark.full
@pytest.mark.parametrize(("machine", "fault"), FAULTS)
def test_a_gpu_is_lost(machine: Machine, fault: signal.Signals, native_build: Path, tmp_path: Path) -> None:
    """Work that it had begun, if any, is lost: the program gets an error, soon, and ends as it wants to."""
    native = native_build / "native"
    words = ("serve", LAYERS, 20, 512, KIB)
    learn(native, tmp_path, machine, GUEST, "layers", LAYERS, 1, 0, 512, KIB)
    options = ("--no-summary", *machine.options)
    line = emulated.command(tmp_path, machine.emulated, (GUEST, *words), options, policy="")
    pipe = subprocess.PIPE
    with subprocess.Popen(
        line,
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        text=True,
        env=emulated.environment(native, tmp_path),
        start_new_session=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().strip() == "started"
        time.sleep(0.3)
        began = time.monotonic()
        for executor in executors_under(process.pid, 1):
            os.kill(executor, fault)
        process.stdin.write("\n")
        process.stdin.flush()
        said = process.stdout.readline().split()
        seconds = time.monotonic() - began
        process.wait(30)
        log = process.stderr.read()
    if said == ["right"]:  # it was idle just then
        assert "none of its work is lost" in log
    else:
        assert said[:1] == ["error"], (said, log)
        assert int(said[2]) != 0  # sticky
        assert seconds < 2, (said, log)  # a second, and that of a loaded machine
    assert "executor" in log
    assert left_behind(process.pid) == ""
