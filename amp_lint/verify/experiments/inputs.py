"""What the inputs of a term are, and values for them.

The kind of an input follows from the parameter it feeds: the index of a gather, the dim of a
softmax. Shapes are tried until the old code runs in float64.
"""

from __future__ import annotations

import enum
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import Any

import torch

from amp_lint.verify.experiments.guards import is_small
from amp_lint.verify.experiments.literals import number
from amp_lint.verify.experiments.names import words
from amp_lint.verify.experiments.operations import Torch, parameters
from amp_lint.verify.terms import Const, Form, Input, Op, Seq, Term, children, walk

Shape = tuple[int, ...]


class InputKind(enum.Enum):
    """What an input is."""

    TENSOR = "tensor"
    VECTOR = "vector"
    """One number for each class or channel: the weight of a norm."""
    INDEX = "index"
    PROBABILITY = "probability"
    MASK = "mask"
    SCALAR = "scalar"
    DIM = "dim"
    FLAG = "flag"
    DTYPE = "dtype"
    SIZE = "size"
    SHAPE = "shape"
    DEVICE = "device"
    EPS = "eps"
    SHARE = "share"
    """A number from 0 to 1 that is no eps: how much labels are smoothed."""
    REDUCTION = "reduction"


TENSORS = frozenset(
    {InputKind.TENSOR, InputKind.VECTOR, InputKind.INDEX, InputKind.PROBABILITY, InputKind.MASK}
)

_BY_PARAMETER = {
    name: kind
    for kind, names in (
        (InputKind.DIM, "dim axis dim0 dim1 start_dim end_dim"),
        (InputKind.DTYPE, "dtype"),
        (InputKind.INDEX, "index indices"),
        (InputKind.MASK, "mask condition"),
        (InputKind.FLAG, "keepdim log_target full affine elementwise_affine"),
        (InputKind.EPS, "eps"),
        (InputKind.SHARE, "label_smoothing"),
        (InputKind.SHAPE, "normalized_shape"),
        (InputKind.SIZE, "num_groups num_channels num_features num_classes size shape sizes"),
        (InputKind.SCALAR, "min max exponent value alpha beta threshold"),
        (InputKind.REDUCTION, "reduction"),
        (InputKind.DEVICE, "device"),
    )
    for name in names.split()
}
_CLASS_LOSSES = ("cross_entropy", "nll_loss", "CrossEntropyLoss", "NLLLoss")
_PROBABILITIES = (
    "kl_div", "binary_cross_entropy", "binary_cross_entropy_with_logits", "KLDivLoss", "BCELoss",
    "BCEWithLogitsLoss",
)  # fmt: skip
_WEIGHTS = ("weight", "pos_weight")
_RANK = {InputKind.SCALAR: 2, InputKind.TENSOR: 3}
_DTYPE_NAME = re.compile(r"dtype$|precision$")
_MOST_WIDTH = 4096
_FACTORS = frozenset({"mul", "truediv", "floordiv", "mod", "pow", "div", "multiply", "divide"})


def kinds(*terms: Term) -> dict[str, InputKind]:
    """The kind of each input of some terms."""
    ranked: dict[str, tuple[int, InputKind]] = {}
    for term in terms:
        if isinstance(term, Input):
            ranked.setdefault(term.key, (1, InputKind.TENSOR))
        for key, rank, kind in _uses(term):
            if rank > ranked.get(key, (0, kind))[0]:
                ranked[key] = (rank, kind)
    return {key: kind for key, (_, kind) in ranked.items()}


def counts_axes(term: Term) -> bool:
    """Whether a term is a loss for which axes differ: the classes', or the one of the batch."""
    parts = [part for part in walk(term) if isinstance(part, Op)]
    averaged = (("reduction", Const("batchmean")) in part.keywords for part in parts)
    return any(part.last in _CLASS_LOSSES for part in parts) or any(averaged)


