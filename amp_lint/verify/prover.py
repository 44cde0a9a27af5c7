"""From two texts to a verdict: lifts the change, has every obligation judged, and sums up."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from importlib import metadata
from types import TracebackType

from amp_lint.run import import_path
from amp_lint.run.target import Version
from amp_lint.run.workers import Pool, Worker, WorkerError
from amp_lint.verify import hunks, subjects, worker
from amp_lint.verify.obligations import Comparison, Obligation, Unbound
from amp_lint.verify.proof import (
    Environment,
    Failure,
    Judgement,
    Proof,
    ProofSettings,
    Shown,
    Verdict,
)

NEEDED = ("torch", "hypothesis")
"""Packages of the extra ``verify`` that every experiment needs."""
MEMORY = 8 * 2**30
"""Bytes of address space for a worker without CUDA, which reserves far more than it uses."""
RECURSION = 20_000
"""Deep terms unpickle and pickle recursively."""
TO_START = 300.0
"""Seconds to import torch, which is slow on a cold disk."""
TO_LIFT = 30.0
"""Seconds to read a change, and to lint both texts."""
LIMIT = 30.0
"""Seconds to judge an obligation by eager experiments."""
TO_COMPILE = 240.0
"""Seconds more for an obligation whose code is compiled; the compiler's cache may be cold."""
FILE_LIMIT = 600.0
"""Seconds for all changes of a file of the user's."""
_TICK = 1.0
"""Seconds after which somebody who waits for a proof hears that it is still under way."""


class VerifyError(Exception):
    """Nothing can be verified; the message says why and what to do, in one line."""


def require(*packages: str) -> None:
    """Look whether packages are installed, without importing them.

    Raises:
        VerifyError: one is not.
    """
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise VerifyError(f'amp-lint verify needs {package}: pip install "amp-lint[verify]"')


def choose_device(wanted: str) -> str:
    """``wanted``, or for ``auto`` the GPU, if there is one and a torch for it.

    Raises:
        VerifyError: what experiments need is not installed, or torch cannot be imported.
    """
    require("torch", "hypothesis")
    if wanted != "auto":
        return wanted
    if metadata.version("torch").endswith("+cpu"):
        return "cpu"
    asked = start_worker(ProofSettings())
    try:
        return "cuda" if asked.call(TO_START, worker.has_cuda) else "cpu"
    except WorkerError as error:
        raise VerifyError(f"torch cannot be imported: {error}") from error
    finally:
        asked.close()


def start_worker(settings: ProofSettings) -> Worker:
    """A process for experiments; torch waits until it is needed.

    Raises:
        OSError: there is no process to be had.
    """
    memory = 0 if settings.device.startswith("cuda") else MEMORY
    needed = (*import_path.NEEDED, *NEEDED)
    one_thread = {"OMP_NUM_THREADS": "1"}
    return Worker(memory=memory, recursion=RECURSION, needed=needed, environment=one_thread)


@dataclass(frozen=True, slots=True)
class Change:
    """Two texts of one file, and what else is asked of the newer one."""

    before: str
    after: str
    name: str = "code.py"
    code: str | None = None
    """The rule whose findings must get fewer; None if the change fixes no finding."""
    target_torch: Version | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """A change of many that is done."""

    index: int
    """Which of them it was."""
    proof: Proof
    seconds: float


