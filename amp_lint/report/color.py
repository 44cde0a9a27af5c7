"""Colours for terminals."""

from __future__ import annotations

from amp_lint.report import Style
from amp_lint.text.diagnostic import Severity

BOLD = "1"
BLUE = "1;34"
CYAN = "36"
GREEN = "32"
RED = "1;31"
YELLOW = "1;33"
OF_SEVERITY = {Severity.ERROR: RED, Severity.WARNING: YELLOW, Severity.INFO: BLUE}


def paint(text: str, color: str, style: Style) -> str:
    """``text`` in a colour, where the style has colours."""
    return f"\033[{color}m{text}\033[0m" if style.color and text else text
