"""The pages' proofs, run once for all tests that look at them."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from amp_lint import registry
from amp_lint.run.workers import Pool, Worker
from amp_lint.verify import ProofSettings, Prover, catalogue, live, prover
from amp_lint.verify.catalogue import PageCase
from amp_lint.verify.record import Entry
from tests.conftest import Result

Run = Callable[..., Result]

SETTINGS = ProofSettings(modes=("eager",), dtypes=("float16", "float32"), examples=10)
"""Beside float32, the dtype in which most goes wrong; `amp-lint verify` takes all."""
FIRST = replace(SETTINGS, dtypes=SETTINGS.dtypes[:1], examples=5)
"""What decides nearly all pages."""


def _cases() -> Iterator[PageCase]:
    """All of a page; of a rule in preview the first of each kind, to be cheap."""
    for rule in registry.all_rules():
        with contextlib.suppress(FileNotFoundError):  # test_pages.py fails for it
            cases = [*catalogue.cases([rule])]
            first = {case.other.kind: case for case in reversed(cases)}
            yield from first.values() if rule.preview else cases


CASES = [*_cases()]


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """As in a worker: more threads wait for each other longer than such small tensors take."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


@pytest.fixture(scope="session")
def proving() -> Iterator[Prover]:
    """A prover that tries few random inputs, and compiles nothing."""
    with Prover(SETTINGS, limit=120) as prover:  # the machine may be busy
        yield prover


@pytest.fixture
def proving_quickly(proving: Prover, monkeypatch: pytest.MonkeyPatch) -> Prover:
    """The same prover, which tries float16 alone."""
    monkeypatch.setattr(proving, "settings", FIRST)
    return proving


@pytest.fixture(scope="session")
def decided(proving: Prover) -> dict[PageCase, tuple[Entry, ProofSettings]]:
    """All fixes and wrong fixes of all pages, at once, so that every CPU is busy.

    What float16 alone does not decide is looked at in both dtypes.
    """
    found: dict[PageCase, tuple[Entry, ProofSettings]] = {}
    for settings in (FIRST, SETTINGS):
        proving.settings = settings
        left = [case for case in CASES if case not in found or not found[case][0].right]
        proofs = proving.prove_all([case.change for case in left])
        for case, proof in zip(left, proofs, strict=True):
            found[case] = case.entry(proof), settings
    return found


@pytest.fixture(scope="session")
def entries(decided: dict[PageCase, tuple[Entry, ProofSettings]]) -> dict[PageCase, Entry]:
    """What came of each."""
    return {case: entry for case, (entry, _) in decided.items()}


@pytest.fixture(scope="session")
def spare() -> Iterator[list[Worker]]:
    """Workers for the CPU that have nothing to do, and have torch imported perhaps."""
    left: list[Worker] = []
    yield left
    for worker in left:
        worker.close()


@pytest.fixture
def quick(main: Run, spare: list[Worker], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs amp-lint in an empty directory, in this process, with workers of earlier runs."""

    start = prover.start_worker

    def take(settings: ProofSettings) -> Worker:
        on_cpu = settings.device == "cpu"
        return spare.pop() if spare and on_cpu else start(settings)

    def close(pool: Pool) -> None:
        pool._threads.shutdown(wait=True)
        spare.extend(pool._idle)
        pool._idle.clear()

    for limit in ("_SLOW", "_SILENCE"):  # the machine may be busy
        monkeypatch.setattr(live, limit, 600.0)
    monkeypatch.setattr(prover, "start_worker", take)
    monkeypatch.setattr(Pool, "close", close)
    return main