class Prover:
    """Proves changes, one after the other or many at once, with workers that stay.

    A context manager: its end is the end of the workers.
    """

    def __init__(
        self,
        settings: ProofSettings | None = None,
        *,
        workers: int | None = None,
        limit: float | None = None,
        file_limit: float | None = None,
    ) -> None:
        """A prover with as many workers as there are CPUs, or ``workers``.

        ``limit`` is the time for each obligation, in seconds; the default is longer if code is to
        be compiled. ``file_limit`` is the time in seconds after which no more changes of one name
        are begun; the default is none.

        Raises:
            VerifyError: a package that the experiments need is not installed.
        """
        require(*NEEDED)
        self.settings = settings or ProofSettings()
        compiles = not {"compiled", "emulated"}.isdisjoint(self.settings.modes)
        self._limit = limit or LIMIT + compiles * TO_COMPILE
        self._file_limit = file_limit
        self._begun: dict[str, float] = {}
        self._pool = Pool(functools.partial(start_worker, self.settings), workers)
        self._environment: Environment | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Prover:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the workers."""
        self._pool.close()

    def environment(self) -> Environment:
        """Where the experiments run.

        Raises:
            VerifyError: there is no such device, or torch cannot be imported.
        """
        with self._lock:
            if self._environment is None:
                call = self._pool.submit(
                    LIMIT, worker.environment, self.settings, prepare=self._prepare
                )
                try:
                    self._environment, _ = call.result()
                except WorkerError as error:
                    raise VerifyError(f"device {self.settings.device}: {error}") from error
            return self._environment

    def _prepare(self, worker_: Worker) -> None:
        """Import torch."""
        worker_.call(TO_START, worker.start_torch, self.settings)

    def prove(self, change: Change) -> Proof:
        """The verdict on one change; whatever goes wrong with it makes it not comparable.

        Raises:
            VerifyError: no experiment can be run at all.
        """
        comparison, findings = self._lift(change)
        obligations = sorted(comparison.obligations, key=lambda o: subjects.COST[type(o)])
        judged = self._judge_all(obligations)
        if change.code is None:
            judged = (replace(one, judgement=of_any_change(one.judgement)) for one in judged)
        shown = [*_up_to_refuted(judged)]
        if change.code and not _refuted(shown):
            shown.append(_finding(change.code, findings, self.settings))
        left = [*_open(shown)]
        verdict = Verdict.NOT_COMPARABLE if comparison.reasons or left else _lightest(shown)
        ran = any(not isinstance(obligation, Unbound) for obligation in obligations)
        proof = Proof(
            verdict=Verdict.REFUTED if _refuted(shown) else verdict,
            shown=tuple(shown),
            reasons=(*comparison.reasons, *left),
            codes=(*comparison.codes, *["not-judged"] * len(left)),
            coverage=comparison.coverage,
            environment=self.environment() if ran else None,
            sha256_before=sha256(change.before),
            sha256_after=sha256(change.after),
        )
        unjudged = [each.place for each in obligations[len(shown) :]]
        found = hunks.hunks(change.before, change.after, proof, unjudged)
        return replace(proof, hunks=found)

    def prove_all(
        self,
        changes: Sequence[Change],
        on_done: Callable[[Done], None] = lambda done: None,
        on_wait: Callable[[], None] = lambda: None,
    ) -> list[Proof]:
        """The verdicts in the order of ``changes``.

        ``on_done`` hears of each as soon as it is there, ``on_wait`` about once a second while
        none is.

        Raises:
            VerifyError: no experiment can be run at all.
        """
        with ThreadPoolExecutor(self._pool.size) as threads:
            calls = [threads.submit(self._prove_one, *item) for item in enumerate(changes)]
            try:
                for call in _as_done(calls, on_wait):
                    on_done(call.result())
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                self.close()
                raise
        return [call.result().proof for call in calls]

    def _prove_one(self, index: int, change: Change) -> Done:
        began = time.monotonic()
        since = began - self._begun.setdefault(change.name, began)
        if self._file_limit is not None and since > self._file_limit:
            reason = f"not tried: the fixes before it took more than {self._file_limit:g} s"
            return Done(index, _not_tried(change, reason), 0.0)
        proof = self.prove(change)
        return Done(index, proof, time.monotonic() - began)

    def _lift(self, change: Change) -> tuple[Comparison, worker.Findings]:
        texts = change.before, change.after, change.name, change.code, change.target_torch
        call = self._pool.submit(TO_LIFT, worker.lift, *texts)
        try:
            return call.result()[0]
        except WorkerError as error:
            reason = f"the change could not be read: {error}"
            return Comparison((), (reason,), ("unread",)), reason

    def _judge_all(self, obligations: Sequence[Obligation]) -> Iterator[Shown]:
        """The judgements in order, up to the first that refutes."""
        calls: list[Future[tuple[Judgement, float]]] = []
        try:
            for obligation in obligations:
                if isinstance(obligation, Unbound):
                    yield _shown(obligation, _unbound(obligation, self.settings))
                else:
                    function, args = self._task(obligation)
                    calls.append(
                        self._pool.submit(self._limit, function, *args, prepare=self._prepare)
                    )
            rest = obligations[len(obligations) - len(calls) :]
            for obligation, call in zip(rest, calls, strict=True):
                yield _shown(obligation, _result(call))
        finally:
            for call in calls:
                call.cancel()

    def _task(self, obligation: Obligation) -> tuple[Callable[..., Judgement], tuple[object, ...]]:
        """The call that judges an obligation: function and arguments."""
        return worker.judge, (obligation, self.settings)


def prove(
    before: str,
    after: str,
    *,
    name: str = "code.py",
    code: str | None = None,
    settings: ProofSettings | None = None,
    limit: float | None = None,
) -> Proof:
    """Whether ``after`` computes what ``before`` means, and without its failures.

    Both are texts of a Python file, called ``name`` in messages. Neither is executed: their
    differences are lifted to torch operations and training-step events, which experiments in
    worker processes hold against the same computation in float64. With a ``code``, such as
    ``AMP101``, there must also be fewer findings of that rule afterwards. ``limit`` is the time
    for each difference, in seconds. For many proofs use a `Prover`, which keeps its workers.

    Raises:
        VerifyError: torch or Hypothesis is not installed, or there is no such device.
    """
    with Prover(settings, limit=limit) as prover:
        return prover.prove(Change(before, after, name, code))


def sha256(text: str) -> str:
    """The hash by which a record names a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _as_done(calls: Sequence[Future[Done]], on_wait: Callable[[], None]) -> Iterator[Future[Done]]:
    pending = {*calls}
    while pending:
        done, pending = wait(pending, _TICK, FIRST_COMPLETED)
        yield from (call for call in calls if call in done)
        if not done:
            on_wait()


