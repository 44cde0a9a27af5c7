"""Judges operations that come to run in another autocast state: the dtype they give must stay."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from amp_lint.verify.experiments import inputs
from amp_lint.verify.experiments.names import MOVES
from amp_lint.verify.experiments.operations import (
    NotLiftedError,
    Setting,
    evaluate,
    not_lifted,
    tensors,
)
from amp_lint.verify.experiments.training.replay import ReplayCase, region
from amp_lint.verify.obligations import Autocast, Policy
from amp_lint.verify.proof import Changed, Failure, Judgement, ProofSettings, Verdict
from amp_lint.verify.purposes import named
from amp_lint.verify.terms import Const, Form, Global, Input, Op, Seq, Term, children, show

DTYPE, RAISES = "dtype", "raises"
_DTYPES = ("float16", "bfloat16", "float32")
_MAX_SCENARIOS = 200
_UNKNOWN = Op(Form.FUNCTION, "torch.matmul", (Input("input"), Input("weight")))
"""Stands for a call of unknown code: what autocast is there for is to cast its products."""


_UNFOLLOWED = "runs in another region, and what its operations are cast to there is not followed"


def judge(obligation: Policy, settings: ProofSettings) -> Judgement:
    """Whether an operation gives the same dtypes in the new state, and raises nothing new."""
    term = alone(obligation.term)
    found = _scenario(term, settings.device)
    if found is None:
        return Judgement(Verdict.NOT_COMPARABLE, f"found no inputs for {show(obligation.term)}")
    is_wide, mended = _is_wide(obligation.term), False
    for case, name in itertools.product(_cases(obligation), _DTYPES[-1:] if is_wide else _DTYPES):
        run = _Run(term, found, case, name, settings.device)
        failure = run.compared(obligation.before, obligation.after)
        if failure is not None and is_wide and run.is_wide(obligation.after):
            mended = True
        elif failure is not None and obligation.own:
            return Judgement(Verdict.NOT_COMPARABLE, f"{show(obligation.term)} {_UNFOLLOWED}")
        elif failure is not None and failure.check not in settings.disabled:
            changes = _setting(obligation)
            return Judgement(Verdict.REFUTED, failure.text, after=failure, changes=changes)
    told = "does not undo its casts any more" if mended else "makes no difference to its dtype"
    return Judgement(Verdict.PROVEN, f"autocast {told}")


def _setting(obligation: Policy) -> Changed | None:
    """What is another about the region, if the operation did not leave it for another one."""
    before, after = obligation.before, obligation.after
    if obligation.moved or before == after:
        return None
    device = before and after and before.device != after.device
    return Changed(*(named(state, device=bool(device)) for state in (before, after)))


def _is_wide(term: Term) -> bool:
    """Whether all operands are cast to float32 for the operation: it is meant to run in that."""
    operands = [part for part in children(term) if isinstance(part, (Op, Input))]
    return bool(operands) and all(map(_is_cast_wide, operands))


def _is_cast_wide(term: Term) -> bool:
    if not isinstance(term, Op):
        return False
    if term.form is Form.METHOD and term.name == "to":
        return Global("torch.float32") in (*term.args[1:], *(value for _, value in term.keywords))
    if term.form is Form.METHOD and term.name == "float":
        return True
    return (
        term.form in (Form.METHOD, Form.ATTRIBUTE)
        and term.name in MOVES
        and _is_cast_wide(term.args[0])
    )


def alone(term: Term) -> Term:
    """An operation with its operands as inputs; a product for what is not a listed operation."""
    if not isinstance(term, Op):
        return term
    kept = Op(
        term.form,
        term.name,
        tuple(map(_operand, term.args)),
        tuple((name, _operand(value)) for name, value in term.keywords),
    )
    return _UNKNOWN if not_lifted(kept) else kept


def _operand(term: Term) -> Term:
    match term:
        case Const() | Global() | Input() | Op(Form.MODULE):
            return term
        case Seq(kind, items):
            return Seq(kind, tuple(map(_operand, items)))
        case Op():
            return Input(show(term))


def _scenario(term: Term, device: str) -> inputs.Scenario | None:
    """Shapes and plain inputs that the operation takes."""
    kinds = inputs.kinds(term)
    shapes = ((4, 4), *inputs.literal_shapes(term))
    for scenario in itertools.islice(inputs.scenarios(kinds, shapes, device), _MAX_SCENARIOS):
        try:
            _evaluated(term, scenario, torch.float32, device)
        except (ArithmeticError, IndexError, LookupError, RuntimeError, TypeError, ValueError):
            continue
        except NotLiftedError:
            return None
        return scenario
    return None


def _evaluated(term: Term, scenario: inputs.Scenario, dtype: torch.dtype, device: str) -> Any:  # noqa: ANN401
    given: Mapping[str, torch.Tensor] = inputs.bindings(
        scenario, inputs.InputCase(std=1.0), dtype, device
    )
    setting = Setting(torch.float32, device, scenario.static)
    return evaluate(term, given, setting)


def _cases(obligation: Policy) -> Iterator[ReplayCase]:
    """Every combination of the settings that are not literals."""
    states = [state for state in (obligation.before, obligation.after) if state is not None]
    dtypes = ("float16", "bfloat16") if any(s.dtype is None for s in states) else ("float16",)
    enabled = (True, False) if any(s.enabled is None for s in states) else (True,)
    yield from (ReplayCase(*each) for each in itertools.product(dtypes, enabled))


@dataclass(frozen=True, slots=True)
class _Run:
    """An operation on inputs of one dtype."""

    term: Term
    scenario: inputs.Scenario
    case: ReplayCase
    dtype: str
    device: str

    def compared(self, before: Autocast | None, after: Autocast | None) -> Failure | None:
        """How the new state makes a difference."""
        was, now = self._dtypes(before), self._dtypes(after)
        given = f"{self.dtype} inputs"
        if was == now or isinstance(was, str):
            return None
        if isinstance(now, str):
            return Failure(RAISES, now, given)
        text = f"{show(self.term)} gives {_names(now)} instead of {_names(was)}"
        return Failure(DTYPE, text, given)

    def is_wide(self, state: Autocast | None) -> bool:
        """Whether all results are float32 in a state."""
        return set(self._dtypes(state)) == {torch.float32}

    def _dtypes(self, state: Autocast | None) -> tuple[torch.dtype, ...] | str:
        """What comes out; the error if one is raised."""
        dtype = getattr(torch, self.dtype)
        try:
            with region(state, self.case, self.device):
                made = _evaluated(self.term, self.scenario, dtype, self.device)
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
            first, *_ = str(error).splitlines() or [""]
            return f"{type(error).__name__}: {first}"
        return tuple(tensor.dtype for tensor in tensors(made))


def _names(dtypes: tuple[torch.dtype, ...]) -> str:
    return ", ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
