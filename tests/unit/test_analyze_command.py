"""`tessera analyze` on texts, fat binaries, cubins and damaged files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from controlplane.commands.main import main

pytestmark = pytest.mark.usefixtures("native")

CORPUS = Path(__file__).parents[1] / "corpus"
HISTOGRAM = str(CORPUS / "ptx" / "nvcc_histogram.ptx")


def report(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, list[dict[str, object]]]:
    assert main(["analyze", *arguments, "--json"]) == 0
    found: dict[str, list[dict[str, object]]] = json.loads(capsys.readouterr().out)
    return found


def test_functions_and_their_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    found = report(capsys, HISTOGRAM)["functions"]
    assert [each["name"] for each in found] == ["_Z16histogram_sharedPKhiPj", "_Z16histogram_globalPKhiPj"]
    nothing = {"reads": False, "writes": False, "atomics": False, "indirect": False}
    assert found[0]["parameters"] == [
        {"index": 0, "offset": 0, "size": 8, **nothing, "reads": True},
        {"index": 1, "offset": 8, "size": 4, **nothing},
        {"index": 2, "offset": 16, "size": 8, **nothing, "atomics": True},
    ]
    assert (found[0]["tier"], found[0]["unknown"]) == ("ptx", [])


def test_ranges_of_a_launch(capsys: pytest.CaptureFixture[str]) -> None:
    launch = ("--function", "*shared*", "--grid", "4", "--block", "128,1", "--args", "0x7000000000, 5000, 0x7100000000")
    found = report(capsys, HISTOGRAM, *launch)
    variable = {"variable": None, "overwritten": False, "scratch": False}
    assert found["ranges"] == [
        {"parameter": 0, "kind": "read", "first": 0, "last": 4999, "stride": 5000, "width": 5000, **variable},
        {"parameter": 2, "kind": "atomic", "first": 0, "last": 1023, "stride": 1024, "width": 1024, **variable},
    ]
    assert found["unknown"] == []


def test_what_an_index_from_memory_reaches_is_not_known(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(CORPUS / "ptx" / "nvcc_scan.ptx")
    values = "0x7000000000,0x7100000000,4096,0x7200000000,0x7300000000,0x7400000000"
    launch = ("--function", "*chained*", "--grid", "4", "--block", "256", "--args", values)
    found = {(each["parameter"], each["kind"]): each["last"] for each in report(capsys, path, *launch)["ranges"]}
    assert found[3, "atomic"] == 3
    assert found[4, "write"] is None


@pytest.mark.parametrize("name", ["plain.fatbin", "lz4.fatbin", "zstd.fatbin", "specific.fatbin", "lineinfo.cubin"])
def test_images(capsys: pytest.CaptureFixture[str], name: str) -> None:
    (found,) = report(capsys, str(CORPUS / "image" / name))["functions"]
    assert [each["writes"] for each in found["parameters"]] == [True, False, False]  # type: ignore[attr-defined]


def test_machine_code(capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = report(capsys, str(CORPUS / "image" / "plain.cubin"))["functions"]
    assert found["tier"] == "machine"
    assert [each["writes"] for each in found["parameters"]] == [True, False, False]  # type: ignore[attr-defined]


def test_nobody_is_disassembled_who_may_not(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    closed = tmp_path / "libcublasLt.so.13"
    closed.write_bytes((CORPUS / "image" / "plain.cubin").read_bytes())
    for arguments, tier in (
        ((str(closed),), "unknown"),
        ((str(closed), "--disassemble", "all"), "machine"),
        ((str(CORPUS / "image" / "plain.cubin"), "--disassemble", "none"), "unknown"),
    ):
        (found,) = report(capsys, *arguments)["functions"]
        assert found["tier"] == tier


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((str(CORPUS / "image" / "header_only.cubin"),), "outside of the file"),
        ((str(Path(__file__)),), "neither PTX nor a fat binary"),
        (("/nonexistent",), "No such file"),
        ((HISTOGRAM, "--function", "nothing"), "matches 'nothing'"),
        ((HISTOGRAM, "--grid", "1"), "2 kernels match"),
        ((HISTOGRAM, "--function", "*global*", "--grid", "0", "--block", "1", "--args", "1,2,3"), "--grid 0"),
        ((HISTOGRAM, "--function", "*global*", "--grid", "1", "--block", "1", "--args", "1,2"), "2 values"),
        ((HISTOGRAM, "--function", "*global*", "--grid", "1", "--block", "1", "--args", "1,x,3"), "'x'"),
    ],
)
def test_mistakes_are_named(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str) -> None:
    assert main(["analyze", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_damaged_ptx_names_line_and_column(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "bad.ptx").write_text(".version 8.0\n.entry k() {\n  ret\n}")
    assert main(["analyze", str(tmp_path / "bad.ptx")]) == 1
    assert "PTX line 3, column 3" in capsys.readouterr().err


def test_a_table_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    launch = ("--function", "*global*", "--grid", "4", "--block", "128", "--args", "0x7000000000,100,0x7100000000")
    assert main(["analyze", HISTOGRAM, *launch]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "histogram_global(unsigned char const*, int, unsigned int*)"
    assert lines[2].split() == ["read", "parameter", "0", "0", "99", "100", "100"]
    assert main(["analyze", HISTOGRAM]) == 0
    assert "parameter 2   offset 16       8 bytes  atomics" in capsys.readouterr().out


@pytest.mark.parametrize("glob", ["_Z16histogram_global*", "histogram_global", "histogram_global(unsigned char*"])
def test_globs_match_the_names_that_people_know(glob: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", HISTOGRAM, "--function", glob, "--json"]) == 0
    assert [each["name"] for each in json.loads(capsys.readouterr().out)["functions"]] == ["_Z16histogram_globalPKhiPj"]


def test_there_is_one_evaluator(capsys: pytest.CaptureFixture[str]) -> None:
    launch = ("--function", "*shared*", "--grid", "4", "--block", "128", "--args", "0x7000000000,5000,0x7100000000")
    assert report(capsys, HISTOGRAM, *launch, "--evaluator", "c") == report(capsys, HISTOGRAM, *launch)
    assert main(["analyze", HISTOGRAM, *launch, "--evaluator", "python"]) == 2
    assert "--evaluator python" in capsys.readouterr().err
