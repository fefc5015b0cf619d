"""Which driver functions the emulator defines, read from its C files."""

import re
from pathlib import Path

API = Path(__file__).parent
ENTRY = API.parent / "emulator" / "entry"
DEFINITION = re.compile(r"^CUresult CUDAAPI (cu[A-Z]\w*)\([^;{]*\)\s*\{", re.MULTILINE)


def defined_functions() -> set[str]:
    """Exported names with a definition that starts a line as `CUresult CUDAAPI cuName(...)`."""
    files = [*sorted(ENTRY.rglob("*.c")), API / "proc_address.c"]
    return {name for file in files for name in DEFINITION.findall(file.read_text())}
