#!/usr/bin/env python3
"""Time on the GPU as the shim measures it, against CUPTI, per kernel of a PyTorch decoding loop.

    scripts/bench/gpu_times.py [--trace FILE] [--json FILE]

The same loop (decode_steps.py) runs under `tessera-run --timing all --trace` and, in a process of its own, under
torch.profiler. Prints, for each kernel that both saw, launches, both median times and their difference. --trace keeps
the trace.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from controlplane.base.demangle import demangle

HERE = Path(__file__).resolve().parent
WORKER = HERE / "decode_steps.py"
STEPS = 6


def by_kernel_of_trace(trace: Path) -> dict[str, list[int]]:
    command = ["tessera", "trace", "show", str(trace), "--json", "--limit", "1000000"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    times: dict[str, list[int]] = defaultdict(list)
    for launch in json.loads(done.stdout)["launches"]:
        if launch["gpu_ns"] is not None:
            times[launch["kernel"]].append(launch["gpu_ns"])
    return times


def rows(ours: Mapping[str, list[int]], theirs: Mapping[str, list[int]]) -> list[dict[str, object]]:
    """Medians in ns, the kernel with the most time first. Names of CUPTI are demangled, ours are made so."""
    result: list[dict[str, object]] = []
    for name in sorted(ours):
        readable = demangle(name)
        if theirs.get(readable):
            shim, cupti = statistics.median(ours[name]), statistics.median(theirs[readable])
            result.append({"kernel": readable, "launches": len(ours[name]), "shim_ns": shim, "cupti_ns": cupti})
    return sorted(result, key=lambda row: -float(str(row["cupti_ns"])) * int(str(row["launches"])))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        trace = options.trace or Path(place, "trace")
        shimmed = ["tessera-run", "--no-summary", "--timing", "all", "--trace", str(trace), "--"]
        subprocess.run([*shimmed, sys.executable, str(WORKER), str(STEPS)], check=True)
        done = subprocess.run(
            [sys.executable, str(WORKER), str(STEPS), "--cupti"], check=True, stdout=subprocess.PIPE, text=True
        )
        table = rows(by_kernel_of_trace(trace), json.loads(done.stdout.splitlines()[-1]))
    for row in table[:25]:
        more = float(str(row["shim_ns"])) - float(str(row["cupti_ns"]))
        times = f"{row['shim_ns']:9} ns  {row['cupti_ns']:9} ns  {more:+8.0f}"
        print(f"{row['launches']:6}  {times}  {str(row['kernel'])[:70]}")
    differences = [float(str(row["shim_ns"])) - float(str(row["cupti_ns"])) for row in table]
    if not differences:
        print("no kernel was seen by both", file=sys.stderr)
        return 1
    print(f"{len(table)} kernels; the shim's median is more by {statistics.median(differences):.0f} ns in the median")
    if options.json:
        options.json.write_text(json.dumps(table, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
