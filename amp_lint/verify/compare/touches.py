"""What a statement may make of names: bound to something else, or changed where they stand.

A name that is read after that is another input than the one that was read before; so an expression
that reads it there is not the one that was computed earlier.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet

import libcst as cst

from amp_lint.amp.gradient_values import is_gradient
from amp_lint.flow.values import literal
from amp_lint.model import Model
from amp_lint.syntax.names import dotted
from amp_lint.verify.terms import Form, Input, Op, Seq, Term
from amp_lint.vocabulary.purity import ASKING, KEEPING, PURE_METHODS, QUERIES

EVERYTHING = "*"
"""Stands for all names: somebody else runs in between."""
_SCOPES = (cst.FunctionDef, cst.ClassDef, cst.Lambda)
_IN_PLACE = ("out", "inplace")
"""Keywords by which a function changes what it is given."""
_VIEWS = frozenset(
    {
        "H", "T", "adjoint", "as_strided", "as_tensor", "asarray", "atleast_1d", "atleast_2d",
        "atleast_3d", "bfloat16", "bool", "broadcast_tensors", "broadcast_to", "byte", "chunk",
        "conj", "contiguous", "cpu", "cuda", "data", "detach", "diag", "diagonal", "double",
        "dropout", "dsplit", "einsum", "expand", "expand_as", "flatten", "float", "from_dlpack",
        "from_numpy", "getitem", "half", "hsplit", "imag", "int", "long", "mH", "mT", "meshgrid",
        "moveaxis", "movedim", "narrow", "numpy", "permute", "pin_memory", "positive", "ravel",
        "real", "reshape", "reshape_as", "resolve_conj", "resolve_neg", "select", "split",
        "split_with_sizes", "squeeze", "swapaxes", "swapdims", "t", "tensor_split", "to",
        "transpose", "type", "type_as", "unbind", "unflatten", "unfold", "unsafe_chunk",
        "unsafe_split", "unsqueeze", "view", "view_as", "view_as_complex", "view_as_real",
        "vsplit",
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
            unknown = form is Form.METHOD and term.name not in PURE_METHODS | QUERIES
            if form is Form.APPLY or (unknown and not is_same):
                args, is_same = args[1:] or args, True  # given nothing: of what its owner has
            if form not in _COMPUTED or is_same:
                yield from (part for arg in args for part in _same(arg))


def overlap(name: str, others: AbstractSet[str]) -> bool:
    """Whether a name, or what it is an attribute of, is one of others."""
    while name not in others and name:
        name = name.rpartition(".")[0]
    return bool(name)


def shared(value: cst.BaseExpression) -> Iterator[str]:
    """The names whose memory an expression may share: ``x`` of ``x``, ``x[0]``, ``[x, y]``."""
    match value:
        case cst.Name() | cst.Attribute() | cst.Subscript():
            yield from _base(value)
        case cst.Call(func=cst.Attribute(value=owner, attr=attr)) if _is_same(attr.value):
            yield from shared(owner)
        case cst.Call(func=cst.Name(value=name), args=args) if name in _PASSING:
            for arg in args:
                yield from shared(arg.value)
        case cst.Tuple(elements=elements) | cst.List(elements=elements):
            for element in elements:
                yield from shared(element.value)
        case cst.Dict(elements=items):
            for item in items:
                yield from shared(item.value)
        case cst.IfExp(body=body, orelse=orelse):
            yield from (*shared(body), *shared(orelse))


def _is_same(method: str) -> bool:
    return method in _VIEWS or method.endswith("_") or method in _ITEMS


_ITEMS = frozenset({"items", "values"})
_PASSING = frozenset({"dict", "enumerate", "iter", "list", "reversed", "tuple", "zip"})
"""Builtins that give what they are given, or parts of it."""


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
    method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
    if owner is not None and not known and not _is_held(model, call):
        asks = method in PURE_METHODS | QUERIES and not _is_done(model, call)
        if method.endswith("_") or (dotted(owner) is not None and not asks):
            yield from _base(owner)
    function = model.program.target(call)
    if function is not None:
        yield from _by_function(model, call, function)
    elif known.isdisjoint(ASKING) and _does_something(model, call, known, method):
        yield from _handed(model, call)


def counts(loop: cst.CSTNode, name: str) -> bool:
    """Whether a name counts: ``for i in range(n)``, ``for i, x in enumerate(xs)``."""
    match loop:
        case cst.For(target=target, iter=cst.Call(func=cst.Name(value="range"))):
            return _is_name(target, name)
        case cst.For(
            target=cst.Tuple(elements=[first, *_]), iter=cst.Call(func=cst.Name(value="enumerate"))
        ):
            return _is_name(first.value, name)
    return False


def _is_name(node: cst.BaseExpression, name: str) -> bool:
    return isinstance(node, cst.Name) and node.value == name


def _handed(model: Model, call: cst.Call) -> Iterator[str]:
    """The names that a call gets as they are, but for those that count: nobody changes a number."""
    for arg in call.args:
        bound = model.names.bindings(arg.value) if isinstance(arg.value, cst.Name) else ()
        if not (bound and all(counts(each.node, each.name) for each in bound)):
            yield from shared(arg.value)


def _is_held(model: Model, call: cst.Call) -> bool:
    """Whether ``self.x(y)`` calls an object that the file stores in ``self``, and no method."""
    func = call.func
    if not isinstance(func, cst.Attribute) or dotted(func.value) != "self":
        return False
    return bool(model.values.attribute_values(func))


def _is_done(model: Model, call: cst.Call) -> bool:
    """Whether nobody takes what a call gives, so that it is there for what it does."""
    match model.tree.parent(call):
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value="_"))]):
            return True
        case holder:
            return isinstance(holder, (cst.Expr, cst.WithItem))


def _does_something(model: Model, call: cst.Call, known: AbstractSet[str], method: str) -> bool:
    """Whether a call of others may change what it is given."""
    if any(name.startswith(_COLLECTIVE) for name in known):
        return True
    own = call.func.value if isinstance(call.func, cst.Name) else method
    words = {own, *(name.rpartition(".")[2] for name in known)}
    by_torch = any(name.startswith("torch.") for name in known)
    return _is_done(model, call) and not by_torch and words.isdisjoint(KEEPING)


_COLLECTIVE = "torch.distributed."


def _by_function(model: Model, call: cst.Call, function: cst.FunctionDef) -> Iterator[str]:
    """What a function of the file changes: names of an outer scope, and what it is given."""
    for part in _parts(function.body):
        if isinstance(part, (cst.Global, cst.Nonlocal)):
            yield from (item.name.value for item in part.names)
    own = _own_changes(model, function)
    for param, value in model.program.bind(function, call).items():
        if param in own:
            yield from (*_names(value), *shared(value))


def _own_changes(
    model: Model, function: cst.FunctionDef | cst.Lambda, around: tuple[cst.CSTNode, ...] = ()
) -> frozenset[str]:
    """The names of a function whose values it changes, under whatever other names it does so."""
    if function in around or len(around) > _DEEP:
        return frozenset()
    parts = [*_parts(function.body)]
    found: set[str] = set()
    for part in parts:
        found.update(_directly(model, part))
        target = model.program.target(part) if isinstance(part, cst.Call) else None
        if isinstance(part, cst.Call) and target is not None:
            inner = _own_changes(model, target, (*around, function))
            given = model.program.bind(target, part).items()
            found.update(name for param, value in given if param in inner for name in shared(value))
    same = [pair for part in parts for pair in _renamed(part)]
    fresh = found
    while fresh:
        fresh = {name for target, name in same if target in found} - found
        found |= fresh
    return frozenset(found)


_DEEP = 4
"""Calls within one another that are followed."""


def _renamed(part: cst.CSTNode) -> Iterator[tuple[str, str]]:
    """The names that a part of a function binds, each with one whose memory it may share."""
    match part:
        case cst.Assign(targets=targets, value=value):
            bound: list[cst.BaseExpression] = [each.target for each in targets]
        case cst.For(target=target, iter=value) | cst.CompFor(target=target, iter=value):
            bound = [target]
        case _:
            return
    known = [*shared(value)]
    yield from ((name, other) for each in bound for name in _names(each) for other in known)


def _directly(model: Model, part: cst.CSTNode) -> Iterator[str]:
    """What a part of a function changes by itself."""
    if isinstance(part, (cst.AssignTarget, cst.AugAssign)):
        yield from _stored(part.target)
        if isinstance(part, cst.AugAssign) and isinstance(part.target, cst.Name):
            yield part.target.value  # of a tensor, where it stands
    elif isinstance(part, cst.Call) and model.steps.recognizer.kind(part) is None:
        known = model.names.qualified(part.func)
        method = part.func.attr.value if isinstance(part.func, cst.Attribute) else ""
        if isinstance(part.func, cst.Attribute) and method.endswith("_"):
            yield from _base(part.func.value)
        is_own = model.program.target(part) is not None
        in_place = any(name.endswith("_") for name in known)
        if in_place or (
            not is_own and known.isdisjoint(ASKING) and _does_something(model, part, known, method)
        ):
            yield from _handed(model, part)


def rebound(model: Model, unit: cst.CSTNode) -> Iterator[str]:
    """The names that other functions may change while one calls something: by a closure, too."""
    tree = model.tree
    outer: list[cst.Global | cst.Nonlocal] = [*tree.nodes(cst.Global), *tree.nodes(cst.Nonlocal)]
    yield from (item.name.value for each in outer for item in each.names)
    inner: list[cst.FunctionDef | cst.Lambda] = [
        *tree.below(unit, cst.FunctionDef),
        *tree.below(unit, cst.Lambda),
    ]
    for each in inner if isinstance(unit, cst.FunctionDef) else ():
        if each is not unit:
            own = model.names.scope_of(each).bindings
            yield from (name for name in _own_changes(model, each) if name not in own)
