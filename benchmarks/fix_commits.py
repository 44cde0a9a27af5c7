"""Hold the fixes that amp-lint offers at labelled bugs against the repairs of the projects.

    python benchmarks/fix_commits.py LABELS_DIR MIRRORS TARGET [--update]

LABELS_DIR, MIRRORS and TARGET as for real_code.py, with the files around a bug whose scope is the
project: they are linked, as in a run over them all. For every labelled bug with a ``fix_commit``, a
later commit of the project in which the bug is gone: is it found, and is the fix of this finding,
applied alone, the project's own repair? The outcome is one of

* ``same``: the function is the same but for formatting and comments, or what our fix changes is
  changed there too, in the same place. The statements that count are those of the protocol
  (autocast regions and what opens them, scalers and their calls, ``backward``, clips, steps,
  states) and the assignments of the names that they use; a place is what stands before and after
  it in that order;
* ``equivalent``: the verifier proves our text against the old file with their function in it, or
  both against the old text;
* ``different``; ``wrong`` if our fix reads a local variable above its first assignment;
* ``no fix offered``, ``not found``, ``their function is gone``. A function of another name that
  is new and whose text is mostly the same has been renamed.

A fix that is shown and never applied counts as offered. ``fix_commits.tsv`` says in words, by code
and place, why an outcome is what it is; these notes were written by hand. Prints a table in
Markdown, with ``--update`` into ``tables/fix_commits.md``.
"""

from __future__ import annotations

import argparse
import ast
import csv
import difflib
import functools
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from marked import updated

from amp_lint import engine, registry
from amp_lint.edit import edits
from amp_lint.selection import Selection
from amp_lint.syntax.project import Links, Project
from amp_lint.text.diagnostic import Diagnostic
from amp_lint.text.source import Source
from amp_lint.verify import ProofSettings, Prover, Verdict
from amp_lint.verify.prover import Change

HERE = Path(__file__).parent
SELECTION = Selection(registry.all_rules(), noqa=False, preview=True)
BEGIN, END = "<!-- fix commits -->", "<!-- end of fix commits -->"
FULL = frozenset({"unscale_", "step", "update", "scale", "state_dict", "autocast", "GradScaler"})
"""Calls that are compared with their arguments."""
BARE = frozenset(
    {"backward", "clip_grad_norm_", "clip_grad_value_", "clip_grad_norm", "synchronize"}
)
"""Calls that are compared without: the rest of a commit may well rename the loss or the limit."""

ALIKE = 0.5
"""How much of a function's lines is left in it after it was renamed."""

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Label:
    """A labelled bug that the project repaired."""

    code: str
    repo: str
    commit: str
    path: str
    lines: range
    fix_commit: str

    @property
    def place(self) -> str:
        return f"{self.path}:{self.lines.start}"


@dataclass(frozen=True)
class Outcome:
    """How our fix compares with theirs."""

    label: Label
    fix: str
    """``safe``, ``unsafe`` or ``display``; empty if there is none."""
    text: str


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("labels", type=Path, metavar="LABELS_DIR")
    parser.add_argument("mirrors", type=Path, metavar="MIRRORS")
    parser.add_argument("target", type=Path, metavar="TARGET")
    parser.add_argument("--update", action="store_true", help="write its page, too")
    args = parser.parse_args()
    with Prover(ProofSettings(modes=("eager",))) as prover:
        outcomes = [
            outcome(label, args.mirrors, args.target, prover)
            for label in labels(args.labels / "dev.jsonl")
        ]
    text = table(outcomes)
    print(text)
    if args.update:
        page = HERE / "tables" / "fix_commits.md"
        page.write_text(updated(page.read_text("utf-8"), BEGIN, END, text), "utf-8")
    return 0


def labels(path: Path) -> Iterator[Label]:
    """The labelled bugs with a repair, in order of code and place."""
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line]
    for row in sorted(rows, key=lambda row: (row["code"] or "", row["repo"], row["path"])):
        if row["label"] == "TP" and row["fix_commit"]:
            lines = range(row["line"], row["end_line"] + 1)
            where = row["repo"], row["commit"], row["path"]
            yield Label(row["code"], *where, lines, row["fix_commit"])


