"""The little of ELF that explains why a program did not reach us: does it carry the CUDA runtime inside itself?"""

import struct
from pathlib import Path

GPU_CODE_SECTION = b".nv_fatbin"


def sections(data: bytes) -> set[bytes]:
    """Names of the sections of a 64-bit little-endian ELF file; empty for anything else or anything damaged."""
    if data[:6] != b"\x7fELF\x02\x01" or len(data) < 64:
        return set()
    (table,) = struct.unpack_from("<Q", data, 0x28)
    entry, count, names_index = struct.unpack_from("<HHH", data, 0x3A)
    if entry < 64 or names_index >= count or table + entry * count > len(data):
        return set()
    (names_offset,) = struct.unpack_from("<Q", data, table + entry * names_index + 0x18)
    starts = (names_offset + struct.unpack_from("<I", data, table + entry * i)[0] for i in range(count))
    return {data[start : max(start, data.find(b"\0", start))] for start in starts}


def has_static_runtime(program: Path) -> bool:
    """Whether the program holds GPU code, as nvcc embeds it, but is not linked with the shared libcudart."""
    try:
        data = program.read_bytes()
    except OSError:
        return False
    return GPU_CODE_SECTION in sections(data) and b"\0libcudart.so." not in data
