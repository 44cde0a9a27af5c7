"""Scopes, bindings, and the qualified name that an expression stands for."""

from __future__ import annotations

import bisect
import builtins
import functools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import libcst as cst

from amp_lint.syntax.assignments import assigned
from amp_lint.syntax.memo import per_node
from amp_lint.syntax.tree import Tree, children, descendants, kinds

ScopeNode = (
    cst.Module
    | cst.FunctionDef
    | cst.ClassDef
    | cst.Lambda
    | cst.ListComp
    | cst.SetComp
    | cst.DictComp
    | cst.GeneratorExp
)
COMPREHENSIONS = (cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp)
_INNER_SCOPES = (cst.FunctionDef, cst.ClassDef, cst.Lambda, *COMPREHENSIONS)
_NOQA = re.compile(r"#[ \t]?noqa\b(:?)", re.IGNORECASE)
PARTIAL = frozenset({"functools.partial"})
"""What binds some arguments of a function beforehand."""
_BESIDE = re.compile(r"\.\.\w+")
"""How a module of the same folder is spelled in links."""
_MAX_STEPS = 20  # longest chain of aliases that is followed
_MAX_PARTS = 20  # of a qualified name
_MAX_BINDINGS = 200  # of one name; nothing is known of one that has more
_Known = dict[int, frozenset[str]]
Links = Mapping[tuple[int, str], int]
"""(Text, module as its imports spell it) -> text, for what is attached to a tree."""

# Modules whose members are re-exported by the name on the right, which the rules use.
_REEXPORTS = {
    "torch.amp.autocast_mode": "torch.amp",
    "torch.amp.grad_scaler": "torch.amp",
    "torch.cpu.amp.autocast_mode": "torch.cpu.amp",
    "torch.cpu.amp.grad_scaler": "torch.cpu.amp",
    "torch.cuda.amp.autocast_mode": "torch.cuda.amp",
    "torch.cuda.amp.grad_scaler": "torch.cuda.amp",
    "torch.nn.modules.activation": "torch.nn",
    "torch.nn.modules.loss": "torch.nn",
    "torch.nn.modules.normalization": "torch.nn",
    "torch.nn.modules": "torch.nn",
    "torch.nn.utils.clip_grad": "torch.nn.utils",
}


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    """One place that gives a name a meaning.

    ``value`` is the expression assigned, where the binding has one of its own; ``qualified`` is
    set for imports.
    """

    name: str
    kind: str
    """import, assign, unpack, augment, for, with, parameter, function, class, except, match, del"""
    node: cst.CSTNode
    value: cst.BaseExpression | None = None
    qualified: str | None = None


@dataclass(slots=True, eq=False)
class Scope:
    """A module, class, function, lambda or comprehension, and the names it binds."""

    node: ScopeNode
    parent: Scope | None
    bindings: dict[str, list[Binding]] = field(default_factory=lambda: defaultdict(list))
    star_imports: list[str] = field(default_factory=list)
    foreign: set[str] = field(default_factory=set)
    """Names declared global or nonlocal here."""


