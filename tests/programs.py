"""Small programs for tests of the model."""

from __future__ import annotations

import textwrap

from amp_lint.model import Model
from amp_lint.text.source import Source


def model_of(text: str) -> Model:
    """The model of a program, which may be indented as a whole."""
    return Model(Source(textwrap.dedent(text).encode(), "program.py"))
