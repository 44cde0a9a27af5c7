"""Takes AMP out of a text, by a list of local rewrites, and leaves a plain tree.

Each rewrite is sound by itself: what it takes away is a matter of the experiments, or of nothing.
Where its condition does not hold, the code stays as it is written, and has to be the same in both
texts.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from amp_lint.amp.events import Kind, stepped
from amp_lint.flow.branches import leaves
from amp_lint.flow.values import arguments, literal
from amp_lint.syntax.names import PARTIAL, callee, canonical
from amp_lint.syntax.tree import descendants, is_a
from amp_lint.verify.compare.dynamic.annotations import is_type
from amp_lint.verify.compare.dynamic.handed_on import is_kept
from amp_lint.verify.compare.effect_free import is_opaque
from amp_lint.verify.compare.formats import format_of
from amp_lint.verify.compare.imports import is_tried
from amp_lint.verify.compare.lift import is_amp
from amp_lint.verify.compare.plain import (
    BLOCK,
    Plain,
    literal_text,
    pieces,
    plain,
    word,
)
from amp_lint.verify.compare.settings import Settings, Switches
from amp_lint.verify.compare.side import Side
from amp_lint.verify.compare.units import name_of
from amp_lint.verify.terms import Term, walk
from amp_lint.vocabulary.amp import DEPRECATED_STATE, IS_ENABLED, SHARDED
from amp_lint.vocabulary.meaning import Role
from amp_lint.vocabulary.table import words
from amp_lint.vocabulary.training import SET_TO_NONE

_READ_DOCSTRINGS = (
    "__doc__", "Cmd", "Fire", "StructuredTool", "TestCase", "absl", "absltest", "click",
    "cyclopts", "defopt", "docopt", "doctest", "findsource", "fire", "get_docstring", "getdoc",
    "getsource", "getsourcelines", "help", "jsonargparse", "plac", "pydoc", "streamlit", "typer",
    "tyro", "unittest", "xdoctest",
)  # fmt: skip
"""What reads docstrings."""
_READ_ANNOTATIONS = (
    "Fire", "__annotations__", "beartype", "cyclopts", "defopt", "fire", "get_annotations",
    "get_type_hints", "getfullargspec", "infer_schema", "inspect", "jit", "jsonargparse", "plac",
    "pydantic", "script", "signature", "singledispatch", "typeguard", "typer", "tyro",
    *words(Role.LIGHTNING),
)  # fmt: skip
"""What reads annotations."""
_SWALLOWING = frozenset({"contextlib.suppress"})
_EXITS = (cst.Break, cst.Continue, cst.Raise, cst.Return)
_CONTEXTS = (cst.Name, cst.Attribute, cst.Call, cst.Subscript)
_SUITES = (cst.BaseSuite, cst.Else, cst.If)
_LOOPS = (cst.For, cst.While, cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp)


@dataclass(frozen=True, slots=True)
class Erasure:
    """One rewrite of an expression or a statement."""

    name: str
    erased: Callable[[Eraser, cst.CSTNode], Sequence[cst.CSTNode] | None]
    """What is left of a node, [] for nothing; None where the rewrite does not apply."""


class Eraser:
    """Makes the plain tree of one text."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self.model = side.model
        self.modes: dict[tuple[str, str], bool] = {}
        """Function and test of AMP -> whether it has to hold for what was erased behind it."""
        self._positional: dict[int, cst.Arg] = {}
        """By id, the arguments whose keyword says no more than their position."""
        self._known: dict[int, tuple[cst.CSTNode, Plain]] = {}
        """By id, the nodes that were looked at, and what was left of them."""

    @functools.cached_property
    def tree(self) -> Plain:
        """The whole file."""
        module = self.model.tree.module
        return plain("Module", "", [self._block(module.body, module)], module)

    def header(self, name: str) -> Sequence[object]:
        """What names in a function or class stand for, as far as its first lines say that."""
        unit = self.side.units[name]
        if isinstance(unit, cst.Module):
            return ()
        given: Iterable[cst.CSTNode] = (
            (*unit.bases, *unit.keywords) if isinstance(unit, cst.ClassDef) else ()
        )
        named = (
            []
            if isinstance(unit, cst.ClassDef)
            else [
                param.name.value
                for param in descendants(unit.params)
                if isinstance(param, cst.Param)
            ]
        )
        kept = (*self._kept(unit, unit.decorators), *given)
        return [*named, *(self.plain(each).digest for each in kept)]

    # --- the tree -----------------------------------------------------------------------------

    def plain(self, node: cst.CSTNode) -> Plain:
        """What is left of an expression, or of another part of a statement."""
        if id(node) not in self._known:
            self._known[id(node)] = node, self._plain(node)
        return self._known[id(node)][1]

    def _plain(self, node: cst.CSTNode) -> Plain:
        for erasure in EXPRESSIONS:
            left = erasure.erased(self, node)
            if left:
                return self.plain(left[0])
        known = self._amp_object(node) or self._global(node)
        if known is not None:
            return plain("known", known, (), node)
        text = literal_text(node)
        if text is not None:
            return plain("literal", text, (), node)
        form = format_of(node)
        if form is not None:
            return plain("format", form.words, map(self.plain, form.values), node)
        optimizer = self._stepped(node)
        if optimizer is not None:
            return self._direct_step(node, optimizer)
        positional = self._positional.get(id(node))
        if positional is not None:
            return plain("Arg", "value:1 star=''", [self.plain(positional.value)], node)
        return self._generic(node)

    def _generic(self, node: cst.CSTNode) -> Plain:
        shape: list[str] = []
        parts: list[Plain] = []
        for field, value in self._pieces(node):
            if is_a(value, _SUITES):
                inner = self._suite(value)
                if inner.parts or field == "body":
                    shape.append(f"{field}:1")
                    parts.append(inner)
            elif is_a(value, cst.CSTNode):
                known = word(field, value)
                shape.append(f"{field}:1" if known is None else f"{field}={known!r}")
                parts += [self.plain(value)] if known is None else []
            elif isinstance(value, (list, tuple)):
                items = [self.plain(item) for item in self._kept(node, value)]
                shape.append(f"{field}:{len(items)}")
                parts += items
            elif value is not None:
                shape.append(f"{field}={value!r}")
        return plain(type(node).__name__, " ".join(shape), parts, node)

    def _pieces(self, node: cst.CSTNode) -> Iterator[tuple[str, object]]:
        """What a node is made of, without annotations that do nothing; arguments in their place."""
        for field, value in pieces(node):
            if is_a(value, cst.Annotation) and self._is_inert(node, value):
                continue
            if is_a(node, cst.Call) and field == "args":
                yield field, self._in_place(node)
            else:
                yield field, value

    def _in_place(self, call: cst.Call) -> list[cst.Arg]:
        """Arguments, with keywords by position where it is known which that is."""
        placed = self.side.lifter.placed(call)
        by_name = {arg.keyword.value: arg for arg in call.args if arg.keyword is not None}
        first = [arg for arg in call.args if arg.keyword is None]
        rest = [arg for name, arg in by_name.items() if name not in placed]
        self._positional |= {id(by_name[name]): by_name[name] for name in placed}
        if not placed:
            return [*call.args]
        return [*first, *(by_name[name] for name in placed), *rest]

    def _is_inert(self, node: cst.CSTNode, annotation: cst.Annotation) -> bool:
        """Whether an annotation of a function is computed without doing anything, and not read."""
        function = node if isinstance(node, cst.FunctionDef) else self.side.holder(node)
        if not isinstance(function, cst.FunctionDef) or self._is_seen(function):
            return False
        return not self._reads_annotations and is_type(self.model, annotation.annotation)

    def _is_seen(self, holder: cst.FunctionDef | cst.ClassDef) -> bool:
        """Whether something is given a function or class, and may ask what it says of itself."""
        handed_on = self.side.handed_on
        around = self.model.tree.ancestor(holder, cst.FunctionDef, cst.ClassDef)
        is_member = isinstance(around, cst.ClassDef) and holder.name.value in handed_on
        return is_member or id(holder) in handed_on or is_kept(self.model, holder)

    @functools.cached_property
    def _reads_annotations(self) -> bool:
        return self.side.mentions(*_READ_ANNOTATIONS)

    @functools.cached_property
    def _reads_docstrings(self) -> bool:
        return self.side.mentions(*_READ_DOCSTRINGS)

    def is_docstring(self, node: cst.CSTNode) -> bool:
        """Whether a statement is a text alone, and a docstring only where nothing can see it."""
        if not isinstance(node, cst.Expr) or self._reads_docstrings:
            return False
        if literal_text(node.value) is None:
            return False
        holder = self.side.holder(node)
        return isinstance(holder, cst.Module) or not self._is_seen(holder)

    def _kept(self, holder: cst.CSTNode, items: Iterable[cst.CSTNode]) -> Iterator[cst.CSTNode]:
        """Those of a list that are not AMP's: decorators, items of a ``with`` or of a dict."""
        for item in items:
            if is_a(item, cst.Decorator) and self.is_region(item.decorator):
                continue
            if is_a(item, cst.WithItem) and self.is_region(item.item):
                continue
            if is_a(item, cst.DictElement) and self.side.lifter.is_scaler_state(item.value):
                continue
            if is_a(holder, cst.Call) and (
                self._is_half_argument(item) or self._is_default(holder, item)
            ):
                continue
            yield item

    def _suite(self, value: cst.CSTNode) -> Plain:
        if isinstance(value, cst.Else):
            return self._suite(value.body)
        if isinstance(value, cst.If):  # elif
            return plain(BLOCK, "", self._statement(value), value)
        assert isinstance(value, cst.BaseSuite)
        return self._block(value.body, value)

    def _block(self, body: Sequence[cst.CSTNode], holder: cst.CSTNode) -> Plain:
        inner: list[Plain] = []
        for index, statement in enumerate(body):
            if self._torch_loaded is not None and self._torch_loaded[0] is statement:
                inner.append(self._torch_loaded[1])
            if any(_is_exit(before) for before in body[:index]):
                inner.append(self._generic(statement))  # it never runs: nothing of it is AMP's
            else:
                inner += self._statement(statement)
        kept = [each for each in inner if each.kind != "Pass"]
        return plain(BLOCK, "", kept, holder)

    # --- statements ---------------------------------------------------------------------------

    def _statement(self, node: cst.CSTNode) -> Iterator[Plain]:
        """What is left of a statement, each of a line by itself."""
        if isinstance(node, (cst.SimpleStatementLine, cst.SimpleStatementSuite)):
            for small in node.body:
                yield from self._statement(small)
            return
        for erasure in STATEMENTS:
            left = erasure.erased(self, node)
            if left is not None:
                for each in left:
                    yield from self._statement(each)
                return
        if isinstance(node, (cst.Import, cst.ImportFrom)):
            yield from self._imports(node)
            return
        made = self._generic(node)
        if isinstance(node, cst.If) and self._is_same_both_ways(node, made):
            self._note_mode(node)
            yield from made.parts[-1].parts
        elif isinstance(node, (cst.If, cst.Try)) and self._is_hollow(node, made):
            self._note_mode(node)
        else:
            yield made

    def _note_mode(self, node: cst.CSTNode) -> None:
        if isinstance(node, cst.If):
            test, holds = _normal(node.test)
            uses = self.model.steps.relevance.uses_scaler(node.body)
            key = name_of(self.model, node), self.model.tree.source(test)
            self.modes[key] = holds is uses

    def _is_same_both_ways(self, node: cst.If, made: Plain) -> bool:
        """Whether a test about AMP chooses between arms that are one without it."""
        arms = [part for part in made.parts if part.kind == BLOCK]
        same = len(arms) == 2 and arms[0].digest == arms[1].digest
        return same and self.is_about_amp(node.test, node)

    def _imports(self, node: cst.Import | cst.ImportFrom) -> Iterator[Plain]:
        """Each imported name by itself, but for those of AMP."""
        if isinstance(node.names, cst.ImportStar):
            yield self._generic(node)
            return
        for alias in node.names:
            whole, bound = self.imported(node, alias)
            if not _is_of_amp(whole):
                form = "" if is_tried(self.side, alias, whole) else f"{type(node).__name__} "
                yield plain("Import", f"{form}{whole} as {bound}", (), alias)
            elif not self._is_of_module(node) or self._is_read_before(alias, bound):
                name = whole.rpartition(".")[2]  # what it is under another name, an event says
                yield plain("Import", f"AMP {name} as {bound}", (), alias)

    def _is_of_module(self, node: cst.CSTNode) -> bool:
        """Whether an import is one of the module's, whatever happens."""
        inner = cst.FunctionDef, cst.ClassDef, cst.If, cst.For, cst.While
        return self.model.tree.ancestor(node, *inner) is None

    def _is_read_before(self, alias: cst.ImportAlias, bound: str) -> bool:
        """Whether what is written above an import has its name: it may run before it."""
        tree, (first, *_) = self.model.tree, bound.split(".")
        above = [each for each in tree.named(first) if tree.order(each) < tree.order(alias)]
        return any(tree.ancestor(each, cst.Import, cst.ImportFrom) is None for each in above)

    @functools.cached_property
    def _torch_loaded(self) -> tuple[cst.CSTNode, Plain] | None:
        """Among which imports a module gets torch, if another statement runs before: their first.

        To import torch is to read what the environment says, and to have it from then on: an import
        of AMP counts as none wherever it stands, but for that.
        """
        body = self.model.tree.module.body
        runs = [[*run] for only, run in itertools.groupby(body, _only_imports) if only]
        for run in runs:
            first = next(filter(self._imports_torch, run), None)
            if first is not None:
                loaded = plain("Import", "torch is loaded", (), first)
                return None if run[0] is body[0] else (run[0], loaded)
        return None

    def _imports_torch(self, statement: cst.CSTNode) -> bool:
        aliases = self.model.tree.below(statement, cst.ImportAlias)
        names = (self.imported(holder, a)[0] for a in aliases if (holder := self._import(a)))
        return any(name.partition(".")[0] == "torch" for name in names)

    def _import(self, alias: cst.ImportAlias) -> cst.CSTNode | None:
        return self.model.tree.ancestor(alias, cst.Import, cst.ImportFrom)

    def imported(self, node: cst.CSTNode, alias: cst.ImportAlias) -> tuple[str, str]:
        """What an import brings, and the name that it gives it."""
        source = self.model.tree.source
        name = source(alias.name)
        bound = source(alias.asname.name) if alias.asname else name
        if not isinstance(node, cst.ImportFrom):
            return name, bound
        module = source(node.module) if node.module else ""
        return f"{'.' * len(node.relative)}{module}.{name}", bound

    def _is_hollow(self, node: cst.If | cst.Try, made: Plain) -> bool:
        """Whether nothing is left of a statement but a test about AMP, or failed imports of it."""
        blocks = [part for part in _below(made) if part.kind == BLOCK]
        if any(block.parts for block in blocks):
            return False
        if isinstance(node, cst.If):
            return self.is_about_amp(node.test, node) or self._asks_for_state(node)
        return all(isinstance(each, (cst.Import, cst.ImportFrom)) for each in _lines(node.body))

    def _asks_for_state(self, node: cst.If) -> bool:
        """``if saved.get("scaler"):`` or ``if "scaler" in saved:`` around the load of it."""
        match [*_lines(node.body)]:
            case [cst.Expr(value=cst.Call(args=[cst.Arg(value=cst.Subscript() as item)]))]:
                source = self.model.tree.source
                owner, key = source(item.value), source(item.slice[0])
                return source(node.test) in (f"{owner}.get({key})", f"{key} in {owner}")
        return False

    def stacks(
        self, *kinds: Kind, of_all: bool = False
    ) -> dict[tuple[str, Kind, tuple[str, ...]], cst.Call]:
        """Events of some kinds by their function, and the tests and loops around them.

        With ``of_all`` also the tests that say nothing of when such an event happens.
        """
        calls = self.model.tree.nodes(cst.Call)
        found = ((call, self._kind(call)) for call in calls)
        return {
            (name_of(self.model, call), kind, tuple(self.around(call, of_all=of_all))): call
            for call, kind in found
            if kind in kinds
        }

    def around(self, node: cst.CSTNode, *, of_all: bool = True) -> Iterator[str]:
        """What stands around a place in its function, but AMP, from the inside out."""
        inner = node
        for holder in self.model.tree.ancestors(node):
            if isinstance(holder, (cst.FunctionDef, cst.ClassDef)):
                return
            if isinstance(holder, cst.If) and (
                not self.is_about_amp(holder.test, holder)
                and (of_all or not self._is_whole(holder, inner, node))
            ):
                yield f"{inner is holder.body} {self._asked(holder)}"
            elif isinstance(holder, (cst.For, cst.While, cst.Try, cst.ExceptHandler)):
                yield type(holder).__name__
            elif isinstance(holder, cst.With) and any(map(self.swallows, holder.items)):
                yield "With"
            inner = holder

    def _asked(self, test: cst.If) -> str:
        """A test by what it asks, and by how often its function asked it when it may have changed.

        A call may give something else each time.
        """
        unit, digest = self.side.holder(test), self.plain(test.test).digest
        known: list[Term | None] = []
        for each in self.model.tree.below(unit, cst.If):
            if self.side.holder(each) is unit and self.plain(each.test).digest == digest:
                found = self.side.lifter.found.get(id(each.test))
                asked = None if found is None else self._settings.in_unit(unit, found)
                if asked is not None and any(map(is_opaque, walk(asked))):
                    known.append(None)
                elif asked not in known:
                    known.append(asked)
            if each is test:
                break
        return f"{digest.hex()} {len(known)}"

    @functools.cached_property
    def _settings(self) -> Settings:
        return Settings(self.side)

    def swallows(self, item: cst.WithItem) -> bool:
        """Whether a context may end what is in it, and go on behind it."""
        called = callee(item.item)
        if self.model.names.is_any(called, _SWALLOWING):
            return True
        owner = self.model.values.instance_class(item.item)
        leave = owner and self.model.values.method(owner, "__exit__")
        returns = self.model.tree.below(leave, cst.Return) if leave else ()
        made = self.model.values.function(called)
        tries = self.model.tree.below(made, cst.Try) if made is not None else ()
        return any(each.value is not None for each in returns) or any(
            each.handlers and self.model.tree.below(each.body, cst.Yield) for each in tries
        )

    def _is_whole(self, test: cst.If, arm: cst.CSTNode, event: cst.CSTNode) -> bool:
        """Whether a test says nothing of when an event happens.

        Both of its arms have the event, or this one leaves with it.
        """
        if isinstance(arm, cst.BaseSuite) and leaves(arm) and self._kind(event) is Kind.UPDATE:
            return True
        tree, other = self.model.tree, test.orelse if arm is test.body else test.body
        calls = tree.below(other, cst.Call) if other is not None else ()
        return any(self._kind(call) is self._kind(event) for call in calls)

    # --- what is AMP --------------------------------------------------------------------------

    def is_about_amp(self, test: cst.BaseExpression, choice: cst.If) -> bool:
        """Whether a test asks if there is a scaler, or for what switches AMP on in its arms."""
        test, _ = _normal(test)
        if self._switches.is_asked(test, choice):
            return True
        if isinstance(test, cst.Call) and isinstance(test.func, cst.Attribute):
            asks = test.func.attr.value in IS_ENABLED.words and not test.args
            return asks and self.model.roles.is_scaler(test.func.value)
        return isinstance(test, (cst.Name, cst.Attribute)) and self.model.roles.is_scaler(test)

    @functools.cached_property
    def _switches(self) -> Switches:
        return Switches(self.model)

    def is_read(self, target: cst.BaseExpression) -> bool:
        """Whether the file has the word again that something is bound to."""
        word = target.attr if isinstance(target, cst.Attribute) else target
        if not isinstance(word, cst.Name):
            return True
        return any(each is not word for each in self.model.tree.named(word.value))

    def is_region(self, context: cst.BaseExpression) -> bool:
        """Whether a context is an autocast region, or was meant to be one; or else nothing."""
        chosen = callee(context)
        if isinstance(chosen, cst.IfExp):
            arms = chosen.body, chosen.orelse
            return not all(map(self._is_nothing, arms)) and all(
                self.is_region(arm) or self._is_nothing(arm) for arm in arms
            )
        if not isinstance(context, _CONTEXTS):
            return False  # it does more than to enter one
        return self.model.regions.of(context) is not None or self._amp_object(context) is not None

    def _is_nothing(self, context: cst.BaseExpression) -> bool:
        """Whether a context, or what makes it, is ``nullcontext``."""
        named = context.func if isinstance(context, cst.Call) and not context.args else context
        return self.model.names.is_only(named, {"contextlib.nullcontext"})

    def choices(self) -> Iterator[tuple[tuple[str, bytes], cst.BaseExpression]]:
        """What was erased as a region and may be none: by its function, and what it depends on.

        So may what a function gives, for all that is known of what it is asked for.
        """
        tree, regions = self.model.tree, self.model.regions
        contexts = [each.item for each in tree.nodes(cst.WithItem)]
        contexts += [each.decorator for each in tree.nodes(cst.Decorator)]
        for context in contexts:
            region = regions.of(context) if self.is_region(context) else None
            made = isinstance(context, cst.Call) and self._amp_object(context) is None
            if region is not None and (region.conditional or made):
                yield (name_of(self.model, context), self.plain(context).digest), context

    def _amp_object(self, node: cst.CSTNode) -> str | None:
        """What stands for a member of torch's AMP interface: a call of it, or its name."""
        named = node.func if is_a(node, cst.Call) else node
        if is_a(node, cst.Call) and self.model.names.is_any(node.func, PARTIAL) and node.args:
            named = node.args[0].value  # what is called is an object of its own
        if not is_a(named, (cst.Name, cst.Attribute)):
            return None
        members = [name for name in self.model.names.qualified(named) if is_amp(name)]
        if len(members) != 1:
            return None
        name, _ = DEPRECATED_STATE.get(members[0], (members[0], ""))
        return f"AMP {name.rpartition('.')[2]}"

    def _global(self, node: cst.CSTNode) -> str | None:
        """The qualified name of something imported."""
        if not is_a(node, (cst.Name, cst.Attribute)) or not self._is_imported(node):
            return None
        names = self.model.names.qualified(node)
        return canonical(next(iter(names))) if len(names) == 1 else None

    def _is_imported(self, node: cst.BaseExpression) -> bool:
        while is_a(node, cst.Attribute):
            node = node.value
        if not is_a(node, cst.Name):
            return False
        bindings = self.model.names.bindings(node)
        return bool(bindings) and all(binding.kind == "import" for binding in bindings)

    def _stepped(self, node: cst.CSTNode) -> cst.BaseExpression | None:
        """The optimizer of ``scaler.step(optimizer)``, if a call is that and no more."""
        if not is_a(node, cst.Call) or not is_a(node.func, cst.Attribute):
            return None
        steps = self._kind(node) is Kind.STEP and len(node.args) == 1
        return stepped(node) if steps and self.model.roles.is_scaler(node.func.value) else None

    def _direct_step(self, node: cst.CSTNode, optimizer: cst.BaseExpression) -> Plain:
        """The plain tree of ``optimizer.step()``."""
        function = plain("Attribute", "value:1 attr='step'", [self.plain(optimizer)], node)
        return plain("Call", "func:1 args:0", [function], node)

    def is_scale(self, call: cst.Call) -> bool:
        """Whether a call is ``scaler.scale(x)``."""
        return self.model.steps.recognizer.is_scale(call)

    def _kind(self, node: cst.CSTNode) -> Kind | None:
        return self.model.steps.recognizer.kind(node) if is_a(node, cst.Call) else None

    def _is_default(self, call: cst.Call, arg: cst.CSTNode) -> bool:
        """``set_to_none=True``, which is so without being said."""
        if self._kind(call) is not Kind.ZERO_GRAD or not is_a(arg, cst.Arg):
            return False
        functions = self.model.tree.nodes(cst.FunctionDef)
        if any(function.name.value in words(Kind.ZERO_GRAD) for function in functions):
            return False  # it may be called
        owner = call.func.value if isinstance(call.func, cst.Attribute) else call.func
        made = (v for v in self.model.values.alternatives(owner) if isinstance(v, cst.Call))
        known = {name for each in made for name in self.model.names.qualified(each.func)}
        others = not known and self.model.tree.named("apex")
        if others or not all(name.startswith("torch.") for name in known):
            return False  # it may have no such parameter
        named = arg.keyword is not None and arg.keyword.value == SET_TO_NONE
        return named and literal(arg.value) is True

    def _is_half_argument(self, arg: cst.CSTNode) -> bool:
        return any(half.dtype is arg for half in self.model.modules.half_trainings)


