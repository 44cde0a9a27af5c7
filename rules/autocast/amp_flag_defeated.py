"""AMP212: an option of AMP of which every value is true."""

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


class AmpFlagDefeated(Rule):
    """``parser.add_argument("--amp", type=bool)``, which ``--amp False`` switches on."""

    code = "AMP212"
    name = "amp-flag-defeated"
    severity = Severity.WARNING
    preview = True
    fixes = (Applicability.SUGGEST,)
    requires = (frozenset({"add_argument"}), frozenset({"bool"}))
    pattern = written.pattern(r"type\s*=\s*bool\b", "bool")

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Judge every option by its name, and by whether a region or a scaler reads it."""
        for call in model.tree.nodes(cst.Call):
            if isinstance(call.func, cst.Attribute) and call.func.attr.value == "add_argument":
                yield from self._judge(model, call)

    def _judge(self, model: Model, call: cst.Call) -> Iterator[Diagnostic]:
        from amp_lint.flow.values import arguments, literal

        given = arguments(call)
        kind = given.keywords.get("type")
        names = [text for node in given.positional if isinstance(text := literal(node), str)]
        if kind is None or not names or not model.names.is_any(kind, {"builtins.bool"}):
            return
        name = max(names, key=len)
        if not re.search(AMP_OPTION, name) and not _switches(model, name):
            return
        message = f"{quoted(f'{name} False')} switches this on: `bool` of any text is True"
        help = f'use `action={_ACTION}`, or `action="store_true"`'
        argument = next(arg for arg in call.args if arg.value is kind)
        yield self.report(model, argument, message, fix=_fix(model, call, argument), help=help)


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
    keywords = {arg.keyword.value for arg in call.args if arg.keyword is not None}
    action = model.names.spelling_of(call, _ACTION)
    if action is None or {"nargs", "const", "action", "choices"} & keywords:
        return None
    edit = edits.replace_node(model.tree, argument, f"action={action}")
    return Fix("Make it a switch", (edit,), Applicability.SUGGEST)
