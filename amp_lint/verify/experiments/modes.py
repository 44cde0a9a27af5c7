"""Running a term: eager, compiled, compiled with the casts of eager mode; plain or autocast."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from amp_lint.verify.experiments import wide
from amp_lint.verify.experiments.inputs import InputCase, Scenario, bindings, cotangent
from amp_lint.verify.experiments.operations import (
    NotLiftedError,
    Program,
    Setting,
    Torch,
    Watch,
    build,
    tensors,
)
from amp_lint.verify.terms import Term

_PREFIX = "autocast "

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True, slots=True)
class Precision:
    """A dtype in which code runs, or an autocast region around it."""

    name: str
    """``float16``, ``autocast float16``."""

    @property
    def dtype(self) -> torch.dtype:
        """Of the inputs."""
        dtype = getattr(torch, self.name.removeprefix(_PREFIX))
        assert isinstance(dtype, torch.dtype)
        return dtype

    @property
    def autocast(self) -> bool:
        """Whether this is a region; parameters of modules are float32 then."""
        return self.name.startswith(_PREFIX)

    @property
    def parameters(self) -> torch.dtype:
        """The dtype of the parameters of modules."""
        return torch.float32 if self.autocast else self.dtype

    def region(self, device: str) -> contextlib.AbstractContextManager[Any]:
        """What to run inside of."""
        if not self.autocast:
            return contextlib.nullcontext()
        return torch.autocast(torch.device(device).type, dtype=self.dtype)


EXACT = Precision("float64")


def precisions(dtypes: Sequence[str]) -> tuple[Precision, ...]:
    """Those of the settings; float16 is also run in an autocast region."""
    regions = [_PREFIX + "float16"] if "float16" in dtypes else []
    return tuple(Precision(name) for name in (*dtypes, *regions))


@dataclass(frozen=True, slots=True)
class ModeOutcome:
    """What code computed: its results and the gradients of its inputs, or why it did not."""

    values: tuple[torch.Tensor, ...] = ()
    gradients: tuple[torch.Tensor, ...] = ()
    error: str = ""

    def is_same(self, other: ModeOutcome) -> bool:
        """Whether another one has the same numbers everywhere, NaN for NaN."""
        mine, others = (*self.values, *self.gradients), (*other.values, *other.gradients)
        return len(mine) == len(others) and all(
            one.dtype is two.dtype and torch.equal(one.nan_to_num(), two.nan_to_num())
            for one, two in zip(mine, others, strict=True)
        )


def program(
    term: Term,
    scenario: Scenario,
    precision: Precision,
    device: str,
    watch: Watch | None,
    *,
    is_wide: bool = False,
) -> Program:
    """A term as a function of the tensors of a scenario, to be run in eager mode."""
    make = wide.build if is_wide else build
    return make(term, Setting(precision.parameters, device, scenario.static, watch))


def run(
    run_term: Program, given: Tensors, names: Sequence[str], case: InputCase, region: Precision
) -> ModeOutcome:
    """Values and gradients in eager mode. Errors of torch are an outcome, not raised."""
    leaves = _leaves(given, names)
    device = next((str(tensor.device) for tensor in leaves.values()), "cpu")
    try:
        with region.region(device):
            results = flat(run_term(leaves))
        return _differentiate(results, leaves, names, case)
    except NotLiftedError:
        raise
    except Exception as error:  # torch raises what it likes
        return ModeOutcome(error=first_line(error))


def _leaves(given: Tensors, names: Sequence[str]) -> Tensors:
    return {
        key: tensor.detach().clone().requires_grad_() if key in names else tensor
        for key, tensor in given.items()
    }


def flat(result: Torch) -> tuple[torch.Tensor, ...]:
    """The tensors that code gives. Raises NotLiftedError if there are none."""
    if isinstance(result, (bool, int, float)):
        result = torch.tensor(result, dtype=torch.float64)
    found = tuple(tensors(result))
    if not found:
        raise NotLiftedError("nothing comes of it that could be compared by its numbers")
    return found


def _differentiate(
    results: tuple[torch.Tensor, ...], leaves: Tensors, names: Sequence[str], case: InputCase
) -> ModeOutcome:
    smooth = [result for result in results if result.requires_grad]
    values = tuple(result.detach() for result in results)
    if not smooth or not names:
        zeros = tuple(torch.zeros_like(leaves[name]) for name in names)
        return ModeOutcome(values, zeros)
    incoming = [
        cotangent(case.cotangent, tuple(result.shape), str(result.device)).to(result.dtype)
        for result in smooth
    ]
    gradients = torch.autograd.grad(
        smooth, [leaves[name] for name in names], incoming, materialize_grads=True
    )
    return ModeOutcome(values, gradients)


def run_together(
    run_term: Callable[[Tensors], tuple[torch.Tensor, ...]],
    given: Tensors,
    fixed: Tensors,
    names: Sequence[str],
    cases: Sequence[InputCase],
) -> ModeOutcome:
    """Values and gradients of several inputs in eager mode, outside of regions.

    Args:
        run_term: gives the values of one input; others may come with them.
        given: the inputs, stacked along a new first axis.
        fixed: what is the same in all of them.
        names: the inputs that gradients are taken of.
        cases: as many as there are inputs, for their incoming gradients.

    Returns:
        The same as `run` for each input, along a first axis.

    Raises:
        Exception: what torch raises, also where it cannot run the code on several inputs at once.
    """
    leaves = {key: part.detach().clone() for key, part in given.items()}
    for name in names:
        leaves[name].requires_grad_()
    values = torch.func.vmap(lambda batch: run_term({**fixed, **batch}))(leaves)
    smooth = [value for value in values if value.requires_grad]
    plain = tuple(value.detach() for value in values)
    if not smooth or not names:
        return ModeOutcome(plain, tuple(torch.zeros_like(leaves[name]) for name in names))
    incoming = [
        torch.stack([cotangent(c.cotangent, tuple(v.shape[1:]), str(v.device)) for c in cases])
        for v in smooth
    ]
    incoming = [one.to(value.dtype) for one, value in zip(incoming, smooth, strict=True)]
    wanted = [leaves[name] for name in names]
    return ModeOutcome(plain, torch.autograd.grad(smooth, wanted, incoming, materialize_grads=True))


def first_line(error: Exception) -> str:
    """What an exception says, in one line."""
    text = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {text}"[:200]


def not_compiled(mode: str, error: Exception) -> str:
    """Says that a mode was not run, for a note."""
    return f"{mode}: not run, torch.compile failed: {first_line(error)}"


class Compiled:
    """A term compiled once for several precisions, its gradients included."""

    def __init__(
        self,
        term: Term,
        scenario: Scenario,
        precisions: Sequence[Precision],
        device: str,
        emulate_casts: bool,
    ) -> None:
        self._scenario, self._device = scenario, device
        self._precisions, self._emulate = precisions, emulate_casts
        programs = [
            build(term, Setting(precision.parameters, device, scenario.static, bounded=False))
            for precision in precisions
        ]
        kind = torch.device(device).type

        def together(given: list[Tensors]) -> list[tuple[torch.Tensor, ...]]:
            results = []
            for one, precision, tensors_of in zip(programs, precisions, given, strict=True):
                if precision.autocast:
                    with torch.autocast(kind, dtype=torch.float16):
                        results.append(flat(one(tensors_of)))
                else:
                    results.append(flat(one(tensors_of)))
            return results

        self._run: Callable[[list[Tensors]], list[tuple[torch.Tensor, ...]]] = torch.compile(
            together, fullgraph=True, dynamic=False
        )

    def run(self, case: InputCase) -> Iterator[tuple[Precision, ModeOutcome]]:
        """The outcome in each precision. Raises if it does not compile."""
        names = self._scenario.differentiable
        given = [
            _leaves(bindings(self._scenario, case, precision.dtype, self._device), names)
            for precision in self._precisions
        ]
        with _compiling(self._emulate):
            results = self._run(given)
            outcomes = _together(results, given, names, case)
        yield from zip(self._precisions, outcomes, strict=True)


def _compiling(emulate_casts: bool) -> contextlib.AbstractContextManager[Any]:
    """Settings of the compiler.

    The cache of torch.compile leaves out graphs that enter a region, whose arguments stand in the
    graph and so in its key. It need not.
    """
    options: dict[str, Any] = {"emulate_precision_casts": emulate_casts}
    if hasattr(torch._inductor.config, _CACHED):
        options[_CACHED] = dict.fromkeys(_REGIONS, torch.__version__)
    return torch._inductor.config.patch(options)  # type: ignore[no-any-return]


_CACHED = "unsafe_marked_cacheable_functions"
_REGIONS = tuple(f"torch.amp.autocast_mode._{verb}_autocast" for verb in ("enter", "exit"))


def _together(
    results: list[tuple[torch.Tensor, ...]],
    given: list[Tensors],
    names: Sequence[str],
    case: InputCase,
) -> list[ModeOutcome]:
    """One backward pass for all precisions: a compiled graph has only one."""
    leaves = {f"{at}{name}": tree[name] for at, tree in enumerate(given) for name in names}
    flat = tuple(result for group in results for result in group)
    whole = _differentiate(flat, leaves, list(leaves), case)
    found, taken = [], 0
    for at, group in enumerate(results):
        values = whole.values[taken : taken + len(group)]
        taken += len(group)
        gradients = whole.gradients[at * len(names) : (at + 1) * len(names)]
        found.append(ModeOutcome(values, gradients))
    return found


def largest(given: Mapping[str, torch.Tensor]) -> float:
    """The largest magnitude of any floating number that is given; 0 without one."""
    floats = (tensor for tensor in given.values() if tensor.is_floating_point() and tensor.numel())
    return max((float(tensor.abs().max()) for tensor in floats), default=0.0)


def rounded(given: Mapping[str, torch.Tensor]) -> Tensors:
    """The same numbers in float64."""
    return {
        key: tensor.double() if tensor.is_floating_point() else tensor
        for key, tensor in given.items()
    }
