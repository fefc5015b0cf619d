"""Words that a shell completes, in bash itself."""

import shutil
import subprocess
from pathlib import Path

import pytest

from controlplane.commands import completion, run
from controlplane.commands.main import COMMANDS, main

ASK = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 ))
_tessera; echo "${COMPREPLY[@]}"
"""
OPTIONS = {name for action in run.parser()._actions for name in action.option_strings if action.help != "==SUPPRESS=="}  # noqa: SLF001


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("completion") / "tessera.bash"
    file.write_text(completion.bash())
    return file


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["tessera", ""], {*COMMANDS, "-h", "--help", "--version"}),
        (["/usr/bin/tessera", "tra"], {"trace"}),
        (["tessera", "policy", ""], {"check", "schema", "-h", "--help"}),
        (["tessera", "trace", "show", "--k"], {"--kernel"}),
        (["tessera", "completion", "b"], {"bash"}),
        (["tessera", "run", "-"], OPTIONS),
        (["tessera-run", "--emulate", "2", "-"], OPTIONS),
        (["tessera-run", "--order", ""], {"data", "stream"}),
        (["tessera-run", "--policy", ""], set()),  # a file, which bash finds by itself
        (["tessera-run", "--stats", "--", "tru"], {"true", "truncate"}),
        (["tessera-run", "--stats", "--", "true", "--"], set()),
    ],
)
def test_words_are_completed(words: list[str], expected: set[str], script: Path) -> None:
    done = subprocess.run(["bash", "-c", ASK, "bash", script, *words], text=True, capture_output=True, check=True)
    found = set(done.stdout.split())
    assert done.stderr == ""
    assert found >= expected if "tru" in words else found == expected - {""}


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_each_shell_takes_its_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in (*COMMANDS, *(name.lstrip("-") for name in OPTIONS)))
    if shutil.which(shell):
        subprocess.run([shell, "-n", "/dev/stdin"], input=text, text=True, check=True)
