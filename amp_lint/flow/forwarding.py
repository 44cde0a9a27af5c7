"""What a helper function gives back, and what it passes on of the arguments that it gets."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import libcst as cst

from amp_lint.flow.program import Program
from amp_lint.flow.values import Arguments, Values, arguments
from amp_lint.syntax.names import PARTIAL
from amp_lint.syntax.returns import returned

_HIDDEN = cst.Name("kwargs")
"""What stands in a call that has no place in the tree for arguments that are not known."""


def spread(call: cst.Call, values: Values) -> Arguments:
    """The arguments of a call, with those of ``**kwargs`` where it is written out what that is.

    As a dict that nothing is added to, or as what a function of the file returns.
    """
    given = arguments(call)
    hidden = [arg for arg in call.args if arg.star]
    found = [_written_out(arg.value, values) if arg.star == "**" else None for arg in hidden]
    if not hidden or None in found:
        return given
    keywords = {name: value for pairs in found if pairs for name, value in pairs}
    return Arguments(given.positional, keywords | given.keywords, starred=False)


def _written_out(
    node: cst.BaseExpression, values: Values
) -> list[tuple[str, cst.BaseExpression]] | None:
    """The names and values of a dict; None where they are not all known."""
    if node is _HIDDEN:
        return None
    dicts = [*values.alternatives(node)]
    function = values.function(dicts[0].func) if isinstance(dicts[0], cst.Call) else None
    if function is not None and len(dicts) == 1:
        dicts = [value for each in returned(function) for value in values.alternatives(each)]
    if len(dicts) != 1 or isinstance(node, cst.Attribute) or values.is_changed(node):
        return None
    found = values.items(dicts[0])
    size = len(dicts[0].elements) if isinstance(dicts[0], cst.Dict) else None
    return found if found is None or size in (None, len(found)) else None


def passed_on(
    inner: cst.Call, function: cst.FunctionDef, outer: cst.Call, program: Program
) -> Arguments:
    """The arguments of a call in ``function`` when that is called by ``outer``.

    Parameters are replaced by what ``outer`` gives for them, or by their defaults; a parameter
    that is not given, or changed on the way, stays as it is. ``starred`` if some arguments are
    hidden.
    """
    given, made = arguments(inner), _Call(function, outer, program)
    keywords = {key: made.value(value) for key, value in given.keywords.items()}
    hidden = False
    for arg in inner.args:
        if arg.star == "**" and made.is_rest(arg.value):
            keywords = made.rest() | keywords
            hidden = hidden or made.given.starred
        else:
            hidden = hidden or bool(arg.star)
    return Arguments(tuple(map(made.value, given.positional)), keywords, hidden)


def completed(partial: cst.Call, call: cst.Call) -> tuple[cst.BaseExpression | None, Arguments]:
    """What a call of ``partial(f, ...)`` calls, and with which arguments; None if it is hidden."""
    early, late = arguments(partial), arguments(call)
    given = Arguments(
        early.positional[1:] + late.positional,
        early.keywords | late.keywords,
        early.starred or late.starred,
    )
    return (early.positional[0] if early.positional else None), given


def direct(call: cst.Call, program: Program) -> Iterator[cst.Call]:
    """What a call may run, where it goes through what holds functions.

    Which is a variable, an attribute, a parameter or a table. A ``partial`` counts with its
    arguments. The calls have no place in the tree.
    """
    func, values = call.func, program.values
    held = func.value if isinstance(func, cst.Subscript) else func
    if not isinstance(held, (cst.Name, cst.Attribute)):
        return
    for value in program.handed(func) or values.alternatives(held):
        items = values.items(value) if held is not func else None
        for made in [each for _, each in items or ()] if held is not func else [value]:
            match made:
                case cst.Lambda(body=cst.Call() as body):
                    yield body
                case cst.Call() if values.names.is_any(made.func, PARTIAL):
                    inner, given = completed(made, call)
                    if inner is not None:
                        yield merged(call.with_changes(func=inner), given)
                case cst.Name() | cst.Attribute() if made is not func:
                    yield call.with_changes(func=made)


def merged(inner: cst.Call, given: Arguments) -> cst.Call:
    """``inner`` as if it were called with other arguments; it has no place in the tree."""
    args = [cst.Arg(value) for value in given.positional]
    args += [cst.Arg(value, keyword=cst.Name(key)) for key, value in given.keywords.items()]
    if given.starred:
        args.append(cst.Arg(_HIDDEN, star="**"))
    return inner.with_changes(args=args)


class _Call:
    """One call of a function with parameters."""

    def __init__(self, function: cst.FunctionDef, outer: cst.Call, program: Program) -> None:
        self.given = arguments(outer)
        self._bound = program.bind(function, outer)
        self._default = functools.partial(program.default, function)
        self._names = program.names
        params = function.params
        self._rest = params.star_kwarg
        self._all = [*params.posonly_params, *params.params, *params.kwonly_params]

    def value(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """What stands for an expression of the function, where that is a parameter."""
        bindings = self._names.bindings(node) if isinstance(node, cst.Name) else []
        known = bindings[0].node if len(bindings) == 1 else None
        param = next((each for each in self._all if each is known), None)
        if param is None:
            return node
        default = None if self.given.starred else self._default(param.name.value)
        return self._bound.get(param.name.value) or default or node

    def is_rest(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is ``kwargs``, the keywords that no parameter takes."""
        bindings = self._names.bindings(node) if isinstance(node, cst.Name) else []
        return self._rest is not None and [b.node for b in bindings] == [self._rest]

    def rest(self) -> dict[str, cst.BaseExpression]:
        """Those keywords."""
        taken = {param.name.value for param in self._all}
        return {key: value for key, value in self.given.keywords.items() if key not in taken}
