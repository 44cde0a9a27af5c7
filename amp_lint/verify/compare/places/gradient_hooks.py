"""What is run in backward with gradients, where the loss is scaled now or is scaled no more.

Gradients are 65536 times as large there: a hook that multiplies them by a mask does not see it, one
that limits them, notes them or adds something to them does.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_lint.amp.events import Kind
from amp_lint.flow.values import arguments, literal
from amp_lint.syntax.assignments import assignments
from amp_lint.syntax.names import dotted
from amp_lint.syntax.references import is_read
from amp_lint.syntax.returns import returned
from amp_lint.verify.compare.places.linear import Linear
from amp_lint.verify.compare.regions import shown
from amp_lint.verify.compare.side import Side
from amp_lint.vocabulary.modules import HOOKING_BACKWARD, PARAMETERS
from amp_lint.vocabulary.operations import FUNCTION_METHODS
from amp_lint.vocabulary.training import (
    FUNCTIONS_OF_AUTOGRAD,
    HOOKS,
    OTHER_HOOKS,
    WATCHED_GRADIENTS,
    WATCHES,
)

_WORDS = HOOKS | OTHER_HOOKS | HOOKING_BACKWARD
_OF_TENSOR = "register_post_accumulate_grad_hook"
"""What hands a hook the tensor, and not its gradient."""
_COMMUNICATING = "torch.distributed.algorithms.ddp_comm_hooks.default_hooks.allreduce_hook"
_LOG = 2, "log"
_GRADIENT = "grad"
_TRACKED, _KEEPING, _ZERO = "requires_grad", ("requires_grad_", "retain_grad"), "zero_"
_Function = cst.FunctionDef | cst.Lambda


def reasons(before: Side, after: Side) -> Iterator[str]:
    """Hooks, and backward passes of the file, that see other gradients than before."""
    if _scaling(before) == _scaling(after):
        return
    others = *_watching(after), *_differentiating(after), *_of_inputs(after)
    for node in (*_hooking(after), *others):
        yield f"line {after.line(node)}: `{shown(after, node)}` sees gradients scaled otherwise"


def _scaling(side: Side) -> object:
    """Which losses are scaled, function by function, and how scalers are made."""
    roles, source = side.model.roles, side.model.tree.source
    given = [
        tuple(each and source(each) for each in (roles.switch(made), roles.initial_scale(made)))
        for made in roles.scaler_calls
    ]
    events = {
        (name, event.scaler is not None, event.scaler_is_on, event.scaler_is_none)
        for name, program in side.tracer.programs.items()
        for trace in program.traces
        for event in trace
        if event.kind is Kind.BACKWARD
    }
    return events, {each for each in given if any(each)}


def _hooking(side: Side) -> Iterator[cst.CSTNode]:
    """What registers a hook that may tell how large gradients are, or of which nothing is known."""
    tree = side.model.tree
    yield from (text for text in tree.nodes(cst.SimpleString) if literal(text) in _WORDS)
    for word in (each for name in sorted(_WORDS) for each in tree.named(name)):
        holder = tree.parent(word)
        used = holder if isinstance(holder, cst.Attribute) and holder.attr is word else word
        call = tree.parent(used)
        if isinstance(holder, (cst.FunctionDef, cst.ImportAlias)):
            continue
        if not isinstance(call, cst.Call) or call.func is not used:
            yield used
        elif side.model.program.target(call) is None and not _is_harmless(side, call, word.value):
            yield call


def _is_harmless(side: Side, call: cst.Call, word: str) -> bool:
    """Whether all that a call may register makes of gradients what is as large as they are."""
    found = [hook for arg in call.args for hook in _functions(side, arg.value)]
    names = (side.model.names.qualified(arg.value) for arg in call.args)
    if any(_COMMUNICATING in known for known in names):
        return True
    return bool(found) and all(
        hook is not None and Linear(side.model, _given(side, hook, word)).is_linear(hook)
        for hook in found
    )


def _given(side: Side, hook: _Function, word: str) -> list[str]:
    """The parameters of a hook that are gradients, or hold them: not the module, nor the tensor."""
    given = [param.name.value for param in hook.params.params if param.default is None]
    is_method = isinstance(hook, cst.FunctionDef) and side.model.program.is_method(hook)
    return given[is_method + (word in HOOKING_BACKWARD or word == _OF_TENSOR) :]


def _functions(side: Side, given: cst.BaseExpression) -> Iterator[_Function | None]:
    """The functions that a hook may be; None for what is no function of the file, but may be."""
    values = side.model.values
    for value in values.alternatives(given):
        if isinstance(value, cst.Lambda):
            yield value
        elif isinstance(value, cst.Call):
            factory = values.function(value.func)
            made = returned(factory) if factory is not None else ()
            yield from (
                each if isinstance(each, cst.Lambda) else values.function(each) for each in made
            )
            yield from () if made else (None,)
        elif literal(value) is ...:
            yield values.function(value)


def _of_inputs(side: Side) -> Iterator[cst.CSTNode]:
    """Reads of the gradients of inputs and results: no step unscales these."""
    tree, names = side.model.tree, {*_kept(side)}
    for node in tree.nodes(cst.Attribute):
        if node.attr.value != _GRADIENT or dotted(node.value) not in names:
            continue
        parent = tree.parent(node)
        cleared = isinstance(parent, cst.Attribute) and parent.attr.value == _ZERO
        tested = isinstance(parent, cst.Comparison)
        if is_read(tree, node) and not cleared and not tested:
            yield node


def _kept(side: Side) -> Iterator[str]:
    """What is said to get gradients, or to keep them, and is no parameter."""
    tree = side.model.tree
    for owner, given in _tracked(side):
        bindings = side.model.names.bindings(owner) if isinstance(owner, cst.Name) else ()
        walked = (b.node.iter for b in bindings if isinstance(b.node, (cst.For, cst.CompFor)))
        words = (word.value for each in walked for word in tree.below(each, cst.Name))
        if not any(literal(each) is False for each in given) and PARAMETERS.isdisjoint(words):
            yield dotted(owner) or ""


def _tracked(side: Side) -> Iterator[tuple[cst.BaseExpression, list[cst.BaseExpression]]]:
    """The same, parameters or not, each with what it is told."""
    for call in side.model.tree.nodes(cst.Call):
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in _KEEPING:
            yield call.func.value, [arg.value for arg in call.args]
    for target, value in assignments(side.model.tree):
        if isinstance(target, cst.Attribute) and target.attr.value == _TRACKED:
            yield target.value, [value] if value is not None else []


def _watching(side: Side) -> Iterator[cst.CSTNode]:
    """What logs gradients as soon as they are made."""
    for call in side.model.tree.nodes(cst.Call):
        log = arguments(call).get(*_LOG)
        if side.model.names.is_any(call.func, WATCHES) and (
            log is None or literal(log) in {*WATCHED_GRADIENTS, ...}
        ):
            yield call


def _differentiating(side: Side) -> Iterator[cst.CSTNode]:
    """Backward passes that the file writes itself."""
    values, names = side.model.values, side.model.names
    _, backward = FUNCTION_METHODS
    for owner in side.model.tree.nodes(cst.ClassDef):
        bases = (base.value for each in values.lineage(owner) for base in each.bases)
        if any(names.is_any(base, FUNCTIONS_OF_AUTOGRAD) for base in bases):
            method = values.method(owner, backward)
            if method is not None and not _is_linear(side, method):
                yield method


def _is_linear(side: Side, backward: cst.FunctionDef) -> bool:
    params = backward.params
    given = [param.name.value for param in params.params[1:]]
    if isinstance(params.star_arg, cst.Param):
        given.append(params.star_arg.name.value)
    return Linear(side.model, given).is_linear(backward)