def _uses(term: Term) -> Iterator[tuple[str, int, InputKind]]:
    """Each input, what it is taken for, and how sure that is."""
    for child in children(term):
        yield from _uses(child)
    if isinstance(term, Seq):
        yield from (
            (item.key, 1, InputKind.TENSOR) for item in term.items if isinstance(item, Input)
        )
    if not isinstance(term, Op):
        return
    for index, arg in enumerate(term.args):
        items = arg.items if isinstance(arg, Seq) else (arg,)
        for item in items:
            if isinstance(item, Input):
                yield (item.key, *_by_position(term, index, isinstance(arg, Seq)))
            elif isinstance(arg, Op):
                yield from _handed_on(arg, _by_position(term, index, nested=False))
    for name, value in term.keywords:
        if isinstance(value, Input):
            yield (value.key, *_by_name(term, name))
        else:
            yield from _handed_on(value, _by_name(term, name))


_SAME = frozenset(
    {
        "contiguous", "cpu", "cuda", "detach", "double", "flatten", "float", "int", "long",
        "reshape", "squeeze", "to", "type", "type_as", "unsqueeze", "view",
    }
)  # fmt: skip
"""Methods that give the numbers of a tensor, in another dtype, shape or place."""


def _handed_on(value: Term, taken: tuple[int, InputKind]) -> Iterator[tuple[str, int, InputKind]]:
    """The input that is a target or an index once it is cast, moved or viewed."""
    rank, kind = taken
    while isinstance(value, Op) and value.form is Form.METHOD and value.name in _SAME:
        value = value.args[0]
        if isinstance(value, Input) and kind in (InputKind.INDEX, InputKind.PROBABILITY):
            yield value.key, rank, kind


def _by_position(op: Op, index: int, nested: bool) -> tuple[int, InputKind]:
    short = op.last
    if op.form is Form.OPERATOR:
        return _operand(op, index)
    if op.form is Form.APPLY:
        assert isinstance(op.args[0], Op)
        return _by_name(op.args[0], "target" if index == 2 else "input")
    if short in {"to", "type"} and index:
        key = op.args[index]
        is_dtype = isinstance(key, Input) and _DTYPE_NAME.search(key.key) is not None
        return 4, InputKind.DTYPE if is_dtype else InputKind.DEVICE
    if short in {"view", "reshape", "expand", "repeat", "tile", "unflatten"} and index:
        return 4, InputKind.SIZE
    if short in {"permute", "transpose", "size"} and index:
        return 4, InputKind.DIM
    if short in _FACTORS and index == 1:
        return 2, InputKind.SCALAR
    names = parameters(op.form, op.name)
    name = names[index] if index < len(names) else "input"
    return _by_name(op, name)


def _is_target(op: Op, index: int) -> bool:
    if op.form is Form.APPLY:
        return index == 2
    names = parameters(op.form, op.name)
    if op.form is not Form.FUNCTION or index >= len(names):
        return False
    return names[index] == "target" or _weighs(op, names[index])


def _weighs(op: Op, name: str) -> bool:
    """Whether an argument weighs a loss."""
    return name in _WEIGHTS and ("entropy" in op.name or op.name.endswith(_CLASS_LOSSES))


def _operand(op: Op, index: int) -> tuple[int, InputKind]:
    other = op.args[1 - index] if len(op.args) == 2 else None
    if op.name == "getitem" and index == 1:
        return 4, InputKind.INDEX
    if op.name in {"add", "sub"} and is_small(op.args[index]):
        return 2, InputKind.EPS
    if op.name in _FACTORS and index == 1 and not isinstance(other, Const):
        return 2, InputKind.SCALAR
    return 1, InputKind.TENSOR


def _by_name(op: Op, name: str) -> tuple[int, InputKind]:
    short = op.last
    if name == "target":
        if short in _CLASS_LOSSES:
            return 4, InputKind.INDEX
        return (4, InputKind.PROBABILITY) if short in _PROBABILITIES else (3, InputKind.TENSOR)
    if name in {"weight", "bias"}:
        is_vector = "norm" in short or short in _CLASS_LOSSES
        return (4, InputKind.VECTOR) if is_vector else (3, InputKind.TENSOR)
    is_product = short == "scaled_dot_product_attention"  # whose value is a tensor
    kind = InputKind.TENSOR if is_product else _BY_PARAMETER.get(name, InputKind.TENSOR)
    return _RANK.get(kind, 4), kind


