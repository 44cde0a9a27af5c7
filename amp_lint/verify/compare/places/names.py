"""Names that are bound no more, or mean something else, and may be asked for by their text."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_lint.verify.compare.lift import is_amp
from amp_lint.verify.compare.side import Side
from amp_lint.vocabulary.amp import DEPRECATED
from amp_lint.vocabulary.table import BY_NAME
from amp_lint.vocabulary.written import LOOKED_FOR

_MEMBERS = "getmembers"


def reasons(before: Side, after: Side) -> Iterator[str]:
    """Names that are bound no more, or mean something else, and that a text names."""
    inside = [dict(_in_classes(side)) for side in (before, after)]
    for name in inside[0]:
        if inside[0][name] != inside[1].get(name):
            yield f"`{name}` is an attribute of a class, and another one"
    yield from _tried(before, after)
    for name in sorted(after.units.keys() - before.units.keys()):
        if LOOKED_FOR.match(name.rpartition(".")[2]):
            yield f"`{name}` is called as what others look for: tests, and what runs around them"
    old, new = (_module_names(side) for side in (before, after))
    lost = {name for name, means in old.items() if new.get(name) != means}
    gained = (new.keys() - old.keys()) | (_bound(after) - _bound(before))
    if gained and (after.lifter.names_by_text or any(after.model.tree.named(_MEMBERS))):
        yield f"`{min(gained)}` is a name more, and all names are asked for"
    tree = after.model.tree
    texts = [node.value for node in tree.nodes(cst.SimpleString)]
    texts += [node.value for node in tree.nodes(cst.FormattedStringText)]
    for name in sorted(lost):
        if after.lifter.names_by_text or any(_asks_for(text, name) for text in texts):
            yield f"`{name}` is another name, and may be asked for by its text"


def _tried(before: Side, after: Side) -> Iterator[str]:
    """Imports in a ``try`` that fail in another case, or are tried in another order."""
    old, new = ([*_tries(side)] for side in (before, after))
    if len(old) != len(new):
        return
    for (_, was), (node, becomes) in zip(old, new, strict=True):
        kept = all(
            name in (known, *_new_names(known))
            for names, others in zip(was, becomes, strict=False)
            for known, name in zip(names, others, strict=False)
        )
        shape = [*map(len, was)], [*map(len, becomes)]
        if not kept or shape[0] != shape[1]:
            yield f"line {after.line(node)}: what is imported in a `try` fails in another case"


def _tries(side: Side) -> Iterator[tuple[cst.Try, list[list[str]]]]:
    """Each ``try`` that imports something of AMP: by block what it imports, and what is caught."""
    tree = side.model.tree
    bindings = side.model.names.every_binding()
    imports = [(b.node, b.qualified) for b in bindings if b.qualified is not None]
    for node in tree.nodes(cst.Try):
        blocks = [node.body, *node.handlers]
        found = [[name for at, name in imports if tree.contains(block, at)] for block in blocks]
        if any(is_amp(name) for names in found for name in names):
            types = [tree.source(h.type) if h.type is not None else "" for h in node.handlers]
            yield node, [*found, types]


def _new_names(name: str) -> Iterator[str]:
    """What there is in the place of a name of AMP that is deprecated."""
    new = DEPRECATED.get(BY_NAME[name]) if name in BY_NAME else None
    yield from new.names if new is not None else ()


def _asks_for(text: str, name: str) -> bool:
    """Whether a text is a name, dotted or not, or holds code that uses it; no sentence."""
    content = text.strip("rbuRBU").strip("\"'")
    return content.rpartition(".")[2] == name or (">>>" in text and has_word(text, name))


def has_word(text: str, name: str) -> bool:
    """Whether a name is one of the words of a text."""
    words = "".join(c if c.isalnum() or c == "_" else " " for c in text).split()
    return name in words


def _in_classes(side: Side) -> Iterator[tuple[str, str]]:
    """What is imported in classes, and so an attribute of them."""
    for binding in side.model.names.every_binding():
        holder = side.model.tree.ancestor(binding.node, cst.FunctionDef, cst.ClassDef)
        if binding.qualified is not None and isinstance(holder, cst.ClassDef):
            yield binding.name, binding.qualified


def _bound(side: Side) -> frozenset[str]:
    """The names of the module itself."""
    return frozenset(side.model.names.scope_of(side.model.tree.module).bindings)


def _module_names(side: Side) -> dict[str, frozenset[str]]:
    """What imports bind in the module and its classes, and what that is."""
    found: dict[str, frozenset[str]] = {}
    for binding in side.model.names.every_binding():
        if binding.qualified is not None:
            found[binding.name] = found.get(binding.name, frozenset()) | {binding.qualified}
    return found
