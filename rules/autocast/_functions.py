"""Custom autograd Functions: what they save, multiply and hand on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from amp_lint.flow.values import arguments
from amp_lint.syntax.names import dotted
from amp_lint.syntax.returns import returned
from amp_lint.text.diagnostic import quoted
from amp_lint.vocabulary.amp import CUDA_CUSTOM_BWD, CUDA_CUSTOM_FWD, CUSTOM_BWD, CUSTOM_FWD
from amp_lint.vocabulary.operations import CASTS, FUNCTION_METHODS, operations

from ..dtypes._low import REGIONS

if TYPE_CHECKING:
    from amp_lint.model import Model

_SAVED = "saved_tensors"
"""The attribute of a context that has what was saved."""
_FUNCTIONS = frozenset({"torch.autograd.Function", "torch.autograd.function.Function"})
_NOTING = frozenset({*CUSTOM_FWD.names, *CUDA_CUSTOM_FWD.names})
_RESTORING = frozenset({*CUSTOM_BWD.names, *CUDA_CUSTOM_BWD.names})
_PLAIN = frozenset({"staticmethod", "once_differentiable"})
"""Decorators that say nothing of dtypes."""
_CASTING = frozenset({*CASTS, "to", "type", "type_as"}) - {"int", "long", "bool"}


class Function(NamedTuple):
    """A custom autograd Function."""

    forward: cst.FunctionDef
    backward: cst.FunctionDef
    given: tuple[str, ...]
    """The parameters of forward, without the context."""
    alike: frozenset[str] = frozenset()
    """Those that forward gives the dtype of another one, and these others."""


def function_of(model: Model, owner: cst.ClassDef) -> Function | None:
    """What a class is, if it is a Function that leaves dtypes to whoever calls it."""
    methods = {name: node for name, node in _methods(model, owner) if _is_plain(model, node)}
    forward, backward = map(methods.get, FUNCTION_METHODS)
    if forward is None or backward is None:
        return None
    if not (forward.params.params and backward.params.params):
        return None
    params = tuple(param.name.value for param in forward.params.params)[1:]
    alike = _alike(model, forward, params)
    if alike is None or _casts(model, owner, alike):
        return None
    return Function(forward, backward, params, frozenset(alike))


def misplaced(model: Model, owner: cst.ClassDef) -> Iterator[tuple[str, cst.Decorator]]:
    """The methods of a Function that are decorated as the other one should be."""
    forward, backward = FUNCTION_METHODS
    wrong = {forward: _RESTORING, backward: _NOTING}
    for name, method in _methods(model, owner):
        for each in method.decorators:
            if name in wrong and model.names.is_any(_called(each), wrong[name]):
                yield name, each


def _methods(model: Model, owner: cst.ClassDef) -> Iterator[tuple[str, cst.FunctionDef]]:
    """The methods of a class that is a Function, by their names."""
    if any(model.names.is_any(base.value, _FUNCTIONS) for base in owner.bases):
        found = (node for node in owner.body.body if isinstance(node, cst.FunctionDef))
        yield from ((node.name.value, node) for node in found)


def _is_plain(model: Model, node: cst.FunctionDef) -> bool:
    """Whether no decorator of a method casts anything, or restores how autocast was."""
    return all(
        (dotted(each.decorator) or "").rpartition(".")[2] in _PLAIN
        or (model.names.is_any(_called(each), _NOTING) and not _is_cast_by(each))
        for each in node.decorators
    )


def _called(decorator: cst.Decorator) -> cst.BaseExpression:
    node = decorator.decorator
    return node.func if isinstance(node, cst.Call) else node


def _is_cast_by(decorator: cst.Decorator) -> bool:
    """Whether ``custom_fwd`` casts what it is given."""
    call = decorator.decorator
    return isinstance(call, cst.Call) and CUSTOM_FWD.order[-1] in arguments(call).keywords


def _casts(model: Model, owner: cst.ClassDef, alike: set[str]) -> bool:
    """Whether a class casts anything but ``alike``, or opens a region of its own."""
    words = {name.value for name in model.tree.below(owner, cst.Name)}
    return not REGIONS.isdisjoint(words) or (not alike and any(_casting(model, owner)))


def _casting(model: Model, node: cst.CSTNode) -> Iterator[cst.Call]:
    for call in model.tree.below(node, cst.Call):
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in _CASTING:
            yield call


def _alike(model: Model, forward: cst.FunctionDef, given: tuple[str, ...]) -> set[str] | None:
    """The parameters that ``w = w.type_as(x)`` makes alike; None if anything else is cast."""
    found: set[str] = set()
    for call in _casting(model, forward):
        assign = model.tree.parent(call)
        target = assign.targets[0].target if isinstance(assign, cst.Assign) else None
        owner = call.func.value if isinstance(call.func, cst.Attribute) else None
        like = (dotted(call.args[0].value) or "").removesuffix(".dtype") if call.args else ""
        if target is None or not isinstance(owner, cst.Name) or dotted(target) != owner.value:
            return None
        if not {owner.value, like} <= {*given}:
            return None
        found |= {owner.value, like}
    return found


# --- products in backward ---------------------------------------------------------------------


class Mixed(NamedTuple):
    """A product of a gradient and of what was saved, and the call that hands both on to it."""

    product: cst.CSTNode
    applied: cst.Call | None = None


def mixed_product(model: Model, function: Function) -> Mixed | None:
    """A product in backward of a gradient and of what forward saved and multiplied itself."""
    saved = _saved(model, function) - function.alike
    products = [node for node in _products(model, function.forward) if _uses(model, node, saved)]
    if not products:
        return None
    gradients = {param.name.value for param in function.backward.params.params[1:]}
    restored = _restored(model, function.backward)
    for node in _products(model, function.backward):
        if _uses(model, node, gradients) and _uses(model, node, restored | {_SAVED}):
            return Mixed(node)
    for call in _unknown_calls(model, function.backward):
        if not (gradients.isdisjoint(_named(call)) or restored.isdisjoint(_named(call))):
            return Mixed(call)
    return next(_mixed_by_others(model, function, gradients, restored), None)


def _mixed_by_others(
    model: Model, function: Function, gradients: set[str], restored: set[str]
) -> Iterator[Mixed]:
    """What the Functions that backward applies to gradients and to what was saved make of both.

    Autocast is off there as well, so that none of their products is cast.
    """
    for call in model.tree.below(function.backward, cst.Call):
        owner = _applied_by(model, call)
        other = function_of(model, owner) if owner is not None else None
        if other is None or any(arg.star or arg.keyword for arg in call.args):
            continue
        given = dict(zip(other.given, map(_name_of, call.args), strict=False))
        sides = [{to for to, name in given.items() if name in one} for one in (gradients, restored)]
        for node in (*_products(model, other.forward), *_unknown_calls(model, other.forward)):
            mixed = [{name for name in side if _uses(model, node, {name})} for side in sides]
            if all(mixed) and not mixed[0] | mixed[1] <= other.alike:
                yield Mixed(node, call)


def _applied_by(model: Model, call: cst.Call) -> cst.ClassDef | None:
    """The class of the file whose ``apply`` a call is."""
    owners = {each.name.value: each for each in model.tree.nodes(cst.ClassDef)}
    owner, _, method = (dotted(call.func) or "").rpartition(".")
    return owners.get(owner) if method == "apply" else None


def _name_of(arg: cst.Arg) -> str:
    return arg.value.value if isinstance(arg.value, cst.Name) else ""


def _products(model: Model, function: cst.FunctionDef) -> Iterator[cst.BaseExpression]:
    """The operations of a function that autocast computes in low precision."""
    low = {name for name, policy in operations().policies["cuda"].items() if policy == "low"}
    for node in model.tree.below(function, cst.BinaryOperation):
        if isinstance(node.operator, cst.MatrixMultiply):
            yield node
    for call in model.tree.below(function, cst.Call):
        names = model.names.qualified(call.func)
        short = {operations().short(name) for name in names}
        if not names and isinstance(call.func, cst.Attribute):
            short = {call.func.attr.value}
        if short and short <= low:
            yield call


def _uses(model: Model, node: cst.CSTNode, names: set[str]) -> bool:
    return any(name.value in names for name in model.tree.below(node, cst.Name))


def _saved(model: Model, function: Function) -> set[str]:
    """The parameters that forward saves as it gets them."""
    found: set[str] = set()
    for call in model.tree.below(function.forward, cst.Call):
        if (dotted(call.func) or "").endswith(".save_for_backward"):
            found |= {arg.value.value for arg in call.args if isinstance(arg.value, cst.Name)}
    return found & {*function.given}


def _restored(model: Model, backward: cst.FunctionDef) -> set[str]:
    """The variables of backward that hold what was saved."""
    found: set[str] = set()
    for assign in model.tree.below(backward, cst.Assign):
        if (dotted(assign.value) or "").endswith(f".{_SAVED}"):
            for target in assign.targets:
                found |= {name.value for name in model.tree.below(target, cst.Name)}
    return found


# --- extensions that are given several tensors -----------------------------------------------


class Given(NamedTuple):
    """A call of unknown code that is given tensors of two dtypes, and the call that brings them."""

    call: cst.Call
    source: cst.Call
    left: str = ""
    """What is not cast where others are, by ``source``."""


def said(given: Given) -> tuple[cst.Call, str, list[tuple[cst.CSTNode, str]]]:
    """Where a finding about such a call stands, what it says, and what goes with it."""
    if given.left:
        message = f"{quoted(given.left)} is not cast, as this is that goes with it"
        return given.source, message, [(given.call, "this is given both")]
    message = "autocast makes float16 of some of these tensors, and not of others"
    return given.call, message, [(given.source, "this is what it is given")]


def mixed_call(model: Model, owner: cst.ClassDef, function: Function) -> Given | None:
    """Where forward gives unknown code tensors of which autocast makes two dtypes."""
    gradients = _with_gradients(function)
    names = {name: at for at, name in enumerate(function.given) if at in gradients}
    for call in _unknown_calls(model, function.forward):
        taken = [names[name] for name in _named(call) if name in names]
        left = [name for name in _named(call) if name in names and name not in function.alike]
        if function.alike:
            if 0 < len(left) < len(taken):
                return Given(call, [*_casting(model, function.forward)][-1], left[0])
            continue
        sources = applied(model, owner) if len(taken) > 1 else ()
        for source in sources:
            if _is_mixed(model, source, taken):
                return Given(call, source)
    return None


def _unknown_calls(model: Model, function: cst.FunctionDef) -> Iterator[cst.Call]:
    """The calls of code that is neither Python's nor torch's, and no kernel of Triton's."""
    context = function.params.params[0].name.value
    given = {param.name.value for param in function.params.params} - {context}
    python = given | {each.name.value for each in model.tree.nodes(cst.ClassDef)} | {""}
    for call in model.tree.below(function, cst.Call):
        root = (dotted(call.func) or "").partition(".")[0]
        if root in python or model.values.function(call.func) is not None:
            continue
        homes = {name.partition(".")[0] for name in model.names.qualified(call.func)}
        own = root == context or context in _named(call)
        if not own and homes.isdisjoint({"torch", "builtins", "math"}):
            yield call


