"""Does each condition of the comparison earn its place?

    python benchmarks/conditions.py [--mutants N] [--seed N] [--modules NAME ...] [--only WORD ...]
        [--list] [--types] [--changes FILE ...]

Takes one condition after the other out of what erases, aligns, rewrites and owns: an operand of an
``and`` or ``or``, a test that leaves, an ``if`` of a comprehension, a check that gives reasons. A
condition earns its place if without it a wrong change has no reason any more against being judged
(*let through*; *proven* if nothing is left to be judged either), if a right one has one, or if the
verifier raises. Where there is something else to be judged than before, eager experiments judge it:
a wrong change must not be proven then, nor one that was refuted be open (*refutation lost*), nor
one that is right or on purpose get a verdict that says less of it, or be refuted. If the verdict is
the same, there may be *more to judge* for it. The changes are those of ``changes.jsonl`` and of all
pages, and random edits of the pages that, played, do something else. Each is compared once with all
conditions noting what they say, so that a condition need be taken out only of those in which it
decides anything.

Prints how many conditions of each file are needed for what - by the first change that needs them,
wrong ones before right ones - and, as it goes, those that no change needs. With ``--types``, mypy
is asked about the latter: it may need one to know a type. ``--changes`` asks other changes, alone.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib
import inspect
import random
import sys
import tempfile
import types
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import adversary
import mutations
from mypy import api as mypy

from amp_lint import registry
from amp_lint.model import Model
from amp_lint.verify import ProofSettings, Verdict, catalogue, worker
from amp_lint.verify.compare import changes, lifted
from amp_lint.verify.compare.erase import Eraser
from amp_lint.verify.compare.side import Side
from amp_lint.verify.obligations import Comparison, Obligation, Place, Unbound
from amp_lint.verify.proof import Judgement
from amp_lint.verify.prover import of_any_change

PACKAGE = "amp_lint.verify.compare"
MODULES = (
    "erase", "plain", "align", "cover", "rewrites", "effect_free", "marks", "changes", "uses",
    "regions", "settings", "touches", "aliases", "imports", "numbers", "casts",
    "dynamic.annotations", "dynamic.attributes", "dynamic.handed_on", "dynamic.names_by_text",
    "dynamic.replaced", "places.asked", "places.bound", "places.callers", "places.checkpoints",
    "places.containers", "places.decorators", "places.derived", "places.gradient_hooks",
    "places.hooks", "places.identity", "places.keys", "places.linear", "places.loaded",
    "places.loops", "places.made", "places.names", "places.order", "places.reentered",
    "places.saved", "places.scalers", "places.scripted", "places.state_reads", "places.twice",
    "places.wholes", "shown.audience", "shown.course", "shown.formats", "shown.losses",
    "shown.prints", "shown.repeats", "shown.values",
)  # fmt: skip
LOST, MORE = "refutation lost", "more to judge"
IDLE, TYPES = "no change needs it", "only says the type"
OUTCOMES = ("proven", "let through", "right change refused", LOST, "raises", MORE, TYPES, IDLE)
RIGHT, WRONG = "right", "wrong"
EAGER = ProofSettings(modes=("eager",))
NOTED = "__noted__"
"""The name of what a condition that is noted hands its value to."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Two texts, read once for all."""

    name: str
    before: Model
    after: Model
    truth: str
    """One of `adversary.TRUTHS`."""
    is_fix: bool
    """Whether a rule is meant to have nothing to say any more: then nothing is on purpose."""
    whole: Comparison
    """With all conditions."""

    @property
    def is_wrong(self) -> bool:
        """Whether it must not be proven."""
        return self.truth != RIGHT

    def compared(self) -> Comparison:
        """Lifted anew each time: lifting has conditions too."""
        return changes.compared(Eraser(Side(self.before)), Eraser(Side(self.after)))


@dataclass(frozen=True, eq=False)
class Condition:
    """A condition of a function, and the code of the function without it."""

    function: types.FunctionType
    name: str
    text: str
    number: int
    """Among those of its function."""
    without: types.CodeType
    path: Path
    source: bytes
    """The file without it, layout and comments kept."""

    def is_in(self, words: Sequence[str]) -> bool:
        return not words or any(word in self.name for word in words)


