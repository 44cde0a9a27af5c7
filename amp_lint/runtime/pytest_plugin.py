"""``pytest --amp-lint``: each test is watched, and fails where it shows an error.

pytest imports this on every run: nothing heavy before somebody asks for it.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from amp_lint.runtime.record import Record


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    group = parser.getgroup("amp-lint")
    group.addoption(
        "--amp-lint", action="store_true", help="watch training in tests for mixed-precision bugs"
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Watch a test.

    Raises:
        pytest.fail.Exception: it passes, and shows an error.
    """
    if not item.config.getoption("--amp-lint"):
        return (yield)
    from amp_lint.runtime.watch import Watch

    with Watch() as watch:
        given = yield
    if text := _errors(watch.record):
        pytest.fail(text, pytrace=False)
    return given


def _errors(record: Record) -> str:
    """What a record shows, if there is an error in it."""
    from amp_lint.runtime.tell import said, told
    from amp_lint.text.diagnostic import Severity

    wrong = any(each.severity is Severity.ERROR for each in said(record))
    return "".join(told(record)) if wrong else ""