def outcome(label: Label, mirrors: Path, target: Path, prover: Prover) -> Outcome:
    """What came of one label."""
    root = target / label.repo.replace("/", "__") / label.commit[:8]
    path = root / label.path
    source = Source(path.read_bytes(), str(path))
    links = Project(sorted(root.rglob("*.py"))).links(path, source.data, SELECTION.sieve)
    found = finding(source, links, label)
    if found is None:
        return Outcome(label, "", "not found")
    if found.fix is None:
        return Outcome(label, "", "no fix offered")
    ours, _ = edits.apply(source.text, [found.fix])
    theirs = at_fix_commit(label, mirrors)
    line, _ = source.position(found.start)
    text = compare(source.text, ours, theirs, line, prover)
    return Outcome(label, found.fix.applicability.value, text)


def finding(source: Source, links: Links | None, label: Label) -> Diagnostic | None:
    """The finding at a label."""
    for found in engine.check(source, SELECTION, named=True, links=links):
        if found.code == label.code and source.position(found.start)[0] in label.lines:
            return found
    return None


def at_fix_commit(label: Label, mirrors: Path) -> str | None:
    """The file after the project's repair, also under a new name; None if it is gone."""
    mirror = mirrors / label.repo.replace("/", "+") / "repo"
    text = _git(mirror, "show", f"{label.fix_commit}:{label.path}")
    if text is not None:
        return text
    between = (label.commit, label.fix_commit)
    renames = _git(mirror, "diff", "--diff-filter=R", "-M", "--name-status", *between) or ""
    for _, old, new in (line.split("\t") for line in renames.splitlines()):
        if old == label.path:
            return _git(mirror, "show", f"{label.fix_commit}:{new}")
    return None


def _git(mirror: Path, *args: str) -> str | None:
    command = ["git", "-C", str(mirror), *args]
    environment = {**os.environ, "GIT_NO_LAZY_FETCH": "1"}
    done = subprocess.run(command, capture_output=True, check=False, env=environment)
    if done.returncode != 0:
        return None
    return done.stdout.decode("utf-8").replace("\r\n", "\n")


def compare(before: str, ours: str, theirs: str | None, line: int, prover: Prover) -> str:
    """The outcome for a fix of the function around a line."""
    name = qualified(before, line)
    old, new = functions(before)[name], functions(ours)[name]
    if early(new) - early(old):
        return "wrong"
    other = counterpart(name, before, theirs or "")
    if other is None:
        return "their function is gone"
    if ast.unparse(new) == ast.unparse(other) or same_repair(old, new, other):
        return "same"
    grafted = graft(before, old, theirs or "", other)
    return "equivalent" if proven(before, ours, grafted, prover) else "different"


def qualified(text: str, line: int) -> str:
    """The name of the innermost function around a line; ``""`` for the module."""
    spans = {
        name: range(node.lineno, (node.end_lineno or node.lineno) + 1)
        for name, node in functions(text).items()
        if not isinstance(node, ast.Module)
    }
    around = [name for name, span in spans.items() if line in span]
    return min(around, key=lambda name: len(spans[name]), default="")


@functools.cache
def functions(text: str) -> dict[str, Function | ast.Module]:
    """The functions of a text by qualified name, and the module under ``""``."""
    module = ast.parse(text)
    found: dict[str, Function | ast.Module] = {"": module}

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = prefix
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                inner = f"{prefix}.{child.name}".lstrip(".")
                if not isinstance(child, ast.ClassDef):
                    found[inner] = child
            visit(child, inner)

    visit(module, "")
    return found


def early(function: ast.AST) -> set[str]:
    """The names that a function reads on a line above the first that assigns them."""
    names = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
    stored: dict[str, int] = {}
    for name in names:
        if isinstance(name.ctx, ast.Store):
            stored[name.id] = min(name.lineno, stored.get(name.id, name.lineno))
    loads = (name for name in names if isinstance(name.ctx, ast.Load))
    return {name.id for name in loads if name.lineno < stored.get(name.id, 0)}


