"""layouts.py DIRECTORY HEADER...: writes what cffi makes of headers as Python modules; no program need parse C then."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))

from ptxtools.native.records import parse


def main(directory: Path, headers: list[Path]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for header in headers:
        ffi = parse(header.read_text(), header.name, header.with_name("gpus.h").read_text())
        ffi.set_source(f"tessera_{header.stem}", None)
        ffi.emit_python_code(str(directory / f"{header.stem}.py"))


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