def targets(*terms: Term) -> frozenset[str]:
    """The inputs that only say what a loss should be close to: no gradient is taken of them."""
    inside: set[str] = set()
    outside: set[str] = set()

    def visit(term: Term, is_target: bool) -> None:
        if isinstance(term, Input):
            (inside if is_target else outside).add(term.key)
        named = dict(term.keywords) if isinstance(term, Op) else {}
        args = term.args if isinstance(term, Op) else children(term)
        for at, child in enumerate(args):
            visit(child, is_target or (isinstance(term, Op) and _is_target(term, at)))
        for name, child in named.items():
            weighs = isinstance(term, Op) and _weighs(term, name)
            visit(child, is_target or name == "target" or weighs)

    for term in terms:
        visit(term, False)
    return frozenset(inside - outside).union(*map(weights, terms))


def weights(term: Term) -> frozenset[str]:
    """The inputs that weigh a loss and are not what it is of: torch takes no gradient of them.

    It raises where one asks for it, which a copy without gradients does not.
    """
    found: set[str] = set()
    for op in (part for part in walk(term) if isinstance(part, Op)):
        if op.form is not Form.FUNCTION or not op.args:
            continue
        named = (*zip(parameters(op.form, op.name), op.args, strict=False), *op.keywords)
        weighing = {key for name, value in named if _weighs(op, name) for key in reached(value)}
        found |= weighing - reached(op.args[0])
    return frozenset(found)


_BLOCKING = words("detach item tolist")
"""Methods that no gradient passes."""


def reached(term: Term) -> frozenset[str]:
    """The inputs to which gradients find a way."""
    if isinstance(term, Input):
        return frozenset({term.key})
    blocks = isinstance(term, Op) and (
        (term.form in (Form.METHOD, Form.FUNCTION) and term.last in _BLOCKING)
        or (term.form is Form.ATTRIBUTE and term.name != "T" and term.name != "mT")
    )
    parts: tuple[Term, ...] = () if blocks else children(term)
    return frozenset().union(*map(reached, parts))


@dataclass(frozen=True, slots=True)
class Scenario:
    """One choice of shapes and of the inputs that are no tensors."""

    static: Mapping[str, Any] = field(default_factory=dict)
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    kinds: Mapping[str, InputKind] = field(default_factory=dict)
    constant: frozenset[str] = frozenset()
    """Tensors that no gradient is taken of."""
    ignores: bool = False
    """Whether an index is one that losses of classes leave out."""

    @property
    def differentiable(self) -> tuple[str, ...]:
        """The inputs that gradients are taken of."""
        smooth = (
            k for k, kind in self.kinds.items() if kind in (InputKind.TENSOR, InputKind.VECTOR)
        )
        return tuple(key for key in smooth if key not in self.constant)


_SHAPES: tuple[Shape, ...] = ((4, 8), (2, 3, 8), (2, 8, 3), (2, 8, 2, 8), (8,), (4, 4), (2, 4, 4))
TINY: tuple[Shape, ...] = ((1, 2), (2,), (2, 1), (2, 2), (1, 2, 1, 1))
"""Shapes small enough to be shown to a reader."""
_SIZES = (8, 4, 2, 64, 12, 3)


def literal_shapes(*terms: Term, rows: int = 4) -> tuple[Shape, ...]:
    """Shapes that norms and views of a literal width take."""
    found: list[Shape] = []
    for term in terms:
        for child in children(term):
            found += literal_shapes(child, rows=rows)
        if isinstance(term, Op) and "norm" in term.name.lower():
            found += _shapes_of(term, rows)
        if isinstance(term, Op) and term.name in ("view", "reshape"):
            found += _viewed(term, rows)
    return tuple(dict.fromkeys(found))


def _viewed(op: Op, rows: int) -> Iterator[Shape]:
    """``x.view(-1, 17)`` takes rows of 17."""
    sizes = [arg.value for arg in op.args[1:] if isinstance(arg, Const)]
    width = math.prod(size for size in sizes if isinstance(size, int) and size > 0)
    if 1 < width <= _MOST_WIDTH:
        yield rows, width