def _named(call: cst.Call) -> list[str]:
    """The variables that a call is given as they are."""
    return [arg.value.value for arg in call.args if isinstance(arg.value, cst.Name)]


def _with_gradients(function: Function) -> set[int]:
    """The places for which backward gives a gradient."""
    found: set[int] = set()
    for value in returned(function.backward):
        if isinstance(value, cst.Tuple):
            given = enumerate(each.value for each in value.elements)
            found |= {at for at, one in given if dotted(one) != "None"}
        else:
            found |= {*range(len(function.given))}
    return found


def applied(model: Model, owner: cst.ClassDef) -> Iterator[cst.Call]:
    """The calls that run a Function: ``Product.apply(x, w)``, also by another name."""
    for call in model.tree.nodes(cst.Call):
        func = call.func
        made = model.values.alternatives(func) if isinstance(func, cst.Name) else [func]
        names = {dotted(one) for one in made}
        if f"{owner.name.value}.apply" in names:
            yield call


def _is_mixed(model: Model, call: cst.Call, taken: list[int]) -> bool:
    """Whether of the tensors at some places one is float32, and another one may be low."""
    if any(arg.star or arg.keyword for arg in call.args):
        return False
    given = [call.args[at].value for at in taken if at < len(call.args)]
    for flow in filter(None, (model.dtypes, model.supposed)):
        for run in flow.reaching(call):
            values = [value for value in map(run.of, given) if value.is_tensor]
            wide = any(value.dtypes == {"float32"} for value in values)
            low = any((value.low and len(value.dtypes) == 1) or value.follows for value in values)
            if wide and low and (run.ambient.is_on or run.ambient.supposed):
                return True
    return False
