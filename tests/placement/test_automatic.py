"""Launches placed one by one (schedule: auto): unmodified programs of one thread and one stream, without rules."""

import subprocess
from pathlib import Path

import pytest

from tests.command import TESSERA_RUN, with_native
from tests.emulated import ALL_GPUS, Machine, Ran, run, until_analysed, until_known
from tests.sample import sampled

HERE = Path(__file__).parent
GUEST = HERE / "automatic_guest.py"
REQUESTS = ("requests", "12", "400", "8")
ANSWERS = ("answers", "12", "400", "8")
GUIDANCE = ("guidance", "8", "400", "8")
CHAIN = ("chain", "4", "400", "8")
SIDES = ("sides", "12", "200", "8")
STEP = "launch_latency_ns: 7000"
FEATURES = [(4, "copies,sets,gives"), (2, "streams,reads,pinned,host,gives")]


def placed(
    native: Path, place: Path, gpus: int, program: tuple[str, ...], guest: Path = GUEST, gpu: str = STEP
) -> tuple[Ran, Ran]:
    """On one GPU without a policy, and placed: the run before, or more on a busy machine, learn what launches touch."""
    machine, words = Machine(gpus, gpu), (guest, *program)
    alone = run(native, place, machine, words)
    return alone, until_known(lambda: run(native, place, machine, words, ALL_GPUS), alone.lines)


@pytest.mark.parametrize(("gpus", "wanted"), sampled([(2, 1.6), (4, 2.2)], [(2, 1.6)]))
def test_requests_run_at_the_same_time(native_build: Path, tmp_path: Path, gpus: int, wanted: float) -> None:
    """One after another in one stream; thirteen with the first, which is waited for."""
    alone, ran = placed(native_build / "native", tmp_path, gpus, REQUESTS)
    assert len(ran.by_device) == gpus
    assert ran.report["schedule"]["gain"] > wanted
    assert alone.virtual_ns / ran.virtual_ns > wanted


@pytest.mark.full
@pytest.mark.parametrize("source", ["pageable", "pinned", "uploads", "zeroed"])
def test_what_the_host_gives_a_request_holds_no_other_up(native_build: Path, tmp_path: Path, source: str) -> None:
    """Each request begins with numbers that the host copies to where those of the one before were, or waits for too."""
    alone, ran = placed(native_build / "native", tmp_path, 2, (source, *REQUESTS[1:]))
    assert alone.virtual_ns / ran.virtual_ns > 1.7


@pytest.mark.full
@pytest.mark.parametrize("end", ["recorded", "awaited", "called"])
def test_the_rule_s_clock_knows_what_is_waited_for(native_build: Path, tmp_path: Path, end: str) -> None:
    """What it says was gained is what was. An event that nobody waits for holds nobody up."""
    alone, ran = placed(native_build / "native", tmp_path, 2, (end, *REQUESTS[1:]))
    assert (alone.virtual_ns / ran.virtual_ns > 1.7) == (end == "recorded")
    assert ran.report["schedule"]["gain"] == pytest.approx(alone.virtual_ns / ran.virtual_ns, rel=0.08)


@pytest.mark.full
def test_a_server_s_threads_share_two_gpus(native_build: Path, tmp_path: Path) -> None:
    """One stream each; each request begins with a memset. The first of each stream are waited for one by one."""
    guest = HERE / "server_guest.py"
    alone, ran = placed(
        native_build / "native",
        tmp_path,
        2,
        ("4", "32", "main", "2"),
        guest=guest,
        gpu="sm_count: 4, launch_latency_ns: 30000",
    )
    assert alone.virtual_ns / ran.virtual_ns > 1.85


def test_branches_of_a_step_run_at_the_same_time(native_build: Path, tmp_path: Path) -> None:
    """Two at a time, joined in each step; what begins the next one waits for the join, and not for the other branch."""
    alone, ran = placed(native_build / "native", tmp_path, 2, GUIDANCE)
    assert alone.virtual_ns / ran.virtual_ns > 1.6


