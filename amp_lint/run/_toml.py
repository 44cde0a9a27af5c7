"""TOML files, read with what the interpreter has."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from amp_lint.text import files


class TomlError(Exception):
    """A file is there but cannot be read or is not TOML; the message says why in one line."""


def read(path: Path) -> dict[str, Any] | None:
    """The tables of a TOML file; None where there is no such file.

    Raises:
        TomlError: the file cannot be read or parsed.
    """
    try:
        text = files.read(path).decode("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise TomlError(f"cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise TomlError(f"is not UTF-8: {error}") from error
    if text.startswith("\ufeff"):
        raise TomlError("begins with a byte order mark, which TOML does not allow; save it without")
    return loads(text)


def loads(text: str) -> dict[str, Any]:
    """The tables of a text.

    Raises:
        TomlError: the text cannot be parsed.
    """
    if sys.version_info >= (3, 11):  # here, as most runs read no such file
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise TomlError(f"is not TOML: {error}") from error
    except ValueError as error:  # what `int` says about thousands of digits
        raise TomlError("has a number of too many digits") from error
    except RecursionError as error:
        raise TomlError("nests too deeply") from error
