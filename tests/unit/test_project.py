"""The project's own promises: documented commands, generated tables, the licence."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEMO = "python3 -m venv .venv && . .venv/bin/activate && pip install --quiet . && tessera demo\n"
TESTS = "python3 -m venv .venv && . .venv/bin/activate && pip install --quiet '.[test]' && pytest\n"


def output(*command: str) -> str:
    return subprocess.run([sys.executable, *command], cwd=ROOT, text=True, capture_output=True, check=True).stdout


def test_the_first_two_bash_blocks_are_one_command_each() -> None:
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert [text for language, text in blocks if language == "bash"][:2] == [DEMO, TESTS]


def test_continuous_integration_runs_these_blocks() -> None:
    assert output("scripts/readme-command", "1") == DEMO
    assert output("scripts/readme-command", "2") == TESTS
    commands = (ROOT / ".ci" / "run").read_text()
    for number in (1, 2):
        assert f'bash -euo pipefail -c "$(scripts/readme-command {number})"' in commands


def test_files_that_the_readme_names_exist() -> None:
    text = (ROOT / "README.md").read_text()
    for name in re.findall(r"\]\(([^)#:]+)\)|`((?:scripts|interpose|controlplane|tests|ptxtools)/[\w./-]*)`", text):
        assert (ROOT / "".join(name)).exists(), name


def test_the_options_table_is_current() -> None:
    output("scripts/gen", "options", "--check")


def test_the_table_of_metrics_is_current() -> None:
    output("scripts/gen", "metrics", "--check")


def test_the_list_of_functions_is_current() -> None:
    output("scripts/gen", "python-reference", "--check")


def test_schemas_are_current() -> None:
    output("scripts/gen", "schemas", "--check")


def test_the_tables_of_the_command_line_are_current() -> None:
    output("scripts/gen", "command-line", "--check")


@pytest.mark.parametrize("name", ["picture", "terminal"])
def test_pictures_are_current(name: str) -> None:
    output("scripts/gen", name, "--check")


def test_licence_and_version() -> None:
    assert "Apache License" in (ROOT / "LICENSE").read_text()
    version = re.search(r'^version = "([\d.]+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version
    assert output("-c", "import controlplane; print(controlplane.__version__)").strip() == version[1]
    assert f"## {version[1]}" in (ROOT / "CHANGELOG.md").read_text()
