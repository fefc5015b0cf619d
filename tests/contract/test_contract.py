"""The contract suite on the emulated driver; `scripts/contract` runs the same suite on a real one."""

import re
import subprocess
import sys
from pathlib import Path

from tests.command import TESSERA_RUN, with_native

ROOT = Path(__file__).parents[2]


def test_the_emulated_driver_keeps_the_contract(native_build: Path, tmp_path: Path) -> None:
    suite = [sys.executable, str(ROOT / "scripts" / "contract"), "--build", str(tmp_path)]
    done = subprocess.run(
        [TESSERA_RUN, "--emulate", "2", "--no-summary", "--", *suite],
        env=with_native(native_build / "native"),
        text=True,
        capture_output=True,
        timeout=300,
    )
    said = done.stdout + done.stderr
    assert f"driver: {native_build / 'native' / 'emulator' / 'libcuda.so.1'}" in said
    assert done.returncode == 0, said
    checks = re.search(r"^(\d+) checks at", said, re.MULTILINE)
    assert checks, said
    assert int(checks[1]) >= 300
