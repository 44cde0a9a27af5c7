"""Evaluation of terms by an allow-list: torch operations that only compute, and nothing else.

What is not listed raises `NotLiftedError`. There are no in-place operations, no random ones, none
that reads or writes anything, and no result is larger than `MOST_ELEMENTS`.
"""

from __future__ import annotations

import copy
import inspect
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

import torch

from amp_lint.verify.experiments.decompositions import signed
from amp_lint.verify.experiments.names import (
    ASSERTING,
    ATTRIBUTES,
    BUILTINS,
    CASTS,
    CONSTANTS,
    DTYPES,
    FUNCTIONS,
    METHODS,
    MODULE_METHODS,
    MODULES,
    NAMESPACES,
    OPERATORS,
    OUTER,
    SIZED,
)
from amp_lint.verify.terms import Const, Form, Global, Input, Op, Seq, Term, children

MOST_ELEMENTS = 2**20
"""The largest result that is computed."""
_MOST_EXPONENT = 64
_MOST_NUMBER = 1e9

Torch = Any
"""What torch's operations take and give: tensors, numbers, dtypes, tuples of them."""
Environment = Mapping[str, Torch]
Program = Callable[[Environment], Torch]
Watch = Callable[[str, torch.Tensor], torch.Tensor]


class NotLiftedError(Exception):
    """A term holds something that the verifier does not run. The text says what."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What a program is built for."""

    dtype: torch.dtype = torch.float64
    """Of the parameters of modules."""
    device: str = "cpu"
    static: Environment = field(default_factory=dict)
    """Inputs that are no tensors: sizes, dims, flags."""
    watch: Watch | None = None
    """Called with the name and each result of an operation; what it gives takes its place."""
    bounded: bool = True
    """Whether sizes are checked; a graph to be compiled has run before, in eager mode."""


def evaluate(term: Term, bindings: Environment, setting: Setting | None = None) -> Torch:
    """The value of a term, its inputs bound. `NotLiftedError` if it holds anything not listed."""
    return build(term, setting or Setting())(bindings)


def build(term: Term, setting: Setting) -> Program:
    """A term as a function of its tensor inputs. It holds no term any more, so it compiles."""
    match term:
        case Const(value):
            return lambda _: value
        case Global(name):
            constant = global_value(name)
            return lambda _: constant
        case Input(key):
            return _input(key, setting)
        case Seq(kind, items):
            return _sequence(kind, [build(item, setting) for item in items])
        case Op():
            return _watched(term.name, _BUILDERS[term.form](term, setting), setting.watch)


def not_lifted(term: Term) -> str:
    """Why a term cannot be run; "" if all in it is listed."""
    if isinstance(term, Op):
        try:
            _resolve(term)
        except NotLiftedError as error:
            return str(error)
    elif isinstance(term, Global):
        try:
            global_value(term.name)
        except NotLiftedError as error:
            return str(error)
    return next(filter(None, map(not_lifted, children(term))), "")


def global_value(name: str) -> Torch:
    """What ``torch.float32`` or ``math.pi`` is."""
    if name in DTYPES:
        return getattr(torch, DTYPES[name])
    if name in CONSTANTS:
        return CONSTANTS[name]
    raise NotLiftedError(f"{name} is not known")


def function(name: str) -> Callable[..., Any]:
    """The listed function of that qualified name."""
    if name in BUILTINS:
        return BUILTINS[name]
    space, _, last = name.rpartition(".")
    if space in NAMESPACES and last in FUNCTIONS:
        found = _at(space, last)
        if found is not None:
            return found
    raise NotLiftedError(f"{name} is not an operation that the verifier runs")


def module_class(name: str) -> type[torch.nn.Module]:
    """The listed class of that qualified name."""
    space, _, last = name.rpartition(".")
    found = _at(space, last) if last in MODULES and name.startswith("torch.nn.") else None
    if not isinstance(found, type):
        raise NotLiftedError(f"{name} is not a module that the verifier runs")
    return found