@pytest.mark.full
@pytest.mark.parametrize("what", ["answers", "default"])
def test_a_number_is_read_back_without_waiting_for_other_work(what: str, native_build: Path, tmp_path: Path) -> None:
    """Requests of which each begins with one, and a wait for the stream. The first two are waited for."""
    alone, ran = placed(native_build / "native", tmp_path, 2, (what, *ANSWERS[1:]))
    assert alone.virtual_ns / ran.virtual_ns > 1.45


@pytest.mark.full
@pytest.mark.parametrize("words", [(1,), (3,), (3, "legacy")])
def test_a_wait_after_a_number_keeps_its_promises(
    words: tuple[object, ...], native_build: Path, tmp_path: Path
) -> None:
    """What was copied to the host or written there before, events and the stream itself are done."""
    native, program, machine = native_build / "native", (HERE / "readback_guest.py", *words), Machine(2, STEP)
    alone = run(native, tmp_path, machine, program)
    for disorder in range(3):
        variables = {"TESSERA_LEAD": "0", "TESSERA_DISORDER": str(disorder)}
        assert run(native, tmp_path, machine, program, ALL_GPUS, variables=variables).lines == alone.lines


def test_a_query_waits_for_nothing(native_build: Path, tmp_path: Path) -> None:
    """Whoever has waited for a stream finds it done, at once, though the wait was skipped; and no newer work is."""
    native, program = native_build / "native", (HERE / "polled_guest.py", 15)
    alone = run(native, tmp_path, Machine(1, STEP), program)
    until_analysed(lambda: run(native, tmp_path, Machine(2, STEP), program, ALL_GPUS))
    ran = run(native, tmp_path, Machine(2, STEP), program, ALL_GPUS)
    assert ran.lines[-1] == alone.lines[-1]
    assert set(ran.lines[:-1]) - {"newer CUDA_SUCCESS CUDA_SUCCESS"} == {
        "same CUDA_SUCCESS CUDA_SUCCESS",
        "other CUDA_SUCCESS CUDA_SUCCESS",
        "newer CUDA_ERROR_NOT_READY CUDA_SUCCESS",
    }
    ratios = [line.split() for line in ran.errors.splitlines()]
    assert {what for what, ratio in ratios if float(ratio) > 1.5} >= {"same", "other"}


@pytest.mark.parametrize("programs", sampled([8, 60], [8]))
@pytest.mark.parametrize(("gpus", "features"), sampled([(2, ""), *FEATURES], FEATURES[:1]))
def test_random_programs_in_disorder_give_the_same_bytes(
    gpus: int, features: str, programs: int, native_build: Path, tmp_path: Path
) -> None:
    """Without a lead launches go to and fro."""
    native, machine = native_build / "native", Machine(gpus, STEP)
    program = (HERE / "order_guest.py", 1000 * gpus, programs, 100, *([features] if features else []))
    alone = run(native, tmp_path, machine, program)
    for disorder in range(2 if programs < 60 else 3):  # the first run learns what launches touch
        variables = {"TESSERA_LEAD": "0", "TESSERA_DISORDER": str(disorder)}
        ran = run(native, tmp_path, machine, program, ALL_GPUS, variables=variables)
        assert ran.lines == alone.lines
    assert min(ran.by_device.values()) > 5 * programs


@pytest.mark.full
def test_long_launches_after_work_that_nobody_marked_are_waited_for(native_build: Path, tmp_path: Path) -> None:
    """The mark before such a launch signals what its strand was given: the launch itself has yet to be signalled."""
    native, machine, program = native_build / "native", Machine(2, STEP), (HERE / "marked_guest.py",)
    alone = run(native, tmp_path, machine, program)
    for _ in range(2):
        ran = run(native, tmp_path, machine, program, ALL_GPUS, variables={"TESSERA_LEAD": "0"})
        assert ran.lines == alone.lines
    assert ran.by_device["1"] > 0


