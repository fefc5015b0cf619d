"""The words of tessera-run's command line: which are options, which their values, and where the program begins."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from controlplane.commands.run import CONSENTS, ORDERS, parse, parser
from controlplane.commands.split import NUMBERS, STATS, VALUED, split
from controlplane.policy.language import Order
from ptxtools.errors import ConfigError
from ptxtools.machine.consent import Consent

PROGRAM = ["prog", "--verify", "7", "--", "x"]


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_may_be_left_out(name: str) -> None:
    def number(*words: str) -> int:
        options = parse([*words, *PROGRAM])
        assert options.command == PROGRAM
        found: int = getattr(options, name.removeprefix("--").replace("-", "_"))
        return found

    assert number(name) == number(name, "--") == 1
    assert number(f"{name}=5") == number(f"{name}=5", "--") == number(name, "5") == number(name, "5", "--") == 5
    assert number("--json", "x", name, "5", "--stats") == 5


@pytest.mark.parametrize("value", ["5x", "0x5", "4294967296"])
def test_what_is_no_number_is_refused(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        parse(["--verify", value, "--", "prog"])
    assert f"{value!r} is not a whole number" in capsys.readouterr().err


def test_a_file_for_statistics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for words in (["--stats=out.json", "--"], ["--stats=out.json"], ["--stats", "out.json", "--"]):
        options = parse([*words, *PROGRAM])
        assert (options.stats_file, options.stats, options.command) == (Path("out.json"), False, PROGRAM)
    for words in (["--stats"], ["--stats", "--"], ["--stats", "--shim"], ["--stats", "--shim", "--"]):
        options = parse([*words, *PROGRAM])
        assert (options.stats_file, options.stats, options.command) == (None, True, PROGRAM)
    (tmp_path / "prog").touch(0o755)
    for program in ("./prog", "sh"):
        with pytest.raises(ConfigError, match=re.escape(f"--stats -- {program} to run it")):
            parse(["--stats", program, "--", "-x"])
        assert parse(["--stats", program, "-x", "--"]).command == [program, "-x", "--"]


def test_what_belongs_to_the_program_stays_as_it_is() -> None:
    assert split(["--", "--stats=x", "--verify"]) == ([], ["--stats=x", "--verify"])
    assert split(["prog", "--stats=x"]) == ([], ["prog", "--stats=x"])
    assert split(["--json", "a", "-x", "5"]) == (["--json", "a", "-x"], ["5"])
    assert split(["--verify", "", "--"]) == (["--verify=1"], ["", "--"])
    assert split([]) == split(["--"]) == ([], [])


def test_options_with_a_value_are_known() -> None:
    """argparse says what each takes in its help."""
    found = set(re.findall(r"^  (--[a-z-]+) (?:[A-Z{[])", parser().format_help(), re.MULTILINE))
    assert found == {*VALUED, *NUMBERS}
    assert STATS not in found


def test_choices_that_the_parser_repeats_are_those_of_the_language() -> None:
    """It does not import them: a plain run starts sooner."""
    assert list(ORDERS) == [each.value for each in Order]
    assert list(CONSENTS) == [each.value for each in Consent]
