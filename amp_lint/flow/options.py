"""Which words an option may be, where the file says so."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterator
from types import EllipsisType

import libcst as cst

from amp_lint.flow.branches import deciding
from amp_lint.flow.conditions import (
    Constant,
    Equals,
    Facts,
    Formula,
    atoms,
    either,
    formula,
    opposite,
    text,
)
from amp_lint.flow.values import Values, arguments, literal, lookup
from amp_lint.syntax.assignments import assignments
from amp_lint.syntax.tree import descendants
from amp_lint.vocabulary.operations import DTYPES

Words = frozenset[str]
_MAYBE = (cst.For, cst.While, cst.BaseComp, cst.Lambda, cst.Match, cst.Try, cst.TryStar)
"""What may not run its parts to the end."""
CHANGING = frozenset({"set_defaults", "setattr", "vars", "__dict__"})
"""In whose presence nobody knows what the attributes of arguments are."""
_PARSING = "parse_args"


class Options:
    """Options that raise for every other word: keys of a table, choices of an argument."""

    def __init__(self, values: Values) -> None:
        self.tree = values.tree
        self.values = values

    def words(self, test: cst.BaseExpression) -> Words:
        """The words that a test fails for, where there are no others; empty if it may hold.

        As ``dtype == "float16"`` does, where ``{"fp16": ..., "bf16": ...}[dtype]`` is read as well.
        """
        return next((words for _, words in self.failing(test)), frozenset())

    def failing(self, test: cst.BaseExpression) -> Iterator[tuple[cst.BaseExpression, Words]]:
        """The options that a test asks for and fails for, each with all words that it may be."""
        asked = formula(test, lambda _: None)
        keys = atoms(asked)
        compared = {text(node): node for node in _compared(test)}
        for key in sorted(keys & compared.keys()):
            words = self._of(compared[key], key)
            known = either(*(Equals(key, word) for word in sorted(words)))
            if words and not Facts().allows(asked, known):
                yield compared[key], words

    def never(self, test: cst.BaseExpression, *, holds: bool = True) -> bool:
        """Whether a test never holds (or fails), whichever constants its variables are given.

        As ``dtype is torch.float16`` after ``dtype = torch.bfloat16 if amp else None``. A variable
        with one constant alone is a setting, which people change where it stands; so may what is
        none of the function, and what has two names.
        """
        asked = formula(test, lambda _: None, self._dtype)
        known: list[Formula] = []
        sorts: set[str | None] = set()
        for side in _sides(test):
            values = self._given(side) or [side]
            sorts |= {*map(self._sort, values)}
            if len(values) > 1:
                meant = [v for v in map(self._dtype, values) if not isinstance(v, EllipsisType)]
                known.append(either(*(Equals(text(side), each) for each in meant)))
        if not known or len(sorts - {None}) != 1 or "" in sorts:
            return False
        return not Facts().allows(asked if holds else opposite(asked), *known)

    def _given(self, node: cst.BaseExpression) -> list[cst.BaseExpression]:
        """What a variable of a function is assigned, in that function alone; [] of others."""
        bindings = self.values.names.bindings(node) if isinstance(node, cst.Name) else []
        home = self.tree.ancestor(node, cst.FunctionDef)
        own = home is not None and all(
            self.tree.ancestor(each.node, cst.FunctionDef) is home for each in bindings
        )
        if not bindings or home is None or not own:
            return []
        shared: list[cst.Nonlocal | cst.Global] = [*self.tree.below(home, cst.Nonlocal)]
        shared += self.tree.below(home, cst.Global)
        names = {name.name.value for each in shared for name in each.names}
        return [] if text(node) in names else [*self.values.alternatives(node)]

    def _sort(self, node: cst.BaseExpression) -> str | None:
        """What a constant is, for only such of one sort can be told apart; None for None."""
        known = literal(node)
        if known is not ...:
            return None if known is None else type(known).__name__
        return "dtype" if self._dtype(node) is not ... else ""

    def _dtype(self, node: cst.BaseExpression) -> Constant | EllipsisType:
        """A literal, or the name of a dtype of torch, under its first name."""
        known = literal(node)
        if known is None or isinstance(known, (bool, int, float, str, bytes)):
            return known
        named = self.values.names.qualified(node)
        dtypes = {DTYPES.get(name) for name in named}
        return f"torch.{next(iter(dtypes))}" if len(dtypes) == 1 and None not in dtypes else ...

    def offered(self, name: str) -> Words:
        """The words that a command line offers for an option that nothing sets; or nothing."""
        offered = self._choices[name]
        is_set = any(target.rpartition(".")[2] == name for target in self._targets)
        return offered[0] if len(set(offered)) == 1 and not is_set else frozenset()

    def _of(self, node: cst.BaseExpression, key: str) -> Words:
        """All words that an option may be; empty where that is not known."""
        looked_up = (words for place, words in self._lookups[key] if self._is_with(place, node))
        found = next(looked_up, None)
        if found is None and isinstance(node, cst.Attribute) and self._is_parsed(node.value):
            offered = self._choices[node.attr.value]
            found = offered[0] if len(set(offered)) == 1 else None
        return found if found is not None and not self._is_set(node, key) else frozenset()

    def _is_with(self, place: cst.CSTNode, node: cst.CSTNode) -> bool:
        """Whether a place of the same function is reached whenever an expression is."""
        home = self.tree.ancestor(node, cst.FunctionDef)
        if home is None or self.tree.ancestor(place, cst.FunctionDef) is not home:
            return False
        around = {(id(test), holds) for test, holds in deciding(self.tree, node)}
        ways = {(id(test), holds) for test, holds in deciding(self.tree, place)}
        holders = (each for each in self.tree.ancestors(place) if isinstance(each, _MAYBE))
        inner = (each for each in holders if self.tree.contains(home, each))
        tried = (cst.Try, cst.TryStar)
        always = all(self.tree.contains(e, node) and not isinstance(e, tried) for e in inner)
        return ways <= around and always

    def _is_parsed(self, node: cst.BaseExpression) -> bool:
        """Whether an object is what a parser of arguments gives, and nothing else."""
        made = [*self.values.alternatives(node)]
        calls = [each.func for each in made if isinstance(each, cst.Call)]
        names = [func.attr.value for func in calls if isinstance(func, cst.Attribute)]
        return len(names) == len(made) and set(names) == {_PARSING}

    def _is_set(self, node: cst.BaseExpression, key: str) -> bool:
        """Whether an option may have been another word at first, or be one afterwards."""
        if isinstance(node, cst.Name):
            return len(self.values.names.bindings(node)) != 1
        return key in self._targets

    @functools.cached_property
    def _targets(self) -> set[str]:
        """What is assigned to anywhere, as it is written."""
        targets = (target for target, _ in assignments(self.tree))
        return {text(target) for target in targets if isinstance(target, cst.Attribute)}

    @functools.cached_property
    def _lookups(self) -> dict[str, list[tuple[cst.CSTNode, Words]]]:
        """How a key is written -> where it is looked up in a table of words, and those words."""
        found: dict[str, list[tuple[cst.CSTNode, Words]]] = defaultdict(list)
        for node in self.tree.nodes(cst.Subscript):
            table, key, _ = lookup(node) or (node, None, [])
            if isinstance(key, (cst.Name, cst.Attribute)) and (words := self._keys(table)):
                found[text(key)].append((node, words))
        return found

    def _keys(self, table: cst.BaseExpression) -> Words:
        """The keys of a dict that is written out and stays as it is, if all are words."""
        if not isinstance(table, (cst.Name, cst.Dict)) or self.values.is_changed(table):
            return frozenset()  # nobody knows who changes what an attribute holds
        held = [*self.values.alternatives(table)]
        if len(held) != 1 or not isinstance(held[0], cst.Dict):
            return frozenset()
        pairs = self.values.items(held[0]) or ()
        is_all = len(pairs) == len(held[0].elements)
        return frozenset(key for key, _ in pairs) if is_all else frozenset()

    @functools.cached_property
    def _choices(self) -> dict[str, list[Words]]:
        """The attribute that an argument is read from -> the words that it takes."""
        found: dict[str, list[Words]] = defaultdict(list)
        if any(map(self.tree.named, CHANGING)):
            return found  # what is set so is not checked
        for call in self.tree.nodes(cst.Call):
            if isinstance(call.func, cst.Attribute) and call.func.attr.value == "add_argument":
                given = arguments(call)
                words = frozenset(_offered(given.keywords.get("choices"), given.keywords))
                found[read_from(call)].append(words)
        return found


def read_from(call: cst.Call) -> str:
    """The attribute of the parsed arguments that ``add_argument`` adds; "" if that is not known."""
    given = arguments(call)
    told = literal(given.keywords.get("dest"))
    flags = [flag for flag in map(literal, given.positional) if isinstance(flag, str)]
    long = [flag for flag in flags if flag.startswith("--")] or flags or [""]
    return told if isinstance(told, str) else long[0].lstrip("-").replace("-", "_")


def _compared(test: cst.BaseExpression) -> Iterator[cst.Name | cst.Attribute]:
    """What is itself compared in a test, and not only as a part of something else."""
    for node in descendants(test):
        match node:
            case cst.Comparison(left=left, comparisons=targets):
                sides = (left, *(target.comparator for target in targets))
                yield from (s for s in sides if isinstance(s, (cst.Name, cst.Attribute)))


def _sides(test: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """All that a test compares, the members of a tuple one by one."""
    for node in (test, *descendants(test)):
        if isinstance(node, cst.Comparison):
            for side in (node.left, *(target.comparator for target in node.comparisons)):
                if isinstance(side, (cst.Tuple, cst.List, cst.Set)):
                    yield from (element.value for element in side.elements)
                else:
                    yield side


def _offered(
    choices: cst.BaseExpression | None, keywords: dict[str, cst.BaseExpression]
) -> Iterator[str]:
    """The words that are offered, and the default; nothing if another value may be had."""
    if not isinstance(choices, (cst.List, cst.Tuple, cst.Set)) or "nargs" in keywords:
        return
    offered = [literal(each.value) for each in choices.elements]
    default = keywords.get("default")
    offered += [literal(default)] if default is not None else []
    if all(isinstance(each, str) for each in offered):
        yield from map(str, offered)