def main() -> int:
    args = _arguments()
    worker.start_torch(EAGER)
    cases = _cases(args.mutants, args.seed)
    if args.changes:
        cases = ((case, False) for case in adversary.read(args.changes))
    samples = [*_samples(cases)][::-1]  # the newest may be for the condition that is asked
    kinds = Counter((each.is_wrong, bool(each.whole.reasons)) for each in samples)
    for is_wrong, word in ((True, "wrong"), (False, "right")):
        comparable, others = kinds[is_wrong, False], kinds[is_wrong, True]
        print(f"{comparable + others} {word} changes, {comparable} of them comparable")
    modules = [importlib.import_module(f"{PACKAGE}.{name}") for name in args.modules]
    conditions = [c for module in modules for c in _conditions(module) if c.is_in(args.only)]
    decided = _decided(modules, samples)
    found = {}
    for each in conditions:
        found[each] = _outcome(each, decided[each.name, each.number])
        if found[each] == IDLE:
            print(f"{each.name}: {each.text}", file=sys.stderr, flush=True)
    if args.types:
        idle = (each for each, outcome in found.items() if outcome == IDLE)
        found |= {each: TYPES for each in idle if _says_the_type(each)}
    print("\n".join(_table(found)))
    for each, outcome in found.items() if args.list else ():
        if outcome == IDLE:
            print(f"{each.name}: {each.text}")
    return 0


def _table(found: dict[Condition, str]) -> Iterator[str]:
    yield "| file | conditions | " + " | ".join(OUTCOMES) + " |"
    yield "|---|" + "--:|" * (1 + len(OUTCOMES))
    counts = Counter((each.path.name, outcome) for each, outcome in found.items())
    for name in (f"{each.rpartition('.')[2]}.py" for each in MODULES):
        row = [counts[name, each] for each in OUTCOMES]
        yield f"| `{name}` | {sum(row)} | " + " | ".join(map(str, row)) + " |"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mutants", type=int, default=400, help="random edits to choose from")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--only", metavar="WORD", nargs="+", default=(), help="functions with these in their names"
    )
    parser.add_argument("--modules", metavar="NAME", nargs="+", default=MODULES, choices=MODULES)
    parser.add_argument("--changes", type=Path, metavar="FILE", nargs="+", help="only these")
    parser.add_argument("--list", action="store_true", help="show what no change needs")
    parser.add_argument("--types", action="store_true", help="ask mypy about what no change needs")
    return parser.parse_args()


# --- the changes ----------------------------------------------------------------------------------


def _samples(cases: Iterable[tuple[adversary.Case, bool]]) -> Iterator[Sample]:
    """All changes that can be read."""
    for case, is_fix in cases:
        old, new = (lifted(text, case.name) for text in (case.before, case.after))
        if isinstance(old, Eraser) and isinstance(new, Eraser):
            whole = changes.compared(old, new)
            yield Sample(case.name, old.model, new.model, case.truth, is_fix, whole)


def _cases(mutants: int, seed: int) -> Iterator[tuple[adversary.Case, bool]]:
    """The changes, and whether a rule is meant to have nothing to say any more."""
    for case in adversary.read([Path(__file__).with_name("changes.jsonl")]):
        yield case, False
    for page in catalogue.cases(registry.all_rules()):
        truth, change = WRONG if page.other.kind == WRONG else RIGHT, page.change
        case = adversary.Case(change.name, truth, "", change.before, change.after)
        yield case, change.code is not None
    texts = [text for text in mutations.texts() if not text.runs]
    edits = [*mutations.mutants(texts, random.Random(seed), mutants)]
    for edit, how in zip(edits, mutations.what_they_do(edits), strict=True):
        if how == mutations.OTHER:
            yield adversary.Case(edit.of.name, WRONG, "", edit.of.code, edit.code), False


# --- the conditions -------------------------------------------------------------------------------