def test_each_decision_can_be_read(native_build: Path, tmp_path: Path) -> None:
    """A line for each piece of work that is placed: what was known, where it went, and when it was expected there."""
    variables = {"TESSERA_DECISIONS": str(tmp_path / "decisions")}
    program = (GUEST, *REQUESTS)
    run(native_build / "native", tmp_path, Machine(2, STEP), program, ALL_GPUS)
    ran = run(native_build / "native", tmp_path, Machine(2, STEP), program, ALL_GPUS, variables=variables)
    (file,) = tmp_path.glob("decisions.*")
    head, *lines = [line.split("\t") for line in file.read_text().splitlines()]
    rows = [dict(zip(head, line, strict=True)) for line in lines]
    assert [int(row["number"]) for row in rows] == [*range(1, ran.report["schedule"]["launches"] + 1)]
    steps = [row for row in rows if row["name"] == "step"]
    by_gpu = {gpu: sum(row["went"] == gpu for row in steps) for gpu in ran.by_device}
    assert by_gpu == ran.by_device
    ends = [float(row["ends"]) for row in steps if row["went"] == "1"]
    assert ends == sorted(ends)


@pytest.mark.full
def test_launches_are_not_looked_at_for_some_time_where_nothing_is_gained(native_build: Path, tmp_path: Path) -> None:
    """In a chain of six seconds; requests after it are placed again."""
    program = ("6000", "300")
    alone, ran = placed(native_build / "native", tmp_path, 2, program, HERE / "asleep_guest.py")
    assert ran.report["schedule"]["launches"] < 0.7 * sum(ran.by_device.values())
    assert ran.by_device["1"] > 1000
    assert alone.virtual_ns / ran.virtual_ns > 1.1


@pytest.mark.full
def test_a_chain_stays_where_it_is(native_build: Path, tmp_path: Path) -> None:
    alone, ran = placed(native_build / "native", tmp_path, 2, CHAIN)
    assert 0.95 < ran.report["schedule"]["gain"] < 1.05
    assert alone.virtual_ns / ran.virtual_ns > 0.95


@pytest.mark.full
def test_what_is_soon_waited_for_leaves_once(native_build: Path, tmp_path: Path) -> None:
    """A step that reads nothing fresh could run elsewhere, long before; but its result is needed at once."""
    alone, ran = placed(native_build / "native", tmp_path, 2, SIDES)
    assert 1 <= ran.by_device["1"] <= 2
    assert alone.virtual_ns / ran.virtual_ns > 0.95


@pytest.mark.full
def test_rules_come_first(native_build: Path, tmp_path: Path) -> None:
    policy = (
        "version: 1\ndevices: {home: 0, executors: [1]}\nschedule: auto\n"
        "rules:\n  - {match: {function: step}, device: home}\n"
    )
    native, program, machine = native_build / "native", (GUEST, "requests", 4, 200, 8), Machine(2, STEP)
    alone = run(native, tmp_path, machine, program)
    for _ in range(2):
        ran = run(native, tmp_path, machine, program, policy=policy)
        assert ran.lines == alone.lines
        assert ran.by_device["1"] == 0


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--gpus", "3"), "--gpus 3: this machine has 2"),
        (("--gpus", "some"), "names no GPUs"),
        (("--gpus", "0,0"), "does not name GPUs"),
        (("--gpus", "all", "--order", "stream"), "wait where data flows"),
        (("--gpus", "all", "--policy", "p.yaml"), "--gpus takes the place of a policy"),
    ],
)
def test_words_that_name_no_gpus(native_build: Path, tmp_path: Path, words: tuple[str, ...], text: str) -> None:
    (tmp_path / "p.yaml").write_text("version: 1\ndevices: {home: 0, executors: [1]}\n")
    done = subprocess.run(
        [str(TESSERA_RUN), "--emulate", "2", *words, "--", "true"],
        text=True,
        capture_output=True,
        env=with_native(native_build / "native"),
        cwd=tmp_path,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert text in done.stderr