_SAME, _OTHER = (cst.Is, cst.Equal), (cst.IsNot, cst.NotEqual)


def _normal(test: cst.BaseExpression) -> tuple[cst.BaseExpression, bool]:
    """A test without ``not`` and ``is None``, and whether that holds if the test does."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        inner, holds = _normal(test.expression)
        return inner, not holds
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        (one,) = test.comparisons
        sides = [side for side in (test.left, one.comparator) if literal(side) is not None]
        if len(sides) == 1 and isinstance(one.operator, (*_SAME, *_OTHER)):
            return sides[0], isinstance(one.operator, _OTHER)
    return test, True


def _is_of_amp(name: str) -> bool:
    name = canonical(name)
    return is_amp(name) or name in ("torch.amp", "torch.cuda.amp", "torch.cpu.amp")


def _only_imports(statement: cst.CSTNode) -> bool:
    """Whether a statement of a module imports, be it only if it can, or is its docstring."""
    if isinstance(statement, cst.Try):
        return all(map(_only_imports, statement.body.body))
    small = statement.body if isinstance(statement, cst.SimpleStatementLine) else (None,)
    return all(
        isinstance(each, (cst.Import, cst.ImportFrom))
        or (isinstance(each, cst.Expr) and literal_text(each.value) is not None)
        for each in small
    )


def _is_exit(statement: cst.CSTNode) -> bool:
    body = statement.body if isinstance(statement, cst.SimpleStatementLine) else ()
    return any(isinstance(each, _EXITS) for each in body)


def _lines(body: cst.BaseSuite) -> Iterator[cst.CSTNode]:
    for line in body.body:
        yield from line.body if isinstance(line, cst.SimpleStatementLine) else [line]


def _below(made: Plain) -> Iterator[Plain]:
    yield made
    for part in made.parts:
        yield from _below(part)


# --- the rewrites ---------------------------------------------------------------------------------


def _scaled(eraser: Eraser, node: cst.CSTNode) -> Sequence[cst.CSTNode] | None:
    if not is_a(node, cst.Call) or not eraser.is_scale(node):
        return None
    return [node.args[0].value] if _only_for_backward(eraser, node) else None


def _only_for_backward(eraser: Eraser, scaled: cst.Call) -> bool:
    """Whether a scaled loss, or the name that it is given, is seen by backward alone."""
    if _feeds(eraser, scaled):
        return True
    tree, names = eraser.model.tree, eraser.model.names
    holder = tree.parent(scaled)
    if not isinstance(holder, cst.Assign) or len(holder.targets) != 1:
        return False
    reads = [
        node
        for node in tree.nodes(cst.Name)
        if node is not holder.targets[0].target
        and any(binding.node is holder for binding in names.bindings(node))
    ]
    return bool(reads) and all(_feeds(eraser, read) for read in reads)


def _feeds(eraser: Eraser, node: cst.CSTNode) -> bool:
    attribute = eraser.model.tree.parent(node)
    call = None if attribute is None else eraser.model.tree.parent(attribute)
    return (
        isinstance(call, cst.Call)
        and call.func is attribute
        and eraser.model.steps.recognizer.kind(call) is Kind.BACKWARD
    )


def _half(eraser: Eraser, node: cst.CSTNode) -> Sequence[cst.CSTNode] | None:
    if not is_a(node, cst.Call) or not eraser.side.lifter.is_erased(node):
        return None
    function, given = node.func, node.args
    only = all(map(eraser._is_half_argument, given))
    return [function.value] if only and isinstance(function, cst.Attribute) else None


def _regions(eraser: Eraser, node: cst.CSTNode) -> Sequence[cst.CSTNode] | None:
    if not isinstance(node, cst.With) or node.asynchronous is not None:
        return None
    if any(item.asname or not eraser.is_region(item.item) for item in node.items):
        return None
    return node.body.body


def _events(eraser: Eraser, node: cst.CSTNode) -> Sequence[cst.CSTNode] | None:
    """``scaler.unscale_(optimizer)``, ``scaler.update()``."""
    call = node.value if isinstance(node, cst.Expr) else None
    if not isinstance(call, cst.Call):
        return None
    kind = eraser._kind(call)
    if kind not in (Kind.UNSCALE, Kind.UPDATE) or arguments(call).starred:
        return None
    plainly = len(call.args) == (kind is Kind.UNSCALE)
    return [] if plainly else None


def _made(eraser: Eraser, node: cst.CSTNode) -> Sequence[cst.CSTNode] | None:
    """``scaler = GradScaler()``, where it is made once for its function.

    One that nothing here reads may be there for other files.
    """
    if not isinstance(node, cst.Assign) or len(node.targets) != 1:
        return None
    target, value = node.targets[0].target, node.value
    if not isinstance(value, cst.Call) or not eraser.model.roles.is_constructor(value):
        return None
    if eraser.model.names.is_any(value.func, SHARDED):
        return None  # it asks all processes whether one has to skip the step
    around = eraser.model.tree.ancestor(node, *_LOOPS, cst.FunctionDef)
    seen_by_others = around is None or isinstance(target, cst.Attribute)
    if isinstance(around, _LOOPS) or (seen_by_others and not eraser.is_read(target)):
        return None
    return [] if eraser.model.roles.is_scaler(target) else None


def _state(eraser: Eraser, node: cst.CSTNode) -> Sequence[cst.CSTNode] | None:
    """``scaler.load_state_dict(checkpoint["scaler"])`` of what this file saves."""
    call = node.value if isinstance(node, cst.Expr) else None
    loads = isinstance(call, cst.Call) and eraser.side.lifter.is_scaler_state(call)
    return [] if loads else None


def _docstring(eraser: Eraser, node: cst.CSTNode) -> Sequence[cst.CSTNode] | None:
    """Text that nobody sees."""
    return [] if eraser.is_docstring(node) else None


def _half_statement(eraser: Eraser, node: cst.CSTNode) -> Sequence[cst.CSTNode] | None:
    """``model.half()`` alone."""
    if not isinstance(node, cst.Expr):
        return None
    return [] if _half(eraser, node.value) else None


def _half_assign(eraser: Eraser, node: cst.CSTNode) -> Sequence[cst.CSTNode] | None:
    """``model = model.half()``."""
    if not isinstance(node, cst.Assign) or len(node.targets) != 1:
        return None
    left = _half(eraser, node.value)
    source = eraser.model.tree.source
    same = left and source(left[0]) == source(node.targets[0].target)
    return [] if same else None


EXPRESSIONS = (Erasure("scaled loss", _scaled), Erasure("cast of a trained module", _half))
STATEMENTS = (
    Erasure("autocast region", _regions),
    Erasure("unscale_ and update", _events),
    Erasure("scaler made", _made),
    Erasure("state of a scaler", _state),
    Erasure("cast of a trained module", _half_statement),
    Erasure("cast of a trained module", _half_assign),
    Erasure("docstring", _docstring),
)
"""All rewrites, in the order in which they are tried."""
