"""Whatever a file says of its encoding: one line, or a fix that changes nothing else."""

from __future__ import annotations

import ast
import codecs
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from amp_lint.flake8 import Plugin
from amp_lint.text.source import Source, SourceError
from tests.conftest import Result

if TYPE_CHECKING:
    from typing_extensions import Buffer

Run = Callable[..., Result]
CONCISE = "--output-format=concise"
REFUSED = (
    "base64", "bz2", "hex", "mbcs", "nonsense", "oem", "punycode", "quopri", "rot13", "undefined",
    "utf-16", "utf-32", "uu", "zlib", "x" * 5000, "aliases",
)  # fmt: skip
"""What Python does not take for its own files."""
READ = (
    "charmap", "hz", "iso2022_jp", "raw_unicode_escape", "utf-7", "utf-8-sig", "latin-1-unix",
    "cp437", "unicode_escape", "idna",
)  # fmt: skip
"""What it takes; the last two cannot be written back."""


@pytest.mark.parametrize("coding", REFUSED)
def test_what_python_refuses_is_one_line(main: Run, clip: str, coding: str) -> None:
    data = f"# coding: {coding}\n{clip}".encode()
    Path("a.py").write_bytes(data)
    Path("b.py").write_text(clip)
    done = main("--fix", CONCISE)
    assert (done.code, done.out) == (2, "Found 1 error (1 fixed, 0 remaining).\n")
    assert done.err.startswith("error: a.py: cannot be decoded: ")
    assert done.err.endswith("; correct the file or exclude it\n")
    assert done.err.count("\n") == 1
    assert Path("a.py").read_bytes() == data


@pytest.mark.parametrize("coding", READ)
def test_what_python_reads_is_linted(main: Run, clip: str, fixed: str, coding: str) -> None:
    head = f"# coding: {coding}\n"
    Path("a.py").write_text(head + clip)
    done = main("--fix", CONCISE)
    if coding in READ[-2:]:
        assert (done.code, done.out.count("AMP101")) == (2, 1)
        assert done.err == "error: a.py: is not fixed: writing its encoding back would lose bytes\n"
        assert Path("a.py").read_text() == head + clip
    else:
        assert done == Result(0, "Found 1 error (1 fixed, 0 remaining).\n", "")
        assert Path("a.py").read_text() == head + fixed


def test_a_fix_that_the_encoding_cannot_hold(main: Run) -> None:
    """idna holds 63 characters between dots."""
    text = "# coding: idna\nfrom torch.cuda.amp import autocast\nwith autocast():\n    pass\n#"
    Path("a.py").write_text(text + "x" * (63 - len(text.rpartition(".")[2])))
    before = Path("a.py").read_text()
    done = main("--fix", CONCISE)
    assert (done.code, done.out.count("AMP401")) == (2, 1)
    line = "is not fixed everywhere: its encoding cannot hold the fixed text"
    assert done.err == f"error: a.py: {line}\n"
    assert Path("a.py").read_text() == before


ERRORS = (
    UnicodeError("two\nlines"), ValueError("x"), LookupError("x"), AssertionError(), TypeError("x"),
    RecursionError("x"), OSError(22, "x"), KeyError("x"),
)  # fmt: skip


@pytest.fixture
def raising() -> Iterator[list[Exception]]:
    """A codec that is called ``raising`` and raises what is put into the list."""
    errors: list[Exception] = []

    def decode(data: Buffer, mode: str = "strict") -> tuple[str, int]:
        if errors and b"encoding" not in bytes(data):
            raise errors[0]
        return bytes(data).decode("latin-1"), len(bytes(data))

    def encode(text: str, mode: str = "strict") -> tuple[bytes, int]:
        if errors:
            raise errors[0]
        return text.upper().encode("latin-1"), len(text)

    def find(name: str) -> codecs.CodecInfo | None:
        return codecs.CodecInfo(encode, decode, name=name) if name == "raising" else None

    codecs.register(find)
    yield errors
    with contextlib.suppress(AttributeError):  # from Python 3.10 on
        codecs.unregister(find)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_whatever_a_codec_raises(raising: list[Exception], clip: str, error: Exception) -> None:
    raising.append(error)
    data = f"# coding: raising\n{clip}".encode()
    with pytest.raises(SourceError, match=r"^cannot be decoded: .+$"):
        Source(data, "a.py")
    source = Source(data + b"# encoding\n", "a.py")
    with pytest.raises(SourceError, match=r"^cannot be encoded: .+$"):
        source.encode(source.text)
    assert not source.lossless


def test_what_would_be_read_as_another_text_is_not_written(raising: list[Exception]) -> None:
    source = Source(b"# coding: raising\n", "a.py")
    with pytest.raises(SourceError, match="something else"):
        source.changed("# coding: raising\nx\n")


def test_flake8_shows_one_line() -> None:
    lines = ["# coding: punycode\n", "autocast = 1\n"]
    ((row, column, text, _),) = Plugin(ast.parse("autocast = 1"), lines, "a.py").run()
    assert (row, column) == (1, 0)
    assert text.startswith("AMP900 ")
    assert "punycode" in text
    assert text.isprintable()
