"""Where the options of `tessera-run` end, and whose value the word after an option is, which argparse cannot say.

Options whose value may be left out take one after an equals sign. The next word is theirs too when it cannot be the
program: a number, or a word with `--` right after it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from controlplane.run.launch import find_program
from ptxtools.errors import ConfigError

END = "--"
STATS, STATS_FILE = "--stats", "--stats\0"  # the second: an option of its own, as no argument of a process can be
NUMBERS = ("--verify", "--check-writes", "--check-accesses")  # left out: 1
VALUED = (  # whose value is the next word
    "--emulate",
    "--policy",
    "--gpus",
    "--plan",
    "--adapt",
    "--reserve",
    "--show",
    "--host",
    "--order",
    "--host-time",
    "--trace",
    "--profile",
    "--disassemble",
    "--timing",
    "--metrics",
    "--json",
    "--check-seed",
    "--check-most",
    "--check-memory",
)


def split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The options as argparse understands them, and the program with its arguments. Errors: ConfigError."""
    options: list[str] = []
    words = list(arguments)
    while words and words[0] != END and words[0].startswith("-"):
        name = words.pop(0)
        if name in VALUED:
            options += [name, *([words.pop(0)] if words and words[0] != END else [])]
        elif name in NUMBERS:
            value = words.pop(0) if _is_number(words) else "1"
            options.append(f"{name}={value}")
        elif name == STATS and _is_before_end(words):
            options.append(f"{STATS_FILE}={_file(words.pop(0))}")
        else:
            options.append(name.replace(f"{STATS}=", f"{STATS_FILE}=", 1))
    return options, words[1:] if words[:1] == [END] else words


def _is_number(words: Sequence[str]) -> bool:
    return bool(words) and (words[0].isdigit() or (_is_before_end(words) and words[0][0].isdigit()))


def _is_before_end(words: Sequence[str]) -> bool:
    return words[1:2] == [END] and words[0] != "" and not words[0].startswith("-")


def _file(word: str) -> str:
    """A program there would be overwritten."""
    program = find_program(word, os.environ.get("PATH", os.defpath))
    if program is not None and os.access(program, os.X_OK):
        expected = f"--stats={word}, or --stats -- {word} to run it"
        raise ConfigError(f"--stats {word} --: is that the file for statistics, or the program?", expected=expected)
    return word
