"""Who may import whom: no circles, and upwards only what is named here."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
UPWARDS = {("amp_lint.session", "amp_lint.verify.gate")}
"""An import inside a function: for ``--fix --prove``; linting knows nothing of proofs."""
FLOORS = (
    ("amp_lint.verify",),
    ("amp_lint.session", "amp_lint.runner", "amp_lint.parallel", "amp_lint.job"),
    ("amp_lint.engine", "amp_lint.fixing"),
    ("amp_lint.rules",),
    ("amp_lint.model",),
    ("amp_lint.tree",),
    ("amp_lint.source",),
)
"""From the top; modules that are on none of them are held to have no circles."""


def modules() -> dict[str, Path]:
    """All modules of the package by name, the rules as they are installed."""
    found = {}
    for folder, package in ((ROOT / "amp_lint", "amp_lint"), (ROOT / "rules", "amp_lint.rules")):
        for path in folder.rglob("*.py"):
            parts = (package, *path.relative_to(folder).with_suffix("").parts)
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


MODULES = modules()


def imported(tree: ast.AST) -> Iterator[str]:
    """The modules of ours that code imports, at any place but for types alone."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            names = (f"{base}.{alias.name}" for alias in node.names)
            yield from (name if name in MODULES else base for name in names)
        else:
            yield from imported(node)


def arrows(module: str) -> set[str]:
    names = set(imported(ast.parse(MODULES[module].read_text("utf-8"))))
    return {name for name in names & MODULES.keys() if (module, name) not in UPWARDS} - {module}


GRAPH = {module: arrows(module) for module in MODULES}


def test_there_is_no_circle() -> None:
    try:
        TopologicalSorter(GRAPH).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def floor(module: str) -> int | None:
    levels = (level for level, names in enumerate(FLOORS) if module.startswith(names))
    return next(levels, None)


def test_arrows_lead_downwards() -> None:
    upwards = [
        f"{module} -> {name}"
        for module, names in GRAPH.items()
        for name in names
        if (here := floor(module)) is not None and (there := floor(name)) is not None
        if there < here
    ]
    assert not upwards


def test_what_may_lead_upwards_does() -> None:
    """An exception that nobody needs any more goes."""
    for module, name in UPWARDS:
        assert name in set(imported(ast.parse(MODULES[module].read_text("utf-8"))))


def test_a_circle_is_seen() -> None:
    with pytest.raises(CycleError):
        TopologicalSorter({"a": {"b"}, "b": {"a"}}).prepare()
    code = (
        "def f():\n    from amp_lint import engine\nif TYPE_CHECKING:\n    import amp_lint.tree\n"
    )
    assert [*imported(ast.parse(code))] == ["amp_lint.engine"]
