"""Verified launches where GPUs have copies of memory: the executor's own copy is what is compared."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from tests.emulated import Ran
from tests.fault.fault_driver import build
from tests.placement.test_copies import NTH, RANDOM, STREAMS, UNSAID, guest, learnt, serve
from tests.placement.test_pairs import NO_PEER
from tests.random.campaign import NONE, POLICIES, Setting, run

VERIFIED = Path(__file__).with_name("verified_guest.py")
AWAY = 'rules:\n  - {match: {function: "*"}, device: 1}\n'
LINKS = ["pcie5", NO_PEER]
PROGRAMS = 30
# By kernel: the program's sum; the byte on GPU 1, and at home.
SPOILED = {"alpha": (3 * 2048, "a6", "01"), "look": (0, "a5", "00")}


@pytest.mark.full
@pytest.mark.parametrize(("rules", "link"), [*product((STREAMS, NTH), LINKS)])
def test_a_server_s_launches_are_verified(rules: str, link: str, native_build: Path, tmp_path: Path) -> None:
    """If nothing is said about memory, too: verified launches do not keep GPUs from copies."""
    native = native_build / "native"
    plain = serve(native, tmp_path, UNSAID, rules, link=link)
    ran = serve(native, tmp_path, UNSAID, rules, link=link, asked=["--verify=7"])
    assert ran.output == plain.output
    assert ran.report["verify"]["different"] == ran.report["verify"]["not_verified"] == 0
    assert ran.report["verify"]["verified"] > 10
    assert ran.report["memory_copies"]["pulled_bytes"]["1"] > 0
    assert "no copies" not in ran.errors


def spoiled(kernel: str, link: str, native: Path, headers: Path, place: Path, patch: pytest.MonkeyPatch) -> Ran:
    """The first pull into the executor's copy leaves a wrong byte there; all launches are verified."""
    guest(native, place, "copies", AWAY, [str(VERIFIED), kernel], link)  # learns what they touch
    patch.setenv("TESSERA_FAULT_DRIVER", str(native / "emulator" / "libcuda.so.1"))
    patch.setenv("TESSERA_SPOIL", "tessera-executor:1")
    tree = build(native, headers, place)
    return guest(tree, place, "copies", AWAY, [str(VERIFIED), kernel], link, asked=["--verify"])


@pytest.mark.full
@pytest.mark.parametrize(("kernel", "link"), [*product(SPOILED, LINKS)])
def test_a_wrong_byte_in_the_executor_s_copy_is_found(
    kernel: str, link: str, native_build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that changes no result; the program goes on with what home has."""
    total, there, here = SPOILED[kernel]
    ran = spoiled(kernel, link, native_build / "native", native_build / "cuda-headers", tmp_path, monkeypatch)
    assert ran.output == f"{total}\n"
    assert ran.report["verify"] == {"verified": 1, "different": 1, "not_verified": 0}
    assert ran.report["launches"]["by_device"] == {"0": 2, "1": 1}
    (line,) = [line for line in ran.errors.splitlines() if "error: verify:" in line]
    assert (
        f"{kernel} gives other bytes on GPU 1 than at home: parameter 0, byte 4096 behind its address is {there}"
        in line
    )
    assert f"at home {here}; 1 bytes differ in all" in line


@pytest.mark.full
@pytest.mark.parametrize("name", ["copies-share", "copies-stream", "copies-limited", "data-share"])
def test_random_programs_are_verified(name: str, native_build: Path, tmp_path: Path) -> None:
    """Once a program has used another GPU by itself, memory of then has no copies, and most launches stay home."""
    setting = Setting(native_build, tmp_path, variables={"XDG_CACHE_HOME": str(tmp_path / "cache")})
    asked = ["--seed", str(RANDOM["copies-share"]), "--programs", str(PROGRAMS)]
    plain = run(setting, POLICIES[NONE], asked, PROGRAMS)
    second = learnt(setting, replace(POLICIES[name], options=("--verify=3",)), asked, PROGRAMS, plain.digests)
    assert (plain.bad, second.bad) == ("", "")
    assert second.report["verify"]["different"] == 0
    assert second.report["verify"]["verified"] > 5