def _shapes_of(op: Op, rows: int) -> Iterator[Shape]:
    names = parameters(op.form, op.name)
    given = {**dict(zip(names, op.args, strict=False)), **dict(op.keywords)}
    for name in ("normalized_shape", "num_channels", "num_features"):
        sizes = _literal_sizes(given.get(name))
        if sizes and math.prod(sizes) <= _MOST_WIDTH:
            yield (rows, *sizes, 4) if name != "normalized_shape" else (rows, *sizes)
    if "num_groups" in given and not _literal_sizes(given.get("num_channels")):
        groups = _literal_sizes(given["num_groups"]) or _SIZES[:1]
        yield from ((2, 2 * size, 4) for size in groups if size <= _MOST_WIDTH)


def _literal_sizes(term: Term | None) -> Shape:
    items = term.items if isinstance(term, Seq) else (term,)
    found = [item.value for item in items if isinstance(item, Const)]
    sizes = tuple(size for size in found if isinstance(size, int) and size > 0)
    return sizes if len(sizes) == len(items) else ()


def scenarios(
    kinds: Mapping[str, InputKind], shapes: Sequence[Shape], device: str
) -> Iterator[Scenario]:
    """Choices of shapes, sizes and layouts of indices, the likeliest first."""
    has_size = InputKind.SIZE in kinds.values() or InputKind.SHAPE in kinds.values()
    for shape in shapes or _SHAPES:
        for size in (*_SIZES, *shape[1:2]) if has_size else _SIZES[:1]:
            for layout in _layouts(shape) if InputKind.INDEX in kinds.values() else [()]:
                for vector in dict.fromkeys((shape[-1], shape[min(1, len(shape) - 1)])):
                    yield _scenario(kinds, shape, size, layout, vector, device)


def tiny(kinds: Mapping[str, InputKind], device: str) -> Iterator[Scenario]:
    """Choices that a reader can type."""
    for shape in TINY:
        for layout in _layouts(shape) if InputKind.INDEX in kinds.values() else [()]:
            yield _scenario(kinds, shape, 2, layout, shape[-1], device)


def _layouts(shape: Shape) -> list[Shape]:
    """Shapes of indices: class targets, a column to gather, one for each element."""
    without_classes = shape[:1] + shape[2:] if len(shape) > 1 else ()
    candidates = [without_classes, shape[:-1], (*shape[:-1], 1), (shape[0], 1), shape, ()]
    return list(dict.fromkeys(candidates))


def _scenario(
    kinds: Mapping[str, InputKind], shape: Shape, size: int, layout: Shape, vector: int, device: str
) -> Scenario:
    static = {key: _plain(kind, size, device) for key, kind in kinds.items() if kind not in TENSORS}
    special = {InputKind.INDEX: layout, InputKind.VECTOR: (vector,)}
    shapes = {key: special.get(kind, shape) for key, kind in kinds.items() if kind in TENSORS}
    return Scenario(static, shapes, {key: kinds[key] for key in shapes})


def _plain(kind: InputKind, size: int, device: str) -> Torch:
    return {
        InputKind.SCALAR: 1.0,
        InputKind.DIM: -1,
        InputKind.FLAG: False,
        InputKind.DTYPE: torch.float32,
        InputKind.SIZE: size,
        InputKind.SHAPE: (size,),
        InputKind.DEVICE: torch.device(device),
        InputKind.EPS: 1e-8,
        InputKind.SHARE: 0.1,
        InputKind.REDUCTION: "mean",
    }[kind]


_OTHERS: dict[InputKind, tuple[Any, ...]] = {
    InputKind.DIM: (0, 1),
    InputKind.SCALAR: (0.07, 0.5, 8.0, 0.0),
    InputKind.SHARE: (0.5, 0.0),
    InputKind.SIZE: (2, 4),
    InputKind.FLAG: (True,),
    InputKind.DTYPE: (torch.float16,),
    InputKind.REDUCTION: ("sum", "none"),
}


def variations(scenario: Scenario, kinds: Mapping[str, InputKind]) -> Iterator[Scenario]:
    """The scenario with one of its plain inputs changed."""
    for key, value in scenario.static.items():
        for other in _OTHERS.get(kinds[key], ()):
            if other != value:
                yield replace(scenario, static={**scenario.static, key: other})
    if InputKind.INDEX in scenario.kinds.values():
        yield replace(scenario, ignores=True)


