"""Runs what a text defines, on made-up objects, and says what it did: a process for each text.

    python -I player.py < JSON

The input is a list of pairs of texts: the second is run, with objects as the first one uses them,
so that an edit of it changes nothing of what it is given. Each function, method and lambda is
called with models, optimizers, batches and tensors by the name of the parameter and by what is
done with it: with all flags on and off, with moderate, large, tiny and infinite numbers, in
float32 and float16. What would be on CUDA is on the CPU, with a scaler that scales. The output is a
list with, for each text, what was returned and raised, what became of all weights and scales, and
what was printed.
"""

# ruff: noqa: ANN401 -- what a text returns and is given may be anything
from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import resource
import sys
import tempfile
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

TO_RUN = 60
"""Seconds of CPU for a text."""
_MOST_STEPS = 40
"""Steps after which an endless loop is left."""
_ROWS, _WIDTH = 8, 4
_NUMBERS: dict[str, Any] = {
    "k": 2, "every": 2, "epochs": 2, "epoch": 3, "limit": 0.05, "clip_grad": 0.05,
    "temperature": 2.0, "width": _WIDTH, "actions": _WIDTH, "lr": 0.1, "eps": 1e-8, "index": 0,
    "norm_type": 2.0, "last": True,
}  # fmt: skip
_FLAGS = ("amp", "use_amp", "fast", "resume", "train", "careful", "update_grad")
_MODELS = ("model", "head", "encoder", "decoder", "critic", "generator", "actor", "module")
_SKIPPED = "not finite"
_STEPPED = {"step", "zero_grad", "param_groups", "synchronize"}
_TARGETS = ("y", "target", "label")
_WARM = """
import torch
def train(model, optimizer, scaler, x):
    with torch.autocast("cuda"):
        loss = model(x).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
"""
"""Has torch import what it imports late, once for all."""


@dataclass(frozen=True)
class Scenario:
    """What objects are like."""

    flags: bool
    size: float
    infinite: bool
    targets: str
    dtype: str = "float32"


SCENARIOS = (
    Scenario(True, 1.0, False, "float"),
    Scenario(False, 100.0, False, "classes"),
    Scenario(True, 1e-4, True, "column"),
    Scenario(False, 8.0, False, "float", "float16"),
)


class Enough(BaseException):
    """A loop has run often enough."""


def main() -> int:
    warnings.simplefilter("ignore")
    pairs = json.load(sys.stdin)
    _without_cuda()
    played(_WARM, _WARM)
    json.dump([_apart(like, text) for like, text in pairs], sys.stdout)
    return 0


