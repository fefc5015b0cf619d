"""--emulate arguments, and the machine's file that they become."""

import mmap
from pathlib import Path
from typing import Any

import pytest

from controlplane.base.yamlfile import MistakesError
from controlplane.machine.emulate import parse
from controlplane.machine.emulated import HostTime, Machine
from controlplane.machine.file import HEADER, KernelUse, MachineFile
from ptxtools.errors import ConfigError
from ptxtools.native import records


@pytest.fixture(autouse=True)
def native(fake_native: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESSERA_NATIVE", str(fake_native))


def keys(machine: Machine) -> list[str]:
    return [gpu.key for gpu in machine.devices]


def test_a_number_gives_equal_gpus_with_nvlink() -> None:
    machine = parse("3")
    assert keys(machine) == ["h200"] * 3
    assert {link.name for link in machine.links.values()} == {"nvlink4"}
    assert len(machine.links) == 6
    assert [link.name for link in machine.host_links] == ["pcie5"] * 3


def test_names_meet_on_the_slower_pcie() -> None:
    machine = parse("h100, L40S,rtx4090")
    assert keys(machine) == ["h100", "l40s", "rtx4090"]
    assert machine.links[0, 1].name == machine.links[1, 0].name == "pcie4"
    assert machine.links[0, 2].name == "pcie4-no-peer"
    assert not machine.links[2, 1].peer_access


FILE = """
devices:
  - gpu: h100
    count: 2
    sm_count: 66
    memory_gib: 10
    name: Half an H100
  - t4
link: pcie5
links:
  - between: [0, 1]
    type: nvlink4
    gb_per_s: 200
    corrupts: true
host_time: real
host_call_ns: 500
worker_threads: 3
"""


def test_a_file_overrides_figures_and_links(tmp_path: Path) -> None:
    path = tmp_path / "gpus.yaml"
    path.write_text(FILE)
    machine = parse(str(path))
    assert keys(machine) == ["h100", "h100", "t4"]
    half = machine.devices[1]
    assert (half.name, half.fields["sm_count"], half.fields["memory_bytes"]) == ("Half an H100", 66, 10 * 2**30)
    assert half.fields["l2_bytes"] == 50 * 2**20
    assert machine.links[1, 0].bytes_per_s == 200 * 10**9
    assert machine.links[1, 0].kind == "nvlink"
    assert machine.links[0, 2].name == "pcie5"
    assert (machine.links[1, 0].corrupts, machine.links[0, 2].corrupts) == (True, False)
    assert (machine.host_time, machine.host_call_ns, machine.worker_threads) == (HostTime.REAL, 500, 3)


def test_a_gpu_may_become_slower(tmp_path: Path) -> None:
    path = tmp_path / "gpus.yaml"
    path.write_text("devices:\n  - {gpu: t4, slows: {after_ms: 1.5, times: 2}}\n  - t4\n")
    file = MachineFile(parse(str(path)))
    record = mapped(file)
    slows, other = record.devices[0], record.devices[1]
    assert (slows.slow_from_ns, slows.slow_permille) == (1_500_000, 2000)
    assert (other.slow_from_ns, other.slow_permille) == (0, 0)


@pytest.mark.parametrize(
    "spec", ["0", "-1", "17", "h100,h1000", "", ",", "two", "none.yaml", "²", ",".join(["t4"] * 17)]
)
def test_unusable_arguments_are_refused(spec: str) -> None:
    with pytest.raises(ConfigError):
        parse(spec)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("link: pcie4\n", 1, "no devices"),
        ("devices: []\n", 1, "0 devices"),
        ("devices:\n  - h300\n", 2, "'h300' is not known"),
        ("devices:\n  - sm_count: 3\n", 2, "does not say which GPU"),
        ("devices:\n  - gpu: t4\n    sms: 3\n", 3, "unknown key 'sms'"),
        ("devices:\n  - gpu: t4\n    count: 17\n", 3, "from 1 to 16"),
        ("devices:\n  - gpu: t4\n    count: 16\n  - t4\n", 2, "17 devices"),
        ("devices: [t4]\nlink: wire\n", 2, "'wire' is not known"),
        ("devices: [t4, t4]\nlinks:\n  - between: [0, 0]\n    type: pcie4\n", 3, "connects two devices"),
        ("devices: [t4, t4]\nlinks:\n  - between: [0, 2]\n    type: pcie4\n", 3, "from 0 to 1"),
        ("devices: [t4, t4]\nlinks:\n  - type: pcie4\n", 3, "does not say what it connects"),
        ("devices: [t4, t4]\nlinks:\n  - between: [0, 1]\n    gb_per_s: 3\n", 3, "incomplete"),
        ("devices: [t4]\nhost_time: slow\n", 2, "one of frozen, real"),
        ("devices:\n  - gpu: t4\n    host_link: nvlink4\n", 3, "'nvlink4' is not known"),
        ("devices:\n  - gpu: t4\n    slows: {times: 2}\n", 3, "not said when the GPU becomes slower"),
        ("devices:\n  - gpu: t4\n    slows:\n      after_ms: 3\n      times: 0\n", 5, "0.1 to 1000"),
    ],
)
def test_mistakes_in_a_file_are_named_with_their_line(tmp_path: Path, text: str, line: int, says: str) -> None:
    path = tmp_path / "gpus.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=says) as caught:
        parse(str(path))
    assert caught.value.line == line
    assert str(path) in str(caught.value)