def bounds(*terms: Term) -> frozenset[int]:
    """The numbers at which expressions cut something off: ``x[:64]``, ``x.narrow(0, 0, 64)``."""
    found: set[int] = set()
    for part in itertools.chain.from_iterable(map(walk, terms)):
        cut: Iterable[Term] = ()
        if isinstance(part, Seq) and part.kind == "slice":
            cut = part.items
        elif isinstance(part, Op) and part.last in _CUTTING:
            cut = part.args
        for bound in map(number, cut):
            found |= {abs(bound)} if isinstance(bound, int) else set()
    return frozenset(found)


_CUTTING = words("narrow split chunk topk")
_LONGEST = 4096


def longer(scenario: Scenario, bound: int) -> Iterator[Scenario]:
    """The scenario with an axis that is longer than something that is cut off, each in turn."""
    floats = [key for key, kind in scenario.kinds.items() if kind is not InputKind.VECTOR]
    if bound > _LONGEST:
        return
    shapes = {key: scenario.shapes[key] for key in floats if key in scenario.shapes}
    for axis in range(max(map(len, shapes.values()), default=0)):
        made = {
            key: tuple(bound + 1 if at == axis else size for at, size in enumerate(shape))
            for key, shape in shapes.items()
        }
        yield replace(scenario, shapes={**scenario.shapes, **made})


def distinct(
    scenario: Scenario, takes: Callable[[Scenario], bool], both: Callable[[Scenario], bool]
) -> Scenario:
    """The scenario with another size for each axis, where the code takes it.

    First an axis of all tensors is changed, wherever it stands, then one of a single tensor: the
    keys of an attention need not be as many as the queries. An index has to fit what it is for.

    Args:
        scenario: one that runs.
        takes: whether the old code runs in a scenario.
        both: whether the old and the new code do.
    """
    floats = [
        k for k, kind in scenario.kinds.items() if kind not in (InputKind.INDEX, InputKind.VECTOR)
    ]
    rank = max((len(scenario.shapes[key]) for key in floats), default=0)
    for axis in range(rank):
        scenario = _resized(scenario, floats, axis, takes)
    for key, axis in itertools.product(floats[1:], range(rank)):
        if not {InputKind.INDEX, InputKind.VECTOR} & set(scenario.kinds.values()):
            scenario = _resized(scenario, [key], axis, both)
    return scenario


_ANY_SIZE = (3, 5, 6, 2, 4, 7, 9)


def _resized(
    scenario: Scenario, keys: Sequence[str], axis: int, runs: Callable[[Scenario], bool]
) -> Scenario:
    """The scenario with a new size of an axis of some tensors, if it runs."""
    used = {size for shape in scenario.shapes.values() for size in shape}
    size = next((size for size in _ANY_SIZE if size not in used), 0)
    old = {scenario.shapes[key][axis] for key in keys if axis < len(scenario.shapes[key])}
    if not size or old == {1}:
        return scenario
    shapes = {
        key: (*shape[:axis], size, *shape[axis + 1 :])
        if key in keys and axis < len(shape)
        else shape
        for key, shape in scenario.shapes.items()
    }
    found = replace(scenario, shapes=shapes)
    return found if shapes != scenario.shapes and runs(found) else scenario


