"""``pytest --amp-lint``, in this process."""

from __future__ import annotations

import textwrap
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import torch._dynamo  # noqa: F401  (optimizers import it, and it cannot be imported twice)

from tests.runtime.programs import CLEAN, PLANTED, program

pytest_plugins = ["pytester"]
PLUGIN = "amp_lint.runtime.pytest_plugin"
INSTALLED = any(entry.value == PLUGIN for entry in entry_points(group="pytest11"))
LOADED = () if INSTALLED else ("-p", PLUGIN)
"""What makes pytest know the plugin, which may not be there twice."""


def suite(body: str) -> str:
    """A program as a test."""
    head, rest = program(""), textwrap.dedent(body)
    return f"{head}def test_training():\n{textwrap.indent(rest, '    ')}"


@pytest.mark.parametrize(
    ("body", "failed"), [(PLANTED["AMP104"], 1), (PLANTED["AMP201"], 0), (CLEAN["clip"], 0)]
)
def test_an_error_fails_a_test(body: str, failed: int, pytester: pytest.Pytester) -> None:
    Path("test_training.py").write_text(suite(body))
    plain = pytester.inline_run(*LOADED)
    plain.assertoutcome(passed=1)
    watched = pytester.inline_run(*LOADED, "--amp-lint")
    watched.assertoutcome(passed=1 - failed, failed=failed)
