"""Graphs that run whole on other GPUs: the same bytes, and what is gained in virtual time."""

from pathlib import Path

import pytest

from tests.emulated import ALL_GPUS, is_analysed, until_analysed
from tests.graphs.settings import RANDOM, REPLAY, SETTINGS, Setting, run
from tests.sample import sampled

CONTEXTS = Path(__file__).parent / "contexts_guest.py"
LARGE = Path(__file__).parents[1] / "placement" / "large_guest.py"
STEP_NS = "launch_latency_ns: 7000"
FEW = [("half", 6), ("placed on four", 6)]
SMALL = "sm_count: 1"


@pytest.mark.parametrize(
    ("name", "programs"),
    sampled([(name, 60) for name in SETTINGS] + [("half", 6), ("placed on four", 6)], [("placed on four", 6)]),
)
def test_random_programs_that_keep_graphs_give_the_same_bytes(
    name: str, programs: int, native_build: Path, tmp_path: Path
) -> None:
    """In disorder; the first run learns what kernels touch, the second sends graphs elsewhere."""
    native, program = native_build / "native", [RANDOM, 1, programs, 100]
    alone = run(native, tmp_path, program)
    for disorder in (1, 2):
        ran = run(native, tmp_path, program, SETTINGS[name], disorder=disorder)
        assert ran.lines == alone.lines
    assert ran.graphs_away > 2 * programs
    assert ran.report["kept_home_by_reason"].get("ranges", 0) == 0


def test_a_server_that_replays_graphs(native_build: Path, tmp_path: Path) -> None:
    """Four threads with a graph each; streams take GPUs in turn."""
    native, program = native_build / "native", [REPLAY, "server", 24, 4, 256]
    alone = run(native, tmp_path, program, gpu=SMALL)
    setting = Setting(rules="default: by_stream", order="stream")
    for _ in range(2):
        ran = run(native, tmp_path, program, setting, gpu=SMALL)
        assert ran.lines == alone.lines
    assert sum(ran.graphs.values()) == 100
    assert abs(ran.graphs["0"] - ran.graphs["1"]) <= 4  # those that came while copies began stayed at home
    assert alone.virtual_ns / ran.virtual_ns > 1.8


@pytest.mark.full
@pytest.mark.parametrize(("what", "wanted"), [("single", 1.7), ("chain", 0.98)])
def test_one_thread_that_launches_graphs(what: str, wanted: float, native_build: Path, tmp_path: Path) -> None:
    """Independent ones in turn run at the same time; a chain of them stays where it is."""
    native, program = native_build / "native", [REPLAY, what, 12, 40, 64]
    alone = run(native, tmp_path, program, gpu=STEP_NS)
    for _ in range(2):
        ran = run(native, tmp_path, program, SETTINGS["placed"], gpu=STEP_NS)
        assert ran.lines == alone.lines
    assert alone.virtual_ns / ran.virtual_ns > wanted


@pytest.mark.parametrize(
    "model",
    ["h200", pytest.param("a100-80gb", marks=pytest.mark.full)],  # the latter has no clusters
)
def test_two_graphs_of_a_step_run_at_the_same_time(model: str, native_build: Path, tmp_path: Path) -> None:
    """The second one waits for what was made before the first one, on the same GPU, and not for the first one."""
    native, program, placed = native_build / "native", [REPLAY, "guidance", 24, 200, 64], Setting(options=ALL_GPUS)
    alone = run(native, tmp_path, program, gpu=STEP_NS, model=model)
    few = [REPLAY, "guidance", 4, 8, 64]  # enough to learn what kernels touch
    assert is_analysed(until_analysed(lambda: run(native, tmp_path, few, placed, gpu=STEP_NS, model=model)).report)
    ran = run(native, tmp_path, program, placed, gpu=STEP_NS, model=model)
    assert ran.lines == alone.lines
    assert ran.graphs["1"] > 16
    assert alone.virtual_ns / ran.virtual_ns > 1.7


WIDE_LAYERS, WIDE_ROWS, WIDE_KIB, WIDE_LAUNCHES = 2200, 4, 1, 12


@pytest.mark.full
def test_a_graph_of_thousands_of_ranges_leaves_constants_where_they_are(native_build: Path, tmp_path: Path) -> None:
    """Two GPUs in turn replay it: each keeps the weights that it has, and gets the activations that the other made.

    Each weight is read by one node. Were all of the graph's ranges expected in each extent, there would be no room for
    them, and one GPU would hold all of it alone.
    """
    native = native_build / "native"
    program = (LARGE, "sparse", WIDE_LAYERS, WIDE_LAUNCHES, 0, WIDE_ROWS, WIDE_KIB)
    alone = run(native, tmp_path, program)
    turns = Setting(rules="rules: [{match: {nth: {every: 2}}, device: 1}]")
    for _ in range(2):
        ran = run(native, tmp_path, program, turns)
        assert ran.lines == alone.lines
    assert ran.graphs == {"0": WIDE_LAUNCHES // 2, "1": WIDE_LAUNCHES // 2}
    weights = WIDE_LAYERS * WIDE_ROWS * WIDE_KIB << 10
    assert ran.pulled_bytes < 1.5 * weights
    assert ran.report["memory_copies"]["directory_bytes"] < 8 << 20


@pytest.mark.full
@pytest.mark.parametrize("name", ["half", "placed"])
def test_a_graph_that_streams_of_two_contexts_launch_in_turn(name: str, native_build: Path, tmp_path: Path) -> None:
    """Each launch comes after the one before, which an event of that one's context says, and after a context's end."""
    native, program = native_build / "native", [CONTEXTS, 41]
    alone = run(native, tmp_path, program)
    for disorder in range(2):
        ran = run(native, tmp_path, program, SETTINGS[name], disorder=disorder)
        assert ran.lines == alone.lines


@pytest.mark.full
def test_a_graph_with_a_user_object_stays_at_home(native_build: Path, tmp_path: Path) -> None:
    """The driver ends the object when its own last launch of the graph is done."""
    native, program = native_build / "native", [CONTEXTS, 41, "object"]
    alone = run(native, tmp_path, program)
    for _ in range(2):
        ran = run(native, tmp_path, program, SETTINGS["half"])
        assert ran.lines == alone.lines
        assert ran.lines[-1] == "1"
    assert ran.graphs_away == 0
    assert ran.report["kept_home_by_reason"]["graph_node"] > 0
