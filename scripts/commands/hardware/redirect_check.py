"""Runs programs bare and with all their launches on another GPU, and compares what they print.

    scripts/hardware redirect-check [--json FILE] [--executor N] [--driver PATH] -- COMMAND... [-- COMMAND...]

Each command is one program. It passes when its exit status and standard output are the same both times and at least one
launch ran on the executor's GPU. Needs a build tree named in TESSERA_NATIVE or an installation, and two GPUs.
"""

import argparse
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from controlplane.policy.read import read_policy
from controlplane.run import launch
from controlplane.run.redirect import Redirection
from controlplane.run.shim import system_driver
from scripts.commands.dispatch import parser_of

POLICY = """version: 1
devices: {{home: 0, executors: [{executor}]}}
rules:
  - match: {{function: "*"}}
    device: {executor}
default: home
"""


def split(words: list[str]) -> list[list[str]]:
    commands: list[list[str]] = [[]]
    for word in words:
        if word == "--":
            commands.append([])
        else:
            commands[-1].append(word)
    return [command for command in commands if command]


def run(command: list[str], environment: dict[str, str]) -> tuple[int, str, str, float]:
    started = time.monotonic()
    try:
        done = subprocess.run(command, text=True, capture_output=True, env=environment, timeout=180)
    except subprocess.TimeoutExpired as expired:
        return 124, "", f"no end after {expired.timeout} s", time.monotonic() - started
    return done.returncode, done.stdout, done.stderr, time.monotonic() - started


def check(command: list[str], executor: int, driver: Path) -> dict[str, object]:
    bare = run(command, dict(os.environ))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "policy.yaml"
        file.write_text(POLICY.format(executor=executor))
        policy = read_policy(file)
        with Redirection(policy, driver, os.environ) as redirection:
            away = run(command, launch.compose([redirection.change()], os.environ))
            launches = redirection.launches()
    same = bare[:2] == away[:2]
    moved = launches.by_device[executor]
    return {
        "command": " ".join(command),
        "passed": same and moved > 0,
        "same_output": same,
        "launches": {str(device): count for device, count in launches.by_device.items()},
        "kept_home": launches.kept_home,
        "kept_reasons": launches.kept_reasons,
        "exit": [bare[0], away[0]],
        "seconds": [round(bare[3], 3), round(away[3], 3)],
        "stderr": away[2][-2000:],
        "stdout": "" if same else away[1][-2000:],
    }


def main(words: Sequence[str]) -> int:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--executor", type=int, default=1)
    parser.add_argument("--driver", type=Path)
    parser.add_argument("commands", nargs=argparse.REMAINDER)
    arguments = parser.parse_args(words)
    driver = arguments.driver or system_driver()
    results = []
    for command in split(arguments.commands):
        result = check(command, arguments.executor, driver)
        results.append(result)
        verdict = "PASS" if result["passed"] else "FAIL"
        counts = f"launches {result['launches']}  kept home {result['kept_home']} {result['kept_reasons']}"
        print(f"{verdict}  {counts}  exit {result['exit']}  {result['seconds']} s  {result['command']}", flush=True)
        if not result["passed"]:
            print(result["stderr"], result["stdout"], sep="\n", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps({"programs": results}, indent=2) + "\n")
    passed = sum(bool(result["passed"]) for result in results)
    print(f"{passed} passed, {len(results) - passed} failed")
    return 0 if passed == len(results) else 1
