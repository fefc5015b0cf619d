"""Running tests/policy/launches.py under a policy on emulated GPUs."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.command import TESSERA_RUN, with_native

PROGRAM = Path(__file__).with_name("launches.py")
TIMEOUT_S = 120
Launch = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Outcome:
    """by_function: launches by (function, GPU), counted by the emulated machine; report: what tessera-run counted."""

    by_function: dict[tuple[str, int], int]
    report: dict[str, Any]
    errors: str


def command(policy: Path, report: Path, *options: str, gpus: str = "3") -> list[str]:
    emulated = [str(TESSERA_RUN), "--emulate", gpus, "--json", str(report), "--policy", str(policy), *options]
    return [*emulated, "--", sys.executable, str(PROGRAM)]


def environment(native_build: Path) -> dict[str, str]:
    return with_native(native_build / "native")


def blocks_of(launches: Sequence[Launch]) -> int:
    """What the program prints when no launch is lost."""
    return sum(int(str(launch.get("blocks", 1))) for launch in launches)


def ended(
    native_build: Path, tmp_path: Path, policy: str, launches: Sequence[Launch], *options: str, gpus: str = "3"
) -> subprocess.CompletedProcess[str]:
    """The launches under the policy's text; what is reported of them is in report.json."""
    file = tmp_path / "policy.yaml"
    file.write_text(policy)
    return subprocess.run(
        command(file, tmp_path / "report.json", *options, gpus=gpus),
        input=json.dumps(launches),
        text=True,
        capture_output=True,
        env=environment(native_build),
        timeout=TIMEOUT_S,
        check=False,
    )


def run(
    native_build: Path,
    tmp_path: Path,
    policy: str,
    launches: Sequence[Launch],
    *options: str,
    gpus: str = "3",
    printed: Sequence[object] = (),
) -> Outcome:
    """Runs the launches and checks their own results: the sum, and what else the program prints."""
    done = ended(native_build, tmp_path, policy, launches, *options, gpus=gpus)
    assert done.returncode == 0, done.stderr
    summed = [launch for launch in launches if launch["function"] != "sm_count"]
    assert done.stdout.split() == [str(blocks_of(summed)), *map(str, printed)]
    return outcome_of(tmp_path / "report.json", done.stderr)


def outcome_of(report: Path, errors: str = "") -> Outcome:
    counted = json.loads(report.read_text())
    by_function = {(kernel["name"], kernel["device"]): kernel["launches"] for kernel in counted["kernels"]}
    return Outcome(by_function, counted, errors)
