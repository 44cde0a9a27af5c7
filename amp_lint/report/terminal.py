"""What the stream can show that a report goes to."""

from __future__ import annotations

import os
import shutil
from typing import TextIO

from amp_lint.report import Style


def style_of(stream: TextIO, *, unsafe: bool = False, columns: int = 80) -> Style:
    """What a stream can show; ``columns`` of text if it is no terminal."""
    width = shutil.get_terminal_size().columns if stream.isatty() else columns
    return Style(_wants_color(stream), width, unsafe, wrap=stream.isatty())


def _wants_color(stream: TextIO) -> bool:
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"
