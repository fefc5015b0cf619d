"""Memory of a destroyed pool stays until the kernels are done that the free waits for, by whatever rule."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import TESSERA_RUN, with_native

GUEST = Path(__file__).with_name("pool_guest.py")
POLICY = 'version: 1\ndevices: {home: 0, executors: [1]}\nrules:\n  - {match: {function: "*"}, device: 1}\n'


@pytest.mark.parametrize(
    "streams",
    [("legacy", "blocking"), ("blocking", "legacy"), ("legacy", "legacy"), ("blocking", "blocking", "captured")],
    ids="-".join,
)
def test_a_pool_is_destroyed_while_a_kernel_elsewhere_uses_it(
    native_build: Path, tmp_path: Path, streams: tuple[str, ...]
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    done = subprocess.run(
        [str(TESSERA_RUN), "--emulate", "2", "--policy", str(policy), "--", sys.executable, str(GUEST), *streams],
        env=with_native(native_build / "native"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stderr
    assert "    1         1" in done.stderr, f"the launch did not run elsewhere:\n{done.stderr}"