def _apart(like: str, text: str) -> Any:
    """What a text does, in a process of its own; how it ended, if that says nothing."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        resource.setrlimit(resource.RLIMIT_CPU, (TO_RUN, TO_RUN))
        with os.fdopen(write, "w") as out, contextlib.suppress(Exception):
            json.dump(played(like, text), out)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as given:
        said = given.read()
    _, status = os.waitpid(child, 0)
    return json.loads(said) if said else [["ended", status]]


def played(like: str, text: str) -> list[Any]:
    """What a text does, in all scenarios."""
    return [seen for scenario in SCENARIOS for seen in Stage(ast.parse(like), scenario).run(text)]


class Stage:
    """A text, and the objects that it is given."""

    def __init__(self, like: ast.Module, scenario: Scenario) -> None:
        self._like, self._scenario = like, scenario
        self._models: list[Any] = []
        self._optimizers: list[Any] = []
        self._scalers: list[Any] = []
        self._said: list[Any] = []
        self._uses = _Uses(like)

    def run(self, text: str) -> Iterator[Any]:
        """What each definition does, by its name."""
        space: dict[str, Any] = {"__name__": "played"}
        space.update({name: self._object(name, None) for name in self._uses.unbound})
        yield "the file", self._done(lambda: exec(compile(text, "text.py", "exec"), space))
        for node in self._like.body:
            if isinstance(node, ast.ClassDef):
                yield from self._of_class(node, space)
            for name in _called(node):
                yield name, self._done(partial(self._call, space, name))

    def _of_class(self, node: ast.ClassDef, space: dict[str, Any]) -> Iterator[Any]:
        made: list[Any] = []

        def make() -> None:
            given = self._given(node, "__init__")
            made.append(space[node.name](**given))

        yield node.name, self._done(make)
        methods = [each.name for each in node.body if isinstance(each, ast.FunctionDef)]
        for name in methods * 2 if made else ():
            if name != "__init__":
                act = partial(self._call_method, made[0], node, name)
                yield f"{node.name}.{name}", self._done(act)

    def _call(self, space: dict[str, Any], name: str) -> Any:
        return space[name](**self._given(self._like, name))

    def _call_method(self, owner: Any, node: ast.ClassDef, name: str) -> Any:
        return getattr(owner, name)(**self._given(node, name))

    def _given(self, holder: ast.Module | ast.ClassDef, name: str) -> dict[str, Any]:
        arguments = self._uses.parameters(holder, name)
        return {each: self._object(each, name) for each in arguments}

    def _done(self, act: Callable[[], Any]) -> Any:
        """What came of something that is done."""
        import torch

        torch.manual_seed(0)
        self._models, self._optimizers, self._said = [], [], []
        out, ended = io.StringIO(), "returns"
        made: Any = None
        with contextlib.redirect_stdout(out):
            try:
                made = act()
            except (Exception, Enough) as error:
                ended = type(error).__name__
        weights = [told for model in self._models for told in _weights(model)]
        scalers = [_told(each) for each in _MADE if getattr(each, "_scale", None) is not None]
        return [ended, _told(made), weights, scalers, self._said, out.getvalue()]

    # --- objects ------------------------------------------------------------------------------

    def _object(self, name: str, function: str | None) -> Any:
        role = self._uses.role(name, function)
        if role:
            return getattr(self, f"_{role}")()
        if name in _NUMBERS:
            return _NUMBERS[name]
        if name in _FLAGS:
            return self._scenario.flags
        makers = {
            "parameters": lambda: [*self._model().parameters()], "models": self._two_models,
            "optimizers": lambda: [self._optimizer(), self._optimizer()],
            "args": self._settings, "config": self._settings, "path": _path,
            "log": lambda: self._recorded, "meter": self._recorder, "writer": self._recorder,
            "scheduler": self._recorder, "losses": list, "evaluate": lambda: self._recorded,
            "train": lambda: self._recorded, "loss": lambda: self._model()(self._numbers()).mean(),
        }  # fmt: skip
        make: Any = makers.get(name, partial(self._numbers, name in _TARGETS))
        return make()

    def _model(self) -> Any:
        import torch

        class Model(torch.nn.Linear):
            def penalty(self) -> Any:
                return self.weight.square().sum()

        made = Model(_WIDTH, _WIDTH)
        self._models.append(made)
        return made

    def _two_models(self) -> list[Any]:
        return [self._model(), self._model()]

    def _optimizer(self) -> Any:
        """One of a model that has none, or else of the last one."""
        import torch

        rest = self._models[len(self._optimizers) :] or [self._models and self._models[-1]]
        model = rest[0] or self._model()
        made = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
        self._optimizers.append(made)
        return made

    def _scaler(self) -> Any:
        import torch

        return torch.amp.GradScaler("cpu", init_scale=2.0**13)

    def _loader(self) -> list[Any]:
        batches = []
        for number in range(5):
            x, y = self._numbers(), self._numbers(target=True)
            infinite = self._scenario.infinite and number == 2
            x = x * float("inf") if infinite else x * (number + 1)
            batches.append((x.detach(), y) if self._uses.pairs else x.detach())
        return batches

    def _numbers(self, target: bool = False) -> Any:
        import torch

        if target and self._scenario.targets != "float":
            shape = (_ROWS,) if self._scenario.targets == "classes" else (_ROWS, 1)
            return torch.randint(_WIDTH, shape)
        if target:
            return torch.rand(_ROWS, _WIDTH)
        made = torch.randn(_ROWS, _WIDTH) * self._scenario.size
        return made.to(getattr(torch, self._scenario.dtype)).requires_grad_()

    def _settings(self) -> Any:
        flags = dict.fromkeys((*_FLAGS, "horovod"), self._scenario.flags)
        clip = 0.05 if self._scenario.flags else 0
        numbers = dict.fromkeys(("clip", "clip_norm", "clip_value", "CLIP_GRAD"), clip)
        return types.SimpleNamespace(**{**flags, **numbers, "lr": 0.1, "horovod": False})

    def _recorder(self) -> Any:
        names = ("update", "add_scalar", "step")
        return types.SimpleNamespace(**dict.fromkeys(names, self._recorded))

    def _recorded(self, *args: Any, **keywords: Any) -> None:
        self._said.append([[_told(each) for each in args], _told(keywords)])


class _Uses:
    """What a text does with names."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self.pairs = any(_is_pair(node) for node in ast.walk(tree) if isinstance(node, ast.For))

    def parameters(self, holder: ast.Module | ast.ClassDef, name: str) -> list[str]:
        """What a function of a module or class has to be given."""
        for node in holder.body:
            if isinstance(node, ast.FunctionDef) and node.name == name:
                return [each.arg for each in node.args.args if each.arg not in ("self", "ctx")]
            made = node.value if isinstance(node, ast.Assign) else None
            if isinstance(made, ast.Lambda) and _called(node) == [name]:
                return [each.arg for each in made.args.args]
        return []

    @property
    def unbound(self) -> list[str]:
        """The names that nothing binds."""
        found = [node for node in ast.walk(self._tree) if isinstance(node, ast.Name)]
        bound = {node.id for node in found if not isinstance(node.ctx, ast.Load)}
        for node in ast.walk(self._tree):
            if isinstance(node, ast.arg):
                bound.add(node.arg)
            elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                bound.add(node.name)
            elif isinstance(node, ast.alias):
                bound.add((node.asname or node.name).partition(".")[0])
        names = dict.fromkeys(node.id for node in found if node.id not in bound)
        return [name for name in names if name not in dir(__builtins__)]

    def role(self, name: str, function: str | None) -> str:
        """``optimizer``, ``model``, ``scaler`` or ``loader``; "" for all else."""
        within: list[ast.AST] = [
            node
            for node in ast.walk(self._tree)
            if isinstance(node, ast.FunctionDef) and node.name == function
        ] or [self._tree]
        nodes = [each for node in within for each in ast.walk(node)]
        asked = {
            node.attr for node in nodes if isinstance(node, ast.Attribute) and _is(node.value, name)
        }
        calls = [node for node in nodes if isinstance(node, ast.Call)]
        steps = any(
            isinstance(call.func, ast.Attribute) and call.func.attr in ("step", "unscale_")
            and any(_is(arg, name) for arg in call.args)
            for call in calls
        )  # fmt: skip
        if name == "scaler" or "scale" in asked:
            return "scaler"
        if name in ("loader", "batches"):
            return "loader"
        if name == "optimizer" or name.endswith("optimizer") or steps or asked & _STEPPED:
            return "" if name in ("scheduler", "writer", "meter") else "optimizer"
        called = any(_is(call.func, name) for call in calls)
        if name == "log" or name in ("evaluate", "train", "loss"):
            return ""
        return "model" if name in _MODELS or called or "parameters" in asked else ""


