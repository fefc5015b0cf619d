#!/usr/bin/env python3
"""How many records per second the control plane process takes in: processor time per record, and whether any are lost.

A process of its own writes launches and their times into rings at a given rate, as several threads of an
application would; the control plane process reads them, with and without a trace. Prints one line per case.

    scripts/bench/records.py [--rate 400000] [--seconds 5] [--threads 4]
"""

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path += [str(Path(__file__).parents[2]), str(Path(__file__).parents[2] / "tests" / "unit")]

from fake_producer import TICKS_PER_NS, FakeProcess, FakeRing

from controlplane.observe.layout import EntryKind, Kind, dtype
from controlplane.run import launch
from controlplane.run.observation import Observation

BLOCK = 512  # records that are written at a time; half of them launches, half the times of these
FUNCTIONS = 170  # of a decode step
LAUNCH_NS = 5000


class Writer:
    """Fills one ring."""

    def __init__(self, ring: FakeRing) -> None:
        self.ring = ring
        self.random = np.random.default_rng(ring.number)
        self.records = np.frombuffer(ring.map, dtype("tsr_record"), ring.capacity, ring.offset)
        self.block = np.zeros(BLOCK, dtype("tsr_record"))
        launches = self.block[0::2]
        launches["kind"], launches["stream"] = Kind.LAUNCH, 1
        launches["launch.function"] = 1 + np.arange(BLOCK // 2) % FUNCTIONS
        self.block[1::2]["kind"] = Kind.TIME

    def write(self) -> None:
        """One block; what finds no room is lost, as in the shim."""
        record, block = self.ring.record, self.block
        tail = int(record.tail)
        if tail + BLOCK - record.head > self.ring.capacity:
            record.lost += BLOCK
            return
        now = time.monotonic_ns()
        launches, times = block[0::2], block[1::2]
        moments = now + np.sort(self.random.integers(0, LAUNCH_NS * BLOCK // 2, BLOCK // 2))
        launches["start"] = moments * TICKS_PER_NS
        launches["ticks"] = self.random.integers(2000, 4000, BLOCK // 2)
        times["time.ring"] = self.ring.number
        times["time.number"] = tail + 2 * np.arange(BLOCK // 2)
        times["time.start_ns"] = moments + self.random.integers(3000, 9000, BLOCK // 2)
        times["time.ns"] = self.random.integers(1000, 20000, BLOCK // 2)
        begin = tail % self.ring.capacity
        self.records[begin : begin + BLOCK] = block
        record.launches[0] += BLOCK // 2
        record.tail = tail + BLOCK


def produce(name: str, rate: int, seconds: float, threads: int) -> None:
    """The application."""
    process = FakeProcess()
    process.connect(name)
    for number in range(1, FUNCTIONS + 1):
        process.define(EntryKind.FUNCTION, number, f"kernel_{number}")
    writers = [Writer(process.ring()) for _ in range(threads)]
    begin, blocks = time.monotonic(), 0
    while time.monotonic() - begin < seconds:
        if blocks * BLOCK / rate > time.monotonic() - begin:
            time.sleep(0.0005)
            continue
        writers[blocks % threads].write()
        blocks += 1
    process.anchor("last")


def seconds_of(process: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def server() -> int:
    for child in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        if b"controlplane.server.main" in Path(f"/proc/{child}/cmdline").read_bytes():
            return int(child)
    raise SystemExit("there is no control plane process")


def measure(options: argparse.Namespace, trace: Path | None) -> dict[str, object]:
    with Observation(trace) as observation:
        name = launch.compose([observation.change()], {})["TESSERA_RECORDS"]
        time.sleep(1.0)  # its start is no part of this
        before = seconds_of(server())
        arguments = (name, options.rate, options.seconds, options.threads)
        application = multiprocessing.Process(target=produce, args=arguments)
        application.start()
        application.join()
        used = seconds_of(server()) - before
        report = observation.finish()
    if report is None:
        raise SystemExit(1)
    records = 2 * report.launches.total
    return {
        "trace": trace is not None,
        "records_per_s": round(records / options.seconds),
        "lost": report.records.lost,
        "cores": round(used / options.seconds, 3),
        "ns_per_record": round(used / max(records, 1) * 1e9),
        "trace_bytes_per_launch": report.trace and round(report.trace.bytes / max(report.trace.launches, 1), 2),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=int, default=400_000)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--threads", type=int, default=4)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        for trace in (None, Path(directory, "trace")):
            print(json.dumps(measure(options, trace)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