class Names:
    """Resolves names through imports, aliases, shadowing, ``partial`` and conditional imports."""

    def __init__(
        self,
        tree: Tree,
        package: str = "",
        links: Links | None = None,
        exported: frozenset[str] = frozenset(),
    ) -> None:
        """The names of a tree; ``links`` say which imports lead to what is attached to it.

        ``exported`` are names that other files import; "*" if one imports all there are.
        """
        self.tree = tree
        self._exported = exported
        self._package = package
        self._links = links or {}
        self._scopes: dict[int, Scope] = {}
        self._scope_at: dict[int, Scope] = {}
        """Id of a node -> the scope in which it is evaluated."""
        self.module = self._open(tree.module, None)
        self._roots = [self.module, *(self._open(module, None) for module in tree.attached)]
        for root in self._roots:
            self._build(root.node, root)
        self._resolved: dict[int, frozenset[str]] = {}
        self._sources: dict[tuple[int, str], frozenset[str]] = {}
        self._spelled: dict[int, frozenset[str]] = {}

    # --- scopes -------------------------------------------------------------------------------

    def _open(self, node: ScopeNode, parent: Scope | None) -> Scope:
        scope = Scope(node, parent)
        self._scopes[id(node)] = scope
        return scope

    def _build(self, root: cst.CSTNode, scope: Scope) -> None:
        stack: list[tuple[cst.CSTNode, Scope]] = [(root, scope)]
        scope_at, binds, opens = self._scope_at, kinds(_BINDERS), kinds(_INNER_SCOPES)
        foreign = kinds((cst.Global, cst.Nonlocal))
        while stack:
            node, scope = stack.pop()
            scope_at[id(node)] = scope
            if binds[type(node)]:
                for binding in _bindings(node, self._package):
                    self._bind(binding, scope)
                if isinstance(node, cst.ImportFrom) and isinstance(node.names, cst.ImportStar):
                    scope.star_imports.append(_import_module(node, self._package))
            elif foreign[type(node)]:
                assert isinstance(node, (cst.Global, cst.Nonlocal))
                scope.foreign.update(item.name.value for item in node.names)
            if opens[type(node)]:
                stack += [*self._below(node, scope)][::-1]
            else:
                stack += [(child, scope) for child in reversed(children(node))]

    def _below(self, node: cst.CSTNode, scope: Scope) -> Iterator[tuple[cst.CSTNode, Scope]]:
        """The children of a node that opens a scope, with the one that each is evaluated in."""
        assert isinstance(node, _INNER_SCOPES)
        inner = self._open(node, scope)
        if isinstance(node, (cst.FunctionDef, cst.Lambda)):
            for param in _parameters(node.params):
                inner.bindings[param.name.value].append(
                    Binding(param.name.value, "parameter", param, None)
                )
        own_scope = isinstance(node, COMPREHENSIONS)
        for child in children(node):
            yield child, inner if own_scope or child is getattr(node, "body", None) else scope

    def _bind(self, binding: Binding, scope: Scope) -> None:
        if binding.name in scope.foreign:
            scope = _root(scope)
        while isinstance(scope.node, COMPREHENSIONS) and binding.kind == "walrus":
            assert scope.parent is not None
            scope = scope.parent
        scope.bindings[binding.name].append(binding)

    def scope(self, node: cst.CSTNode) -> Scope:
        """The scope in which ``node`` is evaluated."""
        return self._scope_at.get(id(node), self.module)

    def scope_of(self, node: ScopeNode) -> Scope:
        """The scope that a function, class or module opens."""
        return self._scopes[id(node)]

    def is_free(self, name: str, at: cst.CSTNode) -> bool:
        """Whether the function around a place, or the module, does not use a name at all."""
        holder = self.tree.ancestor(at, cst.FunctionDef) or self.tree.module
        return not any(self.tree.contains(holder, node) for node in self.tree.named(name))

    def is_early(self, name: str, at: cst.CSTNode) -> bool:
        """Whether only lines below a place bind a name in its scope, so that reading it raises.

        The body of a class runs where it stands, as a part of what it stands in.
        """
        scope = self.scope(at)
        while isinstance(scope.node, cst.ClassDef) and name not in scope.bindings and scope.parent:
            scope = scope.parent
        if name in scope.foreign or not isinstance(scope.node, (cst.FunctionDef, cst.Module)):
            return False
        bindings = scope.bindings.get(name, [])
        place = self.tree.order(at)
        return bool(bindings) and all(self.tree.order(b.node) > place for b in bindings)

    def bindings(self, name: cst.Name) -> list[Binding]:
        """Everything the name may be bound to at this place, whatever the order; [] if unknown."""
        return self.visible(name, name.value)

    def visible(self, node: cst.CSTNode, name: str) -> list[Binding]:
        """Everything ``name`` would be bound to where ``node`` stands; [] if nothing."""
        scope: Scope | None = self.scope(node)
        first = True
        while scope is not None:
            visible = first or not isinstance(scope.node, cst.ClassDef)
            if visible and name in scope.bindings and name not in scope.foreign:
                return scope.bindings[name]
            first, scope = False, scope.parent
        return []

    def every_binding(self, *, linked: bool = False) -> Iterator[Binding]:
        """The bindings of all scopes of the file; of what is ``linked`` with it too, if asked."""
        for scope in self._scopes.values():
            if linked or self.tree.is_own(scope.node):
                for bindings in scope.bindings.values():
                    yield from bindings

    def fellows(self, binding: Binding) -> list[Binding]:
        """What binds the same name in the same scope: a list that no other names have."""
        return self._fellows[id(binding)]

    @functools.cached_property
    def _fellows(self) -> dict[int, list[Binding]]:
        lists = (found for scope in self._scopes.values() for found in scope.bindings.values())
        return {id(binding): found for found in lists for binding in found}

    def spelling(self, node: cst.CSTNode, module: str) -> str | None:
        """A name that can only be the imported ``module`` where ``node`` stands."""
        names = self._imported_as.get(module, ())
        for name in sorted(names, key=lambda name: (name != module, name))[:_MAX_BINDINGS]:
            bindings = self.visible(node, name)[: _MAX_BINDINGS + 1]
            few = len(bindings) <= _MAX_BINDINGS
            if bindings and few and all(b.qualified == module for b in bindings):
                return name
        return None

    @functools.cached_property
    def _imported_as(self) -> dict[str, set[str]]:
        """Qualified name -> the names that are bound to it somewhere in the file."""
        found: dict[str, set[str]] = defaultdict(set)
        for binding in self.every_binding():
            if binding.qualified is not None:
                found[binding.qualified].add(binding.name)
        return found

    def spelling_of(self, node: cst.CSTNode, qualified: str) -> str | None:
        """How a qualified name is written where ``node`` stands, by what is imported there.

        With ``import torch.nn.functional as F``, ``torch.nn.functional.relu`` is ``F.relu``.
        """
        module, rest = qualified, ""
        while module:
            name = self.spelling(node, module)
            if name is not None:
                return name + rest
            module, _, last = module.rpartition(".")
            rest = f".{last}{rest}"
        return None

    def is_exported(self, binding: Binding) -> bool:
        """Whether other files may import what a binding gives a name to.

        They do, as far as is known; or it is in ``__all__``, or imported as itself (PEP 484), or
        with a comment for linters that say that it is not used. What a function binds is its own.
        """
        if self.fellows(binding) is not self._roots[0].bindings.get(binding.name):
            return False
        if not self._exported.isdisjoint({binding.name, "*"}) or binding.name in self._listed:
            return True
        alias = binding.node
        if not isinstance(alias, cst.ImportAlias):
            return False
        from_module = isinstance(self.tree.parent(alias), cst.ImportFrom)
        member = (binding.qualified or "").rpartition(".")[2]
        if from_module and alias.asname is not None and member == binding.name:
            return True
        start = self.tree.span(self.tree.statement(alias) or alias)[0]
        end = self.tree.text.find("\n", start)
        return _is_said_unused(self.tree.text[start : end if end >= 0 else None])

    @functools.cached_property
    def _listed(self) -> frozenset[str]:
        """The names that the module lists in ``__all__``."""
        return frozenset(
            str(text.evaluated_value)
            for binding in self.module.bindings.get("__all__", ())
            for text in descendants(binding.node)
            if isinstance(text, cst.SimpleString)
        )

    # --- qualified names ----------------------------------------------------------------------

    def qualified(self, node: cst.CSTNode) -> frozenset[str]:
        """Every qualified name that the expression may stand for; empty when none is known.

        ``autocast if amp else nullcontext`` stands for two; a parameter for none. What a linked
        file only passes on has the name that it has there.
        """
        if not self._links:
            return self.spelled(node)
        known = self._resolved.get(id(node))
        if known is None:
            names = self.spelled(node)
            part = self.part(node) if names else 0
            known = frozenset(n for name in names for n in self._passed_on(part, name))
            self._resolved[id(node)] = known
        return known

    def spelled(self, node: cst.CSTNode) -> frozenset[str]:
        """The qualified names of an expression, as its own file imports them."""
        known = self._spelled.get(id(node))
        if known is None:
            known = frozenset(map(canonical, self._qualified(node, _MAX_STEPS, {})))
            self._spelled[id(node)] = known
        return known

    def is_any(self, node: cst.CSTNode, names: Iterable[str]) -> bool:
        """Whether the expression may stand for one of ``names``."""
        return not self.qualified(node).isdisjoint(names)

    def is_only(self, node: cst.CSTNode, names: Iterable[str]) -> bool:
        """Whether the expression is known to stand for nothing but one of ``names``."""
        found = self.qualified(node)
        return bool(found) and found <= frozenset(names)

    def _qualified(self, node: cst.CSTNode, steps: int, known: _Known) -> Iterator[str]:
        if steps <= 0:
            return
        if isinstance(node, cst.Attribute):
            for base in self._qualified(node.value, steps - 1, known):
                yield f"{base}.{node.attr.value}"
        elif isinstance(node, cst.IfExp):
            yield from self._qualified(node.body, steps - 1, known)
            yield from self._qualified(node.orelse, steps - 1, known)
        elif isinstance(node, cst.Name):
            yield from self._qualified_name(node, steps, known)

    def _qualified_name(self, name: cst.Name, steps: int, known: _Known) -> Iterator[str]:
        bindings = self.bindings(name)
        if len(bindings) > _MAX_BINDINGS:
            return
        for binding in bindings:
            if binding.qualified is not None:
                yield binding.qualified
            elif binding.kind != "assign" or binding.value is None:
                continue
            elif not _mentions(binding.value, name.value):
                yield from self._assigned(binding.value, steps - 1, known)
        if not bindings and name.value == "torch":
            yield "torch"  # it came with some star import
        elif not bindings:
            for module in self._star_imports(name):
                yield f"{module}.{name.value}"
            if name.value in _BUILTINS:
                yield f"builtins.{name.value}"

    def _assigned(self, value: cst.BaseExpression, steps: int, known: _Known) -> frozenset[str]:
        """What a name stands for after one assignment; worked out once, however it is reached."""
        if id(value) not in known:
            known[id(value)] = frozenset()  # a name that is assigned to itself adds nothing
            known[id(value)] = frozenset(self._qualified(value, steps, known))
        return known[id(value)]

    def _star_imports(self, node: cst.CSTNode) -> list[str]:
        return self._roots[self.part(node)].star_imports

    @per_node
    def definition(self, node: cst.CSTNode) -> cst.FunctionDef | cst.ClassDef | None:
        """The function or class that a name stands for, if it can be only that.

        One of this file, or of a linked one that it is imported from.
        """
        return self._definition(node, _MAX_STEPS)

    def _definition(self, node: cst.CSTNode, steps: int) -> cst.FunctionDef | cst.ClassDef | None:
        if not isinstance(node, (cst.Name, cst.Attribute)) or steps <= 0:
            return None
        bindings = self.bindings(node) if isinstance(node, cst.Name) else []
        if self._links and (not bindings or bindings[0].qualified is not None):
            bindings = self.imported(node)
        if len(bindings) == 1 and isinstance(bindings[0].node, (cst.FunctionDef, cst.ClassDef)):
            return bindings[0].node
        if len(bindings) == 1 and isinstance(bindings[0].value, cst.Name):
            value = bindings[0].value
            return self._definition(value, steps - 1) if value.value != _last_part(node) else None
        return None

    # --- linked files -------------------------------------------------------------------------

    def part(self, node: cst.CSTNode) -> int:
        """Which text a node is from: 0 for the file itself, else one that is attached."""
        if not self._links or self.tree.is_own(node):
            return 0
        return bisect.bisect_right(self._starts, self.tree.order(node)) - 1

    @functools.cached_property
    def _starts(self) -> list[int]:
        """The ranks at which the texts begin."""
        return [self.tree.order(root.node) for root in self._roots]

    def is_near(self, node: cst.CSTNode) -> bool:
        """Whether a node is from the file itself, or from one that it imports itself."""
        part = self.part(node)
        return not part or any(at == 0 and to == part for (at, _), to in self._links.items())

    def is_passed_on(self, node: cst.CSTNode) -> bool:
        """Whether a node is from a file whose names a package has that this file imports."""
        part = self.part(node)
        importers = {at: module for (at, module), to in self._links.items() if to == part}
        own = {to for (at, _), to in self._links.items() if at == 0}
        return any(at in own and _BESIDE.fullmatch(module) for at, module in importers.items())

    @per_node
    def imported(self, node: cst.Name | cst.Attribute) -> list[Binding]:
        """What binds a name, or ``module.name``, in the linked file that it is imported from.

        [] if that is not certain, or not linked.
        """
        text = dotted(node) if self._links else None
        if text is None:
            return []
        first, _, rest = text.partition(".")
        bindings = self.visible(node, first)
        part = self.part(node)
        if not bindings:
            stars = (self._landing(part, f"{m}.{text}") for m in self._star_imports(node))
            found = [landing for landing in stars if landing]
            return found[0] if len(found) == 1 else []
        if len({binding.qualified for binding in bindings}) > 1 or not bindings[0].qualified:
            return []
        return self._landing(part, ".".join(filter(None, (bindings[0].qualified, rest))))

    def local(self, function: cst.FunctionDef | cst.Module) -> frozenset[str]:
        """The names of a function or module that no other file knows."""
        scope = self.scope_of(function)
        names = frozenset(scope.bindings) - scope.foreign
        if not self._links:
            return names
        return frozenset(n for n in names if scope.bindings[n][0].qualified is None)

    def key(self, name: cst.Name) -> str:
        """What to call a global variable, so that those of two files are two."""
        if not self._links:
            return name.value
        found = self.imported(name)
        part = self.part(found[0].node if found else name)
        return f"@{part}:{found[0].name if found else name.value}" if part else name.value

    def _landing(self, part: int, name: str, steps: int = _MAX_STEPS) -> list[Binding]:
        """What binds a qualified name of a text in the end; [] if several imports may."""
        found = self._linked(part, name)
        if found is None or steps <= 0:
            return []
        to, bindings, rest = found
        if all(binding.qualified is None for binding in bindings):
            return [] if rest else bindings
        if len({binding.qualified for binding in bindings}) > 1:
            return []
        return self._landing(to, f"{bindings[0].qualified}{rest}", steps - 1)

    def _linked(self, part: int, name: str) -> tuple[int, list[Binding], str] | None:
        """The linked text that a qualified name leads to, what binds it there, and what is left.

        ``utils.f.g`` leads to the bindings of ``f`` in the text that is imported as ``utils``,
        with ``.g`` left.
        """
        module, rest = name, ""
        while module:
            to = self._links.get((part, module))
            if to is not None and rest:
                return self._bound(to, rest, set())
            module, _, last = module.rpartition(".")
            rest = f"{last}.{rest}" if rest else last
        return None

    def _bound(self, to: int, name: str, seen: set[int]) -> tuple[int, list[Binding], str] | None:
        """What binds a name in a text, or in those that it imports everything from."""
        seen.add(to)
        first, dot, more = name.partition(".")
        bindings = self._roots[to].bindings.get(first)
        if bindings:
            return to, bindings, dot + more
        for star in self._roots[to].star_imports:
            source = self._links.get((to, star))
            if source is not None and source not in seen:
                found = self._bound(source, name, seen)
                if found is not None:
                    return found
        return None

    def _passed_on(self, part: int, name: str) -> frozenset[str]:
        """The names that a qualified name of a text has where it comes from."""
        key = part, name
        if key not in self._sources:
            self._sources[key] = frozenset({name})  # for one that leads back to itself
            self._sources[key] = frozenset(self._follow(part, name))
        return self._sources[key]

    def _follow(self, part: int, name: str) -> Iterator[str]:
        found = self._linked(part, name)
        if found is None or name.count(".") > _MAX_PARTS:
            yield name
            return
        to, bindings, rest = found
        for binding in bindings:
            names = frozenset({binding.qualified} if binding.qualified else ())
            if binding.kind == "assign" and binding.value is not None:
                names = self.spelled(binding.value)
            for each in names:
                yield from map(canonical, self._passed_on(to, f"{each}{rest}"))
        if not any(binding.qualified or binding.kind == "assign" for binding in bindings):
            yield name


