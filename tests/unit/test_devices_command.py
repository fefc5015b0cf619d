"""`tessera devices`: table and JSON."""

import json

import pytest

from controlplane.commands.main import main
from controlplane.machine.catalogue import catalogue
from tests import schemas


def test_lists_the_catalogue(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == list(catalogue().gpus)


def test_columns_begin_below_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    """The longest names, too."""
    assert main(["devices"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    gpus = catalogue().gpus.values()
    assert {row.index(gpu.name) for row, gpu in zip(rows, gpus, strict=True)} == {head.index("name")}
    assert {row.rindex(gpu.link) for row, gpu in zip(rows, gpus, strict=True)} == {head.rindex("link")}


def test_gpus_of_a_machine_have_the_numbers_that_its_links_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices", "h100,l40s"]) == 0
    head, first, second, *_ = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in (head, first, second)] == [["GPU", "SPEC"], ["0", "h100"], ["1", "l40s"]]


def test_shows_a_machine_with_links(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices", "h100,l40s"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "0 - 1: pcie4, 26 GB/s, peer access"


def test_json_has_devices_and_links(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices", "2", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    schemas.check("devices", result)
    assert [device["key"] for device in result["devices"]] == ["h200", "h200"]
    assert result["devices"][0]["sm_count"] == 132
    assert [(link["from"], link["to"], link["type"]) for link in result["links"]] == [
        (0, 1, "nvlink4"),
        (1, 0, "nvlink4"),
    ]


def test_mistakes_end_with_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices", "h1000"]) == 2
    assert "h1000" in capsys.readouterr().err
