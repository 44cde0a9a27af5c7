"""AMP212: an option of AMP that cannot switch it off."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.edit import edits
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability, Diagnostic, Fix, Severity, quoted
from amp_lint.vocabulary import written
from amp_lint.vocabulary.written import AMP_OPTION

if TYPE_CHECKING:
    from amp_lint.model import Model

_OPTION = re.compile(AMP_OPTION)
_BOOL = frozenset({"builtins.bool"})
_ACTION = "argparse.BooleanOptionalAction"
_SETS = r"store_(?:true|false)"
_BY_DEFAULT = r"\bdefault\s{0,9}=\s{0,9}(?:True|False)\b"
_STORED = {"store_true": (True, "off"), "store_false": (False, "on")}
"""Action -> what it sets, and what can then no longer be done where that is the default."""
_UNREAD = "let the option decide about it, or take the option away"
_READ_OTHERWISE = frozenset({"choices", "const", "nargs"})
"""What makes something else of the text that an option is given."""


class AmpFlagDefeated(Rule):
    """``parser.add_argument("--amp", type=bool)``, which ``--amp False`` switches on.

    And one that ``store_true`` can only make what it is by default, or that keeps the text it is
    given.
    """

    code = "AMP212"
    name = "amp-flag-defeated"
    severity = Severity.WARNING
    preview = True
    fixes = (Applicability.SUGGEST,)
    requires = (frozenset({"add_argument"}),)
    pattern = (
        written.pattern(r"type\s*=[\s(]*(?:lambda[^:\n]{0,30}:\s*)?(?:builtins\.)?bool\b", "bool")
        | written.pattern(rf"{_SETS}[\s\S]{{0,500}}?{_BY_DEFAULT}", "store_true", "store_false")
        | written.pattern(rf"{_BY_DEFAULT}[\s\S]{{0,500}}?{_SETS}", "store_true", "store_false")
        | written.pattern(rf"\badd_argument\(\s*['\"][^)]{{0,300}}?{_BY_DEFAULT}", "add_argument(")
        | written.AMP_FLAG
        | written.PRECISION_FLAG
    )

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Judge every option by its name, and by whether a region or a scaler reads it."""
        from ._unread import unread

        for call in _options(model):
            yield from self._judge(model, call, _name(call))
        for place, option in unread(model):
            message = f"this is on whatever {quoted(_name(option))} says: nothing reads the option"
            related = [(option, "the option is added here")]
            yield self.report(model, place, message, related, help=_UNREAD)

    def _judge(self, model: Model, call: cst.Call, name: str) -> Iterator[Diagnostic]:
        from amp_lint.flow.values import arguments, literal

        given = arguments(call).keywords
        kind, action = given.get("type"), given.get("action")
        stored = _STORED.get(str(literal(action)))
        if kind is not None and _is_bool(model, kind):
            at = kind
            message = f"{quoted(f'{name} False')} switches this on: `bool` of any text is True"
            help = f'use `action={_ACTION}`, or `action="store_true"`'
        elif action is not None and stored is not None and _stays(model, call, stored[0]):
            at, (value, way) = action, stored
            message = (
                f"nothing switches this {way}: {quoted(name)} sets {value}, which it is by default"
            )
            help = f"use `action={_ACTION}`, or another default" if value else "use another default"
        elif action is None and _is_text(model, kind) and _keeps_text(model, call):
            at = given["default"]
            message = f"{quoted(f'{name} False')} switches this on: what is given stays a text"
            help = f"use `action={_ACTION}`"
        else:
            return
        if not name or not (_OPTION.search(name) or _switches(model, _attribute(call))):
            return
        argument = next(arg for arg in call.args if arg.value is at)
        yield self.report(model, argument, message, fix=_fix(model, call, argument), help=help)


def _options(model: Model) -> Iterator[cst.Call]:
    for call in model.tree.nodes(cst.Call):
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "add_argument":
            yield call


def _name(call: cst.Call) -> str:
    """The longest name of an option; "" if there is none that is written out."""
    from amp_lint.flow.values import arguments, literal

    names = (literal(node) for node in arguments(call).positional)
    return max((name for name in names if isinstance(name, str)), key=len, default="")