def counterpart(name: str, before: str, theirs: str) -> Function | ast.Module | None:
    """Their function of this name, or the new one that is most like it."""
    known, others = functions(before), functions(theirs)
    if name in others or name not in known:
        return others.get(name)
    old = ast.unparse(known[name]).splitlines()
    ratios = {
        new: difflib.SequenceMatcher(None, old, ast.unparse(others[new]).splitlines()).ratio()
        for new in others.keys() - known.keys()
    }
    best = max(ratios, key=lambda new: ratios[new], default="")
    return others[best] if best and ratios[best] > ALIKE else None


def same_repair(old: ast.AST, new: ast.AST, other: ast.AST) -> bool:
    """Whether all that ``new`` changes in the order of the protocol is in ``other`` as well."""
    before, ours, theirs = (protocol(node) for node in (old, new, other))
    changes = difflib.SequenceMatcher(None, before, ours, autojunk=False).get_opcodes()
    windows = [ours[max(j1 - 1, 0) : j2 + 1] for tag, _, _, j1, j2 in changes if tag != "equal"]
    return bool(windows) and all(_contains(theirs, window) for window in windows)


def _contains(tokens: Sequence[str], window: Sequence[str]) -> bool:
    starts = range(len(tokens) - len(window) + 1)
    return any(tokens[start : start + len(window)] == window for start in starts)


def protocol(function: ast.AST) -> list[str]:
    """The protocol's statements of a function in order, between its beginning and its end."""
    used = {
        name.id
        for call in ast.walk(function)
        if isinstance(call, ast.Call) and _kind(call) in FULL
        for name in ast.walk(call)
        if isinstance(name, ast.Name)
    }
    return ["begin", *_tokens(function, used), "end"]


def _tokens(node: ast.AST, used: set[str]) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        yield from _tokens(child, used)
    if isinstance(node, ast.Call) and _kind(node) in FULL:
        yield ast.unparse(node)
    elif isinstance(node, ast.Call) and _kind(node) in BARE:
        yield ast.unparse(node.func)
    elif isinstance(node, ast.Assign) and _names(node.targets) & used:
        yield ast.unparse(node)
    elif isinstance(node, ast.With) and any(_is_autocast(item) for item in node.items):
        yield "end of autocast"


def _kind(call: ast.Call) -> str:
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def _names(targets: Sequence[ast.expr]) -> set[str]:
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _is_autocast(item: ast.withitem) -> bool:
    return any(
        isinstance(node, ast.Call) and _kind(node) == "autocast"
        for node in ast.walk(item.context_expr)
    )


def graft(before: str, old: Function | ast.Module, theirs: str, other: ast.AST) -> str:
    """The old text with their function in place of its own."""
    if isinstance(old, ast.Module) or not isinstance(other, Function):
        return theirs
    rows, inserted = before.splitlines(keepends=True), theirs.splitlines(keepends=True)
    span = _span(old)
    return "".join([*rows[: span.start], *inserted[_span(other)], *rows[span.stop :]])


def _span(node: Function) -> slice:
    first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
    return slice(first - 1, node.end_lineno)


def proven(before: str, ours: str, theirs: str, prover: Prover) -> bool:
    """Whether the verifier shows that our text and theirs do the same."""

    def shown(old: str, new: str) -> bool:
        return prover.prove(Change(old, new)).verdict is Verdict.PROVEN

    return shown(ours, theirs) or (shown(before, ours) and shown(before, theirs))


def table(outcomes: Sequence[Outcome]) -> str:
    """The outcomes in Markdown: a line of counts, then each."""
    counts = Counter(outcome.text for outcome in outcomes)
    known = notes()
    lines = [", ".join(f"{text}: {count}" for text, count in counts.most_common()) + ".", ""]
    lines += ["| code | repository | place | fix | compared with theirs | why |"]
    lines += ["|---|---|---|---|---|---|"]
    for each in outcomes:
        label = each.label
        place = f"{label.code} | {label.repo} | `{label.place}` | {each.fix or 'none'}"
        note = known.get((label.code, label.repo, label.place), "")
        lines.append(f"| {place} | {each.text} | {note} |")
    return "\n".join(lines)


def notes() -> dict[tuple[str, str, str], str]:
    """The notes by code, repository and place."""
    with (HERE / "fix_commits.tsv").open(encoding="utf-8", newline="") as lines:
        rows = [*csv.reader(lines, "excel-tab")]
    return {(code, repo, place): note for code, repo, place, note in rows}


if __name__ == "__main__":
    sys.exit(main())