def _conditions(module: types.ModuleType) -> Iterator[Condition]:
    """Each condition of a module, with the function that has it."""
    path, tree = _parsed(module)
    for label, function, names, place in _places(module, tree):
        for number, (node, part, text) in enumerate(_all_parts(tree, place)):
            made = copy.deepcopy(tree)
            _remove([*ast.walk([*ast.walk(made)][place])][node], part)
            code = _code(compile(ast.fix_missing_locations(made), str(path), "exec"), names)
            if code is not None and code.co_freevars == function.__code__.co_freevars:
                source = _blanked(path, [*ast.walk([*ast.walk(tree)][place])][node], part)
                yield Condition(function, label, text, number, code, path, source)


def _parsed(module: types.ModuleType) -> tuple[Path, ast.Module]:
    found = inspect.getsourcefile(module)
    assert found is not None
    return Path(found), ast.parse(Path(found).read_text("utf-8"))


def _places(
    module: types.ModuleType, tree: ast.Module
) -> Iterator[tuple[str, types.FunctionType, list[str], int]]:
    """The functions of a module with a label, the parts of their names, and their place."""
    functions = dict(_functions(module))
    for name, place in _numbered(tree):
        if name in functions:
            label = f"{module.__name__.rpartition('.')[2]}.{name}"
            yield label, functions[name], name.split("."), place


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


def _all_parts(tree: ast.Module, place: int) -> Iterator[tuple[int, int, str]]:
    """What can be taken out of a function: the place of a node in it, its part, and the text."""
    for at, node in enumerate(ast.walk([*ast.walk(tree)][place])):
        yield from ((at, part, text) for part, text in _parts(node))


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


def _blanked(path: Path, node: ast.AST, part: int) -> bytes:
    """The text of a file without a condition; as it is if that is all of a function."""
    source = path.read_bytes()
    value: ast.expr
    match node:
        case ast.BoolOp(values=values):
            value = values[part]
        case ast.comprehension(ifs=ifs):
            value = ifs[part]
        case ast.If(test=test):
            value = test
        case _:
            return source
    assert value.end_lineno is not None and value.end_col_offset is not None
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    begin = starts[value.lineno - 1] + value.col_offset
    end = starts[value.end_lineno - 1] + value.end_col_offset
    holds = not isinstance(node, ast.If) and not (
        isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or)
    )
    return source[:begin] + str(holds).encode() + source[end:]


def _code(code: types.CodeType, path: Sequence[str]) -> types.CodeType | None:
    """The code of a function within that of a file."""
    for name in path:
        inner = (each for each in code.co_consts if isinstance(each, types.CodeType))
        found = next((each for each in inner if each.co_name == name), None)
        if found is None:
            return None
        code = found
    return code


# --- what they decide -----------------------------------------------------------------------------


def _decided(
    modules: Iterable[types.ModuleType], samples: Sequence[Sample]
) -> defaultdict[tuple[str, int], list[Sample]]:
    """By function and number, the changes in which a condition is not as if it were not there."""
    found: defaultdict[tuple[str, int], list[Sample]] = defaultdict(list)
    seen: set[tuple[str, int]] = set()

    def noted(label: str, number: int, value: object, without: object) -> object:
        if value is not without:
            seen.add((label, number))
        return value

    changed = [each for module in modules for each in _noting(module, noted)]
    for sample in samples:
        seen.clear()
        sample.compared()
        for key in seen:
            found[key].append(sample)
    for function, code in changed:
        function.__code__ = code
    return found


def _noting(
    module: types.ModuleType, noted: Callable[[str, int, object, object], object]
) -> Iterator[tuple[types.FunctionType, types.CodeType]]:
    """Makes the functions of a module note what their conditions say; gives what they were."""
    path, tree = _parsed(module)
    vars(module)[NOTED] = noted
    for label, function, names, place in _places(module, tree):
        made = copy.deepcopy(tree)
        nodes = [*ast.walk([*ast.walk(made)][place])]
        for number, (node, part, _) in enumerate(_all_parts(tree, place)):
            _note(nodes[node], part, label, number)
        code = _code(compile(ast.fix_missing_locations(made), str(path), "exec"), names)
        if code is not None and code.co_freevars == function.__code__.co_freevars:
            yield function, function.__code__
            function.__code__ = code


