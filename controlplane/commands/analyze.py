"""`tessera analyze`: what the kernels of a file or of a trace read and write, and the ranges of bytes of one launch."""

import argparse
import json
import struct
from collections.abc import Sequence
from pathlib import Path

from controlplane.analysis.describe import describe, reasons
from controlplane.base.demangle import demangle, is_named
from controlplane.base.progress import Progress
from controlplane.commands.analyze_trace import run_cache, run_trace
from ptxtools.access.build import build
from ptxtools.access.summary import Summary, summarise
from ptxtools.access.template import Template
from ptxtools.errors import ConfigError
from ptxtools.image import Code, running, texts
from ptxtools.image.cubins import cubins
from ptxtools.machine.consent import Consent, may_disassemble
from ptxtools.machine.kernels import templates
from ptxtools.ranges import Launch, Range, Result, evaluate
from ptxtools.reader import Parameter, read

_NEWEST = 1000
_KEYS = {"first": 14, "last": 14, "stride": 10, "width": 10}  # of a range, with their columns' widths


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, nargs="?")
    parser.add_argument("--trace", metavar="TRACE", type=Path, help="the kernels of a tessera-run --trace instead")
    parser.add_argument("--coverage", action="store_true", help="of a trace: how many launches have known ranges")
    parser.add_argument("--svg", metavar="FILE", type=Path, help="of a trace: a picture of the same")
    parser.add_argument(
        "--launches", metavar="N", type=int, default=64, help="of a trace: different launches of a kernel to look at"
    )
    parser.add_argument("--cache-info", action="store_true", help="say what the cache of analyses holds")
    parser.add_argument("--clear-cache", action="store_true", help="empty the cache of analyses")
    parser.add_argument("--function", metavar="GLOB", default="*", help="only kernels whose name matches")
    parser.add_argument("--arch", metavar="SM", type=int, default=_NEWEST, help="the GPU's architecture, as in 90")
    parser.add_argument("--grid", metavar="X,Y,Z", help="blocks of a launch; with --block and --args")
    parser.add_argument("--block", metavar="X,Y,Z", help="threads of a block")
    parser.add_argument("--args", metavar="V0,V1,...", help="values of the parameters; addresses as 0x...")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--disassemble",
        choices=[each.value for each in Consent],
        help="whose machine code may be disassembled; open: all but NVIDIA's closed libraries (default: what the "
        "policy says, else open)",
    )
    parser.add_argument(
        "--policy", metavar="FILE", type=Path, help="of a trace: `disassemble` and `analysis` are what this policy says"
    )
    parser.add_argument("--evaluator", metavar="c", default="c", help="what finds the ranges: the one of programs, c")


def run(options: argparse.Namespace) -> int:
    if options.cache_info or options.clear_cache:
        return run_cache(options.clear_cache)
    if options.evaluator != "c":
        raise ConfigError(f"--evaluator {options.evaluator}", expected="c, the only evaluator, or no --evaluator")
    if (options.file is None) == (options.trace is None):
        raise ConfigError("what to analyse is not clear", expected="a file, or --trace with a trace")
    if options.trace is not None:
        return run_trace(options)
    if options.coverage or options.svg is not None:
        raise ConfigError("--coverage and --svg are about traces", expected="--trace with a trace")
    if options.policy is not None:
        raise ConfigError("--policy is about traces", expected="--trace with a trace")
    with Progress("analysing kernels"):
        found = _kernels(options.file, options.arch, options.function, Consent(options.disassemble or Consent.OPEN))
    launched = [options.grid, options.block, options.args]
    if all(each is None for each in launched):
        _print_summaries([summarise(template) for template, _ in found], options.json)
        return 0
    if any(each is None for each in launched) or len(found) != 1:
        raise ConfigError(
            f"{len(found)} kernels match '{options.function}'",
            expected="one kernel, and --grid, --block and --args together, for the ranges of a launch",
        )
    template, slots = found[0]
    parameters = _parameters(slots, options.args)
    launch = Launch(parameters, _shape("--grid", options.grid), _shape("--block", options.block))
    _print_launch(summarise(template), evaluate(template, launch), options.json)
    return 0


def _kernels(file: Path, architecture: int, pattern: str, consent: Consent) -> list[tuple[Template, list[Parameter]]]:
    """Templates of the kernels that match, in the order of the file: from the code that runs on the architecture."""
    found: list[tuple[Template, list[Parameter]]] = []
    refusal = "" if may_disassemble(consent, file.name) else "machine code that may not be disassembled (--disassemble)"
    for code in _codes(file, architecture):
        if code.text is not None:
            module = read(code.text)
            wanted = (each for each in module.kernels if is_named(each.name, pattern))
            found += [(build(module, function), list(function.parameters)) for function in wanted]
        elif code.cubin is not None:
            made = templates(code.cubin, lambda name: is_named(name, pattern), refusal)
            found += [(template, _slots(template)) for template in made]
    if not found:
        raise ConfigError(f"no kernel in it matches '{pattern}'", expected="another pattern", file=file)
    return found


