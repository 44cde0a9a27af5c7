"""What a statement may make of names: bound to something else, or changed where they stand.

A name that is read after that is another input than the one that was read before; so an expression
that reads it there is not the one that was computed earlier.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import libcst as cst

from amp_lint.amp.gradient_values import is_gradient
from amp_lint.flow.values import literal
from amp_lint.model import Model
from amp_lint.syntax.names import dotted
from amp_lint.verify.terms import Form, Input, Op, Seq, Term
from amp_lint.vocabulary.purity import PURE_METHODS, QUERIES

EVERYTHING = "*"
"""Stands for all names: somebody else runs in between."""
_SCOPES = (cst.FunctionDef, cst.ClassDef, cst.Lambda)
_IN_PLACE = ("out", "inplace")
"""Keywords by which a function changes what it is given."""
_VIEWS = frozenset(
    {
        "T", "as_strided", "as_tensor", "asarray", "bfloat16", "broadcast_to", "chunk",
        "contiguous", "cpu", "cuda", "data", "detach", "diag", "diagonal", "double", "expand",
        "expand_as", "flatten", "float", "from_numpy", "getitem", "half", "imag", "mT", "moveaxis",
        "movedim", "narrow", "numpy", "permute", "ravel", "real", "reshape", "reshape_as", "select",
        "split", "squeeze", "swapaxes", "swapdims", "t", "to", "transpose", "type", "type_as",
        "unbind", "unflatten", "unfold", "unsqueeze", "view", "view_as",
    }
)  # fmt: skip
"""What may give a tensor that shares the memory of its own."""
_COMPUTED = (Form.FUNCTION, Form.METHOD, Form.OPERATOR, Form.MODULE)


def roots(term: Term, env: Mapping[str, Term]) -> frozenset[str]:
    """The inputs, and the names for what was computed, that a value may share memory with."""
    parts = [*_same(term)]
    held = {*map(id, parts)}
    named = (name for name, known in env.items() if id(known) in held)
    return frozenset(part.key for part in parts if isinstance(part, Input)).union(named)


def _same(term: Term) -> Iterator[Term]:
    """What a value may be, or share memory with."""
    yield term
    match term:
        case Seq(items=items):
            yield from (part for item in items for part in _same(item))
        case Op(form, _, args):
            is_same = term.last in _VIEWS or term.last.endswith("_")
            if form not in _COMPUTED or is_same:
                yield from (part for arg in args for part in _same(arg))


def shared(value: cst.BaseExpression) -> Iterator[str]:
    """The names whose memory an expression may share: ``x`` of ``x``, ``x[0]``, ``[x, y]``."""
    match value:
        case cst.Name() | cst.Attribute() | cst.Subscript():
            yield from _base(value)
        case cst.Call(func=cst.Attribute(value=owner, attr=attr)) if attr.value.endswith("_"):
            yield from shared(owner)
        case cst.Tuple(elements=elements) | cst.List(elements=elements):
            for element in elements:
                yield from shared(element.value)
        case cst.IfExp(body=body, orelse=orelse):
            yield from (*shared(body), *shared(orelse))


def changed(model: Model, node: cst.CSTNode) -> Iterator[str]:
    """The names that a statement, or an expression, may change, or binds by ``:=``."""
    for part in _parts(node):
        match part:
            case cst.NamedExpr(target=cst.Name(value=name)):
                yield name
            case cst.Yield() | cst.Await():
                yield EVERYTHING
            case cst.AssignTarget(target=target) | cst.AugAssign(target=target):
                yield from _stored(target)
            case cst.Call():
                yield from _called(model, part)


def bound(statement: cst.CSTNode) -> Iterator[str]:
    """The names that a statement binds other than by an assignment, a loop or a ``with``."""
    match statement:
        case cst.FunctionDef(name=name) | cst.ClassDef(name=name):
            yield name.value
        case cst.SimpleStatementLine():
            for part in _parts(statement):
                if isinstance(part, cst.ImportAlias):
                    yield from _imported(part)
                elif isinstance(part, cst.Del):
                    yield from _names(part.target)
        case cst.Match():
            for part in _parts(statement):
                if isinstance(part, (cst.MatchAs, cst.MatchStar)) and part.name is not None:
                    yield part.name.value
                elif isinstance(part, cst.MatchMapping) and part.rest is not None:
                    yield part.rest.value
        case cst.Try() | cst.TryStar():
            for handler in statement.handlers:
                if handler.name is not None:
                    yield from _names(handler.name.name)


def _parts(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """A node and what is below it, without the bodies of functions, which run later."""
    yield node
    if not isinstance(node, _SCOPES):
        for child in node.children:
            yield from _parts(child)


def _imported(alias: cst.ImportAlias) -> Iterator[str]:
    if alias.asname is not None:
        yield from _names(alias.asname.name)
    else:
        name = dotted(alias.name)
        yield from () if name is None else (name.partition(".")[0],)


def _names(node: cst.CSTNode) -> Iterator[str]:
    """The names in an expression, keywords and attributes left out."""
    match node:
        case cst.Name(value=name):
            yield name
        case cst.Attribute(value=value):
            path = dotted(node)
            yield from _names(value) if path is None else (path, path.partition(".")[0])
        case cst.Arg(value=value):
            yield from _names(value)
        case _:
            for child in node.children:
                yield from _names(child)


def _stored(target: cst.BaseExpression) -> Iterator[str]:
    """What a store into an element, or into the memory of a tensor, changes."""
    match target:
        case cst.Subscript(value=owner) | cst.Attribute(value=owner, attr=cst.Name(value="data")):
            yield from _base(owner)


def _base(node: cst.BaseExpression) -> Iterator[str]:
    """What is changed if an expression is changed where it stands: ``x`` of ``x[0].view(-1)``."""
    path = dotted(node)
    if path is not None and not path.endswith(".data"):
        yield path
    elif isinstance(node, (cst.Attribute, cst.Subscript)):
        yield from _base(node.value)
    elif isinstance(node, cst.Call):
        yield from _base(node.func.value) if isinstance(node.func, cst.Attribute) else ()
        yield from (name for arg in node.args for name in _names(arg))
    else:
        yield from _names(node)


def _called(model: Model, call: cst.Call) -> Iterator[str]:
    owner = call.func.value if isinstance(call.func, cst.Attribute) else None
    of_scaler = owner is not None and model.roles.is_scaler(owner)
    if of_scaler or model.steps.recognizer.kind(call) is not None:
        if owner is not None and is_gradient(owner):
            yield from _base(owner)
        return  # the traces say what else it does
    known = model.names.qualified(call.func)
    if "torch.set_grad_enabled" in known and not isinstance(model.tree.parent(call), cst.WithItem):
        yield EVERYTHING
    handed = (name for arg in call.args for name in _names(arg))
    made = (v for v in model.values.alternatives(call.func) if isinstance(v, cst.Call))
    every = (*call.args, *(arg for each in made for arg in each.args))
    given = (arg for arg in every if arg.keyword and arg.keyword.value in _IN_PLACE)
    in_place = any(literal(arg.value) is not False for arg in given)
    if in_place or any(name.endswith("_") for name in known):
        yield from handed
        return
    if isinstance(call.func, cst.Attribute) and owner is not None and not known:
        method = call.func.attr.value
        asks = method in PURE_METHODS | QUERIES
        if method.endswith("_") or (isinstance(owner, cst.Name) and not asks):
            yield from _base(owner)
    function = model.program.target(call)
    if function is not None:
        yield from _by_function(model, call, function)


def _by_function(model: Model, call: cst.Call, function: cst.FunctionDef) -> Iterator[str]:
    """What a function of the file changes: names of an outer scope, and what it is given."""
    for part in _parts(function.body):
        if isinstance(part, (cst.Global, cst.Nonlocal)):
            yield from (item.name.value for item in part.names)
    own = {name for part in _parts(function.body) for name in _directly(model, part)}
    for param, value in model.program.bind(function, call).items():
        if param in own:
            yield from _names(value)


def _directly(model: Model, part: cst.CSTNode) -> Iterator[str]:
    """What a part of a function changes by itself."""
    if isinstance(part, (cst.AssignTarget, cst.AugAssign)):
        yield from _stored(part.target)
    elif isinstance(part, cst.Call) and isinstance(part.func, cst.Attribute):
        method, is_event = part.func.attr.value, model.steps.recognizer.kind(part) is not None
        if method.endswith("_") and not is_event:
            yield from _base(part.func.value)
