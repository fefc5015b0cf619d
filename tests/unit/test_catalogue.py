"""The catalogue: complete, plausible against data sheets' totals, and exact in its complaints."""

from pathlib import Path

import pytest

from controlplane.base.yamlfile import read
from controlplane.machine.catalogue import catalogue
from controlplane.machine.catalogue_file import FIGURES, figures, parse, read_catalogue
from ptxtools.errors import ConfigError
from scripts.commands.gen.catalogue import main as generate

# Peak rates as the vendor's data sheets state them, in 10^12 operations per second (fp32, fp64, dense fp16 tensor).
DATA_SHEETS = {
    "v100": (15.7, 7.8, 125),
    "t4": (8.1, 0.25, 65),
    "a100-80gb": (19.5, 9.7, 312),
    "a10": (31.2, 0.49, 125),
    "l4": (30.3, 0.47, 121),
    "l40s": (91.6, 1.4, 362),
    "rtx4090": (82.6, 1.29, 165.2),
    "rtx5090": (104.8, 1.64, 209.5),
    "h100-pcie": (51, 26, 756),
    "h200": (67, 34, 989),
    "b200": (75, 37, 2250),
}


def test_the_table_is_what_the_file_says() -> None:
    assert generate(["--check"]) == 0, "scripts/gen catalogue"
    assert catalogue() == read_catalogue()


def test_has_enough_gpus_with_every_figure() -> None:
    gpus = catalogue().gpus
    assert len(gpus) >= 12
    for gpu in gpus.values():
        assert set(gpu.fields) == {figure.field for figure in FIGURES.values()}
        assert gpu.fields["shared_per_block_optin_bytes"] <= gpu.fields["shared_per_sm_bytes"]
        assert gpu.fields["max_threads_per_sm"] % 32 == 0


@pytest.mark.parametrize("key", DATA_SHEETS)
def test_rates_agree_with_the_data_sheet(key: str) -> None:
    """Within 15 %: data sheets quote some rates at lower clocks than the maximum boost."""
    fields = catalogue().gpus[key].fields
    clocks_per_s = fields["sm_count"] * fields["clock_khz"] * 1000
    for kind, stated in zip(("fp32", "fp64", "tensor_fp16"), DATA_SHEETS[key], strict=True):
        assert fields[f"{kind}_ops_per_sm_clk"] * clocks_per_s / 1e12 == pytest.approx(stated, rel=0.15), kind


def test_h200_is_what_was_measured() -> None:
    fields = catalogue().gpus["h200"].fields
    assert fields["memory_bytes"] == 150754820096
    assert fields["memory_bytes_per_s"] * fields["memory_efficiency_permille"] / 1e15 == pytest.approx(4.45, abs=0.01)
    assert (fields["sm_count"], fields["clock_khz"], fields["l2_bytes"]) == (132, 1980000, 60 * 2**20)


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "file.yaml"
    path.write_text(text)
    return path


def test_figures_convert_units(tmp_path: Path) -> None:
    root = read(write(tmp_path, "clock_mhz: 1500\nmemory_gib: 0.5\nmemory_efficiency: 0.9\n"))
    assert figures(root.mapping()) == {"clock_khz": 1500000, "memory_bytes": 2**29, "memory_efficiency_permille": 900}


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("sm_count: many", 1, "whole number"),
        ("clock_mhz: 1\nsm_count: 0", 2, "from 1 to 4096"),
        ("memory_gib: .nan", 1, "a number from"),
        ("sm_count: [1]", 1, "single value"),
    ],
)
def test_wrong_figures_are_named(tmp_path: Path, text: str, line: int, says: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError, match=says) as caught:
        figures(read(path).mapping())
    assert (caught.value.file, caught.value.line) == (path, line)


def test_an_incomplete_gpu_is_named(tmp_path: Path) -> None:
    gpu = "{name: X, compute: '9.0', link: a, host_link: pcie5}"
    link = "{kind: pcie, peer_access: true, gb_per_s: 1, latency_ns: 1}"
    path = write(tmp_path, f"links: {{a: {link}}}\narchitectures: {{'9.0': {{}}}}\ngpus:\n  x: {gpu}\n")
    with pytest.raises(ConfigError, match="'x' is incomplete") as caught:
        parse(read(path))
    assert caught.value.line == 4


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: 1\na: 2\n", "given twice"),
        ("a: [1\n", "not YAML"),
        ("", "empty"),
        ("[1]", "not a mapping"),
        ("\0", "not YAML"),
    ],
)
def test_broken_files_are_refused(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        read(write(tmp_path, text)).mapping()


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read(tmp_path / "none.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="UTF-8"):
        read(tmp_path / "binary.yaml")
