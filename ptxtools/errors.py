"""Errors by who is to blame. Commands print a TesseraError and end with its exit code; they catch nothing else."""

from pathlib import Path


class TesseraError(Exception):
    """Base of all errors that Tessera raises on purpose."""

    exit_code = 1


class ConfigError(TesseraError):
    """What the user wrote cannot be used: names the place (file and line, or option) and what was expected."""

    exit_code = 2

    def __init__(self, message: str, *, expected: str, file: Path | str | None = None, line: int | None = None) -> None:
        self.message, self.expected, self.file, self.line = message, expected, file, line
        place = "" if file is None else f"{file}: " if line is None else f"{file}:{line}: "
        super().__init__(f"{place}{message}; expected {expected}")


class PtxError(TesseraError):
    """A PTX text that cannot be read, with line and column."""

    def __init__(self, message: str, *, line: int, column: int) -> None:
        self.message, self.line, self.column = message, line, column
        super().__init__(f"PTX line {line}, column {column}: {message}")


class PlanError(TesseraError):
    """No plan satisfies the constraints; the message says why."""


class WireError(TesseraError):
    """Another process or a shared record does not follow the agreed layout or protocol."""


class InternalError(TesseraError):
    """A mistake of Tessera itself."""

    exit_code = 70
