"""Inputs that Hypothesis finds: the smallest that fails, or any that does."""

from __future__ import annotations

import contextlib
import importlib
import random
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Literal

from hypothesis import HealthCheck, Phase, find
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from amp_lint.verify.experiments.inputs import COTANGENTS, InputCase, Scenario
from amp_lint.verify.proof import ProofSettings

_TRIES = 60
"""Small inputs that are tried; nearly all of them show what there is to show."""
_WIDEST = 8


def smallest(fails: Callable[[InputCase], bool], seed: int, scenario: Scenario) -> InputCase | None:
    """The simplest case of few round numbers that fails; None if none was found."""
    return _first(partial(_round_numbers, _rank(scenario)), fails, _TRIES, seed)


def first_small(
    fails: Callable[[InputCase], bool], seed: int, scenario: Scenario
) -> InputCase | None:
    """A case of few round numbers that fails, as it was made up; None if none was found."""
    return next(filter(fails, small_cases(seed, scenario)), None)


def small_cases(seed: int, scenario: Scenario) -> tuple[InputCase, ...]:
    """The cases of few round numbers that are tried as long as none fails."""
    return _generated(_round_numbers, (_rank(scenario),), _TRIES, seed)


def any_numbers(
    fails: Callable[[InputCase], bool],
    settings: ProofSettings,
    width: Literal[16, 32],
    scenario: Scenario,
) -> InputCase | None:
    """A case of any finite numbers of that width that fails, simplified; None if none was found."""
    cases = partial(_floats, _rank(scenario), width)
    return _first(cases, fails, settings.examples, settings.seed)


def any_cases(
    settings: ProofSettings, width: Literal[16, 32], scenario: Scenario
) -> tuple[InputCase, ...]:
    """The cases of any numbers of that width that are tried as long as none fails."""
    return _generated(_floats, (_rank(scenario), width), settings.examples, settings.seed)


def _rank(scenario: Scenario) -> int:
    return max((len(shape) for shape in scenario.shapes.values()), default=1)


def _round_numbers(rank: int) -> st.SearchStrategy[InputCase]:
    return st.builds(
        _case,
        st.lists(st.integers(-200, 200), min_size=1, max_size=2),
        st.sampled_from(("one-hot", "large", "random")),
        st.integers(0, max(0, rank - 1)),
    )


def _floats(rank: int, width: Literal[16, 32]) -> st.SearchStrategy[InputCase]:
    numbers = st.floats(width=width, allow_nan=False, allow_infinity=False)
    moderate = st.floats(-256, 256, width=width)
    return st.builds(
        _case,
        st.lists(numbers | moderate, min_size=1, max_size=_WIDEST),
        st.sampled_from(COTANGENTS),
        st.integers(0, max(0, rank - 1)),
    )


def _case(numbers: list[float], cotangent: str, back: int) -> InputCase:
    return InputCase(tuple(map(float, numbers)), axis=-1 - back, cotangent=cotangent)


def _first(
    cases: partial[st.SearchStrategy[InputCase]],
    fails: Callable[[InputCase], bool],
    tries: int,
    seed: int,
) -> InputCase | None:
    """The simplest case that fails. Hypothesis only shrinks, once one of its cases does."""
    failing = next(filter(fails, _generated(cases.func, cases.args, tries, seed)), None)
    if failing is None:
        return None
    return _find(cases(), fails, tries, seed) or failing


@lru_cache(maxsize=64)
def _generated(
    make: Callable[..., st.SearchStrategy[InputCase]], args: tuple[int, ...], tries: int, seed: int
) -> tuple[InputCase, ...]:
    """The cases that Hypothesis tries as long as none fails."""
    made: dict[tuple[InputCase, str], InputCase] = {}

    def passes(case: InputCase) -> bool:
        made.setdefault(case.key, case)
        return False

    _find(make(*args), passes, tries, seed)
    return tuple(made.values())


def _find(
    cases: st.SearchStrategy[InputCase], fails: Callable[[InputCase], bool], tries: int, seed: int
) -> InputCase | None:
    options = hypothesis_settings(
        max_examples=tries,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    with contextlib.suppress(NoSuchExample), _only_its_own_constants():
        return find(cases, fails, settings=options, random=random.Random(seed))
    return None


_PROVIDERS = "hypothesis.internal.conjecture.providers"
_CONSTANTS = "_get_local_constants"


@contextlib.contextmanager
def _only_its_own_constants() -> Iterator[None]:
    """Let Hypothesis try no numbers of the source of modules that happen to be imported.

    It takes those from packages that are not installed but stand in a working tree, so that there
    the inputs, and a verdict with them, would depend on what was done before. No setting of it
    says so; a version that has no such function takes none.
    """
    try:
        providers = importlib.import_module(_PROVIDERS)
        found = getattr(providers, _CONSTANTS)
    except (ImportError, AttributeError):
        yield
        return
    none = type(found())()
    setattr(providers, _CONSTANTS, lambda: none)
    try:
        yield
    finally:
        setattr(providers, _CONSTANTS, found)
