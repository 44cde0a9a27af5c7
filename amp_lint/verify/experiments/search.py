"""Inputs that Hypothesis finds: the smallest that fails, or any that does."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Literal

from hypothesis import HealthCheck, Phase, find
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from amp_lint.verify.experiments.inputs import COTANGENTS, Case, Scenario
from amp_lint.verify.experiments.modes import Precision
from amp_lint.verify.proof import Settings

_TRIES = 60
"""Small inputs that are tried; nearly all of them show what there is to show."""
_WIDEST = 8


def smallest(fails: Callable[[Case], bool], seed: int, scenario: Scenario) -> Case | None:
    """The simplest case of few round numbers that fails; None if none was found."""
    rank = max((len(shape) for shape in scenario.shapes.values()), default=1)
    cases = st.builds(
        _case,
        st.lists(st.integers(-200, 200), min_size=1, max_size=2),
        st.sampled_from(("one-hot", "large", "random")),
        st.integers(0, max(0, rank - 1)),
    )
    return _find(cases, fails, _TRIES, seed)


def any_numbers(
    fails: Callable[[Case], bool], settings: Settings, precision: Precision, scenario: Scenario
) -> Case | None:
    """A case of any finite numbers of the dtype that fails, simplified; None if none was found."""
    rank = max((len(shape) for shape in scenario.shapes.values()), default=1)
    width: Literal[16, 32] = (
        16 if precision.name.endswith(" float16") or precision.name == "float16" else 32
    )
    numbers = st.floats(width=width, allow_nan=False, allow_infinity=False)
    moderate = st.floats(-256, 256, width=width)
    cases = st.builds(
        _case,
        st.lists(numbers | moderate, min_size=1, max_size=_WIDEST),
        st.sampled_from(COTANGENTS),
        st.integers(0, max(0, rank - 1)),
    )
    return _find(cases, fails, settings.examples, settings.seed)


def _case(numbers: list[float], cotangent: str, back: int) -> Case:
    return Case(tuple(map(float, numbers)), axis=-1 - back, cotangent=cotangent)


def _find(
    cases: st.SearchStrategy[Case], fails: Callable[[Case], bool], tries: int, seed: int
) -> Case | None:
    options = hypothesis_settings(
        max_examples=tries,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    try:
        return find(cases, fails, settings=options, random=random.Random(seed))
    except NoSuchExample:
        return None
