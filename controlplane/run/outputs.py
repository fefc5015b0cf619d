"""Files that a run writes at its end: that they can be written is known before the program starts.

A file is replaced as a whole, so that a run that fails leaves what was there. What is no regular file (a terminal, a
pipe) is written to as it is.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ptxtools.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Output:
    """A file for the text of an option. option: as it stands before the file's name, such as `--json `."""

    option: str
    file: Path

    def check(self) -> None:
        """Leaves no trace. Errors: ConfigError when it cannot be written."""
        try:
            if self._is_replaced():
                descriptor, name = self._beside()
                os.close(descriptor)
                Path(name).unlink()
        except OSError as error:
            raise self._error(error) from error

    def write(self, text: str) -> None:
        """Errors: ConfigError; what was there before is there still."""
        self.write_bytes(text.encode())

    def write_bytes(self, data: bytes) -> None:
        """The same."""
        try:
            if self._is_replaced():
                self._replace(data)
            else:
                self.file.write_bytes(data)
        except OSError as error:
            raise self._error(error) from error

    def _is_replaced(self) -> bool:
        """Or written in its place: what is no regular file of this user alone, descriptors by name such as /dev/stdout,
        and files in folders where nothing can be created. Errors: OSError when neither can be.
        """
        try:
            found = self.file.stat()
        except FileNotFoundError:
            return True
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not os.access(self.file, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        own = stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and found.st_uid == os.geteuid()
        named = self.file.absolute().parts[1] in ("dev", "proc")
        return own and not named and os.access(self.file.resolve().parent, os.W_OK)

    def _beside(self) -> tuple[int, str]:
        place = self.file.resolve()  # a symbolic link stays one
        return tempfile.mkstemp(prefix=f".{place.name}.", dir=place.parent)

    def _replace(self, data: bytes) -> None:
        mode = stat.S_IMODE(self.file.stat().st_mode) if self.file.exists() else 0o666 & ~_umask()
        descriptor, name = self._beside()
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                os.fchmod(file.fileno(), mode)
            Path(name).replace(self.file.resolve())
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def _error(self, error: OSError) -> ConfigError:
        return ConfigError(f"{self.option}{self.file}: {error.strerror}", expected="a writable file")


def _umask() -> int:
    value = os.umask(0o077)
    os.umask(value)
    return value
