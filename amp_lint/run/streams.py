"""The standard streams of a process, whatever state they are in.

They may be closed, full, or read by nobody any more. What cannot be printed ends nothing: files
are still linted and fixed, and the exit status says what happened.
"""

from __future__ import annotations

import errno
import io
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TextIO

    from typing_extensions import Buffer


class Sink(io.RawIOBase):
    """A stream that takes everything; what went wrong first is kept in ``error``.

    A reader that went away, such as ``head``, has seen enough: that is no error.
    """

    def __init__(self, raw: io.RawIOBase) -> None:
        self._raw = raw
        self.error: OSError | None = None
        self.broken = False
        """Whether nothing is written any more."""

    def write(self, data: Buffer, /) -> int:
        """Write all of ``data``, or let it go; its length in bytes."""
        view = memoryview(data).cast("B")
        if not self.broken:
            try:
                self._write(view)
            except OSError as error:
                self.broken = True
                self.error = None if isinstance(error, BrokenPipeError) else error
        return len(view)

    def _write(self, view: memoryview) -> None:
        while view:
            written = self._raw.write(view)
            if written is None:  # who shares the pipe has set it not to block, and it is full
                import select

                select.select([], [self._raw], [])
            view = view[written or 0 :]

    def writable(self) -> bool:
        """Whether it can be written to: always."""
        return True

    def fileno(self) -> int:
        """The handle below it."""
        return self._raw.fileno()

    def isatty(self) -> bool:
        """Whether somebody looks at it."""
        return self._raw.isatty()


def guard() -> None:
    """Put streams into ``sys`` that are there and raise nothing when they are written to."""
    _fill_gaps()
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115
    sys.stdout = _guarded(sys.stdout, 1)
    sys.stderr = _guarded(sys.stderr, 2)


def failure(stream: TextIO) -> str:
    """Why a stream did not take all that was printed; nothing if it did, or nobody reads it."""
    try:
        stream.flush()
    except OSError as error:  # it is not guarded
        return reason(error)
    raw = getattr(getattr(stream, "buffer", None), "raw", None)
    return reason(raw.error) if isinstance(raw, Sink) and raw.error else ""


def is_broken(stream: TextIO) -> bool:
    """Whether nothing that is printed arrives any more, as nobody reads it or it is full."""
    raw = getattr(getattr(stream, "buffer", None), "raw", None)
    return isinstance(raw, Sink) and raw.broken


def reason(error: OSError) -> str:
    """Why a stream cannot be read or written."""
    return "it is closed" if error.errno == errno.EBADF else error.strerror or str(error)


def _fill_gaps() -> None:
    """Open what is closed, the wrong way round: else the next file that is opened takes its place.

    Reading or writing then fails as if it was closed.
    """
    for handle, mode in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_RDONLY)):
        if not _is_open(handle):
            os.open(os.devnull, mode)  # the lowest free handle: this one


def _is_open(handle: int) -> bool:
    try:
        os.fstat(handle)
    except OSError:
        return False
    return True


def _guarded(stream: TextIO | None, handle: int) -> TextIO:
    """A stream that writes to where ``stream`` does, in its encoding, and raises nothing."""
    buffer: Any = stream.buffer if stream else io.FileIO(handle, "w", closefd=False)
    raw = getattr(buffer, "raw", buffer)  # there is no buffer with PYTHONUNBUFFERED
    if stream is not None and not isinstance(raw, io.RawIOBase):
        return stream  # somebody else's
    return io.TextIOWrapper(
        io.BufferedWriter(Sink(raw)),
        stream.encoding if stream else "utf-8",
        "backslashreplace",
        line_buffering=handle == 2 or (stream is not None and stream.isatty()),
    )