def is_module(term: Term) -> bool:
    """Whether a term is a module rather than its result."""
    if not isinstance(term, Op):
        return False
    if term.form is Form.METHOD and term.name in MODULE_METHODS:
        return is_module(term.args[0])
    return term.form is Form.MODULE


@cache
def _at(space: str, last: str) -> Callable[..., Any] | None:
    owner: Torch = torch
    for part in space.split(".")[1:]:
        owner = getattr(owner, part, None)
    return getattr(owner, last, None)


def _resolve(op: Op) -> None:
    """Raise unless an operation is listed."""
    for name, value in op.keywords:
        if name in {"out", "inplace"} and value not in (Const(None), Const(False)):
            raise NotLiftedError(f"{op.name} in place")
    dropout = dict(op.keywords).get("dropout_p", Const(0.0))
    if dropout not in (Const(0.0), Const(0)):
        raise NotLiftedError(f"{op.name} is random")
    listed = {
        Form.METHOD: METHODS | FUNCTIONS,
        Form.OPERATOR: OPERATORS,
        Form.ATTRIBUTE: ATTRIBUTES,
    }
    if op.form is Form.FUNCTION:
        function(op.name)
    elif op.form is Form.MODULE:
        module_class(op.name)
    elif op.form is Form.APPLY:
        _applied(op)
    elif op.name not in listed.get(op.form, frozenset()):
        raise NotLiftedError(f"{op.name} is not an operation that the verifier runs")


def _applied(op: Op) -> None:
    if not is_module(op.args[0]):
        raise NotLiftedError("a call of something that is not known")


def _watched(name: str, program: Program, watch: Watch | None) -> Program:
    if watch is None:
        return program

    def run(environment: Environment) -> Torch:
        result = program(environment)
        if isinstance(result, torch.Tensor):
            return watch(name, result)
        for tensor in tensors(result):
            watch(name, tensor)
        return result

    return run


