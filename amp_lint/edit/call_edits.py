"""Text surgery on the arguments of a call. Only insertions, so that nothing is lost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.text.diagnostic import Edit

if TYPE_CHECKING:
    from amp_lint.syntax.tree import Tree


def fits(args: Sequence[cst.Arg], parameters: Sequence[str]) -> bool:
    """Whether a call with these arguments can be right, and each can be given a name in place."""
    positional = [arg for arg in args if arg.keyword is None and arg.star != "**"]
    keywords = [arg.keyword.value for arg in args if arg.keyword is not None]
    free = parameters[len(positional) :]
    return (
        len(positional) <= len(parameters)
        and all(word in free for word in keywords)
        and not any(arg.star == "*" for arg in args)
        and not any(
            isinstance(arg.value, (cst.GeneratorExp, cst.NamedExpr)) and not arg.value.lpar
            for arg in positional
        )
    )


def rekey(
    tree: Tree,
    call: cst.Call,
    *,
    skip: int = 0,
    first: str = "",
    names: Iterable[str] = (),
    last: Iterable[str] = (),
) -> tuple[Edit, ...]:
    """Give arguments to a call and names to those it has.

    Args:
        tree: the file.
        call: the call to change.
        skip: arguments in front that stay as they are.
        first: the new argument that follows them.
        names: what the positional arguments after that are called from now on, in order.
        last: new arguments at the end.
    """
    rest = call.args[skip:]
    positional = [arg for arg in rest if arg.keyword is None and not arg.star]
    texts = {tree.span(arg)[0]: f"{name}=" for arg, name in zip(positional, names, strict=False)}
    if not rest:
        added = [text for text in (first, *last) if text]
        return _append(tree, call, added)
    if first:
        start = tree.span(rest[0])[0]
        texts[start] = first + _separator(tree.text, start) + texts.get(start, "")
    edits = tuple(Edit(at, at, text) for at, text in texts.items())
    return edits + _append(tree, call, list(last))


def add_keyword(tree: Tree, call: cst.Call, text: str) -> tuple[Edit, ...]:
    """Insert the keyword argument ``text`` in front of the keyword arguments of a call."""
    positional = sum(arg.keyword is None and arg.star != "**" for arg in call.args)
    if positional < len(call.args):
        return rekey(tree, call, skip=positional, first=text)
    return _append(tree, call, [text])


def set_keyword(tree: Tree, call: cst.Call, name: str, value: str) -> tuple[Edit, ...]:
    """Give the keyword argument ``name`` this value, whether it is there already or not."""
    for arg in call.args:
        if arg.keyword is not None and arg.keyword.value == name:
            return (Edit(*tree.outer_span(arg.value), value),)
    return add_keyword(tree, call, f"{name}={value}")


def _append(tree: Tree, call: cst.Call, added: list[str]) -> tuple[Edit, ...]:
    """Add arguments at the end, in front of a trailing comma."""
    if not added:
        return ()
    if call.args:
        end = tree.span(call.args[-1])[1]
        return (Edit(end, end, "".join(f", {text}" for text in added)),)
    end = tree.span(call)[1] - 1
    return (Edit(end, end, ", ".join(added)),)


def _separator(text: str, start: int) -> str:
    """What stands between a new argument and the one at ``start``, which may begin its line."""
    line_start = max(text.rfind("\n", 0, start), text.rfind("\r", 0, start)) + 1
    indent = text[line_start:start]
    if indent.strip():
        return ", "
    newline = "\r\n" if text[line_start - 2 : line_start] == "\r\n" else text[line_start - 1]
    return f",{newline}{indent}"
