"""Memory of which each GPU has a copy: results are the same, bytes move once, and a server's threads share two GPUs."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.commands.run import main
from tests import emulated
from tests.command import TESSERA_RUN, with_native
from tests.emulated import LEARNING, TRIES, Machine, Ran, is_analysed
from tests.fault.fault_driver import build, delays
from tests.random.campaign import NONE, POLICIES, Policy, Setting, run
from tests.random.campaign import Ran as Campaigned
from tests.sample import sampled

SERVER = Path(__file__).with_name("server_guest.py")
RING = Path(__file__).with_name("ring_guest.py")
SIZES = Path(__file__).with_name("sizes_guest.py")
CROWD = Path(__file__).with_name("crowd_guest.py")
CAPTURE = Path(__file__).with_name("capture_guest.py")
JOIN = Path(__file__).with_name("join_guest.py")
REGROWN = Path(__file__).with_name("regrown_guest.py")
THREADS, REQUESTS, MANY, LAYERS, BYTES = 4, 48, 200, 3, 65536
MACHINE = Machine(2, "sm_count: 4", "pcie5")
STREAMS = "rules:\n  - {match: {stream: 2}, device: 1}\n  - {match: {stream: 4}, device: 1}\n"
NTH = "rules:\n  - {match: {nth: {every: 3, offset: 1}}, device: 1}\n"
GIVEN = {
    "by_stream": ({"streams": {"0": 2, "1": 2}, "threads": {}}, ()),
    "by_thread": ({"streams": {}, "threads": {"0": 2, "1": 2}}, ("themselves",)),
}
KEEP_FROM_COPIES = [  # an option, what is said, and why it is refused where a policy asks for copies
    ("--check-writes=20", "writes are checked", "--check-writes takes what home pulls from another GPU's copy"),
    ("--disassemble=none", "no machine code may be disassembled", None),
]
WANTED = 1.85  # as on two H200s: scripts/bench/serve
RANDOM = {
    "copies": 90_000,
    "copies-nth": 91_000,
    "copies-share": 92_000,
    "copies-stream": 93_000,
    "copies-given": 94_000,
    "copies-limited": 590_000,
}
JOINED = [(kind, "cuStreamIsCapturing", 4_000) for kind in ("free", "legacy", "pool")]
JOINED += [("first", "cuThreadExchangeStreamCaptureMode", 100_000)]
MEBIBYTES = 8
UNSAID = ""  # where memory lies


def serve(
    native: Path,
    place: Path,
    memory: str | None,
    rules: str = STREAMS,
    more: Sequence[str] = (),
    link: str = "pcie5",
    requests: int = REQUESTS,
    asked: Sequence[str] = (),
) -> Ran:
    """more: further arguments of the server; asked: of tessera-run."""
    return guest(native, place, memory, rules, [str(SERVER), str(THREADS), str(requests), *more], link, asked=asked)


def guest(
    native: Path,
    place: Path,
    memory: str | None,
    rules: str,
    program: list[str],
    link: str = "pcie5",
    executor: str = "1",
    asked: Sequence[str] = (),
    machine: Machine = MACHINE,
) -> Ran:
    """On the emulated machine; without `memory` on one GPU. With copies, until all that is loaded is analysed."""
    head = f"version: 1\ndevices: {{home: 0, executors: [{executor}]}}\n"
    policy = "" if memory is None else f"{head}{f'memory: {{place: {memory}}}' if memory else ''}\n{rules}"
    machine = replace(machine, link=link)
    return emulated.until_analysed(
        lambda: emulated.run(native, place, machine, program, asked, policy=policy, summary=True)
    )


def learnt(
    setting: Setting, policy: Policy, asked: list[str], programs: int, digests: list[tuple[int, str]]
) -> Campaigned:
    """The run that follows one at whose end all functions were analysed. All have these digests."""
    for _ in range(LEARNING):
        ran = run(setting, policy, asked, programs)
        assert ran.digests == digests
        assert not ran.bad or ran.checked_nothing
        if is_analysed(ran.report):
            break
    assert is_analysed(ran.report)
    ran = run(setting, policy, asked, programs)
    assert ran.digests == digests
    return ran


def test_a_server_s_threads_share_two_gpus(native_build: Path, tmp_path: Path) -> None:
    native = native_build / "native"
    alone = serve(native, tmp_path, None)
    serve(native, tmp_path, "copies")  # from now on it is known what launches touch
    ran, afar = serve(native, tmp_path, "copies"), serve(native, tmp_path, "home")
    assert ran.output == alone.output == afar.output
    assert [device["launches"] for device in ran.report["devices"]] == [LAYERS * (REQUESTS + 1) * THREADS // 2] * 2
    assert [device["remote_bytes"] for device in ran.report["devices"]] == [0, 0]
    assert afar.report["devices"][1]["remote_bytes"] > 100 * BYTES
    # Each weight once. A thread's own buffers, twice two of them: before it has written them, and for the program.
    assert ran.report["memory_copies"]["pulled_bytes"]["1"] <= (LAYERS + 2 * THREADS) * BYTES
    assert ran.report["memory_copies"]["pulled_bytes"]["0"] <= THREADS * BYTES
    assert ran.report["memory_copies"]["brought_home"] == 0
    assert set(ran.report["memory_copies"]["pulled_for"]) == {"launch", "copy"}
    assert ran.report["memory_copies"]["through_host_bytes"] == {}
    pairs = ran.report["memory_copies"]["pairs"]
    assert [pair["ok"] for pair in pairs] == [True] * 2
    assert [pair["gb_per_s"] for pair in pairs] == [pytest.approx(53, rel=0.05)] * 2  # a little less, by the latency
    assert ran.report["memory_copies"]["needed_bytes"] == sum(ran.report["memory_copies"]["pulled_bytes"].values())
    assert alone.virtual_ns / ran.virtual_ns > 1.4  # the first requests bring the weights
    assert ran.virtual_ns < afar.virtual_ns


@pytest.mark.full
def test_gpus_have_copies_if_nothing_is_said(native_build: Path, tmp_path: Path) -> None:
    native = native_build / "native"
    first = serve(native, tmp_path, UNSAID)
    ran, said = serve(native, tmp_path, UNSAID), serve(native, tmp_path, "copies")
    assert first.output == ran.output == said.output
    assert [device["remote_bytes"] for device in ran.report["devices"]] == [0, 0]
    assert ran.report["launches"] == said.report["launches"]
    assert ran.report["launches"]["by_device"]["1"] == LAYERS * (REQUESTS + 1) * THREADS // 2
    assert "no copies" not in ran.errors


@pytest.mark.full
def test_a_gpu_that_is_hidden_from_the_program_uses_home_s_memory(
    native_build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    first, ran = (serve(native_build / "native", tmp_path, UNSAID) for _ in range(2))
    assert first.output == ran.output
    assert ran.report["devices"][1]["launches"] == LAYERS * (REQUESTS + 1) * THREADS // 2
    assert ran.report["devices"][1]["local_bytes"] == 0
    assert ran.errors.count("CUDA_VISIBLE_DEVICES hides GPU 1 from the program: it has no copies of memory") == 1
    assert "has no room" not in ran.errors


@pytest.mark.full
def test_what_keeps_gpus_from_copies_is_said(
    native_build: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    native, policy = native_build / "native", tmp_path / "policy.yaml"
    serve(native, tmp_path, UNSAID)  # from now on it is known what launches touch
    for option, why, refused in KEEP_FROM_COPIES:
        ran = serve(native, tmp_path, UNSAID, asked=[option, "--analyze"])
        assert ran.errors.count(f"  GPUs have no copies of memory: {why}\n") == 1
        assert "memory_copies" not in ran.report
        assert ran.report["launches"]["by_device"]["1"] > 0
        policy.write_text(policy.read_text() + "memory: {place: copies}\n")
        if refused is not None:
            assert main(["--policy", str(policy), "--emulate", "2", option, "--", "true"]) == 2
            assert refused in capsys.readouterr().err


@pytest.mark.full
def test_a_policy_that_has_to_know_kernels_does_not_have_launches_recorded(native_build: Path, tmp_path: Path) -> None:
    """Recording costs each launch more than all that copies do."""
    native = native_build / "native"
    serve(native, tmp_path, "copies")
    plain = serve(native, tmp_path, "copies").report
    counted = serve(native, tmp_path, "copies", asked=["--stats"]).report
    assert plain["analysis"]["known"] == counted["analysis"]["known"] == plain["analysis"]["functions"] > 0
    assert "overhead_ns_per_launch" not in plain
    assert counted["overhead_ns_per_launch"] > 0
    assert plain["launches"]["by_device"] == counted["launches"]["by_device"]


@pytest.mark.full
@pytest.mark.parametrize("rules", [STREAMS, NTH], ids=["by stream", "by turns"])
def test_launches_that_repeat_see_what_other_gpus_wrote_meanwhile(
    rules: str, native_build: Path, tmp_path: Path
) -> None:
    native, program = native_build / "native", [str(RING), str(THREADS), "30", "5"]
    alone = guest(native, tmp_path, None, rules, program)
    for _ in range(2):  # the first run learns what launches touch
        ran = guest(native, tmp_path, "copies", rules, program)
        assert ran.output == alone.output
    assert sum(ran.report["memory_copies"]["pulls"].values()) > 50
    assert min(device["launches"] for device in ran.report["devices"]) > 300


@pytest.mark.full
@pytest.mark.parametrize("device", GIVEN)
def test_a_server_s_threads_are_given_gpus(device: str, native_build: Path, tmp_path: Path) -> None:
    """Nobody has to count the streams."""
    native, (given, more) = native_build / "native", GIVEN[device]
    rules = f'rules:\n  - {{match: {{function: "*"}}, device: {device}}}\n'
    alone = serve(native, tmp_path, None, more=more, requests=MANY)
    serve(native, tmp_path, "copies", rules, more, requests=MANY)
    factor = 0.0
    for _ in range(TRIES):
        ran = serve(native, tmp_path, "copies", rules, more, requests=MANY)
        assert (ran.output, ran.report["given"]) == (alone.output, given)
        launches = [device["launches"] for device in ran.report["devices"]]
        assert sum(launches) == LAYERS * (MANY + 1) * THREADS
        assert abs(launches[0] - launches[1]) <= THREADS  # those that came while copies began stayed at home
        assert ran.report["memory_copies"]["brought_home"] == 0
        if device == "by_stream":  # weights, and what the first memset of each stream wrote: later ones are where it is
            assert ran.report["memory_copies"]["pulls"]["1"] <= LAYERS + THREADS // 2
        factor = max(factor, alone.virtual_ns / ran.virtual_ns)
        if factor > WANTED:
            return
    assert factor > WANTED


@pytest.mark.full
def test_a_gpu_has_copies_of_what_it_uses(native_build: Path, tmp_path: Path) -> None:
    native, program = native_build / "native", [str(SIZES), str(MEBIBYTES)]
    alone = guest(native, tmp_path, None, STREAMS, program)
    for _ in range(2):  # the first run learns what launches touch
        ran = guest(native, tmp_path, "copies", STREAMS, program)
        assert ran.output == alone.output
    assert ran.report["devices"][1]["launches"] == ran.report["devices"][0]["launches"]
    assert ran.report["memory_copies"]["bytes"] == {"1": MEBIBYTES * 2**20}
    assert ran.report["devices"][1]["remote_bytes"] == 0


@pytest.mark.full
def test_a_full_gpu_says_so_once_and_uses_memory_at_home(native_build: Path, tmp_path: Path) -> None:
    native, program = native_build / "native", [str(SIZES), str(MEBIBYTES)]
    executor = f"{{gpu: 1, memory_limit: {MEBIBYTES // 2}MiB}}"
    alone = guest(native, tmp_path, None, STREAMS, program)
    for _ in range(2):
        ran = guest(native, tmp_path, "copies", STREAMS, program, executor=executor)
        assert ran.output == alone.output
    assert ran.report["devices"][1]["launches"] == ran.report["devices"][0]["launches"]
    assert ran.report["memory_copies"]["bytes"] == {}
    assert ran.report["devices"][1]["remote_bytes"] > 0
    assert ran.errors.count("has no room for more copies") == 1


@pytest.mark.full
def test_a_full_gpu_gives_up_what_it_holds_nothing_of(native_build: Path, tmp_path: Path) -> None:
    native, program = native_build / "native", [str(SIZES), str(MEBIBYTES), "after"]
    executor = f"{{gpu: 1, memory_limit: {MEBIBYTES * 3 // 2}MiB}}"
    alone = guest(native, tmp_path, None, STREAMS, program)
    for _ in range(2):
        ran = guest(native, tmp_path, "copies", STREAMS, program, executor=executor)
        assert ran.output == alone.output
    assert ran.report["memory_copies"]["bytes"] == {"1": MEBIBYTES * 2**20}
    assert ran.report["devices"][1]["remote_bytes"] == 0
    assert "has no room" not in ran.errors


@pytest.mark.parametrize("programs", sampled([10, 60], [10]))
@pytest.mark.parametrize("name", sampled(RANDOM, ["copies"]))
def test_random_programs_give_the_same_bytes(name: str, programs: int, native_build: Path, tmp_path: Path) -> None:
    """The first runs learn what their functions touch."""
    setting = Setting(native_build, tmp_path, variables={"XDG_CACHE_HOME": str(tmp_path / "cache")})
    asked = ["--seed", str(RANDOM[name]), "--programs", str(programs)]
    plain = run(setting, POLICIES[NONE], asked, programs)
    assert plain.bad == ""
    second = learnt(setting, POLICIES[name], asked, programs, plain.digests)
    assert second.bad == ""
    assert sum(second.report["memory_copies"]["pulls"].values()) > 10


@pytest.mark.full
def test_memory_is_offered_to_others_while_there_are_too_many_streams(native_build: Path, tmp_path: Path) -> None:
    """What has to be forgotten then is forgotten by somebody who does not have the memory lock."""
    policy, report = tmp_path / "policy.yaml", tmp_path / "report.json"
    devices = "devices: {home: 0, executors: [1]}\nmemory: {place: copies}\n"
    policy.write_text(f"version: 1\n{devices}rules:\n  - {{match: {{nth: {{every: 2}}}}, device: 1}}\n")
    variables = {**with_native(native_build / "native"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    options = ["--emulate", "2", "--json", str(report), "--policy", str(policy)]
    for _ in range(2):  # the first learns what launches touch
        command = [str(TESSERA_RUN), *options, "--", sys.executable, str(CROWD)]
        done = subprocess.run(command, text=True, capture_output=True, env=variables, timeout=100, check=False)
        assert (done.returncode, done.stdout) == (0, "[7]\n"), done.stderr
    assert json.loads(report.read_text())["launches"]["by_device"]["1"] > 2000


@pytest.mark.full
@pytest.mark.parametrize("writer", ["joined", "legacy"])
def test_a_capture_keeps_nobody_from_coming_after_others(writer: str, native_build: Path, tmp_path: Path) -> None:
    """A stream that becomes part of it, and the default one that it does not concern."""
    policy = tmp_path / "policy.yaml"
    devices = "devices: {home: 0, executors: [1]}\nmemory: {place: copies}\n"
    policy.write_text(f"version: 1\n{devices}rules:\n  - {{match: {{function: store}}, device: 1}}\n")
    variables = {**with_native(native_build / "native"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [str(TESSERA_RUN), "--emulate", "2", "--no-summary", "--policy", str(policy)]
    for _ in range(2):  # the first learns what launches touch
        done = subprocess.run(
            [*command, "--", sys.executable, str(CAPTURE), writer],
            text=True,
            capture_output=True,
            env=variables,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, "7\n"), done.stderr


@pytest.mark.full
@pytest.mark.parametrize(
    ("kind", "slow_call", "microseconds"),
    JOINED,
)
def test_a_stream_joins_a_capture_before_or_after_it_is_asked(
    kind: str, slow_call: str, microseconds: int, native_build: Path, tmp_path: Path
) -> None:
    """Not between the look whether it is captured and the question, between which a driver takes long."""
    native, policy = native_build / "native", tmp_path / "policy.yaml"
    devices = "devices: {home: 0, executors: [1]}\nmemory: {place: copies}\n"
    policy.write_text(f"version: 1\n{devices}rules:\n  - {{match: {{function: store}}, device: 1}}\n")
    slow = delays(native, build(native, native_build / "cuda-headers", tmp_path), 1, slow_call, microseconds)
    command = [str(TESSERA_RUN), "--emulate", "2", "--no-summary", "--policy", str(policy)]
    for variables in (with_native(native), {**with_native(native), **slow}):  # the first learns what launches touch
        done = subprocess.run(
            [*command, "--", sys.executable, str(JOIN), kind],
            text=True,
            capture_output=True,
            env={**variables, "XDG_CACHE_HOME": str(tmp_path / "cache")},
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


@pytest.mark.full
def test_programs_on_full_gpus_give_the_same_bytes(native_build: Path, tmp_path: Path) -> None:
    """A pool's extent alone takes half of the other GPUs' 64 MiB. Programs that use GPU 1 themselves need that, too."""
    setting = Setting(native_build, tmp_path, "peer,contexts,ipc", {"XDG_CACHE_HOME": str(tmp_path / "cache")})
    asked = ["--seed", "94000", "--programs", "40"]
    plain = run(setting, POLICIES[NONE], asked, 40)
    first, second = (run(setting, POLICIES["copies-full"], asked, 40) for _ in range(2))
    assert (plain.bad, first.bad, second.bad) == ("", "", "")
    assert plain.digests == first.digests == second.digests
    told = [second.output.count(f"GPU {gpu} has no room for more copies") for gpu in (1, 2)]
    assert max(told) == 1
    assert sum(second.report["memory_copies"]["pulls"].values()) > 10
    assert second.report["launches"]["by_device"]["1"] > 10


@pytest.mark.full
def test_what_a_launch_touched_is_forgotten_when_memory_has_changed(native_build: Path, tmp_path: Path) -> None:
    rules = "rules:\n  - {match: {function: gather}, device: 1}\n"
    for _ in range(2):  # the first run learns
        ran = guest(native_build / "native", tmp_path, "copies", rules, [str(REGROWN)])
    assert ran.output.split() == ["1010101"] * 3 + ["7070707"]
    assert "1 addresses" in ran.errors
    assert ran.report["launches"]["by_device"]["1"] == 4