def tensors(value: Torch) -> Iterator[torch.Tensor]:
    """The tensors of a result."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)) and not isinstance(value, torch.Size):
        for item in value:
            yield from tensors(item)


def _input(key: str, setting: Setting) -> Program:
    if key in setting.static:
        value = setting.static[key]
        return lambda _: value
    return lambda environment: environment[key]


def _sequence(kind: str, items: list[Program]) -> Program:
    if kind == "slice":
        return lambda environment: slice(*(item(environment) for item in items))
    make = tuple if kind == "tuple" else list
    return lambda environment: make([item(environment) for item in items])


def _call(
    op: Op,
    setting: Setting,
    run: Callable[..., Any],
    skip: int = 0,
    on_cpu: Callable[..., Any] | None = None,
) -> Program:
    """``run`` with the arguments of ``op`` from the one after ``skip``, within bounds.

    ``on_cpu`` is the same for the CPU: what that raises an error of is not run.
    """
    _resolve(op)
    given = [build(arg, setting) for arg in op.args[skip:]]
    named = [(name, build(value, setting)) for name, value in op.keywords]
    short = op.last

    def call(environment: Environment) -> Torch:
        args = [arg(environment) for arg in given]
        keywords = {name: value(environment) for name, value in named}
        if setting.bounded:
            check_size(short, [*args, *keywords.values()])
        if on_cpu is not None:
            on_cpu(*_on_cpu(args), **_on_cpu(keywords))
        return run(*args, **keywords)

    return call


def _asserts(name: str, setting: Setting) -> bool:
    """Whether an operation is to be tried on the CPU first."""
    return name in ASSERTING and setting.bounded and setting.device != "cpu"


def _on_cpu(value: Torch) -> Torch:
    """Arguments on the CPU, in a dtype for which it has all kernels."""
    if isinstance(value, torch.Tensor):
        moved = value.detach().cpu()
        return moved.float() if moved.dtype in (torch.float16, torch.bfloat16) else moved
    if isinstance(value, dict):
        return {name: _on_cpu(each) for name, each in value.items()}
    return type(value)(map(_on_cpu, value)) if type(value) in (list, tuple) else value


def _function(op: Op, setting: Setting) -> Program:
    run = signed(op.name, function(op.name))
    return _call(op, setting, run, on_cpu=run if _asserts(op.last, setting) else None)


def _operator(op: Op, setting: Setting) -> Program:
    _resolve(op)
    found = getattr(operator, op.name)

    def run(*args: Torch) -> Torch:
        check_numbers(op.name, args)
        return found(*args)

    return _call(op, setting, run, on_cpu=run if _asserts(op.name, setting) else None)


def _attribute(op: Op, setting: Setting) -> Program:
    _resolve(op)
    owner, name = build(op.args[0], setting), op.name
    return lambda environment: getattr(owner(environment), name)


def _method(op: Op, setting: Setting) -> Program:
    _resolve(op)
    if is_module(op):
        module = _module_of(op, setting)
        return lambda _: module
    name = op.name
    if name in CASTS:
        return _call(op, setting, _cast_to(name))

    def run(receiver: Torch, *args: Torch, **keywords: Torch) -> Torch:
        return _invoke(receiver, name, *args, **keywords)

    return _call(op, setting, run, on_cpu=run if _asserts(name, setting) else None)


def _invoke(receiver: Torch, name: str, *args: Torch, **keywords: Torch) -> Torch:
    if not isinstance(receiver, torch.Tensor):
        raise NotLiftedError(f".{name} of something that is not a tensor")
    return getattr(receiver, name)(*args, **keywords)


def _cast_to(name: str) -> Callable[..., Any]:
    """A cast or move; all is on one device, so that only the dtype counts."""

    def run(receiver: torch.Tensor, *args: Torch, **keywords: Torch) -> torch.Tensor:
        if name not in {"to", "type", "type_as", "cpu", "cuda"}:
            return getattr(receiver, name)()  # type: ignore[no-any-return]
        for value in (*args, *keywords.values()):
            if isinstance(value, torch.dtype):
                return receiver.to(value)
            if isinstance(value, torch.Tensor):
                return receiver.to(value.dtype)
        return receiver

    return run


def _module(op: Op, setting: Setting) -> Program:
    module = _module_of(op, setting)
    return lambda _: module


def _module_of(op: Op, setting: Setting) -> torch.nn.Module:
    """A module, made once, with parameters that show: not all ones and zeros."""
    _resolve(op)
    if op.form is Form.METHOD:
        owner = op.args[0]
        assert isinstance(owner, Op)
        args = [build(arg, setting)({}) for arg in op.args[1:]]
        return cast_module(_module_of(owner, setting), op.name, args)
    try:
        args = [build(arg, setting)({}) for arg in op.args]
        keywords = {name: build(value, setting)({}) for name, value in op.keywords}
    except KeyError as error:
        raise NotLiftedError(f"a {op.name} whose size depends on data") from error
    check_size("full", [*args, *keywords.values()])
    made = module_class(op.name)(*args, **keywords)
    _vary(made)
    return made.to(device=setting.device, dtype=setting.dtype)


def _vary(module: torch.nn.Module) -> None:
    """Give each number of the parameters another value, that is exact in every dtype."""
    for name, parameter in module.named_parameters(recurse=False):
        generator = torch.Generator().manual_seed(parameter.numel() + len(name))
        drawn = torch.randint(-24, 25, parameter.shape, generator=generator) / 64
        parameter.data = drawn + 1 if name == "weight" else drawn


def cast_module(module: torch.nn.Module, name: str, args: list[Any]) -> torch.nn.Module:
    """``module.half()`` and the like; moves to a device are left out."""
    if name in {"half", "float", "double", "bfloat16", "eval", "train"}:
        return getattr(module, name)(*args)  # type: ignore[no-any-return]
    dtypes = [arg for arg in args if isinstance(arg, torch.dtype)]
    return module.to(dtypes[0]) if dtypes else module


def _apply(op: Op, setting: Setting) -> Program:
    _resolve(op)
    owner = op.args[0]
    assert isinstance(owner, Op)
    module = _module_of(owner, setting)
    if not _asserts(type(module).__name__, setting):
        return _call(op, setting, module, skip=1)
    dtype = torch.float64 if setting.dtype is torch.float64 else torch.float32
    return _call(op, setting, module, skip=1, on_cpu=copy.deepcopy(module).to("cpu", dtype))


def _other(op: Op, setting: Setting) -> Program:
    raise NotLiftedError(f"{op.name} is not an operation that the verifier runs")


_BUILDERS: dict[Form, Callable[[Op, Setting], Program]] = {
    Form.FUNCTION: _function,
    Form.METHOD: _method,
    Form.MODULE: _module,
    Form.APPLY: _apply,
    Form.OPERATOR: _operator,
    Form.ATTRIBUTE: _attribute,
    Form.OTHER: _other,
}


def check_size(name: str, values: list[Any]) -> None:
    """Raise if a result could be larger than `MOST_ELEMENTS`, before it is computed."""
    given = list(tensors(values))
    if name in OUTER:
        bound = math.prod(t.numel() for t in given) ** (2 if len(given) == 1 else 1)
    else:
        bound = _broadcast(name, tuple(tensor.shape for tensor in given))
    if name in SIZED:
        bound *= math.prod(math.ceil(max(1.0, abs(number))) for number in _numbers(values))
        bound *= math.prod(int(t.max()) + 1 for t in given if _counts(t))
    if bound > MOST_ELEMENTS:
        raise NotLiftedError(f"{name} of more than {MOST_ELEMENTS} elements")


def _counts(tensor: torch.Tensor) -> bool:
    """Whether a tensor can say how large a result is: the classes of one_hot, repeats."""
    return tensor.numel() > 0 and tensor.dtype in (torch.int64, torch.int32)


@lru_cache(maxsize=4096)
def _broadcast(name: str, shapes: tuple[torch.Size, ...]) -> int:
    width = max(map(len, shapes), default=0)
    sizes = [[1] * (width - len(shape)) + list(shape) for shape in shapes]
    if all(len(set(column) - {1}) < 2 for column in zip(*sizes, strict=True)):
        return math.prod(max(column) for column in zip(*sizes, strict=True))
    sizes_of = [math.prod(shape) for shape in shapes]
    return max(sizes_of) if name.endswith(("norm", "loss", "entropy")) else math.prod(sizes_of)


def _numbers(values: Iterable[Any]) -> Iterator[float]:
    for value in values:
        if isinstance(value, (int, float)):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from _numbers(value)


def check_numbers(name: str, args: tuple[Any, ...]) -> None:
    """Raise if an operator on Python's own values could build something huge."""
    if any(isinstance(arg, (str, bytes, list, dict)) for arg in args) and name != "getitem":
        raise NotLiftedError(f"{name} of something that is no number")
    if name == "mul" and any(isinstance(arg, tuple) for arg in args):
        raise NotLiftedError("a repeated tuple")
    if name == "pow" and all(isinstance(arg, (int, float)) for arg in args):
        base, exponent = args
        if abs(base) > _MOST_NUMBER or abs(exponent) > _MOST_EXPONENT:
            raise NotLiftedError("a power of huge numbers")


@cache
def parameters(form: Form, name: str) -> tuple[str, ...]:
    """What the parameters of an operation are called, in order; () if it does not tell."""
    try:
        if form is Form.MODULE:
            return tuple(inspect.signature(module_class(name)).parameters)
        if form is Form.METHOD:
            return _declared(getattr(torch.Tensor, name, None)) or _declared(
                getattr(torch, name, None)
            )
        return _declared(function(name))
    except NotLiftedError:
        return ()


def _declared(run: Torch | None) -> tuple[str, ...]:
    known = torch.overrides.get_testing_overrides()
    target = known.get(run, run)  # type: ignore[arg-type]
    try:
        return tuple(inspect.signature(target).parameters)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ()