_BUILTINS = frozenset(dir(builtins))


def _is_said_unused(line: str) -> bool:
    """Whether a comment keeps linters from removing an import that nothing here uses."""
    comment = _NOQA.search(line)
    return comment is not None and (not comment[1] or "F401" in line[comment.end() :].upper())


def _root(scope: Scope) -> Scope:
    while scope.parent is not None:
        scope = scope.parent
    return scope


def _last_part(node: cst.Name | cst.Attribute) -> str:
    return node.value if isinstance(node, cst.Name) else node.attr.value


def canonical(name: str) -> str:
    """The public spelling of a qualified name: ``torch.nn.utils.clip_grad.f`` loses a module."""
    module, _, member = name.rpartition(".")
    return f"{_REEXPORTS[module]}.{member}" if module in _REEXPORTS else name


def dotted(node: cst.CSTNode) -> str | None:
    """``a.b.c`` as text; None if the expression is anything but names and attributes."""
    parts: list[str] = []
    while type(node) is cst.Attribute:  # which is asked much faster than isinstance
        parts.append(node.attr.value)
        node = node.value
    if type(node) is not cst.Name:
        return None
    return ".".join([node.value, *reversed(parts)]) if parts else node.value


def callee(node: cst.BaseExpression) -> cst.BaseExpression:
    """``f`` of ``f(x)``, and of ``f``: what a decorator or a context is, be it called or not."""
    return node.func if isinstance(node, cst.Call) else node