@dataclass(frozen=True, slots=True)
class InputCase:
    """Values for the tensors of a scenario, and the gradient that comes in.

    Numbers are laid along one axis, over and over, or drawn from a normal distribution.
    """

    numbers: tuple[float, ...] = ()
    axis: int = -1
    std: float = 0.0
    """Of the normal distribution; 0 for the numbers given."""
    mean: float = 0.0
    seed: int = 0
    cotangent: str = "random"
    standardized: bool = False
    """Whether each row gets exactly that standard deviation, and mean 0."""
    together: bool = False
    """Whether every tensor gets such numbers that gradients are taken of, not the first alone."""

    @property
    def key(self) -> tuple[InputCase, str]:
        """What tells it from every other case, also one with 0 for -0."""
        return self, str(self.numbers)

    @property
    def incoming(self) -> float:
        """What the largest incoming gradient is, or may be."""
        return LARGEST if self.cotangent == "large" else 1.0

    def tensor(self, shape: Shape, position: int = 0) -> torch.Tensor:
        """The numbers, in float64; of a tensor at another ``position``, in another order."""
        if self.std:
            generator = torch.Generator().manual_seed(self.seed + position)
            drawn = torch.randn(shape, generator=generator, dtype=torch.float64)
            if self.standardized:
                axes = tuple(range(1, len(shape)))
                drawn = (drawn - drawn.mean(axes, True)) / drawn.std(axes, False, keepdim=True)
            return self.mean + self.std * drawn
        axis = max(-len(shape), min(self.axis, len(shape) - 1))
        width = shape[axis]
        row = list(itertools.islice(itertools.cycle(self.numbers), position, position + width))
        view = [1] * len(shape)
        view[axis] = width
        return torch.tensor(row, dtype=torch.float64).view(view).expand(shape).contiguous()

    def show(self) -> str:
        """The numbers, for a sentence."""
        if self.together:
            return f"{replace(self, together=False).show()} in every tensor"
        if self.std:
            about = f" about {self.mean:g}" if self.mean else ""
            return f"normal numbers of standard deviation {self.std:g}{about}"
        if len(set(self.numbers)) == 1:
            return f"rows of {self.numbers[0]:g}"
        return "[" + ", ".join(f"{number:g}" for number in self.numbers) + "]"


COTANGENTS = ("random", "one-hot", "large")
LARGEST = 8.0
"""The largest incoming gradient. A norm has to bear it in float16 with a loss scale of 1."""


@lru_cache(maxsize=256)
def cotangent(name: str, shape: Shape, device: str) -> torch.Tensor:
    """An incoming gradient, in float64. All its numbers are exact in every dtype."""
    count = math.prod(shape)
    if name == "large":
        flat = LARGEST * (1 - 2 * (torch.arange(count, dtype=torch.float64) % 2))
    elif name == "one-hot":
        flat = (torch.arange(count) == 0).double()
    else:
        generator = torch.Generator().manual_seed(count)
        flat = (8 * torch.randn(count, generator=generator).clamp(-3, 3)).round().double() / 8
    return flat.view(shape).to(device)


def bindings(
    scenario: Scenario, case: InputCase, dtype: torch.dtype, device: str
) -> dict[str, torch.Tensor]:
    """The tensors of a scenario, rounded to a dtype. The first one gets the numbers, or all do."""
    made: dict[str, torch.Tensor] = {}
    chosen = _alike(scenario) if case.together else scenario.differentiable[:1]
    for position, (key, shape) in enumerate(scenario.shapes.items()):
        kind = scenario.kinds[key]
        if kind in (InputKind.INDEX, InputKind.MASK):
            made[key] = _discrete(kind, shape, scenario, position).to(device)
            continue
        if key in chosen:
            exact = _numbers(case.key, shape, position)
        else:
            exact = _ordinary(kind, shape, case.seed + position)
        limit = torch.finfo(dtype).max
        made[key] = exact.clamp(-limit, limit).to(dtype).to(device)
    return made


@lru_cache(maxsize=4096)
def _ordinary(kind: InputKind, shape: Shape, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1000 + seed)
    drawn = torch.randn(shape, generator=generator, dtype=torch.float64)
    if kind is InputKind.VECTOR:
        return 1 + drawn.clamp(-3, 3) / 8
    return drawn.softmax(-1) if kind is InputKind.PROBABILITY and shape else drawn


@lru_cache(maxsize=4096)
def _numbers(key: tuple[InputCase, str], shape: Shape, position: int) -> torch.Tensor:
    """Those of a case by its `InputCase.key`, for they are asked for in every dtype."""
    return key[0].tensor(shape, position)


_IGNORED = -100
"""What losses of classes leave out, if they are not told another one."""
_ROWS = 4
"""Rows of a mask of which two are all alike."""


