"""Moving names to another module: the references and the imports they came through, together.

A name that is imported directly moves with its import, and only if every use of it moves; then
all these edits are one fix. Where a use has to stay, the import stays for it and the others are
spelled out in full. So no set of applied fixes leaves a name without its import.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.edit.edits import insert_before
from amp_lint.syntax.names import canonical, dotted
from amp_lint.syntax.references import Readers, is_read
from amp_lint.text.diagnostic import Applicability, Edit, Fix

if TYPE_CHECKING:
    from amp_lint.model import Model
    from amp_lint.syntax.names import Binding
    from amp_lint.syntax.references import Reference

Edits = tuple[Edit, ...]
MAX_SHARED = 200
"""Edits of a fix that every finding shows which it repairs; of a longer one only the first does."""


@dataclass(frozen=True, slots=True, eq=False)
class Move:
    """One reference that is to get its name from elsewhere."""

    reference: Reference
    edits: Edits | None
    """What changes around the name; None if the reference cannot be moved."""
    safe: bool = True


@dataclass(slots=True, eq=False)
class _Group:
    """Moves that are made together or not at all; None among the edits: not at all."""

    moves: list[Move] = field(default_factory=list)
    edits: set[Edit | None] = field(default_factory=set)

    def fixes(self, title: str) -> Iterator[tuple[Move, Fix | None]]:
        """The fix of each move: the same for all, of which the first shows it if it is long."""
        fix = self._fix(title)
        for move in self.moves:
            yield move, fix
            if fix is not None and len(fix.edits) > MAX_SHARED:
                break

    def _fix(self, title: str) -> Fix | None:
        edits = [edit for edit in self.edits if edit is not None]
        if len(edits) < len(self.edits) or not edits:
            return None
        safe = all(move.safe for move in self.moves)
        ordered = tuple(sorted(edits, key=lambda edit: (edit.start, edit.end)))
        return Fix(title, ordered, Applicability.SAFE if safe else Applicability.UNSAFE)


class _Groups:
    """Groups by key: what has a key in common is one group."""

    def __init__(self) -> None:
        self._groups: dict[object, _Group] = {}
        self._keys: dict[int, list[object]] = {}

    def joined(self, keys: Sequence[object]) -> _Group:
        """The one group of all ``keys``, into which their groups so far are joined."""
        found = {id(g): g for key in keys if (g := self._groups.get(key)) is not None}
        largest, *others = sorted(found.values(), key=lambda g: -len(g.moves)) or [_Group()]
        known = self._keys.setdefault(id(largest), [])
        for other in others:  # into the largest, so that each move is moved few times
            largest.moves += other.moves
            largest.edits |= other.edits
            known += self._keys.pop(id(other))
        known += keys
        self._groups.update(dict.fromkeys(known if others else keys, largest))
        return largest

    def all(self) -> Iterable[_Group]:
        """Every group once."""
        return {id(group): group for group in self._groups.values()}.values()


class Moves:
    """Plans the fixes of all references that move, to modules of one package."""

    def __init__(self, model: Model, moves: Iterable[Move], renames: Mapping[str, str]) -> None:
        """``renames`` maps old qualified names, of modules too, to new ones."""
        self._tree, self._names = model.tree, model.names
        self._is_package = PurePath(model.source.name).name == "__init__.py"
        self._renames = renames
        self._readers = Readers(model.tree, model.names)
        self._froms: dict[int, Edits | None] = {}
        self._complete: dict[tuple[int, str], bool] = {}
        possible = [move for move in moves if move.edits is not None]
        self._by_node = {id(move.reference.node): move for move in possible}
        self._moves = [
            m for m in possible if m.reference.role != "alias" or self._alias_moves(m.reference)
        ]
        self._by_node = {id(move.reference.node): move for move in self._moves}
        self._complete.clear()

    def fixes(self, title: str) -> dict[int, Fix | None]:
        """``id`` of the node of a reference -> its fix, where it has one."""
        groups = _Groups()
        for move in self._moves:
            keys, spelling = self._place(move)
            group = groups.joined([*keys, *self._type_key(move), id(move)])
            group.moves.append(move)
            group.edits.update((None,) if spelling is None else (*spelling, *(move.edits or ())))
        return {
            id(move.reference.node): fix
            for group in groups.all()
            for move, fix in group.fixes(title)
        }

    def _type_key(self, move: Move) -> Iterator[object]:
        """An ``isinstance`` moves together with what makes the objects that it looks at."""
        if move.reference.name in self._types:
            yield move.reference.name

    @functools.cached_property
    def _types(self) -> set[str]:
        return {move.reference.name for move in self._moves if move.reference.role == "type"}

    def _place(self, move: Move) -> tuple[list[object], Edits | None]:
        """The groups that a move belongs to, and the edits of its name and import."""
        reference = move.reference
        binding = self._binding(reference)
        if reference.role == "alias":
            assign = self._tree.parent(reference.node)
            return [id(assign), *self._module_import(reference)], self._respelled(reference)
        if binding is not None and id(binding.value) in self._by_node:
            return [id(binding.node)], ()
        if binding is not None and self._moves_along(binding):
            statement = self._tree.parent(binding.node)
            return [id(statement)], self._import_edits(binding)
        return [*self._module_import(reference)], self._respelled(reference)

    # --- spelling out -------------------------------------------------------------------------

    def _respelled(self, reference: Reference) -> Edits | None:
        """Name the new member in full, through the imported package."""
        package, _, rest = self._renames[reference.name].partition(".")
        start, end = self._tree.span(reference.node)
        root = reference.root
        if root is None or "\n" in self._tree.text[start:end]:
            return None
        bindings = self._names.bindings(root)
        if any(b.qualified is None or self._may_fail(b) for b in bindings):
            return None  # it may be something of this file's own, or nothing
        if self._names.is_only(root, {package}):
            return *self._module_import(reference), Edit(start + len(root.value), end, f".{rest}")
        spelling = self._names.spelling(reference.node, package)
        return (Edit(start, end, f"{spelling}.{rest}"),) if spelling else None

    def _module_import(self, reference: Reference) -> Edits:
        """``import torch.cuda.amp`` follows when nothing of the old module is left."""
        old = reference.name.rpartition(".")[0]
        new = self._renames.get(old)
        if new is None or reference.root is None or old in self._modules_left:
            return ()
        imports = [b.node for b in self._names.bindings(reference.root)]
        return tuple(
            Edit(*self._tree.span(alias.name), new)
            for alias in imports
            if isinstance(alias, cst.ImportAlias) and dotted(alias.name) == old
        )

    @functools.cached_property
    def _modules_left(self) -> set[str]:
        """The old modules that are named in full somewhere beside the moves."""
        return {
            name
            for node in self._tree.nodes(cst.Attribute)
            if node.attr.value in {module.rpartition(".")[2] for module in self._renames}
            for name in self._names.qualified(node)
            if is_read(self._tree, node) and id(self._tree.parent(node)) not in self._by_node
        }

    # --- moving along with what binds the name ------------------------------------------------

    def _binding(self, reference: Reference) -> Binding | None:
        """The one binding of a reference's first name."""
        bindings = self._names.bindings(reference.root) if reference.root is not None else []
        return bindings[0] if len(bindings) == 1 else None

    def _all_move(self, binding: Binding, new: str) -> bool:
        """Whether every use of a name moves, to what ``new`` in place of its binding gives."""
        key = id(binding), new
        if key not in self._complete:
            self._complete[key] = self._is_complete(binding, new)
        return self._complete[key]

    def _is_complete(self, binding: Binding, new: str) -> bool:
        if self._names.is_exported(binding) or self._may_fail(binding):
            return False
        for use in self._readers.of(binding):
            move = self._by_node.get(id(use)) or self._by_node.get(id(self._tree.parent(use)))
            if move is None or move.reference.role == "alias":
                return False
            text = dotted(move.reference.node) or ""
            if self._renames[move.reference.name] != new + text.removeprefix(use.value):
                return False
            if self._binding(move.reference) is not binding:
                return False
        return True

    def _may_fail(self, binding: Binding) -> bool:
        """Whether the import stands in a ``try`` that lives with its failure.

        With the new place, an older torch would fall silently into the handler.
        """
        holder = self._tree.ancestor(binding.node, cst.Try)
        return (
            binding.kind == "import"
            and holder is not None
            and bool(holder.handlers)
            and self._tree.contains(holder.body, binding.node)
        )

    def _alias_moves(self, reference: Reference) -> bool:
        """Whether ``x = torch.cuda.amp.autocast`` and every ``x`` move."""
        assign = self._tree.parent(reference.node)
        if not isinstance(assign, cst.Assign) or not isinstance(reference.node, cst.Attribute):
            return False
        target = assign.targets[0].target
        bindings = self._names.visible(assign, target.value) if isinstance(target, cst.Name) else []
        if (
            len(bindings) != 1
            or bindings[0].node is not assign
            or not self._readers.of(bindings[0])
        ):
            return False
        return self._all_move(bindings[0], self._renames[reference.name])

    def _moves_along(self, binding: Binding) -> bool:
        """Whether an import can name the new place, since all uses of what it binds move."""
        new = self._renames.get(canonical(binding.qualified or ""))
        if new is None or not self._all_move(binding, new):
            return False
        return self._import_edits(binding) is not None

    def _import_edits(self, binding: Binding) -> Edits | None:
        alias = binding.node
        assert isinstance(alias, cst.ImportAlias)
        statement = self._tree.parent(alias)
        if isinstance(statement, cst.ImportFrom):
            if id(statement) not in self._froms:
                self._froms[id(statement)] = self._from_edits(statement)
            return self._froms[id(statement)]
        new = self._renames[canonical(binding.qualified or "")]
        return (Edit(*self._tree.span(alias.name), new),)

    def _from_edits(self, statement: cst.ImportFrom) -> Edits | None:
        """The import of all names that move from the new module, of the others from the old."""
        assert not isinstance(statement.names, cst.ImportStar)
        aliases = list(statement.names)
        moving = {id(a): module for a in aliases if (module := self._new_module(a)) is not None}
        staying = [alias for alias in aliases if id(alias) not in moving]
        assert statement.module is not None
        module_span = self._tree.span(statement.module)
        if not staying and len(set(moving.values())) == 1:
            return (Edit(*module_span, next(iter(moving.values()))),)
        return self._split(statement, aliases, moving)

    def _new_module(self, alias: cst.ImportAlias) -> str | None:
        """Where a name is to be imported from; None if its import stays as it is."""
        binding = self._imports[id(alias)]
        new = self._renames.get(canonical(binding.qualified or ""))
        if new is None or not self._all_move(binding, new):
            return None
        if not self._readers.of(binding) and (self._is_package or alias.asname is not None):
            return None  # imported for others
        return new.rpartition(".")[0]

    @functools.cached_property
    def _imports(self) -> dict[int, Binding]:
        return {id(b.node): b for b in self._names.every_binding() if b.qualified is not None}

    def _split(
        self, statement: cst.ImportFrom, aliases: list[cst.ImportAlias], moving: dict[int, str]
    ) -> Edits | None:
        """New imports above, and the old one without the names that moved."""
        line = self._tree.parent(statement)
        if not isinstance(line, cst.SimpleStatementLine):
            return None
        spans = [self._tree.span(alias) for alias in aliases]
        bounds = [start for start, _ in spans[1:]] + [spans[-1][1]]
        text = self._tree.text
        start, end = spans[0][0], spans[-1][1]
        kept = [i for i, alias in enumerate(aliases) if id(alias) not in moving]
        if not kept or len(set(moving.values())) != 1 or "#" in text[start:end]:
            return None  # whose the comment is cannot be known
        chunks = [text[spans[i][0] : bounds[i]] for i in kept[:-1]]
        chunks.append(text[slice(*spans[kept[-1]])])
        moved = ", ".join(self._tree.source(a) for a in aliases if id(a) in moving)
        added = f"from {next(iter(moving.values()))} import {moved}"
        return insert_before(self._tree, line, added), Edit(start, end, "".join(chunks))
