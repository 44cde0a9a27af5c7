"""Does each condition of the comparison earn its place?

    python benchmarks/conditions.py [--mutants N] [--seed N] [--only WORD] [--list]

Takes one condition after the other out of what erases, aligns, rewrites and owns: an operand of an
``and`` or ``or``, a test that leaves, an ``if`` of a comprehension, a check that gives reasons. A
condition earns its place if without it a wrong change has no reason any more against being judged
(*let through*; *proven* if nothing is left to be judged either), if a right one has one, or if the
verifier raises. The changes are those of ``changes.jsonl`` and of all pages, and random edits of
the pages that, played, do something else. Nothing is judged by experiments.

Prints how many conditions of each file are needed for what, and those that no change needs.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib
import inspect
import random
import sys
import types
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import adversary
import mutations

from amp_lint import registry
from amp_lint.verify import catalogue
from amp_lint.verify.compare import changes, lifted
from amp_lint.verify.compare.side import Side
from amp_lint.verify.obligations import Comparison

PACKAGE = "amp_lint.verify.compare"
MODULES = ("erase", "plain", "align", "cover", "rewrites", "effect_free", "marks", "changes")
OUTCOMES = ("proven", "let through", "right change refused", "raises", "no change needs it")


@dataclass(frozen=True, eq=False)
class Sample:
    """Two texts, lifted once for all."""

    name: str
    before: Side
    after: Side
    is_wrong: bool

    def compared(self) -> Comparison:
        return changes.compared(self.before, self.after)


@dataclass(frozen=True)
class Condition:
    """A condition of a function, and the code of the function without it."""

    function: types.CodeType
    name: str
    text: str
    without: types.CodeType


def main() -> int:
    args = _arguments()
    samples = [*_samples(args.mutants, args.seed)]
    reached = _reached(samples)
    kinds = Counter("wrong" if each.is_wrong else "right" for each in samples)
    print(f"{kinds['wrong']} wrong changes that are not comparable, {kinds['right']} right ones")
    idle: list[Condition] = []
    lines = ["| file | conditions | " + " | ".join(OUTCOMES) + " |", "|---|" + "--:|" * 6]
    for name in MODULES:
        found: Counter[str] = Counter()
        for condition, owner in _conditions(importlib.import_module(f"{PACKAGE}.{name}")):
            if args.only and args.only not in condition.name:
                continue
            outcome = _outcome(condition, owner, reached.get(condition.function, []))
            found[outcome] += 1
            idle += [condition] * (outcome == OUTCOMES[-1])
        row = " | ".join(str(found[each]) for each in OUTCOMES)
        lines.append(f"| `{name}.py` | {sum(found.values())} | {row} |")
    print("\n".join(lines))
    for each in idle if args.list else ():
        print(f"{each.name}: {each.text}")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mutants", type=int, default=400, help="random edits to choose from")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", metavar="WORD", help="functions with this in their names")
    parser.add_argument("--list", action="store_true", help="show what no change needs")
    return parser.parse_args()


# --- the changes ----------------------------------------------------------------------------------


def _samples(mutants: int, seed: int) -> Iterator[Sample]:
    """Wrong changes that are not comparable, and right ones that are."""
    for name, before, after, is_wrong in _texts(mutants, seed):
        sides = [lifted(text, name) for text in (before, after)]
        old, new = sides
        if isinstance(old, Side) and isinstance(new, Side):
            made = Sample(name, old, new, is_wrong)
            if bool(made.compared().reasons) is is_wrong:
                yield made


def _texts(mutants: int, seed: int) -> Iterator[tuple[str, str, str, bool]]:
    path = Path(__file__).with_name("changes.jsonl")
    for case in adversary.read([path]):
        yield case.name, case.before, case.after, case.truth != "right"
    for page in catalogue.cases(registry.all_rules()):
        change = page.change
        yield change.name, change.before, change.after, page.other.kind == "wrong"
    texts = [text for text in mutations.texts() if not text.runs]
    edits = [*mutations.mutants(texts, random.Random(seed), mutants)]
    for edit, how in zip(edits, mutations.what_they_do(edits), strict=True):
        if how == mutations.OTHER:
            yield edit.of.name, edit.of.code, edit.code, True


def _reached(samples: Iterable[Sample]) -> dict[types.CodeType, list[Sample]]:
    """The functions that are run for each change, so that the others need not be tried."""
    found: dict[types.CodeType, list[Sample]] = {}
    for sample in samples:
        codes: set[types.CodeType] = set()

        def note(
            frame: types.FrameType, _: str, __: object, to: set[types.CodeType] = codes
        ) -> None:
            to.add(frame.f_code)

        sys.setprofile(note)
        try:
            sample.compared()
        finally:
            sys.setprofile(None)
        for code in codes:
            found.setdefault(code, []).append(sample)
    return found


# --- the conditions -------------------------------------------------------------------------------


def _conditions(module: types.ModuleType) -> Iterator[tuple[Condition, types.FunctionType]]:
    """Each condition of a module, with the function that has it."""
    path = inspect.getsourcefile(module)
    assert path is not None
    tree = ast.parse(Path(path).read_text("utf-8"))
    functions = dict(_functions(module))
    for name, number in _numbered(tree):
        function = functions.get(name)
        if function is None:
            continue
        for text, variant in _variants(tree, number):
            code = _code(compile(variant, path, "exec"), name.split("."))
            if code is not None and code.co_freevars == function.__code__.co_freevars:
                label = f"{module.__name__.rpartition('.')[2]}.{name}"
                yield Condition(function.__code__, label, text, code), function


def _functions(holder: object, prefix: str = "") -> Iterator[tuple[str, types.FunctionType]]:
    """The functions and methods that are defined in a module, by qualified name."""
    module = getattr(holder, "__module__", None) or getattr(holder, "__name__", "")
    for name, value in vars(holder).items():
        function = getattr(value, "fget", None) or getattr(value, "func", None) or value
        if isinstance(function, types.FunctionType) and function.__module__ == module:
            yield prefix + name, function
        elif inspect.isclass(value) and value.__module__ == module and not prefix:
            yield from _functions(value, f"{name}.")


def _numbered(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Functions by qualified name, with their place among all nodes."""
    places = {id(node): number for number, node in enumerate(ast.walk(tree))}
    for node in tree.body:
        inner = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        for each in inner:
            if isinstance(each, ast.FunctionDef):
                yield prefix + each.name, places[id(each)]