def _mentions(node: cst.CSTNode, name: str) -> bool:
    text = dotted(node)
    return text is not None and text.split(".")[0] == name


def _import_module(node: cst.ImportFrom, package: str) -> str:
    module = dotted(node.module) if node.module else None
    if not node.relative:
        return module or ""
    return ".".join(["." * len(node.relative) + package, *([module] if module else [])])


def _parameters(params: cst.Parameters) -> Iterator[cst.Param]:
    yield from params.posonly_params
    yield from params.params
    if isinstance(params.star_arg, cst.Param):
        yield params.star_arg
    yield from params.kwonly_params
    if params.star_kwarg is not None:
        yield params.star_kwarg


@functools.singledispatch
def _bindings(node: cst.CSTNode, package: str) -> Iterable[Binding]:
    return ()


@_bindings.register
def _(node: cst.Import, package: str) -> Iterator[Binding]:
    for alias in node.names:
        name = dotted(alias.name) or ""
        if alias.asname is not None and isinstance(alias.asname.name, cst.Name):
            yield Binding(alias.asname.name.value, "import", alias, qualified=name)
        else:
            first = name.split(".")[0]
            yield Binding(first, "import", alias, qualified=first)


@_bindings.register
def _(node: cst.ImportFrom, package: str) -> Iterator[Binding]:
    if isinstance(node.names, cst.ImportStar):
        return
    module = _import_module(node, package)
    for alias in node.names:
        assert isinstance(alias.name, cst.Name)
        bound = alias.asname.name if alias.asname is not None else alias.name
        if isinstance(bound, cst.Name):
            qualified = f"{module}.{alias.name.value}"
            yield Binding(bound.value, "import", alias, qualified=qualified)


