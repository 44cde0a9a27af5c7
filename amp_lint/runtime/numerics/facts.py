"""Single operations that the rules know to be wrong, with what they do to the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from amp_lint.mistake import At, Mistake
from amp_lint.runtime.findings import Findings
from amp_lint.runtime.frames import Place
from amp_lint.runtime.numerics.operations import Operation, Phase
from amp_lint.runtime.numerics.scalars import LOW, Scalars, name_of
from amp_lint.runtime.record import Numbers
from amp_lint.runtime.regions import Regions
from amp_lint.vocabulary import kernels
from amp_lint.vocabulary.operations import EXACT, RANGES

_EPS = 1e-7
"""Of a norm layer: float16 gradients of constant rows overflow below."""
_FEWEST, _LARGEST = 64, 1 << 16
"""Elements of what may be positions."""
_LEAST = torch.finfo(torch.float32).tiny
"""A probability whose inverse is hardly below the largest number of float32."""
_LOW = frozenset(map(name_of, LOW))
_MOST = 64
"""Casts of a step that are kept until it is over."""
_OF_INTEREST = frozenset(
    {kernels.SOFTMAX, kernels.LOG_SOFTMAX, kernels.CAST, kernels.POSITIONS, kernels.MULTIPLY,
     kernels.DIVIDE, kernels.LAYER_NORM}
).union(
    kernels.PICKS, kernels.SUMS, kernels.LOGARITHMS, kernels.GUARDS, kernels.GUARDED, kernels.MASKS
)  # fmt: skip
"""Operations of which something is asked here."""


@dataclass(slots=True)
class _Marked:
    """A tensor that a later operation may make a mistake of; it is kept, and so its address."""

    place: Place
    tensor: torch.Tensor
    eps: float = 0.0


class Facts:
    """Looks at what is given to operations."""

    def __init__(self, scalars: Scalars, findings: Findings, regions: Regions) -> None:
        self._scalars, self._findings, self._regions = scalars, findings, regions
        self._softmax: dict[int, _Marked] = {}
        self._guards: dict[int, _Marked] = {}
        self._squares: dict[int, _Marked] = {}
        self._summed: dict[Place, int] = {}
        """Where squares were made that were summed, and how many of them are inf."""
        self._counted: list[tuple[Mistake, dict[At, Place], Numbers, dict[str, int]]] = []
        self._casts: list[tuple[int, Place, torch.Tensor, torch.Tensor]] = []
        self.rows: set[tuple[str, int]] = set()
        """Where something was seen: what comes of it needs no name of its own."""

    def forget(self) -> None:
        """A step begins."""
        for each in (
            self._softmax, self._guards, self._squares, self._summed, self._counted, self._casts
        ):  # fmt: skip
            each.clear()

    def look(self, operation: Operation) -> None:
        """Take note of an operation of the forward pass."""
        if operation.phase in (Phase.BACKWARD, Phase.SCALING) or not operation.made:
            return
        name, first = operation.kernel.name, operation.made[0]
        given = operation.given
        if name not in _OF_INTEREST:
            return
        self._logarithm(operation, given, name)
        self._mark(operation, given, name, first)
        if name in (kernels.POSITIONS, kernels.CAST) and first.dtype in LOW:
            self._positions(operation, name, first)
        if given and given[0].dtype is torch.float16:
            self._square(operation, given, name, first)
        if given and given[0].dtype in LOW:
            self._guard(operation, given, name, first)
            self._of_low(operation, given[0], name, first)

    def judge(self, values: Sequence[float], step: int) -> None:
        """A step is over: what had to be counted is known."""
        for mistake, places, numbers, counted in self._counted:
            found = {name: values[number] for name, number in counted.items()}
            if mistake is Mistake.LOG_OF_SOFTMAX and numbers["dtype"] not in _LOW:
                self._bounded(places, {**numbers, **found}, found["least"], step)
            elif mistake is not Mistake.OVERFLOWING_CONSTANT or found["infinite"]:
                self._see(mistake, places, {**numbers, **found}, step)
        for whole, place, before, after in self._casts:
            if values[whole]:
                self._merged(place, before, after, step)

    def judge_squares(self, values: Sequence[float], step: int, told: Place | None) -> None:
        """See which squares were inf, but at the place where the step was told to overflow."""
        for place, number in self._summed.items():
            if values[number] and place != told:
                numbers: Numbers = {"infinite": values[number]}
                self._see(Mistake.SUMMED_SQUARES, {At.EVENT: place}, numbers, step)

    def _see(
        self,
        mistake: Mistake,
        places: dict[At, Place],
        numbers: Numbers,
        step: int | None = None,
    ) -> None:
        place = places[At.EVENT]
        self.rows.add((place.file, place.row))
        self._findings.see(mistake, places, lambda: numbers, step)

    # --- softmax, then its logarithm ------------------------------------------------------------

    def _mark(
        self, operation: Operation, given: Sequence[torch.Tensor], name: str, first: torch.Tensor
    ) -> None:
        if name == kernels.SOFTMAX:
            self._softmax[_address(first)] = _Marked(operation.place, first)
        elif name in kernels.PICKS and given:
            whole = self._softmax.get(_address(given[0]))
            if whole is not None:
                self._softmax[_address(first)] = _Marked(whole.place, first)
        elif name == kernels.CAST and given:
            for marked in (self._softmax, self._guards):
                old = marked.get(_address(given[0]))
                if old is not None:
                    marked[_address(first)] = _Marked(old.place, first, old.eps)

    def _logarithm(self, operation: Operation, given: Sequence[torch.Tensor], name: str) -> None:
        made = self._softmax.get(_address(given[0])) if given else None
        if name not in kernels.LOGARITHMS or made is None:
            return
        counted = {
            "least": self._scalars.put(given[0].detach().amin().float()),
            "infinite": self._scalars.put(operation.made[0].detach().isinf().sum()),
        }
        places = {At.EVENT: operation.place, At.CAUSE: made.place}
        numbers: Numbers = {"dtype": name_of(given[0].dtype)}
        self._counted.append((Mistake.LOG_OF_SOFTMAX, places, numbers, counted))

    def _bounded(self, places: dict[At, Place], numbers: Numbers, least: float, step: int) -> None:
        """See whether float32 holds the inverse of each probability, which is its gradient."""
        if least < _LEAST:
            self._see(Mistake.LOG_OF_SOFTMAX, places, numbers, step)
        elif least >= _LEAST:  # what comes of it, if anything does, has another cause
            mistake, numbers = Mistake.BOUNDED_LOG_OF_SOFTMAX, {**numbers, "bound": _LEAST}
            self._findings.see(mistake, places, lambda: numbers, step)

    # --- squares that are summed ------------------------------------------------------------------

    def _square(
        self, operation: Operation, given: Sequence[torch.Tensor], name: str, first: torch.Tensor
    ) -> None:
        if name == kernels.MULTIPLY and len(given) > 1 and _is_same(given[0], given[1]):
            self._squares[_address(first)] = _Marked(operation.place, first)
        elif name in kernels.SUMS:
            made = self._squares.pop(_address(given[0]), None)
            if made is not None and len(self._summed) < _MOST:
                infinite = made.tensor.detach().isinf().sum()
                self._summed.setdefault(made.place, self._scalars.put(infinite))

    # --- constants that low precision does not hold -----------------------------------------------

    def _guard(
        self, operation: Operation, given: Sequence[torch.Tensor], name: str, first: torch.Tensor
    ) -> None:
        divides = name == kernels.DIVIDE and len(given) > 1
        if name in kernels.GUARDED or divides:
            marked = self._guards.get(_address(given[1] if divides else given[0]))
            if marked is not None:
                numbers: Numbers = {"eps": marked.eps, "dtype": name_of(given[0].dtype)}
                places = {At.EVENT: marked.place, At.STEP: operation.place}
                self._see(Mistake.VANISHING_EPS, places, numbers)
        if name in kernels.GUARDS:
            for constant in _constants(operation):
                if 0 < abs(constant) < 1 and not _held(constant, given[0].dtype):
                    marked = _Marked(operation.place, first, constant)
                    self._guards[_address(first)] = marked

    def _of_low(
        self, operation: Operation, given: torch.Tensor, name: str, first: torch.Tensor
    ) -> None:
        places, dtype = {At.EVENT: operation.place}, name_of(given.dtype)
        if name in kernels.MASKS and first.dtype in LOW:
            self._constant(operation, given, first)
        elif name == kernels.LAYER_NORM and given.dtype is torch.float16:
            eps = operation.args[-1]
            if isinstance(eps, float) and eps < _EPS:
                self._see(Mistake.SMALL_NORM_EPS, places, {"eps": eps})
        elif name == kernels.LOG_SOFTMAX and operation.phase is Phase.FORWARD:
            inner = self._regions.innermost
            inside = inner is not None and inner.region._enabled
            if not inside and {*LOW} & self._regions.dtypes.keys():
                self._see(Mistake.LOW_LOGITS, places, {"dtype": dtype})

    def _constant(self, operation: Operation, given: torch.Tensor, first: torch.Tensor) -> None:
        limit = RANGES[name_of(first.dtype)][1]
        for constant in _constants(operation):
            if limit < abs(constant) < float("inf"):
                numbers: Numbers = {"constant": constant, "dtype": name_of(first.dtype)}
                new = first.detach().isinf().sum() - given.detach().isinf().sum()
                counted = {"infinite": self._scalars.put(new.clamp(min=0))}
                places = {At.EVENT: operation.place}
                self._counted.append((Mistake.OVERFLOWING_CONSTANT, places, numbers, counted))

    # --- positions --------------------------------------------------------------------------------

    def _positions(self, operation: Operation, name: str, first: torch.Tensor) -> None:
        if not _FEWEST <= first.numel() <= _LARGEST or len(self._casts) >= _MOST:
            return
        if name == kernels.POSITIONS:
            numbers = [each for each in operation.args if isinstance(each, (int, float))]
            before = torch.arange(*numbers, dtype=torch.float64)
        else:
            before = operation.args[0].detach()
        if not getattr(operation.args[0], "requires_grad", False):
            large = before.abs().amax() > EXACT[name_of(first.dtype)]
            whole = self._scalars.put((before == before.round()).all() & large)
            self._casts.append((whole, operation.place, before, first.detach()))

    def _merged(self, place: Place, before: torch.Tensor, after: torch.Tensor, step: int) -> None:
        """See whether whole numbers, one after the other, were no longer told apart."""
        dtype = name_of(after.dtype)
        values = torch.unique(before.cpu().double())
        if len(values) >= _FEWEST and values[-1] - values[0] == len(values) - 1:
            kept = len(torch.unique(after.cpu()))
            if kept < len(values):
                numbers: Numbers = {"values": len(values), "kept": kept, "dtype": dtype}
                self._see(Mistake.ROUNDED_POSITIONS, {At.EVENT: place}, numbers, step)


def _address(tensor: torch.Tensor) -> int:
    address: int = tensor.untyped_storage()._cdata
    return address


def _is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one is other or (one.data_ptr() == other.data_ptr() and one.shape == other.shape)


def _constants(operation: Operation) -> list[float]:
    """Numbers in a call; those that torch has wrapped are tensors on the CPU."""
    found = []
    for each in operation.args[1:]:
        if isinstance(each, torch.Tensor):
            wrapped = each.ndim == 0 and each.device.type == "cpu" and each.dtype not in LOW
            if wrapped and (each.is_floating_point() or not each.dtype.is_complex):
                found.append(float(each))
        elif isinstance(each, (int, float)) and not isinstance(each, bool):
            found.append(float(each))
    return found


def _held(constant: float, dtype: torch.dtype) -> bool:
    """Whether a number is not 0 in a dtype."""
    return bool(torch.tensor(constant, dtype=dtype))