def test_all_mistakes_in_a_file_are_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "gpus.yaml"
    path.write_text("devices: [h300, {gpu: t4, sms: 3}]\nlink: wire\nhost_time: slow\nhost_call_ns: -1\n")
    with pytest.raises(MistakesError) as caught:
        parse(str(path))
    told = [(each.line, each.message.partition(":")[0]) for each in caught.value.mistakes]
    assert told == [(1, "devices"), (1, "devices"), (2, "link"), (3, "host_time"), (4, "host_call_ns")]


def mapped(file: MachineFile) -> Any:
    """The record as another process sees it: through the path. Keep the result while using anything inside it."""
    ffi, _ = records.header(HEADER)
    with Path(file.path).open("r+b") as opened:
        return ffi.from_buffer("struct tsr_machine *", mmap.mmap(opened.fileno(), 0), require_writable=True)


def test_the_file_holds_what_was_asked_for() -> None:
    file = MachineFile(parse("a100-40gb,a100-40gb"))
    ffi, text = records.header(HEADER)
    record = mapped(file)
    assert record.magic == 0x3143414D52535454
    assert record.version == records.constant(text, "TSR_MACHINE_VERSION", HEADER)
    assert record.bytes == ffi.sizeof("struct tsr_machine") == Path(file.path).stat().st_size
    assert (record.device_count, record.host_time) == (2, 0)
    first, second = record.devices[0], record.devices[1]
    assert ffi.string(first.name) == b"NVIDIA A100-SXM4-40GB"
    assert (first.compute_major, first.compute_minor, first.sm_count) == (8, 0, 108)
    assert bytes(first.uuid) != bytes(second.uuid)
    assert first.pci_bus != second.pci_bus
    stride = records.constant(text, "TSR_MACHINE_DEVICES", HEADER)
    assert (record.links[1].kind, record.links[stride].kind) == (2, 2)
    assert record.links[1].bytes_per_s == 261 * 10**9
    assert (record.links[0].kind, record.links[2].kind) == (0, 0)
    assert record.host_links[1].bytes_per_s == 26 * 10**9


def test_every_desc_field_is_written() -> None:
    """A field that a change of the header adds cannot be forgotten."""
    file = MachineFile(parse("a10"))
    ffi, _ = records.header(HEADER)
    record = mapped(file)
    zero_is_right = {"pci_domain", "pci_device", "tensor_fp64_ops_per_sm_clk", "slow_permille", "slow_from_ns"}
    for name, field in ffi.typeof("struct tsr_device_desc").fields or ():
        if field.type.kind == "primitive" and name not in zero_is_right:
            assert getattr(record.devices[0], name), name


def test_live_counters_are_read() -> None:
    file = MachineFile(parse("2"))
    record = mapped(file)
    record.processes, record.live[1].launches, record.live[1].busy_ns = 1, 7, 99
    row = record.kernels[5]
    row.state, row.device, row.launches, row.virtual_ns, row.name = 2, 1, 7, 99, b"kernel"
    record.kernels[6].state = 1
    assert file.processes == 1
    assert [(use.launches, use.busy_ns) for use in file.devices()] == [(0, 0), (7, 99)]
    assert list(file.kernels()) == [KernelUse(1, "kernel", 7, 99)]
