"""The pages' proofs, run once for all tests that look at them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from amp_lint import registry
from amp_lint.verify import Prover, Settings, catalogue
from amp_lint.verify.catalogue import Case, Outcome

SETTINGS = Settings(modes=("eager",), examples=10)


def _cases() -> Iterator[Case]:
    for rule in registry.all_rules():
        with contextlib.suppress(FileNotFoundError):  # test_pages.py fails for it
            yield from catalogue.cases([rule])


CASES = [*_cases()]


@pytest.fixture(scope="session")
def proving() -> Iterator[Prover]:
    """A prover that tries few random inputs, and compiles nothing."""
    with Prover(SETTINGS, limit=120) as prover:  # the machine may be busy
        yield prover


@pytest.fixture(scope="session")
def outcomes(proving: Prover) -> dict[Case, Outcome]:
    """All fixes and wrong fixes of all pages, at once, so that every CPU is busy."""
    return dict(zip(CASES, catalogue.run(proving, CASES), strict=True))