def _variants(tree: ast.Module, number: int) -> Iterator[tuple[str, ast.Module]]:
    """The tree without each of the conditions of one of its functions."""
    function = [*ast.walk(tree)][number]
    for at, node in enumerate(ast.walk(function)):
        for part, text in _parts(node):
            made = copy.deepcopy(tree)
            other = [*ast.walk([*ast.walk(made)][number])][at]
            _remove(other, part)
            yield text, ast.fix_missing_locations(made)


def _parts(node: ast.AST) -> Iterator[tuple[int, str]]:
    """What can be taken out of a node, by number, with its text."""
    if isinstance(node, ast.BoolOp):
        yield from ((i, ast.unparse(value)) for i, value in enumerate(node.values))
    elif isinstance(node, ast.comprehension):
        yield from ((i, ast.unparse(value)) for i, value in enumerate(node.ifs))
    elif isinstance(node, ast.If) and isinstance(node.body[-1], (ast.Return, ast.Continue)):
        yield 0, f"if {ast.unparse(node.test)}"
    elif isinstance(node, ast.FunctionDef) and _gives_reasons(node):
        yield 0, "all of it"


def _gives_reasons(node: ast.FunctionDef) -> bool:
    return node.returns is not None and ast.unparse(node.returns) == "Iterator[str]"


def _remove(node: ast.AST, part: int) -> None:
    if isinstance(node, ast.BoolOp):
        node.values[part] = ast.Constant(isinstance(node.op, ast.And))
    elif isinstance(node, ast.comprehension):
        node.ifs[part] = ast.Constant(True)
    elif isinstance(node, ast.If):
        node.test = ast.Constant(False)
    elif isinstance(node, ast.FunctionDef):
        node.body.insert(0, ast.parse("if True: return").body[0])


def _code(code: types.CodeType, path: Sequence[str]) -> types.CodeType | None:
    """The code of a function within that of a file."""
    for name in path:
        inner = (each for each in code.co_consts if isinstance(each, types.CodeType))
        found = next((each for each in inner if each.co_name == name), None)
        if found is None:
            return None
        code = found
    return code


# --- the verdict ----------------------------------------------------------------------------------


def _outcome(condition: Condition, function: types.FunctionType, samples: Sequence[Sample]) -> str:
    """What happens without a condition, the worst of all changes."""
    function.__code__ = condition.without
    try:
        found = OUTCOMES[-1]
        for sample in sorted(samples, key=lambda each: not each.is_wrong):
            found = min(found, _without(sample), key=OUTCOMES.index)
            if found == OUTCOMES[0] or (found == OUTCOMES[1] and not sample.is_wrong):
                break
    finally:
        function.__code__ = condition.function
    return found


def _without(sample: Sample) -> str:
    try:
        found = sample.compared()
    except Exception:  # whatever a function raises whose condition is gone
        return "raises"
    if sample.is_wrong and not found.reasons:
        return "let through" if found.obligations else "proven"
    refused = not sample.is_wrong and found.reasons
    return "right change refused" if refused else OUTCOMES[-1]


if __name__ == "__main__":
    sys.exit(main())
