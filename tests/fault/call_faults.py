"""Failing the n-th driver call in the executor, or in the application's process, and what may come of it.

    python tests/fault/call_faults.py [STEP]

The program ends by itself, with right results or with a CUDA error; never with wrong words, a signal or not at all.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT))

from tests.fault.executor_faults import POLICY  # noqa: E402
from tests.fault.fault_driver import build  # noqa: E402

ROUNDS, LONGEST_SECONDS = 5, 20.0
EXECUTOR, APPLICATION = "tessera-executor", "fault_worker"


def run(native: Path, tree: Path, policy: Path, process: str, number: int) -> str:
    """The program's last line, or what is wrong with its end."""
    tessera_run = Path(sysconfig.get_path("scripts")) / "tessera-run"
    command = [str(tessera_run), "--emulate", "2", "--no-summary", "--policy", str(policy), "--"]
    command += [str(native.parent / "fault" / "fault_worker"), str(ROUNDS)]
    environment = {
        **os.environ,
        "TESSERA_NATIVE": str(tree),
        "TESSERA_FAULT_DRIVER": str(native / "emulator" / "libcuda.so.1"),
        "TESSERA_FAULT": f"{process}:{number}",
    }
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=LONGEST_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return "HANG"
    said = (done.stdout.strip().splitlines() or ["nothing"])[-1]
    ended = {"right": 0, "error": 3}.get(said.split()[0])
    return said if done.returncode == ended else f"EXIT {done.returncode} after {said!r}: {done.stderr.strip()}"


def is_right(outcome: str) -> bool:
    """What may come of a fault."""
    return outcome == "right" or outcome.startswith("error ")


def main() -> int:
    """Every STEP-th call of both processes; prints what came of them."""
    step = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    native = Path(os.environ.get("TESSERA_NATIVE", ROOT / "build" / "native" / "native"))
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        tree = build(native, native.parent / "cuda-headers", directory)
        policy = directory / "policy.yaml"
        policy.write_text(POLICY)
        for process in (EXECUTOR, APPLICATION):
            outcomes, number, quiet = Counter[str](), 1, 0
            while quiet < 5 and number < 2000:
                outcome = run(native, tree, policy, process, number)
                outcomes[outcome if is_right(outcome) else outcome.split(":")[0]] += 1
                quiet = quiet + 1 if outcome == "right" else 0
                if not is_right(outcome):
                    wrong += 1
                    print(f"{process}, call {number}: {outcome}")
                number += step
            print(f"{process}: calls 1 to {number - step}, every {step}: {dict(outcomes)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