def _discrete(kind: InputKind, shape: Shape, scenario: Scenario, position: int) -> torch.Tensor:
    """Indices that are valid along every axis, all of them used; a mask with both values."""
    count = torch.arange(math.prod(shape)) + position + 1
    if kind is InputKind.MASK:
        mask = (count % 3 == 0).view(shape)
        if len(shape) > 1 and shape[0] >= _ROWS:  # all of a row is masked, and nothing of another
            mask[0], mask[1] = True, False
        return mask
    axes = [
        size
        for name, sizes in scenario.shapes.items()
        for size in sizes
        if _is_data(scenario, name)
    ]
    least = min((size for size in axes if size > 1), default=1)
    found = count % least
    if scenario.ignores and len(found) > 1:
        found[0] = _IGNORED
    return found.view(shape)


def _is_data(scenario: Scenario, name: str) -> bool:
    return scenario.kinds[name] not in (InputKind.INDEX, InputKind.MASK)


def structured(dtype: torch.dtype, seed: int, scenario: Scenario) -> tuple[InputCase, ...]:
    """The fixed inputs, ordinary ones first: see the module's `_rows`."""
    joint = _joint(dtype, seed) if len(_alike(scenario)) > 1 else ()
    return (*_single(dtype, seed), *joint)


def _alike(scenario: Scenario) -> tuple[str, ...]:
    """The tensors that gradients are taken of, but for the weights of norms."""
    return tuple(k for k in scenario.differentiable if scenario.kinds[k] is InputKind.TENSOR)


def _joint(dtype: torch.dtype, seed: int) -> tuple[InputCase, ...]:
    """Inputs of several tensors of one magnitude: what one of them hides, if it is large.

    Of the largest some products are more than the dtype holds, and others are not.
    """
    stds = *_JOINT_STDS, _OF_ROOT * math.sqrt(torch.finfo(dtype).max)
    normal = (InputCase(std=std, seed=seed, together=True) for std in stds)
    return (*normal, *(InputCase(row, together=True) for row in _JOINT_ROWS))


_JOINT_STDS = (0.1, 0.01, 5.0)
_OF_ROOT = 0.6
_JOINT_ROWS = ((0.0,), (1.0,), (-3.0,), (0.0, -12.0), (2.0**-10, 0.0), (1.0, -1.0, 0.5))


@cache
def _single(dtype: torch.dtype, seed: int) -> tuple[InputCase, ...]:
    """Inputs of which one tensor is varied, and the others are ordinary."""
    normal = [
        InputCase(std=std, mean=mean, seed=seed + index, cotangent=name)
        for index, (std, mean) in enumerate(_NORMAL)
        for name in ("random", "one-hot")
    ]
    rows = [
        InputCase(tuple(row), cotangent=name)
        for index, row in enumerate(_rows(torch.finfo(dtype)))
        for name in (COTANGENTS if len(row) == 1 else (COTANGENTS[index % 2],))
    ]
    return (*normal, *rows)


_NORMAL = ((1.0, 0.0), (5.0, 0.0), (20.0, 0.0), (60.0, 0.0), (0.1, 0.0), (0.01, 0.0), (1.0, 10.0))


def _rows(info: torch.finfo) -> Iterator[list[float]]:
    """Gaps, binades, mixed magnitudes, constants, ties, one-hot, subnormals, the largest."""
    top = int(math.log2(info.max))
    for gap in (12.0, 18.0, 90.0, 120.0, 600.0):
        yield [0.0, -gap]
    for power in range(-10, min(top, 14) + 1, 2):
        yield [2.0**power, 0.0]
        yield [-(2.0 ** (power + 1)), 0.0, 2.0**power]
    yield from ([2.0**power, -(2.0**power)] for power in range(20, top, 25))
    yield from ([constant] for constant in (0.0, 1.0, -3.0, 0.1, 30.0))
    yield [5.0, 5.0, 0.0, 0.0]
    yield [20.0, 20.0, -20.0, -20.0]
    yield [30.0, *[0.0] * 7]
    yield [1e-4, 1.0, 100.0, -1e4]
    least = info.smallest_normal * info.eps
    yield [least, -least, 0.0, 3 * least]
    yield [info.max, 0.0]
    yield [info.max / 4, -info.max / 4]
    yield [info.max]