@_bindings.register(cst.Assign)
@_bindings.register(cst.AnnAssign)
@_bindings.register(cst.NamedExpr)
def _(node: cst.CSTNode, package: str) -> Iterator[Binding]:
    for target, value in assigned(node):
        if isinstance(target, cst.Name):
            yield Binding(target.value, "unpack" if value is None else "assign", node, value)


@_bindings.register
def _(node: cst.AugAssign, package: str) -> Iterator[Binding]:
    if isinstance(node.target, cst.Name):
        yield Binding(node.target.value, "augment", node)


@_bindings.register
def _(node: cst.For, package: str) -> Iterator[Binding]:
    yield from (Binding(name, "for", node) for name in _target_names(node.target))


@_bindings.register
def _(node: cst.CompFor, package: str) -> Iterator[Binding]:
    yield from (Binding(name, "for", node) for name in _target_names(node.target))


@_bindings.register
def _(node: cst.WithItem, package: str) -> Iterator[Binding]:
    if node.asname is not None:
        for name in _target_names(node.asname.name):
            yield Binding(name, "with", node, node.item)


@_bindings.register
def _(node: cst.ExceptHandler, package: str) -> Iterator[Binding]:
    if node.name is not None and isinstance(node.name.name, cst.Name):
        yield Binding(node.name.name.value, "except", node)


@_bindings.register
def _(node: cst.FunctionDef, package: str) -> Iterator[Binding]:
    yield Binding(node.name.value, "function", node)


@_bindings.register
def _(node: cst.ClassDef, package: str) -> Iterator[Binding]:
    yield Binding(node.name.value, "class", node)


@_bindings.register
def _(node: cst.MatchAs, package: str) -> Iterator[Binding]:
    if node.name is not None:
        yield Binding(node.name.value, "match", node)


@_bindings.register
def _(node: cst.Del, package: str) -> Iterator[Binding]:
    yield from (Binding(name, "del", node) for name in _target_names(node.target))


_BINDERS = tuple(kind for kind in _bindings.registry if kind is not object)
"""The types of nodes that may bind names."""


def _target_names(target: cst.CSTNode) -> Iterator[str]:
    if isinstance(target, cst.Name):
        yield target.value
    elif isinstance(target, (cst.Tuple, cst.List)):
        for item in target.elements:
            yield from _target_names(item.value)
