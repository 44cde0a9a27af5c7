"""Inputs that are looked for: the same, whatever was imported before."""

from __future__ import annotations

import pytest
from hypothesis.internal.conjecture import providers

from amp_lint.verify.experiments import search


def _made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is tried in a new process."""
    monkeypatch.setattr(providers, "CONSTANTS_CACHE", type(providers.CONSTANTS_CACHE)(1024))
    search._generated.cache_clear()
    return [repr(case) for case in search._generated(search._floats, (2, 32), 200, 0)]


def test_numbers_of_imported_source_are_no_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    known = _made(monkeypatch)
    own = providers._get_local_constants()
    numbers = {number + 0.4375 for number in range(-200, 200)}
    others = type(own)(floats=numbers, integers=own.integers)
    monkeypatch.setattr(providers, "_get_local_constants", lambda: others)
    assert _made(monkeypatch) == known
    assert providers._get_local_constants() is others
