"""One GPU that is shown as two (TESSERA_SPLIT): launches run in the program and in an executor beside it."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.emulated import ALL_GPUS, Machine, Ran, run, until_analysed, with_copies

HERE = Path(__file__).parent
SERVER = (HERE / "server_guest.py", 4, 24)
LAYERS = (HERE / "large_guest.py", "layers", 12, 4, 8, 256, 16)
INFO = (HERE / "large_guest.py", "info")
SPLIT = {"TESSERA_SPLIT": "2"}
CARD_MIB, RESERVE_MIB = 128, 38
SMALL = Machine(1, f"launch_latency_ns: 7000, memory_gib: {CARD_MIB / 1024}")
POOL = (*ALL_GPUS, "--pool", "--reserve", f"{RESERVE_MIB}MiB")
MIB = 1 << 20


def split(
    native: Path,
    place: Path,
    program: Sequence[object],
    options: Sequence[str] = (),
    policy: str = "",
    machine: Machine = SMALL,
    **variables: str,
) -> Ran:
    """As two GPUs of a card, the last of several runs: by then it is known what launches touch."""

    def once() -> Ran:
        return run(native, place, machine, program, options, policy=policy, variables={**SPLIT, **variables})

    until_analysed(once)
    return once()


@pytest.mark.full
@pytest.mark.parametrize(
    ("rules", "order", "device"),
    [
        ("default: by_stream\n", "data", {"0": 150, "1": 150}),
        ("rules:\n  - {match: {nth: {every: 3, offset: 1}}, device: 1}\n", "stream", {"0": 200, "1": 100}),
    ],
)
def test_rules_use_both_parts(
    rules: str, order: str, device: dict[str, int], native_build: Path, tmp_path: Path
) -> None:
    native = native_build / "native"
    alone = run(native, tmp_path, SMALL, SERVER)
    ran = split(native, tmp_path, SERVER, policy=with_copies(2, rules, order))
    assert ran.lines == alone.lines
    assert ran.by_device == device
    assert ran.report["memory_copies"]["pulled_bytes"].keys() == {"0", "1"}
    assert [pair["ok"] for pair in ran.report["memory_copies"]["pairs"]] == [True, True]
    assert [gpu["launches"] for gpu in ran.report["devices"]] == [300]  # the card's
    assert ran.errors.count("TESSERA_SPLIT shows each GPU 2 times: this is emulation") == 1


def test_launches_that_no_rule_places_use_both_parts(native_build: Path, tmp_path: Path) -> None:
    """In disorder, to and fro."""
    native, program = native_build / "native", (HERE / "order_guest.py", 2000, 8, 100)
    alone = run(native, tmp_path, SMALL, program)
    ran = split(native, tmp_path, program, ALL_GPUS, TESSERA_LEAD="0", TESSERA_DISORDER="1")
    assert ran.lines == alone.lines
    assert min(ran.by_device.values()) > 40


@pytest.mark.full
def test_each_part_gives_the_pool_its_memory(native_build: Path, tmp_path: Path) -> None:
    native = native_build / "native"
    pool_mib = CARD_MIB // 2 - RESERVE_MIB
    assert run(native, tmp_path, SMALL, INFO, POOL, variables=SPLIT).lines == [" ".join([str(2 * pool_mib)] * 3)]
    alone = run(native, tmp_path, Machine(1), LAYERS)
    ran = split(native, tmp_path, LAYERS, POOL)
    assert ran.lines == alone.lines
    assert min(ran.by_device.values()) > 0
    assert [part["bytes"] for part in ran.report["pool"]["gpus"]] == [pool_mib * MIB] * 2
    assert min(part["most_owned_bytes"] for part in ran.report["pool"]["gpus"]) > pool_mib * MIB // 2


@pytest.mark.full
def test_two_cards_are_four_gpus(native_build: Path, tmp_path: Path) -> None:
    """The program sees its two, in an order of its own; the first that it sees is home."""
    native, variables = native_build / "native", {"CUDA_VISIBLE_DEVICES": "1,0"}
    alone = run(native, tmp_path, Machine(2), SERVER)
    ran = split(native, tmp_path, SERVER, ALL_GPUS, machine=Machine(2), **variables)
    assert ran.lines == alone.lines
    assert ran.by_device.keys() == {"0", "1", "2", "3"}
    assert min(gpu["launches"] for gpu in ran.report["devices"]) > 0


@pytest.mark.parametrize(
    ("home", "parts", "said"),
    [
        ("1", "2", "TESSERA_SPLIT=2 hides the home GPU 1 from the program; expected as home a GPU that it sees: 0"),
        ("0", "none", "TESSERA_SPLIT=none does not say how often each GPU is shown; expected 1 to 64"),
    ],
)
def test_what_cannot_be_meant_is_refused(home: str, parts: str, said: str, native_build: Path, tmp_path: Path) -> None:
    policy = f"version: 1\ndevices: {{home: {home}, executors: [{1 - int(home)}]}}\n"
    with pytest.raises(RuntimeError, match=said):
        run(native_build / "native", tmp_path, SMALL, INFO, policy=policy, variables={"TESSERA_SPLIT": parts})