def _not_tried(change: Change, reason: str) -> Proof:
    hashes = sha256(change.before), sha256(change.after)
    return Proof(Verdict.NOT_COMPARABLE, (), (reason,), None, *hashes, ("not-tried",))


def _up_to_refuted(judged: Iterator[Shown]) -> Iterator[Shown]:
    for shown in judged:
        yield shown
        if shown.judgement.verdict is Verdict.REFUTED:
            return


def _shown(obligation: Obligation, judgement: Judgement) -> Shown:
    place, (before, after) = obligation.place, subjects.texts(obligation)
    kind = subjects.subject(obligation)
    return Shown(kind, place.function, place.before, place.after, before, after, judgement)


def _result(call: Future[tuple[Judgement, float]]) -> Judgement:
    try:
        judgement, seconds = call.result()
    except WorkerError as error:
        return Judgement(Verdict.NOT_COMPARABLE, f"the experiment gave no result: {error}")
    return replace(judgement, seconds=round(seconds, 3))


def _unbound(obligation: Unbound, settings: ProofSettings) -> Judgement:
    if "unbound" in settings.disabled:
        return Judgement(Verdict.PROVEN, "not checked")
    text = f"NameError: nothing binds {obligation.name!r} any more"
    if obligation.early:
        text = f"UnboundLocalError: {obligation.name!r} is read before it is assigned"
    return Judgement(Verdict.REFUTED, text, after=Failure("unbound", text))


def _finding(code: str, findings: worker.Findings, settings: ProofSettings) -> Shown:
    """Whether there are fewer findings of a rule."""
    if isinstance(findings, str):
        judgement = Judgement(Verdict.NOT_COMPARABLE, findings)
        return Shown("finding", "", 0, 0, code, code, judgement)
    before, after = findings
    counts = f"findings of {code}: {len(before)} before, {len(after)} after"
    judgement = Judgement(Verdict.PROVEN, counts)
    if len(after) >= len(before) and "finding" not in settings.disabled:
        text = f"the fix fixes nothing; {counts}"
        judgement = Judgement(Verdict.REFUTED, text, after=Failure("finding", text))
    return Shown("finding", "", (before or [0])[0], (after or [0])[0], code, code, judgement)


def of_any_change(judgement: Judgement) -> Judgement:
    """What is said where no finding is to be repaired.

    Settings may be changed then; and what fails as it did before is no worse than it was.
    """
    is_open = judgement.verdict is Verdict.NOT_COMPARABLE and judgement.changes is not None
    if judgement.verdict is not Verdict.REFUTED and not is_open:
        return judgement
    if judgement.changes is not None:
        text = f"from {judgement.changes.before} to {judgement.changes.after}"
        return replace(judgement, verdict=Verdict.CHANGES, statement=text, after=None)
    before, after = judgement.before, judgement.after
    if before and after and (before.check, before.text) == (after.check, after.text):
        text = f"it fails as before: {after.text}"
        return replace(judgement, verdict=Verdict.NOT_COMPARABLE, statement=text, after=None)
    return judgement


def _lightest(shown: Sequence[Shown]) -> Verdict:
    """The verdict where nothing is refuted or open."""
    changes = any(one.judgement.verdict is Verdict.CHANGES for one in shown)
    return Verdict.CHANGES if changes else Verdict.PROVEN


def _refuted(shown: Sequence[Shown]) -> bool:
    return any(one.judgement.verdict is Verdict.REFUTED for one in shown)


def _open(shown: Sequence[Shown]) -> Iterator[str]:
    """Why judgements could not be made."""
    for one in shown:
        if one.judgement.verdict is Verdict.NOT_COMPARABLE:
            where = f"line {one.line_after}: " if one.line_after else ""
            yield f"{where}{one.judgement.statement}"
