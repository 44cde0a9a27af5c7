"""Whether the same is said of a program that is built of other functions and objects.

    python benchmarks/structures.py            # the differences, and how many of how many
    python benchmarks/structures.py --list     # with the programs that differ

Each function on a page, right or wrong, is built anew in five ways that leave it what it is: its
parameters become attributes of an object (`class`), or fields of a record that a caller makes
(`record`); what stands before its loop goes to a method (`setup`), or to a helper that gives it
back (`helper`); what the loop does goes to a function that gets what it needs (`step`). Codes are
counted, in preview, without those of deprecated API.

Then a helper, a step, or a base class that has what `setup` has, goes to another file, and what is
said of the two files is compared with what is said of the one.
"""

from __future__ import annotations

import argparse
import ast
import copy
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from amp_lint import engine, registry
from amp_lint.engine import AnalysisError
from amp_lint.handbook import pages
from amp_lint.run.job import linked
from amp_lint.selection import Selection
from amp_lint.syntax.project import Project
from amp_lint.text.source import Source

Building = Callable[[ast.FunctionDef], "list[ast.stmt] | None"]
_LOOPS = (ast.For, ast.While)
_IMPORTS = (ast.Import, ast.ImportFrom)
_NESTED = (
    ast.AsyncFunctionDef, ast.ClassDef, ast.DictComp, ast.FunctionDef, ast.GeneratorExp, ast.Global,
    ast.Lambda, ast.ListComp, ast.Nonlocal, ast.SetComp, ast.Yield, ast.YieldFrom,
)  # fmt: skip
"""What has names of its own, or makes another thing of the function around it."""
_JUMPS = (ast.AugAssign, ast.Break, ast.Continue, ast.Return)
"""What a function cannot do for the loop that calls it."""


class _Renamed(ast.NodeTransformer):
    """Variables that become attributes of an object."""

    def __init__(self, names: Iterable[str], owner: str) -> None:
        self._names = frozenset(names)
        self._owner = owner

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self._names:
            return node
        return ast.Attribute(ast.Name(self._owner, ast.Load()), node.id, node.ctx)


def _renamed(body: Sequence[ast.stmt], names: Iterable[str], owner: str) -> list[ast.stmt]:
    renamed = _Renamed(names, owner)
    return [renamed.visit(copy.deepcopy(each)) for each in body]


def _code(text: str) -> list[ast.stmt]:
    return ast.parse(text).body


def _function(name: str, params: Iterable[str], body: Sequence[ast.stmt]) -> ast.stmt:
    (found,) = _code(f"def {name}({', '.join(params)}): pass")
    assert isinstance(found, ast.FunctionDef)
    found.body = [*body]
    return found


def _params(function: ast.FunctionDef) -> list[str]:
    return [each.arg for each in function.args.args]


def _names(nodes: Iterable[ast.AST], context: type[ast.expr_context]) -> list[str]:
    """The variables that are read, or bound, in source order and each once."""
    every = (part for node in nodes for part in ast.walk(node))
    found = (each for each in every if isinstance(each, ast.Name))
    return [*dict.fromkeys(each.id for each in found if isinstance(each.ctx, context))]


def _constructor(function: ast.FunctionDef) -> ast.stmt:
    """Keeps each parameter, as what it is annotated."""
    lines = []
    for each in function.args.args:
        kind = f": {ast.unparse(each.annotation)}" if each.annotation else ""
        lines.append(f"self.{each.arg}{kind} = {each.arg}")
    (made,) = _code(f"def __init__(self): {'; '.join(lines)}")
    assert isinstance(made, ast.FunctionDef)
    given = copy.deepcopy(function.args)
    made.args = ast.arguments(
        posonlyargs=[], args=[ast.arg("self"), *given.args], kwonlyargs=[], kw_defaults=[],
        defaults=given.defaults,
    )  # fmt: skip
    return made


def _class(name: str, body: list[ast.stmt]) -> list[ast.stmt]:
    (made,) = _code(f"class {name}: pass")
    assert isinstance(made, ast.ClassDef)
    made.body = body
    return [made]


def _as_class(function: ast.FunctionDef) -> list[ast.stmt] | None:
    body = _renamed(function.body, _params(function), "self")
    return _class("Own", [_constructor(function), _function(function.name, ["self"], body)])


def _as_record(function: ast.FunctionDef) -> list[ast.stmt] | None:
    if function.args.defaults:
        return None
    params = _params(function)
    kinds = [ast.unparse(a.annotation) if a.annotation else "object" for a in function.args.args]
    fields = "; ".join(f"{name}: {kind}" for name, kind in zip(params, kinds, strict=True))
    given = ", ".join(params)
    return [
        *_code(f"import dataclasses\n@dataclasses.dataclass\nclass Own: {fields}"),
        _function(function.name, ["own"], _renamed(function.body, params, "own")),
        *_code(f"def begin({given}): {function.name}(Own({given}))"),
    ]


