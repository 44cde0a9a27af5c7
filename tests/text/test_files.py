"""Only regular files are read; what else has such a name is refused with one line."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from amp_lint.text import files
from tests.conftest import Result

Run = Callable[..., Result]
CONCISE = "--output-format=concise"


def _socket(path: Path) -> None:
    bound = socket.socket(socket.AF_UNIX)
    bound.bind(str(path))
    bound.close()


def _link(path: Path) -> None:
    os.mkfifo("pipe")
    path.symlink_to("pipe")


def _zeros(path: str | Path) -> None:
    Path(path).symlink_to("/dev/zero")


KINDS: dict[str, tuple[Callable[[Path], object], str]] = {
    "pipe": (os.mkfifo, "is a named pipe, no regular file"),
    "socket": (_socket, "is a socket, no regular file"),
    "device": (_zeros, "is a device, no regular file"),
    "link": (_link, "is a named pipe"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("named", [True, False])
def test_irregular_files_are_refused(main: Run, clip: str, kind: str, named: bool) -> None:
    make, message = KINDS[kind]
    Path("a.py").write_text(clip)
    make(Path("x.py"))
    for options in ((), ("--diff",), ("--fix",)):
        done = main(CONCISE, *options, *(["x.py", "a.py"] if named else []))
        assert done.code == 2
        assert done.err.startswith(f"error: x.py: {message}")
        assert done.err.splitlines()[0].endswith("; exclude it")
        assert ("a.py" if options != ("--fix",) else "1 fixed") in done.out


@pytest.mark.parametrize("name", ["pyproject.toml", ".gitignore", "requirements.txt", "setup.cfg"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, _zeros])
def test_irregular_settings_do_not_block(
    main: Run, clip: str, name: str, make: Callable[[str], object]
) -> None:
    Path("a.py").write_text(clip)
    Path(".git").mkdir()
    make(name)
    done = main(CONCISE)
    silent = name in ("requirements.txt", "setup.cfg")  # torch may be required elsewhere
    assert done.code == (1 if silent else 2)
    assert done.err.count("\n") == (not silent)
    assert silent or f"{name}: " in done.err


def test_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    assert files.read(path, 5) == files.read(path) == b"12345"
    with pytest.raises(files.IrregularFileError, match="has more than 4 bytes"):
        files.read(path, 4)