def _slots(template: Template) -> list[Parameter]:
    """Parameters as machine code describes them: sizes without types."""
    return [Parameter("", f"b{8 * slot.size}", slot.index, slot.offset, slot.size) for slot in template.slots]


def _codes(file: Path, architecture: int) -> list[Code]:
    """What the architecture runs; without one, PTX, or the newest machine code where there is no PTX."""
    try:
        data = file.read_bytes()
        if architecture == _NEWEST and not texts(data):
            architecture = max((each.architecture for each in cubins(data)), default=0)
        found = running(data, architecture)
    except OSError as problem:
        raise ConfigError(str(problem.strerror), expected="a file", file=file) from problem
    except ValueError as problem:
        raise ConfigError(str(problem), expected="PTX, a fat binary, a cubin or an executable", file=file) from problem
    if not found:
        raise ConfigError("it holds no code for this architecture", expected="another --arch", file=file)
    return found


def _shape(option: str, text: str) -> tuple[int, int, int]:
    sizes = [int(part) if part.strip().isdigit() else 0 for part in text.split(",")]
    if len(sizes) > 3 or min(sizes) < 1:
        raise ConfigError(f"{option} {text}", expected="one to three positive numbers, as in 16,4,1")
    x, y, z = [*sizes, 1, 1][:3]
    return x, y, z


def _parameters(slots: Sequence[Parameter], text: str) -> bytes:
    """The parameter block."""
    values = [part.strip() for part in text.split(",")] if text.strip() else []
    if len(values) != len(slots):
        raise ConfigError(f"--args has {len(values)} values", expected=f"{len(slots)}, one for each parameter")
    block = bytearray(max((slot.offset + slot.size for slot in slots), default=0))
    for slot, value in zip(slots, values, strict=True):
        block[slot.offset : slot.offset + slot.size] = _packed(slot, value)
    return bytes(block)


def _packed(slot: Parameter, value: str) -> bytes:
    """A value in the parameter's bytes; a struct is one number, its first byte lowest."""
    try:
        if slot.type in ("f32", "f64"):
            return struct.pack("<f" if slot.type == "f32" else "<d", float(value))
        number = int(value, 0)
        return (number & ((1 << 8 * slot.size) - 1)).to_bytes(slot.size, "little")
    except ValueError as problem:
        raise ConfigError(f"parameter {slot.index}: '{value}'", expected="a number") from problem


def _print_summaries(summaries: Sequence[Summary], as_json: bool) -> None:
    if as_json:
        print(json.dumps({"functions": [describe(summary) for summary in summaries]}, indent=2))
    else:
        print("\n\n".join(_summary_text(summary) for summary in summaries))


def _summary_text(summary: Summary) -> str:
    lines = [f"{demangle(summary.name)}  [{summary.tier}]"]
    for use in summary.parameters:
        named = {"reads": use.reads, "writes": use.writes, "atomics": use.atomics, "indirect": use.indirect}
        used = ", ".join(name for name, is_so in named.items() if is_so)
        lines.append(f"  parameter {use.index:<3} offset {use.offset:<5} {use.size:>4} bytes  {used or '-'}")
    for name, kinds in summary.variables.items():
        lines.append(f"  variable {name}  {', '.join(sorted(kind.value for kind in kinds))}")
    lines += [f"  unknown, line {line}: {reason}" for line, reason in summary.unknown]
    return "\n".join(lines)


def _print_launch(summary: Summary, result: Result, as_json: bool) -> None:
    if as_json:
        ranges = [_range_json(each) for each in result.ranges]
        report = {"functions": [describe(summary)], "ranges": ranges, "unknown": reasons(result.unknown)}
        print(json.dumps(report, indent=2))
        return
    print(demangle(summary.name))
    print(f"  {'kind':7} {'base':24} " + " ".join(f"{key:>{columns}}" for key, columns in _KEYS.items()))
    for each in result.ranges:
        entry = _range_json(each)
        base = f"parameter {each.parameter}" if each.parameter is not None else each.variable or "address"
        columns = (f"{entry[key]:>{width}}" for key, width in _KEYS.items())
        ends = "the whole allocation" if each.whole else " ".join(columns)
        print(f"  {each.kind.value:7} {base:24} {ends}")
    for line, reason in result.unknown:
        print(f"  anything: line {line}, {reason}")


def _range_json(each: Range) -> dict[str, object]:
    """`width` bytes at first and every stride after it, none beyond last; null where only the base is known."""
    length = each.last - each.first + 1
    known = {
        "first": each.first,
        "last": each.last,
        "stride": each.stride or length,
        "width": each.width if each.stride else length,
    }
    ends = known if not each.whole else dict.fromkeys(_KEYS)
    flags = {"overwritten": each.overwritten, "scratch": each.scratch}
    return {"parameter": each.parameter, "variable": each.variable, "kind": each.kind.value, **ends, **flags}
