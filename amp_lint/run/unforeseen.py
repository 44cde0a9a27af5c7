"""What is said of an error that ends a command."""

from __future__ import annotations

from pathlib import Path

from amp_lint.run.choice import ConfigError
from amp_lint.text.printable import printable


def in_a_line(error: Exception) -> str:
    """One line: what is wrong with the settings or the machine, or that it is our own mistake."""
    if isinstance(error, ConfigError):
        return printable(str(error))
    if isinstance(error, MemoryError):
        return "there is not enough memory; name fewer files, or exclude the largest"
    if isinstance(error, OSError):
        name = f"{error.filename}: " if isinstance(error.filename, str) else ""
        return printable(f"{name}{error.strerror or error}")
    import traceback

    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(last.filename).name}, line {last.lineno}"
    return printable(f"internal error, please report it: {type(error).__name__}: {error} ({where})")