def _attribute(call: cst.Call) -> str:
    """What an option is called where its value is read."""
    from amp_lint.flow.options import read_from

    return read_from(call)


def _is_bool(model: Model, kind: cst.BaseExpression) -> bool:
    """Whether a type is ``bool``, or a function of nothing but it: ``lambda text: bool(text)``."""
    if isinstance(kind, cst.Lambda) and isinstance(kind.body, cst.Call):
        given = [arg.value.value for arg in kind.body.args if isinstance(arg.value, cst.Name)]
        alone = given == [param.name.value for param in kind.params.params]
        return alone and model.names.is_any(kind.body.func, _BOOL)
    return all(model.names.is_any(each, _BOOL) for each in model.values.alternatives(kind))


def _is_text(model: Model, kind: cst.BaseExpression | None) -> bool:
    """Whether what is given stays the text that it is."""
    return kind is None or model.names.is_any(kind, {"builtins.str"})


def _stays(model: Model, call: cst.Call, value: bool) -> bool:
    """Whether an option is by default what it sets, and no other one sets the same attribute."""
    from amp_lint.flow.values import arguments, literal

    attribute = _attribute(call)
    others = (other for other in _options(model) if other is not call)
    return (
        literal(arguments(call).keywords.get("default")) is value
        and bool(attribute)
        and all(_attribute(other) != attribute for other in others)
        and not any(_sets(each, attribute) for each in model.tree.nodes(cst.Call))
        and not any(_is_attribute(t.target, attribute) for t in model.tree.nodes(cst.AssignTarget))
    )


def _keeps_text(model: Model, call: cst.Call) -> bool:
    """Whether an option is a truth by default, a text where it is given, and read as a truth."""
    from amp_lint.flow.branches import is_tested
    from amp_lint.flow.values import arguments, literal

    given = arguments(call).keywords
    switches = {id(region.enabled) for region in model.regions.all}
    reads = [
        node
        for node in model.tree.nodes(cst.Attribute)
        if node.attr.value == _attribute(call)
        and not isinstance(model.tree.parent(node), (cst.AssignTarget, cst.ImportFrom))
        and not model.names.qualified(node)
    ]
    return (
        isinstance(literal(given.get("default")), bool)
        and given.keys().isdisjoint(_READ_OTHERWISE)
        and bool(reads)
        and all(id(node) in switches or is_tested(model.tree, node) for node in reads)
    )


def _sets(call: cst.Call, attribute: str) -> bool:
    """Whether a call gives an attribute of options another default: ``set_defaults(amp=False)``."""
    is_named = any(arg.keyword is not None and arg.keyword.value == attribute for arg in call.args)
    return (
        isinstance(call.func, cst.Attribute)
        and call.func.attr.value == "set_defaults"
        and (is_named or any(arg.star for arg in call.args))
    )


def _is_attribute(target: cst.BaseExpression, name: str) -> bool:
    return isinstance(target, cst.Attribute) and target.attr.value == name


def _switches(model: Model, attribute: str) -> bool:
    """Whether a region is switched by what an option sets."""
    switches = (region.enabled for region in model.regions.all if region.enabled is not None)
    return any(
        part.attr.value == attribute
        for node in switches
        for part in (node, *model.tree.below(node, cst.Attribute))
        if isinstance(part, cst.Attribute)
    )


def _fix(model: Model, call: cst.Call, argument: cst.Arg) -> Fix | None:
    """Read a switch, and ``--no-amp``; ``--amp True`` is none any more, so that it is shown.

    None for an option that says no: it would say yes.
    """
    from amp_lint.flow.values import literal

    keywords = {
        arg.keyword.value for arg in call.args if arg.keyword not in (None, argument.keyword)
    }
    action = model.names.spelling_of(call, _ACTION)
    if action is None or {"nargs", "const", "action", "choices", "type"} & keywords:
        return None
    if literal(argument.value) == "store_false":
        return None
    edit = edits.replace_node(model.tree, argument, f"action={action}")
    return Fix("Make it a switch", (edit,), Applicability.SUGGEST)