def _is(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _is_pair(node: ast.For) -> bool:
    """``for x, y in loader`` or ``for i, (x, y) in enumerate(loader)``."""
    target = node.target
    if isinstance(node.iter, ast.Call) and isinstance(target, ast.Tuple):
        return isinstance(target.elts[-1], ast.Tuple)
    return isinstance(target, ast.Tuple)


def _called(node: ast.stmt) -> list[str]:
    """The name of a function or lambda that a statement of a file defines."""
    if isinstance(node, ast.FunctionDef):
        return [node.name]
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return []


def _path() -> str:
    return str(Path(tempfile.mkdtemp()) / "checkpoint.pt")


_MADE: list[Any] = []
"""All scalers; one that nothing was scaled by has no scale yet."""


def _weights(model: Any) -> list[Any]:
    """The weights of a model with their gradients, which are thrown away if one is not finite.

    A clip has made 0 or NaN of all then, and there was no step.
    """
    told = [_told(each) for each in model.parameters()]
    if any(gradient == _SKIPPED for *_, gradient in told):
        return [[*weight, gradient and _SKIPPED] for *weight, gradient in told]
    return told


def _told(value: Any) -> Any:
    """A value as data."""
    import torch

    if isinstance(value, torch.Tensor):
        gradient = value.grad if value.is_leaf else None
        told = [str(value.dtype), [*value.shape], value.detach().double().flatten().tolist()]
        skipped = gradient is not None and not bool(gradient.isfinite().all())
        return [*told, value.requires_grad, _SKIPPED if skipped else _told(gradient)]
    if isinstance(value, torch.amp.GradScaler):
        return ["scaler", value.is_enabled(), value.get_scale(), _told(value.state_dict())]
    if isinstance(value, dict):
        return [[str(key), _told(item)] for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return [_told(item) for item in value]
    known = value is None or isinstance(value, (bool, int, float, str))
    return value if known else type(value).__name__


def _without_cuda() -> None:
    """Have the CPU stand for CUDA, also for scalers and regions."""
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook

    scaler, region = torch.amp.GradScaler.__init__, torch.autocast.__init__

    def make(self: Any, device: Any = "cuda", *args: Any, **keywords: Any) -> None:
        scaler(self, "cpu" if device == "cuda" else device, *args, **keywords)
        _MADE.append(self)

    def enter(self: Any, device_type: Any, dtype: Any = None, *args: Any, **keywords: Any) -> None:
        if device_type == "cuda":
            device_type, dtype = "cpu", dtype or torch.float16
        region(self, device_type, dtype, *args, **keywords)

    def count(optimizer: Any, args: Any, keywords: Any) -> None:
        optimizer.played = getattr(optimizer, "played", 0) + 1
        if optimizer.played > _MOST_STEPS:
            raise Enough

    def here(function: Any) -> Any:
        def call(*args: Any, **keywords: Any) -> Any:
            kept = [each for each in args if not _is_cuda(each)]
            keywords.pop("device", None)
            return function(*kept, **keywords) if len(kept) > 1 or keywords else kept[0]

        return call

    torch.amp.GradScaler.__init__, torch.autocast.__init__ = make, enter  # type: ignore[method-assign]
    register_optimizer_step_post_hook(count)
    torch.cuda.is_available = lambda: True
    randn = torch.randn
    torch.randn = lambda *a, device=None, **k: randn(*a, **k)
    for kind in (torch.Tensor, torch.nn.Module):
        kind.cuda = lambda self, *args, **keywords: self  # type: ignore[method-assign]
        kind.to = here(kind.to)  # type: ignore[method-assign]


def _is_cuda(value: Any) -> bool:
    kind = type(value).__name__
    return kind in ("str", "device") and str(value).partition(":")[0] == "cuda"


# --- comparing ------------------------------------------------------------------------------------


def are_alike(one: Any, other: Any, *, within: float = 0.0) -> bool:
    """Whether two texts did the same; numbers within a part of the largest beside them."""
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        if all(isinstance(each, float) for each in (*one, *other)):
            most = max((abs(each) for each in one if abs(each) < float("inf")), default=0.0)
            return all(_near(*pair, within * most) for pair in zip(one, other, strict=True))
        return all(are_alike(*pair, within=within) for pair in zip(one, other, strict=True))
    if isinstance(one, float) and isinstance(other, float):
        return _near(one, other, within * abs(one))
    return type(one) is type(other) and bool(one == other)


def _near(one: float, other: float, tolerance: float) -> bool:
    return one == other or (one != one and other != other) or abs(one - other) <= tolerance


def ran(seen: Sequence[Any]) -> set[str]:
    """The definitions that returned at least once."""
    return {name for name, (ended, *_) in (each for each in seen if each[0] != "ended")
            if ended in ("returns", "Enough")}  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
