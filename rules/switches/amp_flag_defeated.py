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

_ACTION = "argparse.BooleanOptionalAction"
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
        written.pattern(r"type\s*=\s*bool\b", "bool")
        | written.pattern(r"store_true[\s\S]{0,500}?\bdefault\s{0,9}=\s{0,9}True\b", "store_true")
        | written.pattern(r"\bdefault\s{0,9}=\s{0,9}True\b[\s\S]{0,500}?store_true", "store_true")
        | written.pattern(
            r"\badd_argument\(\s*['\"][^)]{0,300}?\bdefault\s{0,9}=\s{0,9}(?:True|False)\b",
            "add_argument(",
        )
    )

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Judge every option by its name, and by whether a region or a scaler reads it."""
        for call in _options(model):
            yield from self._judge(model, call, _name(call))

    def _judge(self, model: Model, call: cst.Call, name: str) -> Iterator[Diagnostic]:
        from amp_lint.flow.values import arguments, literal

        given = arguments(call).keywords
        kind, action = given.get("type"), given.get("action")
        if kind is not None and model.names.is_any(kind, {"builtins.bool"}):
            at = kind
            message = f"{quoted(f'{name} False')} switches this on: `bool` of any text is True"
            help = f'use `action={_ACTION}`, or `action="store_true"`'
        elif action is not None and literal(action) == "store_true" and _stays_on(model, call):
            at = action
            message = f"nothing switches this off: {quoted(name)} sets True, which it is by default"
            help = f"use `action={_ACTION}`, or another default"
        elif kind is None and action is None and _keeps_text(model, call):
            at = given["default"]
            message = f"{quoted(f'{name} False')} switches this on: without a type it is a text"
            help = f"use `action={_ACTION}`"
        else:
            return
        if not name or not (re.search(AMP_OPTION, name) or _switches(model, name)):
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
    from amp_lint.flow.values import arguments, literal

    told = literal(arguments(call).keywords.get("dest"))
    return told if isinstance(told, str) else _name(call).lstrip("-").replace("-", "_")


def _stays_on(model: Model, call: cst.Call) -> bool:
    """Whether an option is True by default, and no other one sets the same attribute."""
    from amp_lint.flow.values import arguments, literal

    attribute = _attribute(call)
    others = (other for other in _options(model) if other is not call)
    return (
        literal(arguments(call).keywords.get("default")) is True
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
        and not isinstance(model.tree.parent(node), cst.AssignTarget)
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


def _switches(model: Model, option: str) -> bool:
    """Whether a region is switched by an option."""
    attribute = option.lstrip("-").replace("-", "_")
    switches = (region.enabled for region in model.regions.all if region.enabled is not None)
    return any(
        part.attr.value == attribute
        for node in switches
        for part in (node, *model.tree.below(node, cst.Attribute))
        if isinstance(part, cst.Attribute)
    )


def _fix(model: Model, call: cst.Call, argument: cst.Arg) -> Fix | None:
    """Read a switch, and ``--no-amp``; ``--amp True`` is none any more, so that it is shown."""
    keywords = {
        arg.keyword.value for arg in call.args if arg.keyword not in (None, argument.keyword)
    }
    action = model.names.spelling_of(call, _ACTION)
    if action is None or {"nargs", "const", "action", "choices"} & keywords:
        return None
    edit = edits.replace_node(model.tree, argument, f"action={action}")
    return Fix("Make it a switch", (edit,), Applicability.SUGGEST)