def _note(node: ast.AST, part: int, label: str, number: int) -> None:
    def call(value: ast.expr, without: bool | None) -> ast.expr:
        given = [ast.Constant(label), ast.Constant(number), value, ast.Constant(without)]
        return ast.Call(ast.Name(NOTED, ast.Load()), given, [])

    if isinstance(node, ast.BoolOp):
        node.values[part] = call(node.values[part], isinstance(node.op, ast.And))
    elif isinstance(node, ast.comprehension):
        node.ifs[part] = call(node.ifs[part], True)
    elif isinstance(node, ast.If):
        node.test = call(node.test, False)
    elif isinstance(node, ast.FunctionDef):
        node.body.insert(0, ast.Expr(call(ast.Constant(True), None)))


# --- the verdict ----------------------------------------------------------------------------------


def _says_the_type(condition: Condition) -> bool:
    """Whether mypy has something to say of the file without a condition."""
    with tempfile.NamedTemporaryFile(suffix=".py") as shadow:
        shadow.write(condition.source)
        shadow.flush()
        path = str(condition.path)
        text, _, status = mypy.run(["--shadow-file", path, shadow.name, path])
        return bool(status) and "error:" in text


def _outcome(condition: Condition, samples: Sequence[Sample]) -> str:
    """What happens without a condition to the first change that needs it."""
    function = condition.function
    kept, function.__code__ = function.__code__, condition.without
    try:
        found = IDLE
        for sample in sorted(samples, key=_is_last):
            found = min(found, _without(sample), key=OUTCOMES.index)
            if found not in (MORE, IDLE):
                break
    finally:
        function.__code__ = kept
    return found


def _is_last(sample: Sample) -> tuple[bool, int]:
    """Wrong changes first, and of these those with the fewest reasons: one may be all they have."""
    return not sample.is_wrong, len(sample.whole.reasons)


def _without(sample: Sample) -> str:
    try:
        found = sample.compared()
    except Exception:  # whatever a function raises whose condition is gone
        return "raises"
    if sample.is_wrong and sample.whole.reasons and not found.reasons:
        return "let through" if found.obligations else "proven"
    if not sample.is_wrong and found.reasons and not sample.whole.reasons:
        return "right change refused"
    if {*map(_bare, found.obligations)} == {*map(_bare, sample.whole.obligations)}:
        return IDLE
    was, becomes = (_verdict(each, sample.is_fix) for each in (sample.whole, found))
    if was is becomes:
        return MORE if len(found.obligations) > len(sample.whole.obligations) else IDLE
    if becomes is Verdict.PROVEN:
        return "proven" if sample.is_wrong else IDLE
    if sample.truth == WRONG:
        return LOST if was is Verdict.REFUTED else IDLE
    worse = was is not Verdict.NOT_COMPARABLE or becomes is Verdict.REFUTED
    return "right change refused" if worse else IDLE


def _verdict(found: Comparison, is_fix: bool) -> Verdict:
    """What eager experiments say."""
    judged = {_judged(each, is_fix) for each in found.obligations}
    if found.reasons:
        judged.add(Verdict.NOT_COMPARABLE)
    order = Verdict.REFUTED, Verdict.NOT_COMPARABLE, Verdict.CHANGES
    return next((each for each in order if each in judged), Verdict.PROVEN)


def _bare(obligation: Obligation) -> str:
    """What has to be shown, wherever it is."""
    return repr(replace(obligation, place=Place(0, 0)))


_known: dict[str, Judgement] = {}
"""By `_bare`: experiments are made once."""


def _judged(obligation: Obligation, is_fix: bool) -> Verdict:
    if isinstance(obligation, Unbound):
        return Verdict.REFUTED
    key = _bare(obligation)
    if key not in _known:
        try:
            _known[key] = worker.judge(obligation, EAGER)
        except Exception:  # it is nothing that the verifier would make with all conditions
            _known[key] = Judgement(Verdict.NOT_COMPARABLE, "")
    found = _known[key]
    return (found if is_fix else of_any_change(found)).verdict


if __name__ == "__main__":
    sys.exit(main())
