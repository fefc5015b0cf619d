"""Memory that is freed stays until the kernels are done that the free waits for, by whatever rule; of a pool, too."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import TESSERA_RUN, with_native

ORDINARY = Path(__file__).with_name("freed_guest.py")
GUEST = Path(__file__).with_name("pool_guest.py")
POLICY = 'version: 1\ndevices: {home: 0, executors: [1]}\nrules:\n  - {match: {function: "*"}, device: 1}\n'


def is_right(native: Path, place: Path, guest: Path, streams: tuple[str, ...], away: bool = True) -> None:
    policy = place / "policy.yaml"
    policy.write_text(POLICY)
    options = ["--emulate", "2", *(["--policy", str(policy)] if away else [])]
    done = subprocess.run(
        [str(TESSERA_RUN), *options, "--", sys.executable, str(guest), *streams],
        env=with_native(native),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stderr
    assert not away or "    1         1" in done.stderr, f"the launch did not run elsewhere:\n{done.stderr}"


@pytest.mark.full
@pytest.mark.parametrize(
    "streams",
    [("legacy", "blocking"), ("blocking", "legacy"), ("legacy", "legacy"), ("blocking", "blocking", "captured")],
    ids="-".join,
)
def test_a_pool_is_destroyed_while_a_kernel_elsewhere_uses_it(
    native_build: Path, tmp_path: Path, streams: tuple[str, ...]
) -> None:
    is_right(native_build / "native", tmp_path, GUEST, streams)


@pytest.mark.full
@pytest.mark.parametrize("away", [False, True], ids=["without a policy", "elsewhere"])
@pytest.mark.parametrize(
    "streams",
    [("legacy", "blocking"), ("blocking", "legacy"), ("legacy", "legacy"), ("legacy", "own")],
    ids="-".join,
)
def test_ordinary_memory_is_freed_in_a_stream_while_a_kernel_uses_it(
    streams: tuple[str, ...], away: bool, native_build: Path, tmp_path: Path
) -> None:
    is_right(native_build / "native", tmp_path, ORDINARY, streams, away)


@pytest.mark.full
@pytest.mark.parametrize("what", ["threads", "contexts"])
@pytest.mark.parametrize("options", [("--emulate", "2"), ("--emulate", "2", "--gpus", "all")], ids=["alone", "placed"])
def test_what_was_freed_in_streams_that_ended_serves_others(
    options: tuple[str, ...], what: str, native_build: Path
) -> None:
    done = subprocess.run(
        [str(TESSERA_RUN), *options, "--", sys.executable, str(Path(__file__).with_name("ended_guest.py")), what],
        env=with_native(native_build / "native"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "1.0\n"), done.stderr
