"""A corpus as one file."""

from __future__ import annotations

import tarfile
from pathlib import Path


def pack(directory: Path, file: Path) -> None:
    """All kernels; the same bytes for the same kernels."""
    with tarfile.open(file, "w:xz") as archive:
        for text in sorted(directory.glob("*/*.ptx")):
            member = tarfile.TarInfo(str(text.relative_to(directory)))
            member.size = text.stat().st_size
            with text.open("rb") as data:
                archive.addfile(member, data)


def unpacked(corpus: Path, directory: Path) -> Path:
    """The corpus' directory; a packed one is unpacked below `directory`, once."""
    if corpus.is_dir():
        return corpus
    result = directory / "corpus"
    if not result.exists():
        draft = result.with_suffix(".draft")
        with tarfile.open(corpus) as archive:
            archive.extractall(draft, filter="data")
        draft.rename(result)
    return result