def _head(function: ast.FunctionDef) -> list[ast.stmt] | None:
    """What stands before the first loop of a function, where that only prepares something."""
    count = next((n for n, each in enumerate(function.body) if isinstance(each, _LOOPS)), 0)
    head = function.body[:count]
    return head if all(isinstance(e, (ast.Assign, ast.Expr, ast.If)) for e in head) else None


def _with_setup(function: ast.FunctionDef) -> list[ast.stmt] | None:
    head = _head(function)
    if not head:
        return None
    params = _params(function)
    made = [name for name in _names(head, ast.Store) if name not in params]
    kept = _code("\n".join(f"self.{name} = {name}" for name in made))
    setup = _function("setup", ["self"], [*_renamed(head, params, "self"), *kept])
    rest = _renamed(function.body[len(head) :], [*params, *made], "self")
    run = _function(function.name, ["self"], [*_code("self.setup()"), *rest])
    return _class("Own", [_constructor(function), setup, run])


def _with_helper(function: ast.FunctionDef) -> list[ast.stmt] | None:
    head = _head(function)
    plain = head and all(
        isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name) for each in head
    )
    if not head or not plain:
        return None
    made = ", ".join(_names(head, ast.Store))
    given = [name for name in _names(head, ast.Load) if name in _params(function)]
    (answer,) = _code(f"def f(): return {made}")
    assert isinstance(answer, ast.FunctionDef)
    helper = _function("prepared", given, [*copy.deepcopy(head), *answer.body])
    run = copy.deepcopy(function)
    run.body[: len(head)] = _code(f"{made} = prepared({', '.join(given)})")
    return [helper, run]


def _with_step(function: ast.FunctionDef) -> list[ast.stmt] | None:
    loops = [n for n, each in enumerate(function.body) if isinstance(each, ast.For)]
    if len(loops) != 1:
        return None
    (count,) = loops
    loop = function.body[count]
    assert isinstance(loop, ast.For)
    bound = _names(loop.body, ast.Store)
    always = [
        n for each in loop.body if isinstance(each, ast.Assign) for n in _names([each], ast.Store)
    ]
    used_later = set(_names(function.body[count + 1 :], ast.Load)) & set(bound)
    if used_later or set(bound) - set(always) or any(isinstance(n, _JUMPS) for n in ast.walk(loop)):
        return None
    known = {*_params(function), *_names(function.body[:count], ast.Store)}
    known |= set(_names([loop.target], ast.Store))
    given = [name for name in _names(loop.body, ast.Load) if name in known]
    run = copy.deepcopy(function)
    run.body[count].body = _code(f"one_step({', '.join(given)})")  # type: ignore[attr-defined]
    return [_function("one_step", given, copy.deepcopy(loop.body)), run]


def _with_base(function: ast.FunctionDef) -> list[ast.stmt] | None:
    whole = _with_setup(function)
    if not whole:
        return None
    (own,) = whole
    assert isinstance(own, ast.ClassDef)
    *above, run = own.body
    (derived,) = _code("class Own(Base): pass")
    assert isinstance(derived, ast.ClassDef)
    derived.body = [run]
    return [*_class("Base", above), derived]


BUILDINGS: dict[str, Building] = {
    "class": _as_class,
    "record": _as_record,
    "setup": _with_setup,
    "helper": _with_helper,
    "step": _with_step,
}
SHARED: dict[str, Building] = {"base": _with_base, "helper": _with_helper, "step": _with_step}
"""Of what they build, the first statement can stand in another file."""


def built(text: str, building: Building) -> Iterator[tuple[str, str]]:
    """The name of each function of a program that can be built anew, with the program then."""
    tree = ast.parse(text)
    for function, place, parts in _built(tree, building):
        yield function, _written([*tree.body[:place], *parts, *tree.body[place + 1 :]])


def apart(text: str, building: Building) -> Iterator[tuple[str, str, dict[str, str]]]:
    """The name of each such function, the program, and the same in two files, by their names."""
    tree = ast.parse(text)
    imports = [each for each in tree.body if isinstance(each, _IMPORTS)]
    own = {name for each in tree.body if each not in imports for name in _defined(each)}
    for function, place, (moved, *rest) in _built(tree, building):
        if own.isdisjoint(_names([moved], ast.Load)):
            before, after = tree.body[:place], [*rest, *tree.body[place + 1 :]]
            assert isinstance(moved, (ast.ClassDef, ast.FunctionDef))
            taken = [*before[: len(imports)], *_code(f"from helpers import {moved.name}")]
            files = {
                "train.py": _written([*taken, *before[len(imports) :], *after]),
                "helpers.py": _written([*imports, moved]),
            }
            yield function, _written([*before, moved, *after]), files


