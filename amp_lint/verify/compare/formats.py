"""Strings that are put together: an f-string, and ``"...".format(...)`` of the same."""

from __future__ import annotations

import ast
import string
from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from amp_lint.syntax.tree import descendants, is_a

_DOING = (cst.Call, cst.NamedExpr, cst.Await, cst.Yield)
_FIELD = "\0"
"""Stands for a value among the words around; no string that is rewritten holds it."""


@dataclass(frozen=True, slots=True)
class Format:
    """A string with values in it."""

    words: str
    """What is around the values, and how each is shown."""
    values: tuple[cst.BaseExpression, ...]


def format_of(node: cst.CSTNode) -> Format | None:
    """A string that is put together, however it is written; None if it is none, or not plainly.

    An f-string shows each value before it computes the next, ``format`` computes all of them first.
    So of several values none may call anything.
    """
    found = None
    if is_a(node, cst.FormattedString):
        found = _of_f_string(node)
    elif is_a(node, cst.Call):
        found = _of_call(node)
    if found is None or (len(found.values) > 1 and any(map(_does, found.values))):
        return None
    return found if found.values else None


def _does(value: cst.BaseExpression) -> bool:
    return any(isinstance(part, _DOING) for part in descendants(value))


def _of_f_string(node: cst.FormattedString) -> Format | None:
    values = [p for p in node.parts if isinstance(p, cst.FormattedStringExpression)]
    if any(value.equal is not None or _is_nested(value.format_spec) for value in values):
        return None
    joined = _parsed(node)
    if not isinstance(joined, ast.JoinedStr):
        return None
    words = [_words(part) for part in joined.values]
    shown = "".join(word for word in words if word is not None)
    if None in words or shown.count(_FIELD) != 2 * len(values):
        return None
    return Format(shown, tuple(value.expression for value in values))


def _is_nested(spec: Sequence[cst.BaseFormattedStringContent] | None) -> bool:
    return any(isinstance(part, cst.FormattedStringExpression) for part in spec or ())


def _parsed(node: cst.BaseExpression) -> ast.expr:
    code = cst.Module([]).code_for_node(node.with_changes(lpar=[], rpar=[]))
    return ast.parse(f"({code})", mode="eval").body


def _words(part: ast.expr) -> str | None:
    """A part of an f-string."""
    if isinstance(part, ast.Constant):
        text = str(part.value)
        return None if _FIELD in text else text
    if not isinstance(part, ast.FormattedValue):
        return None
    spec = part.format_spec
    shown = [getattr(each, "value", None) for each in getattr(spec, "values", ())]
    if not all(isinstance(each, str) for each in shown):
        return None
    conversion = chr(part.conversion) if part.conversion > 0 else ""
    return _field(conversion, "".join(map(str, shown)))


def _field(conversion: str, spec: str) -> str:
    return f"{_FIELD}{conversion}:{spec}{_FIELD}"


def _of_call(call: cst.Call) -> Format | None:
    function = call.func
    if not isinstance(function, cst.Attribute) or function.attr.value != "format":
        return None
    if not isinstance(function.value, cst.SimpleString):
        return None
    text = function.value.evaluated_value
    if any(arg.star or arg.keyword for arg in call.args) or not isinstance(text, str):
        return None
    words = _template(text)
    if words is None or words.count(_FIELD) != 2 * len(call.args):
        return None
    return Format(words, tuple(arg.value for arg in call.args))


def _template(text: str) -> str | None:
    """What a template says, if its fields are its arguments in order."""
    words = ""
    try:
        parsed = [*string.Formatter().parse(text)]
    except ValueError:
        return None
    for literal, name, spec, conversion in parsed:
        words += literal
        if name is not None:
            if name or "{" in (spec or ""):
                return None
            words += _field(conversion or "", spec or "")
    return None if _FIELD in text else words
