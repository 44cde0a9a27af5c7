"""AMP405: the old name of Transformer Engine's FP8 region."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Diagnostic, Severity
from amp_lint.vocabulary.settings import FP8_AUTOCAST, FP8_RENAMES, FP8_SUCCESSOR

if TYPE_CHECKING:
    import libcst as cst

    from amp_lint.model import Model


class DeprecatedFp8Autocast(Rule):
    """``te.fp8_autocast(enabled=True, fp8_recipe=recipe)``."""

    code = "AMP405"
    name = "deprecated-fp8-autocast"
    severity = Severity.INFO
    preview = True
    requires = (frozenset({"fp8_autocast"}), frozenset({"transformer_engine"}))
    calls = FP8_AUTOCAST

    def visit_call(self, call: cst.Call, name: str, model: Model) -> Iterator[Diagnostic]:
        """Report each call, with the keywords that are called otherwise."""
        given = {arg.keyword.value for arg in call.args if arg.keyword is not None}
        renamed = [f"`{new}` for `{old}`" for old, new in FP8_RENAMES.items() if old in given]
        help = ", ".join([f"use `{FP8_SUCCESSOR}`", *renamed])
        found = self.report(model, call, "`fp8_autocast` is deprecated", help=help)
        yield replace(found, deprecated=name)