def _written(body: list[ast.stmt]) -> str:
    return ast.unparse(ast.fix_missing_locations(ast.Module(body, [])))


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
        return [node.name]
    return _names([node], ast.Store)


def _built(tree: ast.Module, building: Building) -> Iterator[tuple[str, int, list[ast.stmt]]]:
    """The name and the place of each function that can be built anew, with what it becomes."""
    called = {node.func.id for node in ast.walk(tree)
              if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}  # fmt: skip
    for place, each in enumerate(tree.body):
        if not isinstance(each, ast.FunctionDef) or each.name in called or not _is_plain(each):
            continue
        if (parts := building(each)) is not None:
            yield each.name, place, parts


def _is_plain(function: ast.FunctionDef) -> bool:
    given = function.args
    only = given.args and not (given.vararg or given.kwarg or given.kwonlyargs or given.posonlyargs)
    inner = (node for node in ast.walk(function) if node is not function)
    nested = any(isinstance(node, _NESTED) for node in inner)
    return bool(only) and not function.decorator_list and not nested


def programs() -> Iterator[tuple[str, str]]:
    """The programs of the pages, right and wrong, by rule and line."""
    for rule in registry.all_rules():
        page = pages.parse(registry.page(rule))
        flagged = [each.flagged for each in page.examples]
        right = [each.fixed for each in page.examples if each.fixed is not None]
        silent = [each for each in page.silent if each.kind.endswith("ok")]
        for fence in (*flagged, *right, *silent):
            yield f"{rule.code}:{fence.line}", fence.text


def codes(files: dict[str, str], selection: Selection) -> Counter[str]:
    """How often each code is found in files that lie in one folder."""
    found: Counter[str] = Counter()
    folder = Path("structures").absolute()
    read = {folder / name: text.encode() for name, text in files.items()}
    project = Project(read, read=read.__getitem__)
    for path, data in read.items():
        links = linked(project, path, data, selection)
        try:
            said = engine.check(Source(data, path.name), selection, links=links)
            found.update(each.code for each in said)
        except AnalysisError as error:
            found[str(error)] += 1
    return found


class _Table:
    """What was compared, and what differs."""

    def __init__(self, title: str, show: bool) -> None:
        self._title = title
        self._show = show
        self._tried: Counter[str] = Counter()
        self._lost: Counter[str] = Counter()
        self.more: Counter[str] = Counter()

    def note(
        self, name: str, way: str, before: Counter[str], after: Counter[str], new: str
    ) -> None:
        """Count a program, and print it where something else is said of it."""
        self._tried[way] += 1
        self._lost[way] += bool(before - after)
        self.more[way] += bool(after - before)
        if before != after:
            gone, come = (", ".join(sorted(c)) for c in (before - after, after - before))
            print(f"{name}, {way}: lost {gone or '-'}, more {come or '-'}")
            print(new if self._show else "", end="\n" if self._show else "")

    def print(self) -> None:
        """Print how many of how many differ."""
        print(f"\n| {self._title} | programs | a finding is lost | one comes |\n|---|--:|--:|--:|")
        for way, count in self._tried.items():
            print(f"| {way} | {count:,} | {self._lost[way]} | {self.more[way]} |")
        print()


def main() -> int:
    """Print what differs; the exit status is 1 where something is said that was not before."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="print the programs that differ")
    show = parser.parse_args().list
    rules = tuple(rule for rule in registry.all_rules() if not rule.code.startswith("AMP40"))
    selection = Selection(rules, preview=True)
    one, two = _Table("built as", show), _Table("in another file", show)
    for name, text in programs():
        before = codes({"train.py": ast.unparse(ast.parse(text))}, selection)
        for way, building in BUILDINGS.items():
            for function, new in built(text, building):
                after = codes({"train.py": new}, selection)
                one.note(f"{name} {function}", way, before, after, new)
        for way, building in SHARED.items():
            for function, whole, files in apart(text, building):
                alone, both = codes({"train.py": whole}, selection), codes(files, selection)
                two.note(f"{name} {function}", way, alone, both, "\n\n".join(files.values()))
    one.print()
    two.print()
    return 1 if one.more.total() + two.more.total() else 0


if __name__ == "__main__":
    raise SystemExit(main())
