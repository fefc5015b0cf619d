"""`tessera completion SHELL`: a script for a shell that completes the words of `tessera` and `tessera-run`.

The script holds all words, taken from the commands' own parsers, so that completing starts no Python.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

SHELLS = ("bash", "zsh", "fish")
RUN = "tessera-run"
BASH = """\
_tessera() {
    local word=${COMP_WORDS[COMP_CWORD]} line="${COMP_WORDS[0]##*/}" each at=1 ended=""
    COMPREPLY=()
    [[ $line == tessera ]] || line=tessera-run
    while (( at < COMP_CWORD )); do
        each=${COMP_WORDS[at]}
        case "$line $each" in
@STEPS@
            "tessera-run --"|"tessera run --") ended=$((at + 1)); break;;
        esac
        at=$((at + 1))
    done
    if [[ -n $ended ]]; then
        (( COMP_CWORD > ended )) || COMPREPLY=($(compgen -c -- "$word"))
        return
    fi
    case "$line ${COMP_WORDS[COMP_CWORD-1]}" in
@CHOICES@
        @FILES@) return;;
    esac
    case "$line" in
@WORDS@
    esac
}
complete -o bashdefault -o default -F _tessera tessera tessera-run
"""
ZSH = "autoload -U +X bashcompinit && bashcompinit\n"


@dataclass(frozen=True, slots=True)
class Option:
    """choices: of its value; is_valued: the next word is its value, or may be."""

    names: tuple[str, ...]
    about: str
    choices: tuple[str, ...]
    is_valued: bool


@dataclass(frozen=True, slots=True)
class Line:
    """What may follow the words so far: `tessera`, `tessera policy`, `tessera policy check`."""

    words: str
    commands: tuple[str, ...]
    options: tuple[Option, ...]
    values: tuple[str, ...]  # of an argument that has few


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "shell", choices=SHELLS, help='bash, zsh: eval "$(tessera completion bash)"; fish: ... | source'
    )


def run(options: argparse.Namespace) -> int:
    print({"bash": bash, "zsh": lambda: ZSH + bash(), "fish": fish}[options.shell](), end="")
    return 0


def lines() -> list[Line]:
    """Of both programs, outer ones first."""
    from controlplane.commands import main, run  # all commands' modules, which nobody else needs

    found = [*_lines(main.parser(*main.COMMANDS), "tessera")]
    options = next(_lines(run.parser(), RUN))
    return [*(line for line in found if line.words != "tessera run"), _named(options, "tessera run"), options]


def _named(line: Line, words: str) -> Line:
    return Line(words, line.commands, line.options, line.values)


def _lines(parser: argparse.ArgumentParser, words: str) -> Iterator[Line]:
    options, below = [], {}
    values: tuple[str, ...] = ()
    for action in parser._actions:  # noqa: SLF001 argparse has no other way to ask
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            below = action.choices
        elif action.option_strings and action.help != argparse.SUPPRESS:
            choices = tuple(map(str, action.choices or ()))
            options.append(Option(tuple(action.option_strings), action.help or "", choices, action.nargs != 0))
        elif action.choices:
            values = tuple(map(str, action.choices))
    yield Line(words, tuple(below), tuple(options), values)
    for name, each in below.items():
        yield from _lines(each, f"{words} {name}")


def bash() -> str:
    steps, choices, files, words = [], [], [], []
    for line in lines():
        steps += [f'            "{line.words} {name}") line="{line.words} {name}";;' for name in line.commands]
        for option in line.options:
            patterns = [f'"{line.words} {name}"' for name in option.names]
            if option.choices:
                found = f'COMPREPLY=($(compgen -W "{" ".join(option.choices)}" -- "$word"))'
                choices.append(f"        {'|'.join(patterns)}) {found}; return;;")
            elif option.is_valued:
                files += patterns
        there = [*line.commands, *line.values, *(name for option in line.options for name in option.names)]
        words.append(f'        "{line.words}") COMPREPLY=($(compgen -W "{" ".join(there)}" -- "$word"));;')
    parts = {"@STEPS@": steps, "@CHOICES@": choices, "@FILES@": ["|".join(files)], "@WORDS@": words}
    text = BASH
    for mark, part in parts.items():
        text = text.replace(mark, "\n".join(part))
    return text


def fish() -> str:
    return "\n".join(_fish()) + "\n"


def _fish() -> Iterator[str]:
    for line in lines():
        program, *path = line.words.split()
        seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in path)
        below = f"not __fish_seen_subcommand_from {' '.join(line.commands)}" if line.commands else ""
        condition = "; and ".join(filter(None, (seen, below)))
        start = f"complete -c {program}" + (f" -n '{condition}'" if condition else "")
        yield from (f"{start} -f -a {name}" for name in (*line.commands, *line.values))
        for option in line.options:
            names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
            value = f" -x -a '{' '.join(option.choices)}'" if option.choices else " -r" * option.is_valued
            yield f"{start} {names}{value} -d '{_plain(option.about)}'"


def _plain(text: str) -> str:
    return (text % {"default": ""} if "%(" in text else text).replace("'", "").partition(";")[0].partition(":")[0]
